"""How much a binomial count exceeds a threshold on average, in log space, with two ends."""

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.laws.binomial import (
    INPUTS,
    LogIntervals,
    complement,
    log_pmf,
    log_pmf_error,
    mean_less,
)
from shuffledp.accounting.laws.mills import mills_ratio
from shuffledp.arrays import Floats

# Where neighbouring probabilities fall by this factor or faster, a short sum is taken.
_STEEP = 0.45
_STEEP_TERMS = 50
# Below the mean by as many standard deviations and counts, what lies further down is bounded only.
_FAR, _FAR_MARGIN = 7.0, 20.0
_NOTHING = -600.0  # the log of a probability whose inverse is still a float
_UNIT = 2.0**-53


def log_excess(
    z: ArrayLike,
    n: ArrayLike,
    p: ArrayLike,
    q: ArrayLike | None = None,
    start: ArrayLike | None = None,
    gap: ArrayLike | None = None,
    gap_error: ArrayLike = 0.0,
    inputs: float = INPUTS,
) -> LogIntervals:
    """Enclose ``log E[(X - z) 1{X >= start}]`` for ``X ~ Bin(n, p)``, broadcasting.

    Never underflows.

    Parameters
    ----------
    z, n, p, q
        As for `log_pmf`; z may be any number.
    start
        An integer above ``z``; by default the smallest one, which makes the result
        ``log E[(X - z)_+]``.
    gap, gap_error
        ``start - z``, where the caller knows it to more digits than the subtraction leaves, and
        its absolute error; where that is positive and the gap at most 1, the true start may be the
        integer before.
    inputs
        Relative error of p and q, each, in units of rounding.

    Todhunter's identity ``sum_{j >= m} (j - n p) Pr[X = j] = m (1 - p) Pr[X = m]`` gives a closed
    form whose cancellation grows with the square of the number of standard deviations only; where
    the probabilities fall fast, a few terms are summed.
    """
    z, n, p, q = (np.asarray(v, np.float64) for v in (z, n, p, complement(p, q)))
    first = np.floor(z) + 1.0 if start is None else np.asarray(start, np.float64)
    step = np.maximum(first - z if gap is None else np.asarray(gap, np.float64), 0.0)
    off = np.asarray(gap_error, np.float64)
    values = (n, p, q, first, step, off)
    shape = np.broadcast_shapes(*(v.shape for v in values))
    n, p, q, first, step, off = (np.atleast_1d(np.broadcast_to(v, shape)) for v in values)
    live = (first > 0) & (first <= n) & (p > 0) & (q > 0)
    # Otherwise all outcomes count, or none.
    whole = ~live & ((first <= 0) | ((q <= 0) & (first <= n)))
    behind = mean_less(first, n, p, q)
    behind_error = _UNIT * ((inputs + 2.0) * n * np.minimum(p, q) + np.abs(behind))
    value, error = (
        np.where(whole, behind + step, 0.0),
        np.where(whole, behind_error + off + 2.0 * _UNIT * step, 0.0),
    )
    log_mass, mass_error = np.zeros_like(value), np.zeros_like(value)
    log_mass[live] = log_pmf(first[live], n[live], p[live], q[live])
    far = live & (behind > _FAR * np.sqrt(n * p * q) + _FAR_MARGIN)
    far |= live & (behind > 0.0) & (log_mass < _NOTHING)
    log_mass[far] = 0.0
    steep = live & ~far & ((n - first) * p < _STEEP * (first + 1.0) * q)
    gentle = live & ~far & ~steep
    if far.any():
        below = _below(first[far], n[far], p[far], q[far], step[far])
        value[far] = behind[far] + step[far]
        error[far] = behind_error[far] + off[far] + 2.0 * _UNIT * step[far] + below
    for chosen, ratio in ((steep, _steep_ratio), (gentle, _gentle_ratio)):
        if not chosen.any():
            continue
        x, trials, a, b = first[chosen], n[chosen], p[chosen], q[chosen]
        mass_error[chosen] = log_pmf_error(x, trials, a, b, inputs)
        value[chosen], error[chosen] = ratio(
            x, trials, a, b, step[chosen], off[chosen], behind[chosen], behind_error[chosen], inputs
        )
    error = 1.01 * error + 4.0 * _UNIT * np.abs(value)
    with np.errstate(divide="ignore"):
        low = log_mass + np.log(np.maximum(value - error, 0.0))
        high = log_mass + np.log(np.maximum(value + error, 0.0))
    rounding = 1.01 * mass_error + 4.0 * _UNIT * np.abs(log_mass)
    return LogIntervals((low - rounding).reshape(shape), (high + rounding).reshape(shape))


def _below(x: Floats, n: Floats, p: Floats, q: Floats, gap: Floats) -> Floats:
    """Bound of ``E[|X - x + gap| 1{X < x}]`` far below the mean: the terms fall geometrically."""
    ratio = (x - 1.0) * q / ((n - x + 2.0) * p)
    left = 1.0 / (1.0 - ratio)
    return np.asarray(1.01 * np.exp(log_pmf(x - 1.0, n, p, q)) * left * (gap + left))


def _crossed(x: Floats, n: Floats, p: Floats, q: Floats, gap: Floats, error: Floats) -> Floats:
    """What ``X = x - 1`` adds if the true gap, at most 1 more than the given one, is above 1.

    Where the given gap is above 1, the start is the caller's, and stays.
    """
    beyond = np.where(gap <= 1.0, np.maximum(gap + error - 1.0, 0.0), 0.0)
    return np.asarray(beyond * x * q / ((n - x + 1.0) * p))


def _steep_ratio(
    x: Floats,
    n: Floats,
    p: Floats,
    q: Floats,
    gap: Floats,
    gap_error: Floats,
    behind: Floats,
    behind_error: Floats,
    inputs: float,
) -> tuple[Floats, Floats]:
    """``E[(X - x + gap) 1{X >= x}] / Pr[X = x]`` and its error, where the probabilities fall fast.

    All terms are positive. The j-th, at most 0.45^j of the first, is wrong by ``5 + 2 inputs``
    units for each factor; the mean j is below 3, and what the sum leaves out below 1e-17.
    """
    total, moment = np.ones_like(x), np.zeros_like(x)
    odds = p / q
    for j in range(_STEEP_TERMS, -1, -1):
        ratio = np.maximum(n - x - j, 0.0) / (x + j + 1.0) * odds
        total, moment = 1.0 + ratio * total, ratio * (total + moment)
    value = gap * total + moment
    error = _UNIT * (24.0 + 6.0 * inputs) * value + (gap_error + 2.0 * _UNIT * gap) * total
    return value, error + _crossed(x, n, p, q, gap, gap_error)


def _gentle_ratio(
    x: Floats,
    n: Floats,
    p: Floats,
    q: Floats,
    gap: Floats,
    gap_error: Floats,
    behind: Floats,
    behind_error: Floats,
    inputs: float,
) -> tuple[Floats, Floats]:
    """``E[(X - x + gap) 1{X >= x}] / Pr[X = x]`` and its error, by Todhunter's identity."""
    mills, mills_error = mills_ratio(x, n, p, q)
    moved = (x * q / mills + behind).clip(0.0) + 1.0
    mills_error = mills_error + 2.0 * inputs * _UNIT * moved
    above = behind + gap
    value = x * q + above * mills
    error = (
        _UNIT * (inputs + 4.0) * x * q
        + np.abs(above) * mills * (mills_error + 4.0 * _UNIT)
        + (behind_error + gap_error + 2.0 * _UNIT * gap) * mills
        + _crossed(x, n, p, q, gap, gap_error)
    )
    return value, error
