"""Upper bounds on shuffled k-RR whose users also send uniform dummies (docs/accounting.md).

Each user has ``chances`` potential dummies, and sends each with the same probability (mixDUMP).
"""

from collections.abc import Callable
from dataclasses import replace
from math import ceil

import numpy as np
from scipy.special import expit

from shuffledp.accounting import pairs
from shuffledp.accounting.conventions import over_eps_of_one_round
from shuffledp.accounting.laws.mixture import RandomTrials
from shuffledp.accounting.laws.poisson_binomial import poisson_binomial
from shuffledp.accounting.pairs import Pair, symmetric_form
from shuffledp.accounting.rounds.outcome_bundles import DEFAULT_DEPTH
from shuffledp.accounting.rounds.privacy_loss import (
    UNDERFLOW,
    Loss,
    LossDistribution,
    default_step,
    mixed,
    rounded_up,
)
from shuffledp.accounting.setting import LARGEST_EPS0, LARGEST_N, Setting
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import UNIT

# Numbers of uniform reports are grouped into ranges. The width of a range is the larger of
# RELATIVE_RANGE_WIDTH times the number and RANGE_WIDTH_IN_DEVIATIONS standard deviations. A
# relative width of w changes eps by about w / 4 (relative).
RELATIVE_RANGE_WIDTH, RANGE_WIDTH_IN_DEVIATIONS = 1e-3, 0.125
# Log of the largest share of delta that may be due to the rare numbers of uniform reports that are
# left out; it changes eps by about 1e-6.
LOG_LEFT_OUT_SHARE = -11.0


def chance_of_dummy(dummies: float, chances: int) -> float:
    """Check both arguments; return ``dummies / chances``, the chance that a dummy is sent."""
    if not (chances >= 1 and chances == int(chances) and 0.0 <= dummies <= chances):
        raise InputError(
            "dummies, the mean number per user, must lie in [0, chances], and chances must be an "
            f"integer >= 1, got dummies={dummies}, chances={chances}"
        )
    return dummies / chances


@over_eps_of_one_round
def krr_among_dummies_log_delta(
    eps: float, setting: Setting, dummies: float, chances: int = 1
) -> float:
    """Return an upper bound on log delta of shuffled k-RR whose users also send uniform dummies.

    It holds for every data set and the replacement of one record, even against an analyst who
    learns which of the other users reported the truth.

    Parameters
    ----------
    eps, setting
        See `krr.upper_log_delta`. The result is shaped like ``eps``, and -inf where
        ``eps >= eps0``.
    dummies, chances
        Mean number of a user's dummies, in ``[0, chances]``, and the largest possible number.
    """
    rate = chance_of_dummy(dummies, chances)
    if setting.n * chances > LARGEST_N:
        raise InputError(
            f"n * chances, the largest number of dummies, must be at most {LARGEST_N:,}, got "
            f"n={setting.n}, chances={chances}"
        )
    if dummies == 0.0:
        return min(pairs.hockey_stick(pairs.weak_adversary(setting), eps, "upper").high, 0.0)
    pair = pairs.among_dummies(setting, setting.n * chances, rate)
    return min(pairs.hockey_stick(pair, eps, "upper").high, 0.0)


def loss_among_dummies(setting: Setting, loss_of_curve: Callable[[], Loss]) -> Loss:
    """Return the privacy loss of one round for an analyst who learns the number of uniform reports.

    The law of that number does not depend on the target's record. Numbers are grouped into ranges;
    each range is replaced by its smallest number, because delta falls with the number of uniform
    reports. Rare numbers are left out and counted as infinite loss.

    Parameters
    ----------
    setting
        Setting of one round with dummies, in which all users are honest and report.
    loss_of_curve
        Function that returns the loss derived from the curve of one round, used for deltas below
        the probability of the numbers that are left out.
    """
    chances = ceil(setting.dummies)
    random_pair = pairs.among_dummies(setting, setting.n * chances, setting.dummies / chances)
    assert isinstance(random_pair.trials, RandomTrials)
    log_odds, counts = random_pair.trials.log_odds, random_pair.trials.counts
    rates, co_rates = expit(log_odds), expit(-log_odds)

    def pair(reports: int) -> Pair:
        return replace(random_pair, trials=reports)

    pair_at_mean = pair(1 + round(float(counts @ rates)))
    width = RANGE_WIDTH_IN_DEVIATIONS * float(np.sqrt(counts @ (rates * co_rates)))

    def up(step: float | None, depth: float) -> list[LossDistribution]:
        if depth > DEFAULT_DEPTH:
            return loss_of_curve().up(step, depth)
        step = step or default_step(pair_at_mean)
        window = poisson_binomial(rates, counts, co_rates)
        starts = [0]
        while starts[-1] < window.mass.size:
            reports = 1 + window.start + starts[-1]
            starts.append(starts[-1] + max(1, int(width), int(RELATIVE_RANGE_WIDTH * reports)))
        shares = np.add.reduceat(window.mass, starts[:-1])
        laws = [rounded_up(pair(1 + window.start + i), step, depth) for i in starts[:-1]]
        # Each trial multiplies a share by a factor that is accurate to 16 units of rounding.
        units = 16.0 * float(counts.sum()) + len(laws) + window.mass.size + 16.0
        law = mixed(laws, shares.tolist(), window.missing + UNDERFLOW, UNIT * units)
        return [replace(law, infinite=min(law.infinite * (1.0 + law.mass_error), 1.0))]

    largest = min(setting.eps0, LARGEST_EPS0)
    return Loss(
        min(symmetric_form(pair_at_mean).deviation, largest),
        largest,
        up,
        log_left_out_share=LOG_LEFT_OUT_SHARE,
    )
