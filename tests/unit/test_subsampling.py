"""Poisson sampling: ranges of participants, and rounds against exact mixtures."""

from fractions import Fraction
from itertools import pairwise
from math import comb, log

import numpy as np
import pytest
from oracle import exact
from scipy.stats import binom

from shuffledp.accounting.bound_registry import BOUNDS
from shuffledp.accounting.participation import _log_range
from shuffledp.accounting.setting import Setting


@pytest.mark.parametrize("others", [1, 12, 999, 10**6])
@pytest.mark.parametrize("rate", [1e-5, 0.01, 0.5, 0.999])
def test_ranges_have_their_probability_rounded_up(others, rate):
    edges = np.unique(
        np.clip(others * rate + np.linspace(-300, 300, 13), 0, others + 1).astype(int)
    )
    for low, high in pairwise(edges):
        truth = binom.pmf(np.arange(low, high), others, rate).sum()
        delta = np.exp(_log_range(int(low), int(high), others, rate))
        assert truth * (1 - 1e-9) <= delta <= truth * (1 + 1e-6) + 1e-10


def sampled_law(n, k, E, rate):
    """Return the pair of laws if the number of participants is seen, as is the target's absence."""
    law = {None: (1 - rate, 1 - rate)}
    for others in range(n):
        chance = rate * comb(n - 1, others) * rate**others * (1 - rate) ** (n - 1 - others)
        P, Q = exact.weak_pair(others + 1, k, E)
        law |= {outcome: (chance * p, chance * Q[outcome]) for outcome, p in P.items()}
    return law


@pytest.mark.parametrize(("n", "k", "E", "rate"), [
    (4, 3, Fraction(2), Fraction(1, 4)), (5, 4, Fraction(5), Fraction(1, 2)),
    (3, 5, Fraction(3), Fraction(9, 10))])  # fmt: skip
@pytest.mark.parametrize("share", [0, 0.1, 0.4])
def test_sampled_rounds_are_the_exact_mixture(n, k, E, rate, share):
    law = sampled_law(n, k, E, rate)
    pairs = list(law.values())
    for rounds in (1, 2):
        e = 1 + (E - 1) * Fraction(share)
        if rounds == 2:
            pairs = [(p * r, q * s) for p, q in law.values() for r, s in law.values()]
        truth = log(sum((max(p - e * q, Fraction(0)) for p, q in pairs), Fraction(0)))
        setting = Setting(n, k, log(E), rounds=rounds, sampling_rate=float(rate))
        log_delta = BOUNDS["upper"].curve(setting).log_delta(log(e)).upper
        # For k = 3 one round has a sharper bound than the weak adversary's.
        assert log_delta <= truth + 5e-3
        if k > 3:
            assert log_delta >= truth - 1e-9
