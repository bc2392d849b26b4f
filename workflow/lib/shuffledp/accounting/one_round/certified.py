"""Certified privacy of shuffled k-randomised response: a lower and an upper bound on delta.

Neighbouring data sets differ in one record (replacement); the unit is one report. ``upper`` holds
for every data set, also against an adversary who learns which of the other users randomised;
``lower`` is the exact divergence of the full histogram for an explicit data set.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.laws.multinomial import (
    ZERO,
    LogInterval,
    MultinomialPair,
    log_chernoff_bound,
    log_mean_excess,
    tilted_shares,
)
from shuffledp.accounting.one_round import hidden_user, worst_count
from shuffledp.arrays import Floats

# With three cells and up to this many users the one-hidden-user argument narrows the interval; its
# gain falls like 1/n and its cost grows like n.
_HIDDEN_N = 2_000


def upper_pair(eps: float, eps0: float, n: int, k: int) -> MultinomialPair:
    """Pair of the weak adversary, who sees (n1, n2, number of blanket reports).

    docs/accounting.md; corrects paper C, Theorem 10 and eq. (5.1), which compare
    one-dimensional marginals.
    """
    q = 1.0 / (np.expm1(eps0) + k)
    return MultinomialPair(
        n=n,
        p1=q,
        p2=q,
        p3=(k - 2) * q,
        p4=np.expm1(eps0) * q,
        a=np.exp(eps) * np.expm1(eps0 - eps),
        b=np.expm1(eps0 + eps),
        c=np.expm1(eps),
    )


def third_cell_pair(eps: float, eps0: float, n: int, k: int) -> MultinomialPair:
    """All other users hold a third cell (k >= 3)."""
    q = 1.0 / (np.expm1(eps0) + k)
    return MultinomialPair(
        n=n,
        p1=q,
        p2=q,
        p3=(k - 3) * q,
        p4=np.exp(eps0) * q,
        a=np.exp(eps) * np.expm1(eps0 - eps),
        b=np.expm1(eps0 + eps),
        c=np.expm1(eps),
        d=np.expm1(eps) * np.exp(-eps0),
    )


def same_cell_pair(eps: float, eps0: float, n: int, k: int) -> MultinomialPair:
    """All other users hold the target's own cell x0."""
    q = 1.0 / (np.expm1(eps0) + k)
    return MultinomialPair(
        n=n,
        p1=np.exp(eps0) * q,
        p2=q,
        p3=0.0,
        p4=(k - 2) * q,
        a=-np.expm1(eps - eps0),
        b=np.expm1(eps0 + eps),
        c=np.expm1(eps),
        d=np.expm1(eps),
    )


def other_cell_pair(eps: float, eps0: float, n: int, k: int) -> MultinomialPair:
    """All other users hold the alternative cell x1."""
    q = 1.0 / (np.expm1(eps0) + k)
    return MultinomialPair(
        n=n,
        p1=q,
        p2=np.exp(eps0) * q,
        p3=0.0,
        p4=(k - 2) * q,
        a=np.exp(eps) * np.expm1(eps0 - eps),
        b=np.exp(-eps0) * np.expm1(eps + eps0),
        c=np.expm1(eps),
        d=np.expm1(eps),
    )


_PairMaker = Callable[[float, float, int, int], MultinomialPair]


def _check(eps: float, eps0: float, n: int, k: int) -> None:
    if k < 2:
        raise ValueError(f"k must be at least 2 cells (got k={k})")
    if n < 1:
        raise ValueError(f"n must be at least 1 user (got n={n})")
    if not (eps0 > 0.0 and np.isfinite(eps0)):
        raise ValueError(f"eps0 must be positive and finite (got eps0={eps0})")
    if not eps >= 0.0:
        raise ValueError(f"eps must be at least 0 (got eps={eps})")


def _interval(make: _PairMaker, eps: float, eps0: float, n: int, k: int) -> LogInterval:
    _check(eps, eps0, n, k)
    if eps >= eps0:
        return ZERO
    return log_mean_excess(make(eps, eps0, n, k))


def weak_adversary_log_delta(eps: float, eps0: float, n: int, k: int) -> LogInterval:
    """Enclose the log of the weak adversary's delta, who learns which other users randomised.

    Parameters as for `upper_log_delta`, but single numbers (paper C's Theorem 10, corrected).
    """
    return _interval(upper_pair, eps, eps0, n, k)


def _one_hidden_log_delta(eps: float, eps0: float, n: int, weak: float) -> float:
    """Upper bound at k = 3: all others in the third cell, or one of them hidden in x0 or x1."""
    shares = tilted_shares(upper_pair(eps, eps0, n, 3))
    candidates = [_interval(third_cell_pair, eps, eps0, n, 3).high]
    for forward in (True, False):
        loss = hidden_user.log_loss(eps, eps0, n, shares, forward=forward)
        candidates.append(weak + np.log1p(-np.exp(loss - weak)) if loss < weak else weak)
    return min(max(candidates), weak)


def upper_log_delta(eps: ArrayLike, eps0: ArrayLike, n: ArrayLike, k: ArrayLike) -> Floats:
    """Natural log of a delta that holds for every data set of n users (a DP guarantee).

    Exact divergence seen by the weak adversary, who also learns which of the other users
    randomised (docs/accounting.md; paper C's Theorem 10, corrected); for k = 3 and n up to 2,000
    which of all but one. Rounded up, with the truncated mass added. For replacement of one report.

    Parameters
    ----------
    eps, eps0, n, k
        Broadcast together. ``eps >= 0``, ``eps0 > 0``, ``n >= 1``, ``k >= 2``.

    Returns
    -------
    Logarithms; -inf where ``eps >= eps0``. Relative error of delta at most 1e-9 for n up to a
    million; above, eps for a given delta is at most some 1e-6 (relative) too large.

    Raises
    ------
    ValueError
        If a parameter is outside its range.
    """

    def one(eps: float, eps0: float, n: int, k: int) -> float:
        weak = weak_adversary_log_delta(eps, eps0, n, k).high
        if k == 3 and 2 <= n <= _HIDDEN_N and weak > -np.inf:
            weak = _one_hidden_log_delta(eps, eps0, n, weak)
        return min(weak, 0.0)

    return np.asarray(np.vectorize(one, otypes=[np.float64])(eps, eps0, n, k))


def lower_log_delta(eps: ArrayLike, eps0: ArrayLike, n: ArrayLike, k: ArrayLike) -> Floats:
    """Natural log of a delta that some data set really attains: no guarantee can be smaller.

    The largest exact divergence of the full histogram among data sets in which all other users
    agree (docs/accounting.md); for k = 2, where every data set is a count, the largest
    over the counts that a search visits. Rounded down, truncated mass
    left out. Parameters, shape and errors as for `upper_log_delta`.
    """

    def one(eps: float, eps0: float, n: int, k: int) -> float:
        _check(eps, eps0, n, k)
        if k == 2:
            return float(worst_count.lower_log_delta(eps, eps0, n, k))
        best = _interval(third_cell_pair, eps, eps0, n, k).low
        for make in (same_cell_pair, other_cell_pair):
            # Mostly far below: then its Chernoff bound already tells.
            if eps < eps0 and log_chernoff_bound(make(eps, eps0, n, k)) > best:
                best = max(best, _interval(make, eps, eps0, n, k).low)
        return best

    return np.asarray(np.vectorize(one, otypes=[np.float64])(eps, eps0, n, k))
