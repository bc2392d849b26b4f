"""Privacy of counts of sampled records, of which those below a threshold are hidden.

Each user sends the record with probability p (the rate). A cell with a records has the count Y(a),
binomial with a trials. Counts of at least tau (the threshold) are shown, others look like 0. This
is the sample-and-threshold histogram of Bharadwaj and Cormode (2022), which Nebula computes by
secret sharing (Shahin Shamsabadi et al., arXiv 2409.09676). There a replacement is bounded as a
removal followed by an addition; here the losses of both are added as random variables.

Replacing a record changes the counts of two cells, independently: one loses a record, and Y(a)
becomes Y(a - 1); another gains one. With q = 1 - p the ratios of probabilities are, for a shown
count y,

- removal: ``Pr[Y(a) = y] / Pr[Y(a - 1) = y] = a q / (a - y)``. It grows with y, is infinite at y =
  a, and exceeds exp(eps) for ``y > a c``, where ``c = 1 - q exp(-eps)``. The ratio of the
  probabilities to be hidden is at most 1.
- addition: the reciprocal. It is at most 1 / q, and exceeds exp(eps) for ``y < a d``, where ``d = 1
  - q exp(eps)``. Hidden counts are one outcome.

Delta of each is maximised over a. Without a threshold it falls with a, because Y(a + 1) is Y(a)
plus an independent number; so it does from a = tau / c (tau / d) on, where the threshold hides no
count that matters. For smaller a, only whether the cell is hidden matters. Then the next delta is
larger by ``p Pr[Y(a - 1) = tau - 1]`` times ``a q / (a - tau + 1) - exp(eps)`` for a removal, and
times ``exp(eps) a q / (a - tau + 1) - 1`` for an addition: delta grows up to a = (tau - 1) / c, or
(tau - 1) / d. The largest one is between these numbers, or at a = n if n is smaller.

The largest deltas, as functions of eps, are those of two dominating pairs, whose product dominates
every replacement (`rounds.profile`).
"""

from functools import cache

import numpy as np

from shuffledp.accounting.composition import compose
from shuffledp.accounting.curve import Composable, UpperCurve
from shuffledp.accounting.laws.binomial import LogIntervals, log_cdf_ends, log_tail_ends
from shuffledp.accounting.rounds.privacy_loss import Loss, LossDistribution
from shuffledp.accounting.rounds.profile import law_of_points, loss_of_curve, points_of_curve
from shuffledp.accounting.rounds.sums import upper_log_hockey_stick
from shuffledp.numerics.arrays import Floats

# Rounding may move the first or last count that matters by 1. Trying all three is certain, because
# no set of outcomes has more than delta.
ROUNDED_BY_ONE = np.array([[-1.0], [0.0], [1.0]])


def sampled_curve(n: int, rate: float, threshold: int, rounds: int = 1) -> UpperCurve:
    """Return the certified curve for the replacement of one record, against readers of the counts.

    ``n`` is the number of records, ``rate`` in ``(0, 1)`` the probability of each to be sampled,
    and ``threshold`` >= 1 the smallest count that is shown, in each of ``rounds`` rounds.
    """
    removal = UpperCurve(np.inf, upper=lambda eps: log_removal(eps, n, rate, threshold))
    addition = UpperCurve(
        float(-np.log1p(-rate)) * (1.0 + 1e-15),
        upper=lambda eps: log_addition(eps, n, rate, threshold),
    )
    spread = loss_of_curve(removal)

    def up(step: float | None, depth: float) -> list[LossDistribution]:
        step, removed = points_of_curve(removal, depth, step=step)
        _, added = points_of_curve(addition, depth, step=step)
        return [law_of_points(removed, added, step), law_of_points(added, removed, step)]

    share = spread.log_left_out_share
    laws = cache(lambda depth: [(law, 1) for law in up(None, depth)])
    once = UpperCurve(
        np.inf,
        upper=lambda eps: min(upper_log_hockey_stick(laws, eps, share), 0.0),
        composable=Composable(
            loss=lambda: Loss(spread.deviation, spread.largest, up, log_left_out_share=share)
        ),
    )
    return compose(once, rounds)


def log_removal(eps: float, n: int, rate: float, threshold: int) -> float:
    """Return log delta of the removal of a record, rounded up: the largest over all cells."""
    if threshold > n:
        return -np.inf
    c = 1.0 - (1.0 - rate) * np.exp(-eps)
    records = _records(c, n, threshold)
    first = np.maximum(np.floor(records * c) + 1.0 + ROUNDED_BY_ONE, threshold)
    lost = log_tail_ends(first, records, rate), log_tail_ends(first, records - 1.0, rate)
    return _log_excess(*lost, eps)


def log_addition(eps: float, n: int, rate: float, threshold: int) -> float:
    """Return log delta of the addition of a record, rounded up: the largest over all cells."""
    if threshold > n:
        return -np.inf
    d = 1.0 - (1.0 - rate) * np.exp(eps)
    records = _records(d, n, threshold)
    last = np.maximum(np.ceil(records * d) - 1.0 + ROUNDED_BY_ONE, threshold - 1)
    gained = log_cdf_ends(last, records - 1.0, rate), log_cdf_ends(last, records, rate)
    return _log_excess(*gained, eps)


def _records(share: float, n: int, threshold: int) -> Floats:
    """Return all numbers of records from (tau - 1) / share to tau / share, in a cell of n users."""
    least, most = threshold - 1.0, float(threshold)
    low = least / share if share * n > least else float(n)
    high = most / share if share * n > most else float(n)
    return np.arange(max(np.floor(low) - 1.0, most), min(np.ceil(high) + 2.0, n) + 1.0)


def _log_excess(p: LogIntervals, q: LogIntervals, eps: float) -> float:
    """Return the largest ``log(P(S) - exp(eps) Q(S))``, rounded up, at most 0."""
    some = p.high > -np.inf
    log_ratio = q.low[some] + eps - p.high[some]
    with np.errstate(divide="ignore"):
        logs = p.high[some] + np.log(np.maximum(-np.expm1(log_ratio), 0.0))
    return min(float(logs.max(initial=-np.inf)) + 1e-12, 0.0)
