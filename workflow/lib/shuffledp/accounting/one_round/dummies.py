"""Shuffled k-RR whose users also send uniform dummies (mixDUMP; docs/accounting.md)."""

from collections.abc import Callable
from dataclasses import replace
from math import ceil

import numpy as np
from scipy.special import expit

from shuffledp.accounting import pairs
from shuffledp.accounting.conventions import of_one_round
from shuffledp.accounting.laws.mixture import RandomTrials
from shuffledp.accounting.laws.poisson_binomial import poisson_binomial
from shuffledp.accounting.pairs import Pair, symmetric_form
from shuffledp.accounting.rounds.outcome_bundles import DEPTH
from shuffledp.accounting.rounds.privacy_loss import (
    UNDERFLOW,
    Loss,
    LossDistribution,
    default_step,
    rounded_up,
)
from shuffledp.accounting.setting import LARGEST_EPS0, LARGEST_N, Setting
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import UNIT

# Numbers of uniform reports are taken together in ranges: this share of their number wide, which
# costs a quarter of it in eps, or this share of their standard deviation.
_WIDTH, _DEVIATIONS = 1e-3, 0.125
# What the law of their number leaves out may be this share of delta (a log): some 1e-6 of eps.
_SHARE = -11.0


def chance_of_dummy(dummies: float, chances: int) -> float:
    """Probability that a chance makes a dummy, of so many a user and ``dummies`` on average.

    Raises
    ------
    InputError
        If the mean number is not in ``[0, chances]``, or chances are no whole number.
    """
    if not (chances >= 1 and chances == int(chances) and 0.0 <= dummies <= chances):
        raise InputError(
            f"lambda dummies of a user must lie in [0, r], of a whole number r of chances (got "
            f"lambda={dummies}, r={chances})"
        )
    return dummies / chances


@of_one_round
def krr_among_dummies_log_delta(
    eps: float, setting: Setting, dummies: float, chances: int = 1
) -> float:
    """Natural log of a delta of shuffled k-RR whose users also send uniform dummies, rounded up.

    For every data set and replacement of one record, against an analyst who also learns which of
    the other users told the truth.

    Parameters
    ----------
    eps
        At least 0, any shape.
    setting
        One round of it.
    dummies, chances
        Every user takes so many chances of one dummy each, and sends ``dummies`` on average, in
        ``[0, chances]``.

    Returns
    -------
    Logarithms shaped like ``eps``; -inf where ``eps >= eps0``.

    Raises
    ------
    InputError
        If an argument is out of range.
    """
    rate = chance_of_dummy(dummies, chances)
    if setting.n * chances > LARGEST_N:
        raise InputError(
            f"n r must be at most {LARGEST_N:,} chances of a dummy (got n={setting.n}, r={chances})"
        )
    if dummies == 0.0:
        return min(pairs.hockey_stick(pairs.weak_adversary(setting), eps, "upper").high, 0.0)
    pair = pairs.among_dummies(setting, setting.n * chances, rate)
    return min(pairs.hockey_stick(pair, eps, "upper").high, 0.0)


def loss_among_dummies(setting: Setting, of_curve: Callable[[], Loss]) -> Loss:
    """Return the privacy loss of one round against who also knows the number of uniform reports.

    That number has the same law whatever the target holds. Given it, the pair is that of a fixed
    number of trials. Numbers are taken in ranges, and each range counts as its smallest number:
    more uniform reports hide more. What their law leaves out counts as infinite loss.

    Parameters
    ----------
    setting
        One round, with dummies; users all honest, who report.
    of_curve
        The loss by the curve of one round, for deltas below what the law of the number leaves out.
    """
    chances = ceil(setting.dummies)
    mixed = pairs.among_dummies(setting, setting.n * chances, setting.dummies / chances)
    assert isinstance(mixed.trials, RandomTrials)
    odds, counts = mixed.trials.log_odds, mixed.trials.counts
    rates, co_rates = expit(odds), expit(-odds)

    def pair(reports: int) -> Pair:
        return replace(mixed, trials=reports)

    mean = pair(1 + round(float(counts @ rates)))
    width = _DEVIATIONS * float(np.sqrt(counts @ (rates * co_rates)))

    def up(step: float | None, depth: float) -> list[LossDistribution]:
        if depth > DEPTH:
            return of_curve().up(step, depth)
        step = step or default_step(mean)
        window = poisson_binomial(rates, counts, co_rates)
        starts = [0]
        while starts[-1] < window.mass.size:
            reports = 1 + window.start + starts[-1]
            starts.append(starts[-1] + max(1, int(width), int(_WIDTH * reports)))
        shares = np.add.reduceat(window.mass, starts[:-1])
        laws = [rounded_up(pair(1 + window.start + i), step, depth) for i in starts[:-1]]
        start = min(law.start for law in laws)
        total = np.zeros(max(law.start + law.mass.size for law in laws) - start)
        infinite = window.missing + UNDERFLOW
        for law, share in zip(laws, shares.tolist(), strict=True):
            total[law.start - start :][: law.mass.size] += share * law.mass
            infinite += share * law.infinite
        # Each chance's factor of the shares is right to 16 units.
        units = 16.0 * float(counts.sum()) + len(laws) + window.mass.size + 16.0
        mass_error = max(law.mass_error for law in laws) + UNIT * units
        loss_error = max(law.loss_error for law in laws)
        infinite = min(infinite * (1.0 + mass_error), 1.0)
        return [LossDistribution(step, start, total, infinite, mass_error, loss_error)]

    largest = min(setting.eps0, LARGEST_EPS0)
    return Loss(min(symmetric_form(mean).deviation, largest), largest, up, share=_SHARE)
