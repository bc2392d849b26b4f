"""Verdicts on the numbers of paper A, and the recomputed values against other oracles."""

import csv
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
import yaml

from shuffledp.accounting.setting import Setting
from shuffledp.data.cells import make_lattice
from shuffledp.data.regions import region_from_config
from shuffledp.papers import paper_a
from shuffledp.papers.literature.clones import clones_log_delta
from shuffledp.papers.reproduction import answers, values_table, verdict_counts
from shuffledp.papers.verdicts import (
    COLUMNS,
    COMPATIBLE,
    NOT_REPRODUCED,
    NOT_TRIED,
    PRINTED_ONLY,
    REPRODUCED,
    Answer,
    Published,
    from_log,
    read_published,
)

ROOT = Path(__file__).parents[2]
RESOURCES = ROOT / "resources"
SEED = 20220506

# Counts by paper and table: reproduced, by the printed formula only, compatible, not reproduced,
# not tried.
VERDICTS = {
    ("A", "II"): (0, 38, 0, 2, 0),
    ("A", "IVa"): (9, 12, 0, 0, 0),
    ("A", "IVb"): (9, 11, 0, 1, 0),
    ("A", "IVc"): (9, 12, 0, 0, 0),
    ("A", "V"): (0, 0, 27, 1, 0),
    ("A", "V-C2 text"): (0, 0, 4, 0, 0),
    ("A", "VI"): (0, 0, 21, 7, 0),
    ("A", "V-D text"): (1, 0, 0, 0, 1),
    ("B", "Fig 4a headline"): (0, 0, 0, 1, 0),
    ("B", "Fig 5a headline"): (0, 0, 0, 1, 0),
    ("B", "text 1"): (0, 1, 0, 0, 0),
    ("C", "text 6.3"): (0, 0, 0, 0, 2),
    ("D", "Fig 3 caption"): (1, 0, 0, 0, 0),
    ("D", "eq. (15)"): (0, 1, 0, 0, 0),
    ("D", "text 4.1"): (0, 0, 0, 0, 1),
}
# Cells of paper A's own columns that its formula does not reproduce: table, n, k, eps0, eps.
MISSED = {("II", "1000", "", "0.49", "0.01"), ("IVb", "50", "10", "2", "1")}


def _histogram(region: str) -> np.ndarray:
    """Return the embedded counts on the step grid; no rectangle crosses a cell's edge."""
    box = yaml.safe_load((ROOT / "config" / "config.yaml").read_text())["regions"][region]["box"]
    spec = yaml.safe_load((ROOT / "config" / "paper.yaml").read_text())["regions"][region]
    grid = make_lattice(region_from_config(region, {"box": box}), spec["grids"]["step"])
    counts = np.loadtxt(
        RESOURCES / "cell_counts" / f"{region}.csv", delimiter=",", skiprows=1, dtype=np.float64
    )
    south, west, north, east, number = counts.T
    cell = grid.locate((south + north) / 2.0, (west + east) / 2.0)
    size = grid.shape[0] * grid.shape[1]
    inside = cell >= 0
    return np.bincount(cell[inside], number[inside], size).astype(np.int64).reshape(grid.shape)


@pytest.fixture(scope="module")
def histograms():
    return {region: _histogram(region) for region in ("san_francisco", "paris")}


@pytest.fixture(scope="module")
def published():
    return read_published(RESOURCES / "published_values.csv")


@pytest.fixture(scope="module")
def results(published, histograms):
    return answers(published, histograms, seed=SEED)


@pytest.fixture(scope="module")
def values(results):
    return values_table(results)


# --- printed digits -----------------------------------------------------------------------------


def printed_number(published: str, table: str = "IVa", quantity: str = "delta") -> Published:
    stated = {"paper": "A", "table": table, "quantity": quantity, "published": published}
    return Published(**dict.fromkeys(COLUMNS, "") | stated)


