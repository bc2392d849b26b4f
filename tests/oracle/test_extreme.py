"""Budgets and sizes where digits are lost unless care is taken: the two ends must still enclose."""

from fractions import Fraction
from math import log

import numpy as np
import pytest
from flint import arb, ctx
from shuffledp.accounting import pairs
from shuffledp.accounting.one_round import certified, single_bin
from shuffledp.accounting.pairs import hockey_stick
from shuffledp.accounting.setting import Setting

from oracle import exact


def alike_log_delta(n, eps0, eps):
    """Log delta of 2-RR by balls, all others in the target's cell: a sum over the rarer reports."""
    with ctx.workprec(400):
        budget = arb(eps0).exp()
        p, q, e = budget / (1 + budget), 1 / (1 + budget), arb(eps).exp()
        mean = n * float(q)
        reach = int(mean + 60 * mean**0.5 + 60)

        def others(j):
            if not 0 <= j <= n - 1:
                return arb(0)
            ways = arb(n).lgamma() - arb(j + 1).lgamma() - arb(n - j).lgamma()
            return (ways + j * q.log() + (n - 1 - j) * p.log()).exp()

        totals = [arb(0), arb(0)]
        for j in range(reach):
            same, other = p * others(j) + q * others(j - 1), q * others(j) + p * others(j - 1)
            for direction, excess in enumerate([same - e * other, other - e * same]):
                totals[direction] += excess if excess > 0 else 0
        return float(max(totals, key=float).log())


@pytest.mark.parametrize(
    ("n", "eps0", "eps"),
    [
        (10**6, 12.0, 9.0),
        (10**7, 16.0, 15.0),
        (10**8, 20.0, 18.0),
        pytest.param(2 * 10**9, 26.0, 25.25, marks=pytest.mark.slow),
    ],
)
def test_two_cells_large_budgets_many_users(n, eps0, eps):
    setting = Setting(n, 2, eps0)
    truth = alike_log_delta(n, eps0, eps)
    found = single_bin.log_delta(eps, setting, n - 1)
    assert found == pytest.approx(truth, abs=1e-11)
    lower, upper = (
        float(end(eps, setting)) for end in (certified.lower_log_delta, certified.upper_log_delta)
    )
    assert lower <= upper
    assert truth - 1e-8 < lower


@pytest.mark.parametrize("E", [10**k for k in (6, 9, 12, 15, 16, 19, 25, 60)])
@pytest.mark.parametrize(("n", "k"), [(3, 10), (5, 4), (2, 3)])
def test_budgets_beyond_the_last_digit(n, k, E):
    e = Fraction(27, 10)
    eps, setting = log(e), Setting(n, k, log(E))
    for dataset, make in [("same", pairs.same_cell), ("other", pairs.other_cell)]:
        truth = exact.lower_delta(n, k, Fraction(E), e, dataset)
        found = hockey_stick(make(setting), eps)
        # eps0 is a rounded logarithm; delta moves by no more than E moves.
        slack = 1e-9 + 1e-15 * log(E)
        assert found.low - slack <= np.log(float(truth)) <= found.high + slack
        assert found.high - found.low < 1e-8
    lower, upper = (
        float(end(eps, setting)) for end in (certified.lower_log_delta, certified.upper_log_delta)
    )
    assert lower <= upper <= 0.0
