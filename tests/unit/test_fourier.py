"""Paper C's Fourier accountant against exact enumeration."""

from fractions import Fraction
from math import comb, exp, expm1, inf, log

import numpy as np
import pytest
from oracle import exact
from scipy.stats import binom

from shuffledp.accounting import pairs
from shuffledp.accounting.pairs import hockey_stick
from shuffledp.accounting.setting import Setting
from shuffledp.papers.literature.clones import strong_adversary_log_delta
from shuffledp.papers.literature.fourier import LossAtoms, fourier_bounds
from shuffledp.papers.paper_c import printed_pair_loss

GRID = {"half_width": 20.0, "n_grid": 400_000}


def binomial_delta(a: float, rounds: int, eps: float) -> float:
    """Return the delta of composed randomised response on one bit, with losses +-a."""
    p = 1 / (1 + exp(-a))
    return sum(
        comb(rounds, j)
        * p**j
        * (1 - p) ** (rounds - j)
        * max(-expm1(eps - (2 * j - rounds) * a), 0)
        for j in range(rounds + 1)
    )


def coin(a: float) -> LossAtoms:
    p = 1 / (1 + exp(-a))
    return LossAtoms(np.array([a, -a]), np.array([p, 1 - p]), 0.0)


@pytest.mark.parametrize("rounds", [1, 2, 7, 30])
def test_encloses_composed_randomised_response(rounds: int) -> None:
    a = 0.3
    for eps in (0.0, 0.1, 0.5, 1.5):
        truth = binomial_delta(a, rounds, eps)
        interval = fourier_bounds(coin(a), rounds, **GRID).log_delta(eps)
        if truth == 0.0:
            assert interval.low == -inf
            # Algorithm 1 cannot tell 0 from the rounding of its transform.
            assert interval.high < log(1e-10)
        else:
            assert interval.low <= log(truth) <= interval.high
            # Each round moves a loss by less than one step, in either direction.
            step = 40.0 / 400_000
            assert exp(interval.high) <= binomial_delta(a, rounds, eps - rounds * step) + 1e-9
            assert exp(interval.low) >= binomial_delta(a, rounds, eps + rounds * step) - 1e-9


def test_wrap_around_is_accounted_for() -> None:
    """If the sums leave the grid, the stated error grows and the interval still holds."""
    a, rounds, eps = 1.0, 12, 3.0
    truth = log(binomial_delta(a, rounds, eps))
    errors = []
    for half_width in (3.5, 6.0, 9.0, 14.0):
        bounds = fourier_bounds(coin(a), rounds, half_width, 20_000)
        interval = bounds.log_delta(eps)
        assert interval.low <= truth <= interval.high
        errors.append(bounds.right.wrap_error)
    assert errors == sorted(errors, reverse=True)
    assert errors[0] == 1.0
    assert errors[-1] < 1e-10
    # Without the error term the narrow grid would have lost mass.
    assert fourier_bounds(coin(a), rounds, 3.5, 20_000).right.delta(eps)[0] < exp(truth)


@pytest.mark.parametrize(("n", "k"), [(3, 2), (4, 3), (6, 5)])
@pytest.mark.parametrize("e", [Fraction(1), Fraction(3, 2), Fraction(4)])
def test_strong_pair_and_adversary_exactly(n: int, k: int, e: Fraction) -> None:
    """The strong adversary gains even at e = 4, above E = 3."""
    E = Fraction(3)
    gamma = k / (E + k - 1)
    pair = exact.strong_adversary(n, k, E, e)
    interval = fourier_bounds(pairs.strong_adversary(Setting(n, k, log(E))), 1, **GRID).log_delta(
        log(e)
    )
    assert interval.low <= log(pair) <= interval.high <= interval.low + 5e-3
    setting = Setting(n, k, log(E))
    definition8 = strong_adversary_log_delta(log(e), setting)
    truth = log(pair * (1 - gamma))
    assert truth <= definition8 <= truth + 1e-8
    exactly = hockey_stick(pairs.strong_adversary(setting), log(e))
    assert exactly.low <= log(pair) <= exactly.high
    if n <= 4:
        assert exact.strong_view_delta([1] * (n - 1), k, E, e) == pair * (1 - gamma)


def strong_pair(n, k, eps0):
    """Return the laws of eq. (5.1), computed from SciPy's binomials."""
    q, count = 1 / (exp(eps0) + k - 1), np.arange(n + 1)
    return binom.pmf(count - 1, n - 1, q), binom.pmf(count, n - 1, q)


def weak_pair(n, k, eps0):
    """Return the joint laws with B of Theorem 10, computed from SciPy's binomials."""
    q = 1 / (exp(eps0) + k - 1)
    p = exp(eps0) * q
    b, count = np.arange(n)[:, None], np.arange(n + 1)
    weight = binom.pmf(b, n - 1, k * q)
    there, before = binom.pmf(count, b, 1 / k), binom.pmf(count - 1, b, 1 / k)
    return weight * (p * before + (1 - p) * there), weight * (q * before + (1 - q) * there)


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize(
    ("adversary", "laws", "n", "eps"),
    [("strong", strong_pair, 200, 0.3), ("weak", weak_pair, 60, 0.2)],
)
def test_printed_pairs_are_those_of_the_paper(adversary, laws, n, eps, direction):
    P, Q = laws(n, 4, 1.0)
    if direction == "backward":
        P, Q = Q, P
    truth = np.maximum(P - exp(eps) * Q, 0.0).sum()
    loss = printed_pair_loss(Setting(n, 4, 1.0), adversary, direction)
    interval = fourier_bounds(loss, 1, **GRID).log_delta(eps)
    assert interval.low <= log(truth) <= interval.high <= interval.low + 5e-3
