"""The search for the worst pair of a matrix: certified bounds, zeros, and memory."""

import sys
from itertools import permutations

import numpy as np
import pytest
from effort import long, nightly
from waiting import run_python

from shuffledp.accounting.blanket.mean_excess import log_mean_excess_high
from shuffledp.accounting.blanket.worst_pair import Pairs, difference
from shuffledp.accounting.curve import Interval
from shuffledp.accounting.setting import Setting
from shuffledp.mechanisms.matrix import MatrixRandomiser


def curve(n, randomiser):
    return randomiser.curve(Setting(n, randomiser.k, mechanism=randomiser))


def random_rows(seed, zeros):
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.ones(9), 7)
    if zeros:
        rows[rng.integers(7, size=3), [1, 1, 4]] = 0.0
    return rows / rows.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize(
    ("n", "eps"), [(1, 0.3), (40, 0.3), (3000, 0.05), (3000, 1.5), long(200_000, 0.4)]
)
def test_no_pair_is_worse_than_the_returned_one(n, eps, zeros):
    """In the last setting deltas without reports that reveal the record are below exp(-800)."""
    rows = random_rows(n, zeros)
    pairs = Pairs(rows)
    worst = pairs.log_high(eps, n, pairs.distinguishable(5.0))
    least = rows.min(axis=0)
    each = [
        log_mean_excess_high(difference(rows[x], rows[y], least, eps, 1.0), n)
        for x, y in permutations(range(7), 2)
    ]
    assert worst == pytest.approx(max(each), abs=1e-7)


def test_a_report_that_is_impossible_for_a_record_bounds_delta_from_below():
    """Report 2 has chance .25 for x0 and 0 for x1, so delta is at least .25 at every eps."""
    randomiser = MatrixRandomiser([[0.5, 0.25, 0.25], [0.5, 0.5, 0.0]])
    assert randomiser.eps0 == np.inf
    for eps in (randomiser.horizon, 300.0):
        ends = curve(1000, randomiser).log_delta(eps)
        assert ends.lower <= np.log(0.25) <= ends.upper
        assert ends.upper - ends.lower < 1e-11
    assert curve(1000, randomiser).epsilon(np.log(0.24)) == Interval(np.inf, np.inf)
    ends = curve(1000, randomiser).epsilon(np.log(0.26))
    assert 0.0 <= ends.lower <= ends.upper < randomiser.horizon


@pytest.mark.filterwarnings("error")
def test_records_with_the_same_law_leak_nothing():
    randomiser = MatrixRandomiser([[0.4, 0.6], [0.4, 0.6]])
    assert randomiser.eps0 == 0.0
    for eps in (0.0, 0.5):
        ends = curve(10, randomiser).log_delta(eps)
        assert ends.lower == ends.upper == -np.inf
    assert curve(10, randomiser).epsilon(np.log(1e-6)) == Interval(0.0, 0.0)


def test_rows_that_differ_in_the_last_digit_leak():
    randomiser = MatrixRandomiser([[0.5, 0.5], [np.nextafter(0.5, 1.0), 0.5]])
    assert 0.0 < randomiser.eps0 < 1e-14
    assert curve(3, randomiser).log_delta(0.0).upper > np.log(1e-17)


def test_the_mean_excess_allows_for_rounding():
    """Next to eps0 no computed value is positive, though a true one may be."""
    rows = np.array([[0.3, 0.7], [0.1, 0.9]])
    law = difference(rows[0], rows[1], rows.min(axis=0), float(np.log(3.0)), 1.0)
    assert log_mean_excess_high(law, 2) > -np.inf


_CHILD = """
from pathlib import Path
import numpy as np
from shuffledp.mechanisms.matrix import MatrixRandomiser
from shuffledp.mechanisms.randomiser import lower_log_delta, upper_log_delta
{rows}
randomiser = MatrixRandomiser(rows)
low, high = (end({eps}, {n}, randomiser) for end in (lower_log_delta, upper_log_delta))
assert -np.inf < low <= high <= 0.0, (low, high)
# Not ru_maxrss, which a process inherits from the one that started it.
print(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
"""
_PLANAR = """
row, column = np.divmod(np.arange(408), 24)
rows = np.exp(-0.5 * np.hypot(row[:, None] - row, column[:, None] - column))
rows /= rows.sum(axis=1, keepdims=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")
@pytest.mark.parametrize(
    ("rows", "n", "eps"),
    [
        ("rows = [[0.9, 0.1], [1e-6, 0.999999]]", 1000, 0.05),  # asked for 30 GiB
        ("rows = [[0.9, 0.1], [1e-8, 1 - 1e-8]]", 100_000, 0.5),  # asked for 3.3 TB
        ("rows = np.random.default_rng(5).dirichlet(np.full(6, 0.3), 4)", 10_000, 0.5),
        nightly(_PLANAR, 10_000, 0.5),
    ],
)
def test_no_matrix_takes_a_gigabyte(rows, n, eps):
    finished = run_python("-W", "error", "-c", _CHILD.format(rows=rows, n=n, eps=eps))
    assert finished.returncode == 0, finished.stderr
    assert int(finished.stdout) < 2**20
