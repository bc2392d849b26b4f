"""The hidden-slot bound: what it narrows, cells of its search, where it does not apply."""

import doctest
import json
import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from shuffledp.accounting.blanket import hidden_slot
from shuffledp.accounting.blanket.atoms import Atoms
from shuffledp.accounting.blanket.groups import Groups
from shuffledp.accounting.blanket.hidden_slot import hidden_slot_log_delta
from shuffledp.accounting.blanket.join import join
from shuffledp.accounting.blanket.mean_excess import log_mean_excess
from shuffledp.accounting.setting import Setting
from shuffledp.cli import main
from shuffledp.mechanisms import unary_encoding
from shuffledp.mechanisms.hadamard import HadamardResponse
from shuffledp.mechanisms.local_hashing import LocalHashing
from shuffledp.mechanisms.matrix import MatrixRandomiser
from shuffledp.mechanisms.randomiser import (
    SupportRandomiser,
    lower_log_delta,
    upper_log_delta,
)
from shuffledp.mechanisms.subset_selection import SubsetSelection

PAGE = Path(__file__).parents[2] / "docs" / "hidden-slot.md"
# Randomiser, eps0, the three eps and the gap of the first two in per cent.
ROWS = re.findall(
    r"^\| ([^|]+) \| ([14]) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) % \| ([\d.]+) \|",
    PAGE.read_text(encoding="utf-8"),
    re.MULTILINE,
)
MAKE = {
    "OUE": lambda eps0: unary_encoding.optimised(64, eps0),
    "RAPPOR": lambda eps0: unary_encoding.symmetric(64, eps0),
    "OLH (4 values)": lambda eps0: LocalHashing(64, eps0, 4),
    "OLH (56 values)": lambda eps0: LocalHashing(64, eps0, 56),
    "subset selection, 17 of 64": lambda eps0: SubsetSelection(64, eps0, 17),
    "subset selection, 2 of 64": lambda eps0: SubsetSelection(64, eps0, 2),
    "binary hashing": lambda eps0: LocalHashing(64, eps0, 2),
}


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=lambda row: ", eps0 = ".join(row[:2]))
def test_the_table_is_what_the_library_answers(row):
    randomiser = MAKE[row[0]](float(row[1]))
    lower, hidden, gap, blanket = (float(cell) for cell in row[2:])
    assert round(100.0 * (hidden / lower - 1.0), 1) == gap
    assert gap <= (1.0 if row[0] == "RAPPOR" else 0.5)
    # Rounded to the safe side, in the last digit.
    target, digit = np.log(1e-6), 2e-6
    for slot, eps in ((True, hidden), (False, blanket)):
        assert upper_log_delta(eps, 10_000, randomiser, hidden_slot=slot) <= target
        assert upper_log_delta(eps - digit, 10_000, randomiser, hidden_slot=slot) > target
    assert lower_log_delta(lower, 10_000, randomiser) >= target
    assert lower_log_delta(lower + digit, 10_000, randomiser) < target


def test_the_table_has_rows():
    assert {row[0] for row in ROWS} == set(MAKE)


def test_the_example_prints_what_the_page_says():
    failed, tried = doctest.testfile(str(PAGE), module_relative=False)
    assert (failed, tried) == (0, 4)


def test_it_is_nearer_to_the_reference_bands():
    """mechanism_bands.csv (reference numbers of the project), RAPPOR at eps0 = 4: 7.3 % apart."""
    randomiser = unary_encoding.symmetric(16, 4.0)
    found = randomiser.curve(Setting(10_000, 16), hidden_slot=True).log_delta(0.33650615)
    assert np.log(1e-6) - 2e-4 < found.lower < found.upper
    assert upper_log_delta(0.33650615 * 1.01, 10_000, randomiser, hidden_slot=True) < np.log(1e-6)


def test_a_search_that_is_cut_short_still_bounds(monkeypatch):
    """Few cells: above the full search, not above the blanket."""
    randomiser, n, eps, kappa = unary_encoding.symmetric(16, 1.0), 10_000, 0.0267, 0.002
    kinds = randomiser.slots(eps, kappa)
    blanket = upper_log_delta(eps, n, randomiser)
    whole = hidden_slot_log_delta(kinds, n, kappa, blanket)
    monkeypatch.setattr(hidden_slot, "_CELLS", 5)
    few = hidden_slot_log_delta(kinds, n, kappa, 0.0)
    assert whole < few
    assert hidden_slot_log_delta(kinds, n, kappa, blanket) == min(few, blanket)


@pytest.mark.parametrize(
    "randomiser", [HadamardResponse(5, 1.0), MatrixRandomiser([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])]
)
def test_where_it_does_not_apply_the_blanket_stays(randomiser):
    assert randomiser.slots(0.1, 0.001) == ()
    assert upper_log_delta(0.1, 1000, randomiser, hidden_slot=True) == upper_log_delta(
        0.1, 1000, randomiser
    )


def test_with_few_users_the_blanket_stays():
    for n in (1, 2, 20):
        randomiser = unary_encoding.optimised(8, 1.0)
        assert upper_log_delta(0.5, n, randomiser, hidden_slot=True) == upper_log_delta(
            0.5, n, randomiser
        )
    assert upper_log_delta(1.5, 1000, randomiser, hidden_slot=True) == -np.inf


