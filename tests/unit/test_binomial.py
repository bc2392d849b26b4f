"""Log-space binomials against ball arithmetic, far into the tails."""

from math import comb, log

import flint
import numpy as np
import pytest
from effort import long

from shuffledp.accounting.laws import binomial
from shuffledp.accounting.laws.binomial_sum import log_pmf_ratio
from shuffledp.accounting.laws.excess import log_excess


@pytest.fixture(autouse=True)
def _digits():
    with flint.ctx.workdps(60):
        yield


def _log_pmf(x, n, p):
    x, n, p = flint.arb(int(x)), flint.arb(int(n)), flint.arb(float(p))
    coefficient = (n + 1).lgamma() - (x + 1).lgamma() - (n - x + 1).lgamma()
    return coefficient + x * p.log() + (n - x) * (1 - p).log()


def _tail_sums(x, n, p, z):
    """Return the sums of Pr[X = j] and (j - z) Pr[X = j] over j >= x, divided by Pr[X = x]."""
    odds = flint.arb(float(p)) / (1 - flint.arb(float(p)))
    term, mass, excess = flint.arb(1), flint.arb(0), flint.arb(0)
    for j in range(x, n + 1):
        mass += term
        excess += term * (j - flint.arb(float(z)))
        term = term * (n - j) / (j + 1) * odds
        if j > n * p and float(term.upper()) < 1e-40:
            break
    return mass, excess


CASES = [
    (n, p, t)
    for n in (3, 20, 1000, 10**6, 10**10)
    for p in (0.5, 0.9, 1 / 461, 0.1)
    for t in (-9.0, -6.5, -2.0, 0.3, 4.0, 15.0, 60.0)
    if n < 10**10 or (t > 1.0 and p > 0.01)  # what ball arithmetic can add up
]
# Each adds up 10**5 balls, so only `make test-slow` runs them.
LONG = [(10**10, p, 4.0) for p in (0.9, 0.1)]


def _inside(ends, truth, width):
    """Assert that the ends enclose the truth and differ by at most `width` of it."""
    assert truth > flint.arb(float(ends.low))
    assert truth < flint.arb(float(ends.high))
    assert float(ends.high - ends.low) < width * (1.0 + abs(float(truth)))


@pytest.mark.parametrize(("n", "p", "t"), [long(*case) if case in LONG else case for case in CASES])
def test_tails_agree_with_ball_arithmetic(n, p, t):
    x = int(np.clip(round(n * p + t * np.sqrt(n * p * (1 - p))), 1, n - 1))
    reference = _log_pmf(x, n, p)
    mass, excess = _tail_sums(x, n, p, x - 0.4)
    # The float 1 - p is rounded, which the tail of many trials magnifies.
    width = 1e-12 + 8e-15 * np.sqrt(n)
    _inside(binomial.log_tail_ends(x, n, p), reference + mass.log(), width)
    _inside(log_excess(x - 0.4, n, p), reference + excess.log(), width)
    error = float(binomial.log_pmf_error(x, n, p, 1.0 - p))
    assert abs(reference - float(binomial.log_pmf(x, n, p))) < error


@pytest.mark.slow
@pytest.mark.parametrize(("n", "p", "t"), [case for case in CASES if case[2] > 0.0])
def test_geometric_series_bounds_are_slightly_above_the_truth(n, p, t):
    x = int(np.clip(round(n * p + t * np.sqrt(n * p * (1 - p))), np.ceil(n * p), n - 1))
    reference = _log_pmf(x + 1, n, p)
    mass, excess = _tail_sums(x + 1, n, p, x)
    rounding = 1e-3  # what callers add
    for bound, truth in (
        (binomial.log_tail_rough_bound(x + 1, n, p, 1 - p), reference + mass.log()),
        (binomial.log_cdf_rough_bound(n - x - 1, n, 1 - p, p), reference + mass.log()),
        (binomial.log_excess_bound(x, n, p, 1 - p), reference + excess.log()),
    ):
        assert float(truth) - rounding < bound < float(truth) + rounding + 3.0 / t**2


