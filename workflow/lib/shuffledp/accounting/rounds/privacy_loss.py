"""Privacy loss distributions on a grid, rounded up or down.

Both roundings are certified, with errors of second order in the step:

* up: an atom with a loss between two grid points becomes two atoms on these points with the same
  total P and Q. The original is a post-processing of the result, so every hockey-stick divergence
  grows, for any number of rounds. Outcomes that are left out are counted as infinite loss.
* down: atoms are pooled such that the ratio of P and Q of the pool is on the grid. The result is a
  post-processing of the original. Outcomes that are left out are missing.

Bounds of the floating-point errors of masses and losses are part of the result, and composition
takes them into account.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from shuffledp.accounting.pairs import Pair, symmetric_form
from shuffledp.accounting.rounds.outcome_bundles import DEPTH, bundles, share_above
from shuffledp.accounting.setting import LARGEST_EPS0
from shuffledp.numerics.arrays import UNIT, Floats

# Grid steps per standard deviation of the loss.
STEPS_PER_DEVIATION = 128
# Log of the share of delta that windows may leave out.
LOG_LEFT_OUT_SHARE = -26.0
# Largest number of grid steps to the furthest point.
MAX_GRID_STEPS = 2**21
# Number of cells per grid step from which pools are formed.
CELLS_PER_STEP = 4
# Upper bound of the total probability of outcomes that underflow: fewer than 1e10, 1e-307 each.
UNDERFLOW = 1e-297


def default_step(pair: Pair) -> float:
    """Return a step for which rounding changes eps by about 1e-5 of itself.

    Near its centre the loss takes values close to multiples of ``g / n``. A step that divides this
    number places them on the grid.

    Raises
    ------
    ValueError
        If the two laws of the pair do not mirror each other.
    """
    form = symmetric_form(pair)
    smallest = max(form.weight_difference, 1e-3)
    # The log of (weight_s + gain) / least; for a tiny budget the ratio is nearly 1.
    largest = np.log1p((form.weight_difference - smallest + 2.0 * form.gain) / smallest)
    target_step = min(form.deviation, largest / 8.0) / STEPS_PER_DEVIATION
    spacing = form.gain / form.n
    return float(spacing / np.ceil(spacing / target_step) if spacing > target_step else target_step)


@dataclass(frozen=True)
class LossDistribution:
    """Law of the privacy loss under P, on the points ``step * (start + i)``.

    Attributes
    ----------
    step
        Distance of grid points, in units of the loss (natural log).
    start
        Index of the first grid point.
    mass
        Probabilities under P; they add up to at most ``1 - infinite``.
    infinite
        Probability of an infinite loss.
    mass_error, loss_error
        Bounds of the floating-point errors: relative for the masses, absolute for the losses.
    """

    step: float
    start: int
    mass: Floats
    infinite: float
    mass_error: float = 0.0
    loss_error: float = 0.0

    @property
    def losses(self) -> Floats:
        """The grid points."""
        return self.step * (self.start + np.arange(self.mass.size, dtype=np.float64))


@dataclass(frozen=True)
class Loss:
    """Privacy loss of a round, a sum of independent losses that can be discretised on any grid.

    Attributes
    ----------
    deviation, largest
        Approximate standard deviation, and largest finite loss (possibly approximate).
    up
        Function that returns laws which dominate the loss. Its arguments are the distance of grid
        points (None for a default) and the depth of windows, which leave out about ``exp(-depth)``.
    down
        Functions of the distance of grid points that return laws which a data set attains, rounded
        down; one function for each data set.
    tv_distance
        Upper bound of the total variation distance between the laws of a round's messages and the
        laws of this loss.
    share
        Log of the share of delta that windows may leave out.
    """

    deviation: float
    largest: float
    up: Callable[[float | None, float], list[LossDistribution]]
    down: tuple[Callable[[float], list[LossDistribution]], ...] = ()
    tv_distance: float = 0.0
    share: float = LOG_LEFT_OUT_SHARE


@dataclass(frozen=True)
class Outcomes:
    """The losses of the outcomes of one cell, and their probabilities under P.

    Attributes
    ----------
    losses, mass
        Finite losses and their probabilities, shape ``(m,)`` each.
    infinite, infinite_low
        Upper and lower ends of the probability of an infinite loss.
    mass_error, loss_error
        See `LossDistribution`.
    """

    losses: Floats
    mass: Floats
    infinite: float
    infinite_low: float
    mass_error: float
    loss_error: float

    def up(self, step: float, index: Floats | None = None) -> LossDistribution:
        """Return the law rounded up to a grid, by splitting each loss onto two grid points.

        ``index`` contains the lower point for each loss, by default the one below it.
        """
        index = np.floor(self.losses / step) if index is None else index
        above = self.losses - index * step
        # Clipping is necessary because rounding may have moved a loss that is on the grid.
        upper = self.mass * share_above(
            np.zeros_like(above), above.clip(0.0, step), np.full_like(above, step)
        )
        start = int(index.min())
        tally = Tally()
        tally.add(index - start, self.mass - upper)
        tally.add(index - start + 1.0, upper)
        largest = float(np.abs(self.losses).max())
        return LossDistribution(
            step=step,
            start=start,
            mass=tally.total,
            infinite=min(self.infinite, 1.0),
            mass_error=self.mass_error + tally.error + 8.0 * UNIT * (1.0 + largest),
            loss_error=self.loss_error + 8.0 * UNIT * largest,
        )

    def down(self, step: float) -> LossDistribution:
        """Return the law rounded down to a grid by `pooled_down`."""
        errors = (self.mass_error, self.loss_error)
        return pooled_down(self.losses, self.mass, self.infinite_low, step, errors)


def loss_of_cells(cells: Sequence[Outcomes], step: float | None = None) -> Loss:
    """Return the loss of independent cells whose laws are the same for every data set.

    Parameters
    ----------
    cells
        Outcomes of each cell.
    step
        Distance of grid points, if there is a grid that contains all losses.
    """
    variance = sum(float(cell.mass @ cell.losses**2) for cell in cells)
    deviation = max(float(np.sqrt(variance)), 1e-300)
    largest = sum(float(np.abs(cell.losses).max()) for cell in cells)
    default = step or max(deviation / STEPS_PER_DEVIATION, largest / MAX_GRID_STEPS)

    def up(step: float | None, depth: float) -> list[LossDistribution]:
        del depth  # there are no windows
        return [cell.up(step or default) for cell in cells]

    def down(step: float) -> list[LossDistribution]:
        return [cell.down(step) for cell in cells]

    return Loss(deviation, largest, up, (down,))


def loss_of_pair(pair: Pair) -> Loss:
    """Return the loss of a pair of laws that mirror each other and dominate every data set."""
    form = symmetric_form(pair)

    def up(step: float | None, depth: float) -> list[LossDistribution]:
        return [rounded_up(pair, step or default_step(pair), depth)]

    largest = min(pair.largest_loss, LARGEST_EPS0)
    # The same minimum as in `default_step`.
    deviation = min(form.deviation, largest)
    return Loss(deviation, largest, up)


class Tally:
    """Sums of weights by index, and their relative rounding error."""

    def __init__(self, size: int = 1) -> None:
        self.total: Floats = np.zeros(size)
        self._max_addends, self._parts = 0, 0

    def add(self, index: Floats, weights: Floats) -> None:
        """Add weights to the sums at these indices, integers >= 0."""
        at = index.astype(np.int64)
        tally = np.asarray(np.bincount(at, weights, minlength=self.total.size), np.float64)
        tally[: self.total.size] += self.total
        self.total = tally
        self._max_addends = max(self._max_addends, int(np.bincount(at).max(initial=0)))
        self._parts += 1

    @property
    def error(self) -> float:
        """Relative rounding error of the sums, one unit for each addition."""
        return UNIT * (self._max_addends + self._parts)


def rounded_up(pair: Pair, step: float, depth: float = DEPTH) -> LossDistribution:
    """Return a loss distribution on a grid that dominates the pair's, for any number of rounds.

    Parameters
    ----------
    pair
        Two laws that mirror each other.
    step
        Distance of grid points, positive.
    depth
        Windows leave out about ``exp(-depth)``, which is counted as infinite loss.
    """
    parts, left_out = bundles(pair, "upper", step, depth)
    tally, infinite, largest = Tally(), left_out, 0.0
    mass_error = loss_error = 0.0
    for part in parts:
        mass_error = max(mass_error, part.mass_error)
        loss_error = max(loss_error, part.loss_error)
        for losses, masses in part.spread():
            finite = np.isfinite(losses)
            infinite += float(masses[~finite].sum())
            loss, mass = losses[finite], masses[finite]
            index = np.floor(loss / step)
            above = loss - index * step
            upper = mass * share_above(np.zeros_like(loss), above, np.full_like(loss, step))
            tally.add(index, mass - upper)
            tally.add(index + 1.0, upper)
            largest = max(largest, float(loss.max(initial=0.0)))
    half = tally.total
    mirror = half * np.exp(-step * np.arange(half.size))
    mass = np.concatenate([mirror[:0:-1], [2.0 * half[0]], half[1:]])
    # With a large budget, shallow windows may leave out everything; then the bound is trivial.
    return LossDistribution(
        step=step,
        start=1 - half.size,
        mass=mass,
        infinite=min(infinite * (1.0 + mass_error + tally.error) + UNDERFLOW, 1.0),
        mass_error=mass_error + tally.error + 8.0 * UNIT * (1.0 + largest),
        loss_error=loss_error + 8.0 * UNIT * largest,
    )


def rounded_down(pair: Pair, step: float) -> LossDistribution:
    """Return a loss distribution on a grid that the pair's dominates, for any number of rounds."""
    cell = step / CELLS_PER_STEP
    one, two, infinite = Tally(), Tally(), 0.0
    mass_error = loss_error = 0.0
    for part in bundles(pair, "lower", step)[0]:
        mass_error = max(mass_error, part.mass_error)
        loss_error = max(loss_error, part.loss_error)
        loss, mass = part.pooled()
        infinite_atoms = np.isinf(loss)
        infinite += float(mass[infinite_atoms].sum())
        loss, mass = loss[~infinite_atoms], mass[~infinite_atoms]
        index = np.floor(loss / cell)
        one.add(index, mass)
        two.add(index, mass * np.exp(-loss))
    keep = two.total > 0.0
    first, second = one.total[keep], two.total[keep]
    loss = np.maximum(np.log(first / second), 0.0)
    tallied = one.error + two.error + 8.0 * UNIT * (1.0 + float(loss.max(initial=0.0)))
    return pooled_down(
        np.concatenate([-loss[::-1], loss]),
        np.concatenate([second[::-1], first]),
        infinite,
        step,
        (mass_error + tallied, loss_error + tallied + 2.0 * cell * mass_error),
    )