@pytest.mark.parametrize(
    ("value", "printed", "rounded", "truncated"),
    [
        ("2.695E-43", "2.70E-43", True, False),
        ("2.69786E-43", "2.69E-43", False, True),
        ("2.70001E-43", "2.69E-43", False, False),
        ("0.00977721", "0.01", True, False),
        ("0.0117436", "0.01", True, True),
        ("6.58445E-7", "6.580E-7", False, True),
        ("6.58445E-7", "6.584E-7", True, False),
        ("0.0012", "12E-4", True, True),
        ("3.61E-291", "3.61E-292", False, False),
        ("1E-30", "0", False, False),
        ("0", "0", True, True),
        ("0", "1E-30", False, False),
    ],
)
def test_digits_are_rounded_or_truncated_by_table(value, printed, rounded, truncated):
    assert printed_number(printed).agrees(Decimal(value)) == rounded
    assert printed_number(printed, "II").agrees(Decimal(value)) == truncated
    factor = printed_number("10", quantity="gain, factor (at least)")
    assert [factor.agrees(Decimal(each)) for each in ("9.9", "10", "17")] == [False, True, True]


def test_a_verdict_follows_from_the_values(published):
    row = next(row for row in published if row.published == "1.26E-28")
    right, wrong = Decimal("1.264E-28"), Decimal("2E-3")
    assert Answer(as_printed=right, correct=wrong).verdict(row) == PRINTED_ONLY
    assert Answer(as_printed=wrong, correct=right).verdict(row) == REPRODUCED
    assert Answer(as_printed=wrong, correct=wrong).verdict(row) == NOT_REPRODUCED
    assert Answer(as_printed=right, percentile=50.0, plausible=True).verdict(row) == COMPATIBLE
    assert Answer(as_printed=right, percentile=99.9).verdict(row) == NOT_REPRODUCED
    assert Answer(note="out of scope").verdict(row) == NOT_TRIED


# --- all numbers --------------------------------------------------------------------------------


@pytest.mark.slow
def test_all_numbers_have_their_expected_verdicts(values):
    assert len(values) == 173
    counts = verdict_counts(values)
    assert {index: tuple(row) for index, *row in counts.itertuples()} == VERDICTS
    with (RESOURCES / "published_values.csv").open(newline="") as stream:
        originals = list(csv.DictReader(stream))
    assert values[list(COLUMNS)].to_dict("records") == originals


def test_only_the_known_cells_of_paper_a_are_missed(values):
    own = values[(values["paper"] == "A") & (values["bound"] == "proposed")]
    missed = own.loc[own["verdict"] == NOT_REPRODUCED, ["table", "n", "k", "eps0", "eps"]]
    assert set(missed.itertuples(index=False, name=None)) == MISSED
    zeros = own[own["published"] == "0"]
    assert set(zeros["verdict"]) == {REPRODUCED}
    assert (zeros["eps"].astype(float) >= zeros["eps0"].astype(float)).all()
    assert set(zeros["upper"]) == {"0"}


def test_a_row_of_table_ii_has_one_eps0_in_all_columns(published):
    """In the whole table eps0 is 0.5 for n = 1000 and eps >= 0.1, and 0.49 otherwise."""
    cited = [row for row in published if row.table == "II" and row.bound != "proposed"]
    missed = []
    for row in cited:
        eps0 = 0.5 if row.n == "1000" and row.eps != "0.01" else 0.49
        assert paper_a.table_ii_eps0(row) == eps0
        answer, setting = paper_a.table_ii(row), Setting(int(row.n), 10, eps0)
        if row.bound == "feldman":  # the correct value at the eps0 of the row
            right = from_log(float(clones_log_delta(float(row.eps), setting)))
            assert float(answer.correct / right) == pytest.approx(1.0, rel=1e-9)
        if not row.agrees(answer.as_printed):
            missed.append((row.bound, row.n, row.published))
    assert missed == [("balle", "100", "2.2E-3")]


def test_a_guarantee_is_far_above_what_is_printed(values):
    own = values[(values["bound"] == "proposed") & (values["published"] != "0")]
    numbers = own[["published", "single_bin", "lower", "upper", "correct"]].map(Decimal)
    assert (numbers["lower"] <= numbers["upper"]).all()
    assert (numbers["single_bin"] <= numbers["upper"]).all()
    assert (numbers["correct"] == numbers["upper"]).all()
    assert (numbers["upper"] > 10**6 * numbers["published"]).all()
