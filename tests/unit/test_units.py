"""Check-ins against users as the unit of privacy: table, findings and figure."""

import re

import numpy as np
import pandas as pd
import pytest
from shuffledp import Setting, epsilon
from shuffledp.figures.privacy import units_privacy
from shuffledp.figures.style import budget_looks
from shuffledp.studies.units import MAX_EPS, units_findings, units_table, users_table

N, K, DELTA = 400, 12, 1e-6
PER_USER = np.array([1, 1, 3, 100, 5])
NOBODY = np.empty(0, np.int64)


@pytest.fixture(scope="module")
def known() -> pd.DataFrame:
    return units_table(N, K, PER_USER, [2.0], DELTA)


@pytest.fixture(scope="module")
def unknown() -> pd.DataFrame:
    return units_table(N, K, NOBODY, [2.0], DELTA)


def test_a_person_with_one_check_in_has_the_eps_of_the_accountant(known: pd.DataFrame) -> None:
    first = known[known["checkins"] == 1].set_index("unit")
    assert first.loc["checkin", "eps"] == epsilon(DELTA, Setting(N, K, 2.0)).upper
    assert first.loc["user", "eps"] == epsilon(DELTA, Setting(5, K, 2.0)).upper
    assert list(first["n"]) == [N, 5]


def test_several_check_ins_cost_more_than_that_many_times_one(known: pd.DataFrame) -> None:
    rows = known[known["unit"] == "checkin"].set_index("checkins")["eps"]
    assert list(rows.index)[:8] == [1, 2, 3, 4, 6, 10, 16, 25]
    assert rows.iloc[-2] <= MAX_EPS < rows.iloc[-1]
    assert (rows.iloc[1:] > rows.iloc[0] * rows.index[1:]).all()
    one_each = known[known["unit"] == "user"]
    assert one_each["eps"].nunique() == 1 and set(one_each["n"]) == {PER_USER.size}


def test_the_table_ends_with_the_busiest_user() -> None:
    table = units_table(N, K, np.array([1, 3]), [0.5], DELTA)
    assert sorted(set(table["checkins"])) == [1, 2, 3]


def test_without_user_names_all_users_have_equally_many_check_ins(unknown: pd.DataFrame) -> None:
    one_each = unknown[unknown["unit"] == "user"]
    assert list(one_each["n"]) == [N // m for m in one_each["checkins"]]


def test_findings_state_the_eps_of_a_person(known: pd.DataFrame, unknown: pd.DataFrame) -> None:
    said = units_findings(known, users_table(PER_USER), "City")
    eps = known.set_index(["unit", "checkins"])["eps"]
    numbers = [float(word) for word in said.replace(",", "").split() if re.match(r"\d+\.\d", word)]
    shown = [eps["checkin", 1], eps["checkin", 3], eps["user", 1]]  # the median user has 3
    assert all(
        0 <= number - true < 0.01 * true for number, true in zip(numbers, shown, strict=True)
    )
    assert "City, eps0 = 2, delta = 1e-06: eps is" in said
    assert "for a person with 3 check-ins" in said and said.endswith("each of 5 users reports one")
    said = units_findings(unknown, users_table(NOBODY), "City")
    assert "for a person with 10 check-ins" in said and "users" not in said


def test_the_figure_shows_both_units_and_the_check_ins_per_user(known: pd.DataFrame) -> None:
    figure = units_privacy(known, users_table(PER_USER), "City")
    upper, lower = figure.axes
    every, one_each = upper.lines
    rows = known[known["unit"] == "checkin"]
    np.testing.assert_array_equal(every.get_xydata(), rows[["checkins", "eps"]])
    assert rows["eps"].is_monotonic_increasing and every.get_marker() == "o"
    assert set(one_each.get_ydata()) == set(known[known["unit"] == "user"]["eps"])
    assert (every.get_linestyle(), one_each.get_linestyle()) == ("-", "--")
    assert every.get_color() == one_each.get_color() == budget_looks([2.0])[2.0]["color"]
    shares = dict(lower.lines[0].get_xydata())
    assert {m: shares[m] for m in (1.0, 3.0, 5.0, 100.0)} == {1: 1.0, 3: 0.6, 5: 0.4, 100: 0.2}
    title = figure.get_suptitle()
    assert "110 check-ins of 5 users and 290 of unknown users" in title
    assert "the median user has 3, the busiest 100" in title


def test_the_figure_states_its_assumption_without_user_names(unknown: pd.DataFrame) -> None:
    figure = units_privacy(unknown, users_table(NOBODY), "City")
    (axes,) = figure.axes
    rows = unknown[unknown["unit"] == "user"]
    np.testing.assert_array_equal(axes.lines[1].get_xydata(), rows[["checkins", "eps"]])
    assert "the data do not identify users" in figure.get_suptitle()
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "each user gives one check-in, if all users have as many" in labels
