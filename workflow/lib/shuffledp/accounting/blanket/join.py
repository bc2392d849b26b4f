"""A law above several others: whoever of several kinds a user is, it leaks at least as much."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from shuffledp.accounting.blanket.atoms import Atoms
from shuffledp.numerics.arrays import UNIT, Floats


def join(laws: Sequence[Atoms]) -> Atoms:
    """Law whose potential ``t -> E[(G - t)_+]`` is the largest of theirs, everywhere.

    Then ``E[h(G)]`` of it is at least that of each, for every h that is convex, increasing and 0
    far below: h is a mean of functions ``(x - t)_+``.

    Parameters
    ----------
    laws
        At least one. Their values are taken as exact, their masses as right to their units; they
        have nearly the same mean.

    Returns
    -------
    Its units hold theirs, and what rounding took from the potential.
    """
    points = np.unique(np.concatenate([law.values for law in laws]))
    heights = _potentials(laws, points)
    points = np.unique(np.concatenate([points, *_crossings(points, heights)]))
    heights = _potentials(laws, points)
    # Between two points each potential is a line, and one of them is the highest.
    tails = _tails(laws, points)
    highest = (heights[:, 1:] + heights[:, :-1]).argmax(axis=0)
    total = max(float(law.masses.sum()) for law in laws)
    tail = np.concatenate([[total], tails[highest, np.arange(points.size - 1)], [0.0]])
    masses = -np.diff(np.maximum.accumulate(tail[::-1])[::-1])
    used = masses > 0.0
    # The sums of tails and of potentials, here and in what is compared with them.
    units = max(law.units for law in laws) + 8.0 * points.size + 16.0
    joined = Atoms(points[used], masses[used], units)
    short = _shortfall(heights.max(axis=0), _potentials([joined], points)[0])
    return Atoms(joined.values, joined.masses, units + short / UNIT)


def _tails(laws: Sequence[Atoms], points: Floats) -> Floats:
    """Probabilities of more than each point but the last: sums of masses, none a difference."""
    found = np.empty((len(laws), points.size - 1))
    for row, law in zip(found, laws, strict=True):
        masses = np.zeros(points.size)
        np.add.at(masses, np.searchsorted(points, law.values), law.masses)
        row[:] = np.cumsum(masses[:0:-1])[::-1]
    return found


def _potentials(laws: Sequence[Atoms], points: Floats) -> Floats:
    """``E[(G - t)_+]`` at each point, shape ``(laws, points)``: sums of positive terms."""
    steps = _tails(laws, points) * np.diff(points)
    sums = np.cumsum(steps[:, ::-1], axis=1)[:, ::-1]
    return np.asarray(np.pad(sums, ((0, 0), (0, 1))))


def _crossings(points: Floats, heights: Floats) -> list[Floats]:
    """Where two potentials cross between neighbouring points."""
    found = []
    for one, other in combinations(heights, 2):
        gap = one - other
        at = np.flatnonzero(gap[1:] * gap[:-1] < 0.0)
        share = gap[at] / (gap[at] - gap[at + 1])
        found.append(points[at] + (points[at + 1] - points[at]) * share)
    return found


def _shortfall(wanted: Floats, found: Floats) -> float:
    """Log of the factor by which a potential is too low somewhere; inf if it is 0 there."""
    above = wanted > 0.0
    with np.errstate(divide="ignore"):
        return max(float(np.log(wanted[above] / found[above]).max(initial=0.0)), 0.0)