def pooled_down(
    losses: Floats, masses: Floats, infinite: float, step: float, errors: tuple[float, float]
) -> LossDistribution:
    """Return a loss distribution on a grid by pooling atoms.

    Atoms below a grid point are pooled with a part of the atoms above it such that the pool's loss
    is the grid point. If atoms more than one step above would be needed, the atoms are rounded down
    instead.

    Parameters
    ----------
    losses, masses
        Atoms, with positive probabilities under P.
    infinite
        Probability of an infinite loss.
    step
        Distance of grid points.
    errors
        Relative error of the masses and absolute error of the losses.
    """
    # Rounding may have exchanged neighbours.
    order = np.argsort(losses, kind="stable")
    losses, masses = losses[order], masses[order]
    start = int(np.floor(losses[0] / step))
    pools = np.zeros(int(np.floor(losses[-1] / step)) - start + 3)
    values, remaining = losses.tolist(), masses.tolist()
    i = 0
    while i < len(values):
        target = int(np.ceil(values[i] / step))
        point = step * target
        if values[i] >= point:
            pools[target - start] += remaining[i]
            i += 1
            continue
        below = deficit = 0.0
        while i < len(values) and values[i] < point:
            below += remaining[i]
            deficit += remaining[i] * np.expm1(point - values[i])
            i += 1
        reached, above = i, 0.0
        while reached < len(values) and values[reached] < point + step:
            surplus = -np.expm1(point - values[reached])
            if surplus * remaining[reached] > deficit:
                break
            above += remaining[reached]
            deficit -= surplus * remaining[reached]
            reached += 1
        if reached == len(values) or values[reached] >= point + step:
            pools[target - 1 - start] += below
            continue
        taken = deficit / -np.expm1(point - values[reached])
        pools[target - start] += below + above + taken
        remaining[reached] -= taken
        i = reached
    # Summing a pool rounds once per atom. Errors of masses move a pool's loss within its range.
    max_atoms = int(np.bincount(np.floor(losses / step).astype(np.int64) - start).max())
    rounding = UNIT * (2.0 * max_atoms + 32.0)
    reach = max(abs(float(losses[0])), abs(float(losses[-1])))
    mass_error, loss_error = errors[0] + rounding, errors[1] + rounding
    loss_error += 4.0 * step * mass_error + 8.0 * UNIT * (1.0 + reach)
    return LossDistribution(step, start, pools, infinite, mass_error, loss_error)
