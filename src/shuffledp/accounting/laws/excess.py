"""Certified ends of ``log E[(X - z)_+]``, the log mean positive part of X - z for a binomial X."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.laws.binomial import (
    INPUT_UNITS,
    LogIntervals,
    complement,
    log_pmf,
    log_pmf_with_error,
    mean_minus,
    mills_ratio_with_input_error,
)
from shuffledp.numerics.arrays import UNIT, Floats

# If the ratio of neighbouring probabilities is below STEEP_RATIO, a sum of about STEEP_TERMS terms,
# or fewer for smaller ratios, replaces the closed form.
STEEP_RATIO = 0.45
STEEP_TERMS = 50
# If the sum starts below the mean by more than FAR_DEVIATIONS standard deviations plus FAR_MARGIN,
# the sum over all values replaces it, and the values below the start are bounded.
FAR_DEVIATIONS, FAR_MARGIN = 7.0, 20.0
# Log of a probability whose reciprocal does not overflow.
LOG_SMALLEST_MASS = -600.0


def log_excess(
    z: ArrayLike,
    n: ArrayLike,
    p: ArrayLike,
    q: ArrayLike | None = None,
    start: ArrayLike | None = None,
    gap: ArrayLike | None = None,
    gap_error: ArrayLike = 0.0,
    input_units: float = INPUT_UNITS,
) -> LogIntervals:
    """Return intervals around ``log E[(X - z) 1{X >= start}]`` for ``X ~ Bin(n, p)``.

    They never underflow. The arguments are broadcast.

    Parameters
    ----------
    z, n, p, q
        See `log_pmf`; z may be any number.
    start
        An integer above ``z``; by default the smallest one, for which the result is
        ``log E[(X - z)_+]``.
    gap, gap_error
        A value of ``start - z`` that is more accurate than the difference of the floats, and a
        bound on its absolute error. If ``start`` is given too, z is not used. If the exact gap
        exceeds 1 although the given one does not, the sum omits the term of ``start - 1``, and the
        interval includes a bound on it.
    input_units
        Relative error of p and of q, in units of rounding.

    Notes
    -----
    Todhunter's identity ``sum_{j >= m} (j - n p) Pr[X = j] = m (1 - p) Pr[X = m]`` gives a closed
    form whose cancellation grows only with the square of the number of standard deviations between
    the mean and the start. Where the probabilities fall fast, a few terms are summed instead.
    """
    z, n, p, q = (np.asarray(v, np.float64) for v in (z, n, p, complement(p, q)))
    first = np.floor(z) + 1.0 if start is None else np.asarray(start, np.float64)
    step = np.maximum(first - z if gap is None else np.asarray(gap, np.float64), 0.0)
    gap_error_ = np.asarray(gap_error, np.float64)
    values = (n, p, q, first, step, gap_error_)
    shape = np.broadcast_shapes(*(v.shape for v in values))
    n, p, q, first, step, gap_error_ = (np.atleast_1d(np.broadcast_to(v, shape)) for v in values)
    mean_minus_start = mean_minus(first, n, p, q)
    mean_minus_start_error = UNIT * (
        (input_units + 2.0) * n * np.minimum(p, q) + np.abs(mean_minus_start)
    )
    at = _Start(first, n, p, q, step, gap_error_, mean_minus_start, mean_minus_start_error)
    live = (first > 0) & (first <= n) & (p > 0) & (q > 0)
    log_mass, mass_error = np.zeros_like(mean_minus_start), np.zeros_like(mean_minus_start)
    log_mass[live], mass_error[live] = log_pmf_with_error(
        first[live], n[live], p[live], q[live], input_units
    )
    far = live & (mean_minus_start > FAR_DEVIATIONS * np.sqrt(n * p * q) + FAR_MARGIN)
    far |= live & (mean_minus_start > 0.0) & (log_mass < LOG_SMALLEST_MASS)
    log_mass[far] = mass_error[far] = 0.0
    # Cases in which X >= start for all outcomes except a lower tail, which is added to the error.
    nearly_all_above = far | (~live & ((first <= 0) | ((q <= 0) & (first <= n))))
    value = np.where(nearly_all_above, mean_minus_start + step, 0.0)
    error = np.where(nearly_all_above, mean_minus_start_error + at.gap_total_error, 0.0)
    if far.any():
        error[far] += _below(at[far])
    steep = live & ~far & ((n - first) * p < STEEP_RATIO * (first + 1.0) * q)
    gentle = live & ~far & ~steep
    for chosen, ratio in ((steep, _steep_ratio), (gentle, _gentle_ratio)):
        if chosen.any():
            value[chosen], error[chosen] = ratio(at[chosen], input_units)
    error = 1.01 * error + 4.0 * UNIT * np.abs(value)
    with np.errstate(divide="ignore"):
        low = log_mass + np.log(np.maximum(value - error, 0.0))
        high = log_mass + np.log(np.maximum(value + error, 0.0))
    rounding = 1.01 * mass_error + 4.0 * UNIT * np.abs(log_mass)
    return LogIntervals((low - rounding).reshape(shape), (high + rounding).reshape(shape))


@dataclass(frozen=True)
class _Start:
    """The start x of the sum, with ``gap = x - z`` and ``n p - x``, and their absolute errors."""

    x: Floats
    n: Floats
    p: Floats
    q: Floats
    gap: Floats
    gap_error: Floats
    mean_minus_start: Floats
    mean_minus_start_error: Floats

    def __getitem__(self, chosen: Any) -> "_Start":
        return _Start(*(getattr(self, field.name)[chosen] for field in fields(self)))

    @property
    def gap_total_error(self) -> Floats:
        """Error of the gap, including its own rounding."""
        return self.gap_error + 2.0 * UNIT * self.gap

    @property
    def missed_first_term(self) -> Floats:
        """Bound on the term of ``X = x - 1``, relative to ``Pr[X = x]``.

        The sum misses it if the exact gap is above 1 but the stored one is not. A stored gap above
        1 means that the caller has chosen a later start; then nothing is missed.
        """
        beyond = np.where(self.gap <= 1.0, np.maximum(self.gap + self.gap_error - 1.0, 0.0), 0.0)
        return np.asarray(beyond * self.x * self.q / ((self.n - self.x + 1.0) * self.p))


def _below(at: _Start) -> Floats:
    """Return a bound on ``E[|X - x + gap| 1{X < x}]`` far below the mean, by a geometric series."""
    series = 1.0 / (1.0 - (at.x - 1.0) * at.q / ((at.n - at.x + 2.0) * at.p))
    below = np.exp(log_pmf(at.x - 1.0, at.n, at.p, at.q))
    return np.asarray(1.01 * below * series * (at.gap + series))


def _steep_ratio(at: _Start, input_units: float) -> tuple[Floats, Floats]:
    """Return ``E[(X - x + gap) 1{X >= x}] / Pr[X = x]`` and its error for steep probabilities.

    With ``w_j = Pr[X = x + j] / Pr[X = x]``, all terms ``(gap + j) w_j`` are positive. w_j is the
    product of j ratios of neighbouring probabilities, each of which is at most R <= 0.45 and has an
    error of ``5 + 2 input_units`` units of rounding; the mean j is below 3. The terms from J on are
    at most ``(J + 1) R^J / (1 - R)^2`` of the sum. J is chosen so that this is below a unit.
    """
    total, moment = np.ones_like(at.x), np.zeros_like(at.x)
    odds = at.p / at.q
    failures, following = at.n - at.x, at.x + 1.0
    steepest = float((failures * at.p / (following * at.q)).clip(1e-17, STEEP_RATIO).max())
    for j in range(int(STEEP_TERMS * np.log(STEEP_RATIO) / np.log(steepest)) + 3, -1, -1):
        ratio = np.maximum(failures - j, 0.0)
        ratio /= following + j
        ratio *= odds
        moment += total
        moment *= ratio
        total *= ratio
        total += 1.0
    value = at.gap * total + moment
    error = UNIT * (24.0 + 6.0 * input_units) * value + at.gap_total_error * total
    return value, error + at.missed_first_term


def _gentle_ratio(at: _Start, input_units: float) -> tuple[Floats, Floats]:
    """Return ``E[(X - x + gap) 1{X >= x}] / Pr[X = x]`` and its error, by Todhunter's identity."""
    mills, mills_error = mills_ratio_with_input_error(at.x, at.n, at.p, at.q, input_units)
    above = at.mean_minus_start + at.gap
    value = at.x * at.q + above * mills
    error = (
        UNIT * (input_units + 4.0) * at.x * at.q
        + np.abs(above) * mills * (mills_error + 4.0 * UNIT)
        + (at.mean_minus_start_error + at.gap_total_error) * mills
        + at.missed_first_term
    )
    return value, error