def test_bounds_of_certain_and_impossible_events():
    for bound in (
        binomial.log_tail_rough_bound,
        lambda x, n, p, q: binomial.log_cdf_rough_bound(n - np.array(x), n, q, p),
    ):
        assert bound([0, 3, 20, 21], 20, 0.5, 0.5)[[0, 1, 3]].tolist() == [0.0, 0.0, -np.inf]
        assert bound([0, 1, 3, 4], 3, 0.0, 1.0).tolist() == [0.0, -np.inf, -np.inf, -np.inf]
        assert bound([0, 1, 3, 4], 3, 1.0, 0.0).tolist() == [0.0, 0.0, 0.0, -np.inf]
        assert bound([0, 1], 0, 0.5, 0.5).tolist() == [0.0, -np.inf]
    assert float(binomial.log_tail_rough_bound(20, 20, 0.5, 0.5)) == pytest.approx(20 * log(0.5))
    assert binomial.log_excess_bound([3, 20], 20, 0.0, 1.0).tolist() == [-np.inf, -np.inf]
    assert float(binomial.log_excess_bound(20, 20, 0.5, 0.5)) == -np.inf


@pytest.mark.parametrize(
    ("n", "p", "a"),
    [
        (1, 0.3, 0.5),
        (12, 0.3, 0.99),
        (20, 1e-290, 0.5),
        (300, 0.01, 0.011),
        (10**5, 1e-9, 0.4),
        (10**9, 0.2, 0.2 + 1e-8),
    ],
)
def test_the_ratio_of_two_binomial_laws_is_enclosed(n, p, a):
    center = np.floor(n * np.array([[0.0, p, a, 1.0]]).T) + np.arange(-20.0, 21.0)
    x = np.unique(np.clip(center, 0.0, n))
    ratio, error = log_pmf_ratio(x, np.full_like(x, n), (p, 1 - p), (a, 1 - a))
    for each, value, slack in zip(x, ratio, error, strict=True):
        p_, a_ = flint.arb(p), flint.arb(a)
        truth = int(each) * (p_ / a_).log() + (n - int(each)) * ((1 - p_) / (1 - a_)).log()
        assert abs(flint.arb(value) - truth) < slack
    assert error.min() < 1e-9


def test_a_ratio_with_a_subnormal_probability_is_enclosed():
    ratio, error = log_pmf_ratio(np.zeros(1), np.full(1, 20.0), (1e-310, 1.0), (0.5, 0.5))
    assert abs(ratio[0] - 20 * log(2)) < error[0] < 1e-12


@pytest.mark.parametrize("p", [5e-324, 1e-310, 1e-305, 1e-301, 1e-299])
@pytest.mark.parametrize(("x", "n"), [(1, 1), (1, 10), (5, 10), (10, 10), (2, 10**9)])
def test_tails_of_subnormal_probabilities_are_enclosed(x, n, p):
    """A tail that starts 1e308 times above the mean was NaN once."""
    truth = log(comb(n, x)) + x * log(p)  # later terms add less than 1e-280 of it
    ends = binomial.log_tail_ends(x, n, p)
    assert ends.low - 1e-9 <= truth <= ends.high + 1e-9
    mirrored = binomial.log_cdf_ends(n - x, n, 1.0, p)
    assert mirrored.low - 1e-9 <= truth <= mirrored.high + 1e-9


@pytest.mark.parametrize(("n", "p"), [(3000, 0.3), (10**6, 0.5), (10**9, 1e-3)])
def test_consecutive_probabilities_equal_single_ones(n, p):
    count = 2900 if n == 3000 else 20_000
    first = 50 if n == 3000 else round(n * p - 9000)
    run = binomial.log_pmf_run(first, count, n, p, 1 - p)
    single = binomial.log_pmf(first + np.arange(count), n, p)
    x = first + np.arange(count)
    error = 2.0 * binomial.log_pmf_error(x, n, p, 1 - p) + binomial.log_pmf_run_error(run)
    assert np.all(np.abs(run - single) <= error)
    assert binomial.log_pmf_run(first, 3, n, p, 1 - p).tolist() == single[:3].tolist()


@pytest.mark.filterwarnings("error")
def test_a_tail_that_overflows_is_bounded_by_one():
    assert binomial.log_tail_rough_bound(3.0, 1e9, 1.0, 1e-310) == 0.0
