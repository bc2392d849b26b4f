"""Composition of anything by its delta over eps alone (docs/rounds.md).

``h(alpha) = delta(log alpha)``, the supremum over data sets, neighbours and both directions, is
convex and does not grow, and ``h(alpha) = 1 - alpha + alpha h(1 / alpha)``. So is the profile of
one pair of laws that dominates all neighbours (Zhu, Dong and Wang 2022). Of certified upper values
at points and of these points mirrored, with ``h(0) = 1``, the lower convex hull lies above the
truth. It is the profile of a discrete pair whose losses are the points; its value at the last point
is the probability of an infinite loss. That pair composes.
"""

from collections.abc import Callable, Sequence
from decimal import Context, Decimal, localcontext

import numpy as np
from scipy.special import ndtri

from shuffledp.accounting.curve import UpperCurve
from shuffledp.accounting.rounds.outcome_bundles import DEPTH
from shuffledp.accounting.rounds.privacy_loss import LARGEST_GRID, Loss, LossDistribution
from shuffledp.accounting.setting import LARGEST_EPS0
from shuffledp.numerics.arrays import UNIT, Floats

# Points per standard deviation of the loss, and how many of them until they lie twice as wide.
_RESOLUTION, DENSE = 8.0, 64
# How near, in logs, delta counts as what is left far out.
_FLAT = 1e-9
# What lies beyond the last point may be this share of delta (a log), of which eps grows by some
# 1e-6: as many points again would be needed for nothing beside it.
_SHARE = -11.0
# Digits beyond those of the smallest delta.
_DIGITS = 40
Points = Sequence[tuple[int, float]]
Point = tuple[int, Decimal, Decimal]  # eps in steps, exp(eps), h


def loss_of_curve(curve: UpperCurve) -> Loss:
    """Loss of a pair that dominates all pairs of a curve with an upper end."""

    def up(step: float | None, depth: float) -> list[LossDistribution]:
        return [dominating(curve, depth, step=step)]

    reach, end = _ends(curve, DEPTH)
    # That of the grid is at most this.
    deviation = 1.5 * _RESOLUTION * _step(curve.upper, reach, end, _RESOLUTION)
    furthest = _furthest(curve.upper, deviation, reach, end)
    return Loss(deviation, furthest, up, share=_SHARE)


def dominating(
    curve: UpperCurve, depth: float, resolution: float = _RESOLUTION, step: float | None = None
) -> LossDistribution:
    """Law of the loss of a pair that dominates all pairs of a curve with an upper end.

    Parameters
    ----------
    curve
        Of one round, with an upper end.
    depth
        The points reach so far that delta is at most ``exp(-depth)``, or as far as it falls.
    resolution
        Points per standard deviation of the loss, or up to twice as many.
    step
        Distance of grid points, a power of 2; by default that of the points.
    """
    reach, end = _ends(curve, depth)
    own = _step(curve.upper, reach, end, resolution)
    step = own if step is None else step
    points = _points(curve, step, reach, end, max(int(own / step), 1))
    return law_of_points(points, points, step)


def law_of_points(above: Points, mirrored: Points, step: float) -> LossDistribution:
    """Law of the loss of a pair that dominates those below some points.

    Parameters
    ----------
    above
        Multiples of the step in order, 0 first, and logs of delta there, rounded up.
    mirrored
        The same with both laws of the pairs exchanged.
    step
        A power of 2.
    """
    smallest = min((log for _, log in [*above, *mirrored] if log > -np.inf), default=0.0)
    with localcontext(Context(prec=_DIGITS + int(max(-smallest, DEPTH)))):
        return _law(_hull(_both_sides(above, mirrored, step)), step)


def _ends(curve: UpperCurve, depth: float) -> tuple[float, float]:
    """How far points reach at most, and the log of delta down to which they do."""
    reach = min(curve.budget, curve.horizon, LARGEST_EPS0)
    # What is left there is the probability of an infinite loss: more points would not lower it.
    return reach, max(-depth, curve.upper(reach) + _FLAT) if reach < curve.budget else -depth