@pytest.mark.parametrize("kappa", [1e-3, 0.1])
@pytest.mark.parametrize(
    "randomiser",
    [SubsetSelection(5, 1.0, 1), SubsetSelection(6, 2.0, 3), SubsetSelection(2, 0.5, 1)],
)
def test_every_kind_has_one_mean_and_all_of_the_mass(randomiser, kappa):
    """Their means are 1 - e, and delta_loc is the mean of every one's positive part."""
    eps = 0.3
    kinds = randomiser.slots(eps, kappa)
    assert len(kinds) == 3
    for law in kinds:
        assert law.masses.sum() == pytest.approx(1.0, abs=1e-14)
        assert law.values @ law.masses == pytest.approx(1.0 - np.exp(eps), abs=1e-13)
        assert np.maximum(law.values, 0.0) @ law.masses == pytest.approx(
            np.maximum(kinds[0].values, 0.0) @ kinds[0].masses, rel=1e-13
        )


def test_only_randomisers_that_say_so_are_searched():
    """A new one whose third records differ must not be bounded as if they did not."""
    assert not SupportRandomiser.interchangeable


others = 7
TRIANGLE = [(a, b) for a in range(others + 1) for b in range(others + 1 - a)]


def test_halving_covers_every_data_set_once():
    cells = np.array([[0, others, 0, others]])
    for cost in [(1.0, 2.0), (2.0, 1.0), (1.0, -1e-17), (0.0, 0.0)] * 3:
        single = (cells[:, 0] == cells[:, 1]) & (cells[:, 2] == cells[:, 3])
        halves = hidden_slot._within(hidden_slot._halved(cells[~single], cost), others)
        cells = np.concatenate([cells[single], halves])
        inside = [
            sum(a0 <= a <= a1 and b0 <= b <= b1 for a0, a1, b0, b1 in cells.tolist())
            for a, b in TRIANGLE
        ]
        assert inside == [1] * len(TRIANGLE)
    assert len(cells) == len(TRIANGLE)


def test_users_of_a_cell_can_hold_what_each_of_its_data_sets_says():
    for a0, a1, b0, b1 in product(range(others + 1), repeat=4):
        if a0 > a1 or b0 > b1 or a0 + b0 > others:
            continue
        (cell,) = hidden_slot._within(np.array([[a0, a1, b0, b1]]), others).tolist()
        ((zero, one, neither, zero_or, one_or, either),) = hidden_slot._counts(
            np.array([cell]), others
        ).tolist()
        assert min(zero, one, neither, zero_or, one_or, either - 1) >= 0
        assert zero + one + neither + zero_or + one_or + either == others + 1
        free = either - 1  # one is J
        for a, b in TRIANGLE:
            if a0 <= a <= a1 and b0 <= b <= b1:
                # Of the undecided, those who may be anything fill up both.
                assert max(a - zero - zero_or, 0) + max(b - one - one_or, 0) <= free


def test_a_cell_is_above_its_data_sets():
    n = 12
    x0, x1, other = (law.with_rest() for law in unary_encoding.symmetric(8, 2.0).slots(0.6, 0.1))
    laws = [x0, x1, other, join([x0, other]), join([x1, other]), join([x0, x1, other])]
    groups = Groups(laws, n, 2)
    for cell in ([0, 11, 0, 11], [0, 3, 0, 11], [2, 7, 1, 8], [5, 6, 3, 3]):
        cells = hidden_slot._within(np.array([cell]), n - 1)
        (high,) = groups.log_mean_excess_high(hidden_slot._counts(cells, n - 1))
        a0, a1, b0, b1 = cells[0]
        points = np.array(
            [[a, a, b, b] for a in range(a0, a1 + 1) for b in range(b0, b1 + 1) if a + b <= n - 1]
        )
        inside = groups.log_mean_excess_high(hidden_slot._counts(points, n - 1))
        assert inside.max() < high


@pytest.mark.parametrize(("eps", "above"), [(0.02, 0.003), (0.1, 0.02)])
def test_a_sum_of_one_law_is_that_of_the_general_evaluator(eps, above):
    """Delta is 4e-7 and 3e-71."""
    law = SubsetSelection(16, 1.0, 1).blanket(eps)
    law = law.with_rest()
    top = law.values.max()
    scaled = Atoms(law.values / top, law.masses, law.units)
    (high,) = Groups([scaled], 10_000, 0).log_mean_excess_high([[10_000]])
    reference = log_mean_excess(law, 10_000)
    assert reference.low - 1e-9 <= high + np.log(top) < reference.high + above


def test_the_command_calibrates_by_it_where_asked(capsys):
    words = "compare --n 10000 --k 16 --eps 0.03 --delta 1e-6 --format json --mechanism rappor"
    eps0 = []
    for more in ([], ["--hidden-slot"]):
        assert main([*words.split(), *more]) == 0
        (row,) = json.loads(capsys.readouterr().out)
        assert row.get("hidden_slot", False) == bool(more)
        eps0.append(row["local_eps0"])
    assert eps0[1] > 1.1 * eps0[0]
    # What it prints keeps the promise.
    randomiser = unary_encoding.symmetric(16, eps0[1])
    assert upper_log_delta(0.03, 10_000, randomiser, hidden_slot=True) <= np.log(1e-6)
    assert upper_log_delta(0.03, 10_000, randomiser) > np.log(1e-6)
