"""Dominating pairs that are derived only from delta as a function of eps (docs/rounds.md).

Let ``h(alpha) = delta(log alpha)``, where delta is the supremum over all neighbouring data sets in
both directions. h, called the profile here, is convex and non-increasing, and satisfies
``h(alpha) = 1 - alpha + alpha h(1 / alpha)``. Every such function is the profile of one pair of
laws, which dominates all neighbours (Zhu, Dong and Wang 2022).

This module evaluates a certified upper bound on h at finitely many points. The lower convex hull of
these points, their mirror images and ``h(0) = 1`` lies above h. It is the profile of a discrete
pair whose losses are the eps of the points; its value at the last point is the probability of an
infinite loss. This pair is used for composition.
"""

from collections.abc import Sequence
from decimal import Context, Decimal, localcontext

import numpy as np
from scipy.special import ndtri

from shuffledp.accounting.curve import LogDelta, UpperCurve
from shuffledp.accounting.rounds.outcome_bundles import DEFAULT_DEPTH
from shuffledp.accounting.rounds.privacy_loss import MAX_GRID_STEPS, Loss, LossDistribution
from shuffledp.accounting.setting import LARGEST_EPS0
from shuffledp.numerics.arrays import UNIT, Floats

# Points per standard deviation of the loss, and the number after which the spacing doubles.
POINTS_PER_DEVIATION, POINTS_PER_SPACING = 8.0, 64
SMALLEST_STEP = 1e-300  # of the grid of a curve with budget 0
# Log delta is considered constant where it exceeds its limit for large eps by less than this.
LOG_FLATNESS = 1e-9
# Log of the largest share of delta that losses beyond the last point may contribute, which changes
# eps by about 1e-6. A much smaller share would need twice as many points.
LOG_BEYOND_SHARE = -11.0
# Number of decimal digits in addition to those that the smallest delta needs.
EXTRA_DIGITS = 40
# Points of a curve: eps in steps of the grid, and log delta.
Points = Sequence[tuple[int, float]]
# Point of a profile: log alpha in steps of the grid, alpha, and h(alpha).
ProfilePoint = tuple[int, Decimal, Decimal]


def loss_of_curve(curve: UpperCurve) -> Loss:
    """Return the loss of a pair that dominates all neighbours whose deltas lie below the curve."""

    def up(step: float | None, depth: float) -> list[LossDistribution]:
        return [dominating_law(curve, depth, step=step)]

    max_eps, log_floor = _stopping_limits(curve, DEFAULT_DEPTH)
    spacing = _first_spacing(curve.upper, max_eps, log_floor, POINTS_PER_DEVIATION)
    # Rounding to the grid may increase the standard deviation up to this.
    deviation = 1.5 * POINTS_PER_DEVIATION * spacing
    largest = _last_eps(curve.upper, deviation, max_eps, log_floor)
    return Loss(deviation, largest, up, log_left_out_share=LOG_BEYOND_SHARE)


def dominating_law(
    curve: UpperCurve,
    depth: float,
    resolution: float = POINTS_PER_DEVIATION,
    step: float | None = None,
) -> LossDistribution:
    """Return the loss distribution of a pair that dominates all neighbours with this curve or less.

    Parameters
    ----------
    curve
        The curve of one round.
    depth
        The points end where delta is at most ``exp(-depth)`` or constant.
    resolution
        Number of points per standard deviation of the loss, up to a factor of 2.
    step
        Distance between grid points; by default that of the first points. If it is not a power of
        2, its multiples are rounded, and the curve's upper end must allow for this error of eps.
    """
    step, points = points_of_curve(curve, depth, resolution, step)
    return law_of_points(points, points, step)


def points_of_curve(
    curve: UpperCurve,
    depth: float,
    resolution: float = POINTS_PER_DEVIATION,
    step: float | None = None,
) -> tuple[float, Points]:
    """Return the step of the grid, and the points that `dominating_law` connects; see there."""
    max_eps, log_floor = _stopping_limits(curve, depth)
    spacing = _first_spacing(curve.upper, max_eps, log_floor, resolution)
    step = spacing if step is None else step
    return step, _points(curve, step, max_eps, log_floor, max(int(spacing / step), 1))


def point_spacing(curve: UpperCurve, depth: float, resolution: float) -> float:
    """Return the distance between the first points that `dominating_law` connects by default."""
    max_eps, log_floor = _stopping_limits(curve, depth)
    return _first_spacing(curve.upper, max_eps, log_floor, resolution)


def law_of_points(above: Points, mirrored: Points, step: float) -> LossDistribution:
    """Return the loss distribution of a pair whose profile is the lower convex hull of points.

    Points are in ascending order from eps = 0 on, with log deltas rounded up. Those in ``above``
    are for P against Q, those in ``mirrored`` for Q against P.
    """
    smallest = min((log for _, log in [*above, *mirrored] if log > -np.inf), default=0.0)
    digits = EXTRA_DIGITS + int(max(-smallest, DEFAULT_DEPTH) - min(np.log10(step), 0.0))
    with localcontext(Context(prec=digits)):
        return _law(_hull(_both_sides(above, mirrored, step)), step)


def _stopping_limits(curve: UpperCurve, depth: float) -> tuple[float, float]:
    """Return the largest eps to evaluate, and the log delta at or below which the points end."""
    max_eps, log_floor = min(curve.budget, curve.horizon, LARGEST_EPS0), -depth
    if max_eps < curve.budget:
        # Delta at max_eps is the probability of an infinite loss; further points do not lower it.
        log_floor = max(log_floor, curve.upper(max_eps) + LOG_FLATNESS)
    return max_eps, log_floor