def _step(upper: Callable[[float], float], reach: float, end: float, resolution: float) -> float:
    """A power of 2, so that every multiple of it is a float; some of them a standard deviation.

    But not so many that the grid, as far as delta falls, would not fit in memory.
    """
    advantage = min(float(np.exp(upper(0.0))), 1.0 - 1e-9)
    deviation = 2.0 * float(ndtri(0.5 * (1.0 + advantage)))
    width = min(max(deviation, 1e-12), reach)
    least = _furthest(upper, width, reach, end) / LARGEST_GRID
    return float(2.0 ** np.floor(np.log2(max(width / resolution, least))))


def _furthest(upper: Callable[[float], float], width: float, reach: float, end: float) -> float:
    """About how far delta falls to an end, in doublings of a width."""
    while width < reach and upper(width) > end:
        width *= 2.0
    return min(width, reach)


def _points(
    curve: UpperCurve, step: float, reach: float, end: float, stride: int
) -> list[tuple[int, float]]:
    """Multiples of the step, ever wider apart, and the log of delta there, down to an end."""
    from tqdm import tqdm

    found, index = list[tuple[int, float]](), 0
    # With two cells and many users each point takes a tenth of a second.
    with tqdm(desc="points of the curve", delay=2.0, leave=False, disable=None) as bar:
        while not found or (found[-1][1] > end and step * found[-1][0] < reach):
            eps = step * index
            found.append((index, curve.upper(eps) if eps < curve.budget else -np.inf))
            if len(found) % DENSE == 0:
                stride *= 2
            index += stride
            bar.update()
    return found


def _both_sides(above: Points, mirrored: Points, step: float) -> list[Point]:
    """Points of h in order of alpha: those below 1, and those from 1 on."""

    def points(given: Points) -> list[Point]:
        return [
            (
                index,
                (Decimal(step) * index).exp(),
                Decimal(log).exp() if log > -np.inf else Decimal(0),
            )
            for index, log in given
        ]

    below = [(-index, 1 / alpha, 1 + (h - 1) / alpha) for index, alpha, h in points(mirrored)[1:]]
    return [*reversed(below), *points(above)]


def _hull(points: list[Point]) -> list[Point]:
    """Lower convex hull of the points and of (0, 1), without the latter."""
    hull = [(0, Decimal(0), Decimal(1))]
    for point in points:
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) >= _slope(hull[-1], point):
            hull.pop()
        hull.append(point)
    # From the least value on the hull is constant.
    while len(hull) > 2 and hull[-1][2] >= hull[-2][2]:
        hull.pop()
    return hull[1:]


def _slope(first: Point, second: Point) -> Decimal:
    return (second[2] - first[2]) / (second[1] - first[1])


def _law(hull: list[Point], step: float) -> LossDistribution:
    """Masses under P by the changes of slope; rounded, they are held against the hull again."""
    corners = [(0, Decimal(0), Decimal(1)), *hull]
    slopes = [_slope(*ends) for ends in zip(corners, hull, strict=False)] + [Decimal(0)]
    start = hull[0][0]
    mass = np.zeros(hull[-1][0] - start + 1)
    for (index, alpha, _), before, after in zip(hull, slopes[:-1], slopes[1:], strict=True):
        mass[index - start] = float(alpha * (after - before))
    infinite = float(np.nextafter(float(hull[-1][2]), 1.0)) if hull[-1][2] else 0.0
    return LossDistribution(step, start, mass, infinite, _shortfall(hull, mass, infinite, start))


def _shortfall(hull: list[Point], mass: Floats, infinite: float, start: int) -> float:
    """By which share the rounded masses' profile is below the hull anywhere, rounded up.

    Both are linear between the corners, and from the last one on.
    """
    found = Decimal(0)
    total = tilted = Decimal(0)  # of P and of Q, of the losses above
    profile = {}
    for index, alpha, _ in reversed(hull):
        weight = Decimal(float(mass[index - start]))
        profile[index] = total - alpha * tilted + Decimal(infinite)
        total, tilted = total + weight, tilted + weight / alpha
    for index, _, h in hull:
        if h > profile[index]:
            found = max(found, (h - profile[index]) / profile[index])
    found = max(found, 1 - total - Decimal(infinite))
    return float(found) + 4.0 * UNIT
