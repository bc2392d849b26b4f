"""Dominating pairs that are derived only from delta as a function of eps (docs/rounds.md).

The profile ``h(alpha) = delta(log alpha)``, the supremum over data sets, neighbours and both
directions, is convex and non-increasing, and ``h(alpha) = 1 - alpha + alpha h(1 / alpha)``. Such a
function is the profile of one pair of laws that dominates all neighbours (Zhu, Dong and Wang
2022). The lower convex hull of certified upper values at finitely many points, their mirror images
and ``h(0) = 1`` lies above h. The hull is the profile of a discrete pair whose losses are the
points, and its value at the last point is the probability of an infinite loss. This pair is used
for composition.
"""

from collections.abc import Callable, Sequence
from decimal import Context, Decimal, localcontext

import numpy as np
from scipy.special import ndtri

from shuffledp.accounting.curve import UpperCurve
from shuffledp.accounting.rounds.outcome_bundles import DEPTH
from shuffledp.accounting.rounds.privacy_loss import MAX_GRID_STEPS, Loss, LossDistribution
from shuffledp.accounting.setting import LARGEST_EPS0
from shuffledp.numerics.arrays import UNIT, Floats

# Points per standard deviation of the loss, and the number after which the spacing doubles.
POINTS_PER_DEVIATION, POINTS_PER_SPACING = 8.0, 64
# If the logs differ by less, delta is considered equal to its limit for large eps.
LOG_FLATNESS = 1e-9
# The part beyond the last point may be this share of delta (a log), which changes eps by about
# 1e-6. A negligible part would need twice as many points.
LOG_BEYOND_SHARE = -11.0
# Number of decimal digits in addition to those of the smallest delta.
EXTRA_DIGITS = 40
Points = Sequence[tuple[int, float]]
Point = tuple[int, Decimal, Decimal]  # eps in steps, exp(eps), h


def loss_of_curve(curve: UpperCurve) -> Loss:
    """Return the loss of a pair that dominates all neighbours described by a curve."""

    def up(step: float | None, depth: float) -> list[LossDistribution]:
        return [dominating(curve, depth, step=step)]

    reach, end = _ends(curve, DEPTH)
    # The standard deviation on the grid is at most this.
    deviation = 1.5 * POINTS_PER_DEVIATION * _step(curve.upper, reach, end, POINTS_PER_DEVIATION)
    furthest = _furthest(curve.upper, deviation, reach, end)
    return Loss(deviation, furthest, up, share=LOG_BEYOND_SHARE)


def dominating(
    curve: UpperCurve,
    depth: float,
    resolution: float = POINTS_PER_DEVIATION,
    step: float | None = None,
) -> LossDistribution:
    """Return the law of the loss of a pair that dominates all neighbours described by a curve.

    Parameters
    ----------
    curve
        The curve of one round.
    depth
        The points end where delta is at most ``exp(-depth)`` or constant.
    resolution
        Number of points per standard deviation of the loss, or up to twice as many.
    step
        Distance of grid points, a power of 2; by default that of the points.
    """
    reach, end = _ends(curve, depth)
    own = _step(curve.upper, reach, end, resolution)
    step = own if step is None else step
    points = _points(curve, step, reach, end, max(int(own / step), 1))
    return law_of_points(points, points, step)


def law_of_points(above: Points, mirrored: Points, step: float) -> LossDistribution:
    """Return the law of the loss of a pair whose profile lies above given points.

    Parameters
    ----------
    above
        Multiples of the step in ascending order, beginning with 0, and the logs of delta there,
        rounded up.
    mirrored
        The same with the two laws of the neighbours exchanged.
    step
        A power of 2.
    """
    smallest = min((log for _, log in [*above, *mirrored] if log > -np.inf), default=0.0)
    with localcontext(Context(prec=EXTRA_DIGITS + int(max(-smallest, DEPTH)))):
        return _law(_hull(_both_sides(above, mirrored, step)), step)


def _ends(curve: UpperCurve, depth: float) -> tuple[float, float]:
    """Return the largest eps of the points, and the log of delta at which they end."""
    reach = min(curve.budget, curve.horizon, LARGEST_EPS0)
    # Delta at the reach is the probability of an infinite loss; further points do not lower it.
    return reach, max(-depth, curve.upper(reach) + LOG_FLATNESS) if reach < curve.budget else -depth


def _step(upper: Callable[[float], float], reach: float, end: float, resolution: float) -> float:
    """Return the distance of points, a power of 2, so that every multiple of it is a float.

    It is a fraction of the standard deviation, but large enough for the grid to fit in memory.
    """
    advantage = min(float(np.exp(upper(0.0))), 1.0 - 1e-9)
    deviation = 2.0 * float(ndtri(0.5 * (1.0 + advantage)))
    width = min(max(deviation, 1e-12), reach)
    min_step = _furthest(upper, width, reach, end) / MAX_GRID_STEPS
    return float(2.0 ** np.floor(np.log2(max(width / resolution, min_step))))


def _furthest(upper: Callable[[float], float], width: float, reach: float, end: float) -> float:
    """Return approximately the eps at which log delta reaches ``end``, by doubling a width."""
    while width < reach and upper(width) > end:
        width *= 2.0
    return min(width, reach)


def _points(
    curve: UpperCurve, step: float, reach: float, end: float, stride: int
) -> list[tuple[int, float]]:
    """Return multiples of the step, with growing gaps, and the log of delta there."""
    from tqdm import tqdm

    points, index = list[tuple[int, float]](), 0
    # With two cells and many users, each point takes a tenth of a second.
    with tqdm(desc="points of the curve", delay=2.0, leave=False, disable=None) as bar:
        while not points or (points[-1][1] > end and step * points[-1][0] < reach):
            eps = step * index
            points.append((index, curve.upper(eps) if eps < curve.budget else -np.inf))
            if len(points) % POINTS_PER_SPACING == 0:
                stride *= 2
            index += stride
            bar.update()
    return points


def _both_sides(above: Points, mirrored: Points, step: float) -> list[Point]:
    """Return points of h in ascending order of alpha."""

    def convert(side: Points) -> list[Point]:
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


def _hull(points: list[Point]) -> list[Point]:
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


def _slope(first: Point, second: Point) -> Decimal:
    return (second[2] - first[2]) / (second[1] - first[1])


def _law(hull: list[Point], step: float) -> LossDistribution:
    """Return the law whose masses under P are the changes of slope of the hull.

    The masses are rounded to floats; the error is computed by comparing their profile with the
    hull.
    """
    corners = [(0, Decimal(0), Decimal(1)), *hull]
    slopes = [_slope(*ends) for ends in zip(corners, hull, strict=False)] + [Decimal(0)]
    start = hull[0][0]
    mass = np.zeros(hull[-1][0] - start + 1)
    for (index, alpha, _), before, after in zip(hull, slopes[:-1], slopes[1:], strict=True):
        mass[index - start] = float(alpha * (after - before))
    infinite = float(np.nextafter(float(hull[-1][2]), 1.0)) if hull[-1][2] else 0.0
    return LossDistribution(step, start, mass, infinite, _shortfall(hull, mass, infinite, start))


def _shortfall(hull: list[Point], mass: Floats, infinite: float, start: int) -> float:
    """Return the largest relative shortfall of the rounded profile below the hull, rounded up.

    Both are linear between the corners, and from the last one on, so corners suffice.
    """
    shortfall = Decimal(0)
    total = tilted = Decimal(0)  # of P and of Q, of the losses above
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
