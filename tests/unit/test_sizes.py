"""The table of certified eps over the number of people, and its figure."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from shuffledp import Setting, delta, epsilon
from shuffledp.figures import privacy
from shuffledp.figures.style import budget_looks, save
from shuffledp.studies.privacy import TARGET_EPS, sizes_table

K, DELTA, SIZES = 12, 1e-6, [10, 1000]


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return sizes_table(K, [1.0, 2.0], DELTA, SIZES, [0.5, 1.0])


def test_the_sizes_have_the_upper_end_of_the_accountant(table: pd.DataFrame) -> None:
    rows = table[(table["eps0"] == 1.0) & table["n"].isin(SIZES)]
    assert list(rows["n"]) == SIZES and set(rows["bound"]) == {"upper"}
    assert list(rows["eps"]) == [epsilon(DELTA, Setting(n, K, 1.0)).upper for n in SIZES]
    assert rows["eps"].is_monotonic_decreasing


def test_the_number_of_people_is_the_smallest_that_is_certified(table: pd.DataFrame) -> None:
    rows = table[table["eps"].isin(TARGET_EPS)]
    assert list(zip(rows["eps0"], rows["eps"], strict=True)) == [(1.0, 0.5), (2.0, 0.5), (2.0, 1.0)]
    lower = table[table["bound"] == "lower"]
    assert list(lower["n"]) == list(rows["n"])
    for n, eps0, eps in rows[["n", "eps0", "eps"]].itertuples(index=False):
        assert delta(eps, Setting(n, K, eps0)).upper <= DELTA
        assert delta(eps, Setting(n - 1, K, eps0)).upper > DELTA
        (least,) = lower.loc[(lower["n"] == n) & (lower["eps0"] == eps0), "eps"]
        assert least == epsilon(DELTA, Setting(n, K, eps0)).lower < eps


def test_a_target_that_no_number_of_people_meets_is_left_out() -> None:
    table = sizes_table(K, [60.0], DELTA, [2], [0.1])
    assert list(table["bound"]) == ["upper"]


def test_the_figure_names_the_numbers_the_ends_and_the_region(table: pd.DataFrame) -> None:
    figure = privacy.users_needed(table, 1_700, "City", "one user")
    (axes,) = figure.axes
    written = [text.get_text() for text in axes.texts]
    numbers = table[(table["eps0"] == 1.0) & table["eps"].isin(TARGET_EPS)]["n"]
    assert {f"{n:,}" for n in numbers} <= set(written)
    assert "all 1,700 users" in written
    assert r"$\epsilon_0=1$, one report alone" in written
    assert axes.get_xlabel() == "number of users n (one check-in each)"
    assert figure.get_suptitle().startswith("How many users are needed? City, k = 12 cells")


def test_a_curve_is_nowhere_below_what_is_certified(table: pd.DataFrame) -> None:
    axes = privacy.users_needed(table, 1_700, "City", "one user").axes[0]
    colour = budget_looks([1.0, 2.0])[1.0]["color"]
    (curve,) = [
        line
        for line in axes.lines
        if line.get_color() == colour and line.get_drawstyle() == "steps-post"
    ]
    x, y = curve.get_xydata().T
    ends = table[(table["eps0"] == 1.0) & (table["bound"] == "upper")]
    assert set(zip(x, y, strict=True)) == set(zip(ends["n"], ends["eps"], strict=True))
    for n in (11, 40, 150, 600, 999):
        assert y[x <= n][-1] >= epsilon(DELTA, Setting(n, K, 1.0)).upper


def test_budgets_whose_eps_are_zero_can_be_drawn(tmp_path: Path) -> None:
    table = sizes_table(2, [1e-4], 1e-3, [10, 100], [])
    assert (table["eps"] == 0.0).all()
    figure = privacy.users_needed(table, 100, "City", "one check-in")
    save(figure, tmp_path / "people", "public")


def test_a_number_of_people_is_rounded_up() -> None:
    numbers = {999_999: "999,999", 2_931_308: "3 million", 428_710_001: "428.8 million"}
    sizes = pd.DataFrame({"n": [10], "eps": 0.99, "bound": "upper"})
    needed = pd.DataFrame({"n": list(numbers), "eps": [0.9, 0.5, 0.1], "bound": "upper"})
    lower = needed.assign(eps=needed["eps"] * 0.99, bound="lower")
    table = pd.concat([sizes, needed, lower]).assign(eps0=1.0, k=K, delta=DELTA)
    (axes,) = privacy.users_needed(table, 1_700, "City", "one user").axes
    assert set(numbers.values()) <= {text.get_text() for text in axes.texts}


def test_budgets_are_told_apart_in_grey_in_their_order() -> None:
    looks = budget_looks([6.0, 1.0, 4.0])
    assert list(looks) == [1.0, 4.0, 6.0]
    grey = [int(to_hex(look["color"])[3:5], 16) for look in looks.values()]  # green is most of it
    assert np.all(np.diff(grey) > 50)
    assert len({look["marker"] for look in looks.values()}) == 3