def _first_spacing(upper: LogDelta, max_eps: float, log_floor: float, resolution: float) -> float:
    """Return the distance between the first points; multiples of this power of 2 are exact floats.

    It is a fraction of the standard deviation, but large enough for the grid to fit in memory.
    """
    advantage = min(float(np.exp(upper(0.0))), 1.0 - 1e-9)
    # Standard deviation of a normal loss with this delta at eps = 0; the second form is a lower
    # bound that keeps its digits where delta is tiny.
    deviation = max(2.0 * float(ndtri(0.5 * (1.0 + advantage))), advantage * np.sqrt(2.0 * np.pi))
    width = min(max(deviation, SMALLEST_STEP), max_eps)
    min_step = _last_eps(upper, width, max_eps, log_floor) / MAX_GRID_STEPS
    return float(2.0 ** np.floor(np.log2(max(width / resolution, min_step, SMALLEST_STEP))))


def _last_eps(upper: LogDelta, width: float, max_eps: float, log_floor: float) -> float:
    """Return width, doubled until log delta is at most ``log_floor``, but at most max_eps."""
    while width < max_eps and upper(width) > log_floor:
        width *= 2.0
    return min(width, max_eps)


def _points(
    curve: UpperCurve, step: float, max_eps: float, log_floor: float, stride: int
) -> list[tuple[int, float]]:
    """Return points of the curve whose distance starts at ``stride`` steps and grows.

    They end where log delta is at most ``log_floor``, or at the first grid point at or above
    max_eps, where the curve may have a kink.
    """
    from tqdm import tqdm

    points, index = list[tuple[int, float]](), 0
    last_index = int(np.ceil(max_eps / step))
    last_index += step * last_index < max_eps
    # For k = 2 and many users, each point takes a tenth of a second.
    with tqdm(desc="points of the curve", delay=2.0, leave=False, disable=None) as bar:
        while not points or (points[-1][1] > log_floor and step * points[-1][0] < max_eps):
            eps = step * index
            # The last delta is raised to a negligible one, so that few digits are needed.
            log_delta = max(curve.upper(eps), 10.0 * log_floor) if eps < curve.budget else -np.inf
            points.append((index, log_delta))
            if len(points) % POINTS_PER_SPACING == 0:
                stride *= 2
            index = min(index + stride, last_index)
            bar.update()
    return points


def _both_sides(above: Points, mirrored: Points, step: float) -> list[ProfilePoint]:
    """Return points of h in ascending order of alpha, with the mirror images at alpha < 1."""

    def convert(side: Points) -> list[ProfilePoint]:
        return [
            (
                index,
                (Decimal(step) * index).exp(),
                Decimal(log).exp() if log > -np.inf else Decimal(0),
            )
            for index, log in side
        ]

    below = [(-index, 1 / alpha, 1 + (h - 1) / alpha) for index, alpha, h in convert(mirrored)[1:]]
    return [*reversed(below), *convert(above)]


def _hull(points: list[ProfilePoint]) -> list[ProfilePoint]:
    """Return the lower convex hull of the points and (0, 1), without (0, 1)."""
    hull = [(0, Decimal(0), Decimal(1))]
    for point in points:
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) >= _slope(hull[-1], point):
            hull.pop()
        hull.append(point)
    # The hull is constant from its minimum on.
    while len(hull) > 2 and hull[-1][2] >= hull[-2][2]:
        hull.pop()
    return hull[1:]


def _slope(first: ProfilePoint, second: ProfilePoint) -> Decimal:
    return (second[2] - first[2]) / (second[1] - first[1])


def _law(hull: list[ProfilePoint], step: float) -> LossDistribution:
    """Return the loss distribution whose profile is the hull, up to rounding (`_shortfall`).

    The mass under P at a corner is alpha times the change of slope.
    """
    corners = [(0, Decimal(0), Decimal(1)), *hull]
    slopes = [_slope(*ends) for ends in zip(corners, hull, strict=False)] + [Decimal(0)]
    start = hull[0][0]
    mass = np.zeros(hull[-1][0] - start + 1)
    for (index, alpha, _), before, after in zip(hull, slopes[:-1], slopes[1:], strict=True):
        mass[index - start] = float(alpha * (after - before))
    infinite = float(np.nextafter(float(hull[-1][2]), 1.0)) if hull[-1][2] else 0.0
    return LossDistribution(step, start, mass, infinite, _shortfall(hull, mass, infinite, start))


def _shortfall(hull: list[ProfilePoint], mass: Floats, infinite: float, start: int) -> float:
    """Return the largest relative amount by which the rounded profile lies below the hull.

    Both are linear between the corners and beyond the last one, so it is enough to compare corners.
    """
    shortfall = Decimal(0)
    total = tilted = Decimal(0)  # probabilities under P and under Q of all larger losses
    profile = {}
    for index, alpha, _ in reversed(hull):
        weight = Decimal(float(mass[index - start]))
        profile[index] = total - alpha * tilted + Decimal(infinite)
        total, tilted = total + weight, tilted + weight / alpha
    for index, _, h in hull:
        if h > profile[index]:
            shortfall = max(shortfall, (h - profile[index]) / profile[index])
    shortfall = max(shortfall, 1 - total - Decimal(infinite))
    return float(shortfall) + 4.0 * UNIT
