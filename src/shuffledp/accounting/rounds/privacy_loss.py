"""Privacy loss distributions on a grid, rounded up or down.

The privacy loss is ``log(P/Q)`` of an outcome drawn from P, where P and Q are the laws of the
messages for two neighbouring data sets. Both roundings are certified, with errors of second order
in the step of the grid; those of rounding down are of first order where atoms are too far apart to
be pooled:

* up: an atom with a loss between two grid points is split onto these points such that its total
  probability under P and under Q is unchanged. The original pair is a post-processing of the new
  one, so every hockey-stick divergence grows, for any number of rounds. Outcomes outside the
  truncation windows are counted as infinite loss.
* down: atoms are pooled such that the log-ratio of P and Q of the pool is on the grid, which is a
  post-processing of the original pair. Atoms too far apart to be pooled are moved to the grid point
  below, which only lowers their loss. Outcomes outside the truncation windows are left out.

Each distribution has bounds on the floating-point errors of its masses and losses, which
composition takes into account.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shuffledp.accounting.pairs import Pair, symmetric_form
from shuffledp.accounting.rounds.outcome_bundles import DEFAULT_DEPTH, bundles, share_above
from shuffledp.accounting.setting import LARGEST_EPS0
from shuffledp.numerics.arrays import UNIT, Floats, Integers

# Grid steps per standard deviation of the loss.
STEPS_PER_DEVIATION = 128
# Log of the largest share of delta that outcomes outside the truncation windows may contribute.
LOG_LEFT_OUT_SHARE = -26.0
# Largest number of grid steps between 0 and the largest loss.
MAX_GRID_STEPS = 2**21
# `rounded_down` first groups the atoms by this many intervals per grid step.
INTERVALS_PER_STEP = 4
# Upper bound on the total probability that underflows: fewer than 1e10 outcomes of 1e-307 each.
UNDERFLOW = 1e-297


def default_step(pair: Pair) -> float:
    """Return a grid step for which rounding changes eps by a relative error of about 1e-5.

    Small losses are close to multiples of ``g / n`` (`SymmetricForm`). A step that divides this
    number places them on the grid.
    """
    form = symmetric_form(pair)
    difference = max(form.weight_difference, 1e-3)
    # Approximately the largest loss, log((weight_s + gain) / difference), limited where it is large
    # or infinite, and without cancellation for a ratio near 1.
    largest_loss = np.log1p((form.weight_difference - difference + 2.0 * form.gain) / difference)
    target_step = min(form.deviation, largest_loss / 8.0) / STEPS_PER_DEVIATION
    spacing = form.gain / form.n
    return float(spacing / np.ceil(spacing / target_step) if spacing > target_step else target_step)


@dataclass(frozen=True)
class LossDistribution:
    """Law of the privacy loss under P, on the points ``step * (start + i)``, i = 0, 1, ...

    Attributes
    ----------
    step
        Distance between grid points, in units of the loss (nats).
    start
        Index of the first grid point.
    mass
        Probabilities of the grid points under P.
    infinite
        Probability of an infinite loss, rounded up or down; rounded up, it includes what truncation
        omits.
    mass_error, loss_error
        Bounds on the floating-point errors: relative for the masses, absolute for the losses.
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

    @cached_property
    def support(self) -> tuple[Integers, Floats, Floats]:
        """Indices and losses of the grid points with mass, and the logs of their masses."""
        used = np.flatnonzero(self.mass)
        return used, self.losses[used], np.log(self.mass[used])


@dataclass(frozen=True)
class Loss:
    """Privacy loss of one round, not yet on a grid: it yields `LossDistribution`s for any step.

    Attributes
    ----------
    deviation, largest
        Approximate standard deviation, and (possibly approximate) largest finite loss.
    up
        Function ``(step, depth)`` that returns the laws of independent losses whose sum dominates
        the loss. ``step`` is the distance between grid points, None for a default; truncation
        omits a probability of about ``exp(-depth)``.
    down
        For each particular data set from which a lower end is computed, a function ``(step)`` that
        returns the laws of independent losses whose sum is this data set's loss, rounded down.
    log_left_out_share
        Log of the largest share of delta that truncated outcomes may contribute.
    """

    deviation: float
    largest: float
    up: Callable[[float | None, float], list[LossDistribution]]
    down: tuple[Callable[[float], list[LossDistribution]], ...] = ()
    log_left_out_share: float = LOG_LEFT_OUT_SHARE


def loss_of_outcomes(
    losses: Floats,
    mass: Floats,
    infinite: float,
    infinite_low: float,
    mass_error: float,
    loss_error: float,
) -> Loss:
    """Return the privacy loss of the outcomes of one cell, which are listed one by one.

    Parameters
    ----------
    losses, mass
        Finite losses of the outcomes, and their probabilities under P; shape ``(m,)`` each.
    infinite, infinite_low
        Upper and lower bounds on the probability of an infinite loss.
    mass_error, loss_error
        See `LossDistribution`.
    """
    errors = (mass_error, loss_error)
    deviation = max(float(np.sqrt(mass @ losses**2)), 1e-300)
    largest = float(np.abs(losses).max())
    default = max(deviation / STEPS_PER_DEVIATION, largest / MAX_GRID_STEPS)

    def up(step: float | None, depth: float) -> list[LossDistribution]:
        del depth  # nothing is truncated
        return [split_up(losses, mass, infinite, step or default, errors)]

    def down(step: float) -> list[LossDistribution]:
        return [pooled_down(losses, mass, infinite_low, step, errors)]

    return Loss(deviation, largest, up, (down,))


def loss_of_cells(cells: Sequence[Loss], step: float | None = None) -> Loss:
    """Return the sum of the losses of independent cells, which is the same for every data set.

    ``step`` is the distance between the points of a grid that contains all losses, if there is one.
    """
    deviation = float(np.sqrt(sum(cell.deviation**2 for cell in cells)))
    largest = sum(cell.largest for cell in cells)
    default = step or max(deviation / STEPS_PER_DEVIATION, largest / MAX_GRID_STEPS)

    def up(step: float | None, depth: float) -> list[LossDistribution]:
        return [law for cell in cells for law in cell.up(step or default, depth)]

    def down(step: float) -> list[LossDistribution]:
        return [law for cell in cells for law in cell.down[0](step)]

    return Loss(deviation, largest, up, (down,))


def loss_of_pair(pair: Pair) -> Loss:
    """Return the loss of a pair in symmetric form that dominates every pair of neighbours."""
    form = symmetric_form(pair)

    def up(step: float | None, depth: float) -> list[LossDistribution]:
        return [rounded_up(pair, step or default_step(pair), depth)]

    largest = min(pair.largest_loss, LARGEST_EPS0)
    deviation = min(form.deviation, largest)
    return Loss(deviation, largest, up)


def mixed(
    laws: Sequence[LossDistribution], shares: Sequence[float], infinite: float, share_error: float
) -> LossDistribution:
    """Return the mixture of distributions on the same grid.

    ``shares`` are their probabilities, with a relative error of ``share_error``. ``infinite`` is an
    additional probability of an infinite loss.
    """
    start = min(law.start for law in laws)
    total = np.zeros(max(law.start + law.mass.size for law in laws) - start)
    for law, share in zip(laws, shares, strict=True):
        total[law.start - start :][: law.mass.size] += share * law.mass
        infinite += share * law.infinite
    mass_error = max(law.mass_error for law in laws) + share_error
    loss_error = max(law.loss_error for law in laws)
    return LossDistribution(laws[0].step, start, total, infinite, mass_error, loss_error)


class Tally:
    """Sums of non-negative weights with the same index, and their relative rounding error."""

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
        """Upper bound on the relative rounding error of the sums: one unit per addition."""
        return UNIT * (self._max_addends + self._parts)


def rounded_up(pair: Pair, step: float, depth: float = DEFAULT_DEPTH) -> LossDistribution:
    """Return a loss distribution on a grid that dominates the pair for any number of rounds.

    The pair must have a symmetric form (`symmetric_form`). Truncation omits a probability of about
    ``exp(-depth)``, which is counted as infinite loss.
    """
    atoms, left_out = bundles(pair, "upper", step, depth)
    tally, infinite, largest = Tally(), left_out, 0.0
    mass_error = loss_error = 0.0
    for losses, masses, *errors in atoms:
        mass_error, loss_error = max(mass_error, errors[0]), max(loss_error, errors[1])
        finite = np.isfinite(losses)
        infinite += float(masses[~finite].sum())
        loss, mass = losses[finite], masses[finite]
        index = np.floor(loss / step)
        above = loss - index * step
        upper = mass * share_above(np.zeros_like(loss), above, np.full_like(loss, step))
        tally.add(index, mass - upper)
        tally.add(index + 1.0, upper)
        largest = max(largest, float(loss.max(initial=0.0)))
    # The tally has the outcomes with u >= 0 (`SymmetricForm`), with half of the probability of u =
    # 0. Those with u < 0 are their mirror image: minus the loss, and exp(-loss) times the
    # probability.
    half = tally.total
    mirror = half * np.exp(-step * np.arange(half.size))
    mass = np.concatenate([mirror[:0:-1], [2.0 * half[0]], half[1:]])
    # If eps0 is large and the depth small, the bound on the omitted probability may exceed 1.
    return LossDistribution(
        step=step,
        start=1 - half.size,
        mass=mass,
        infinite=min(infinite * (1.0 + mass_error + tally.error) + UNDERFLOW, 1.0),
        mass_error=mass_error + tally.error + 8.0 * UNIT * (1.0 + largest),
        loss_error=loss_error + 8.0 * UNIT * largest,
    )


def rounded_down(pair: Pair, step: float) -> LossDistribution:
    """Return a loss distribution on a grid, dominated by the pair for any number of rounds."""
    width = step / INTERVALS_PER_STEP
    tally_p, tally_q, infinite = Tally(), Tally(), 0.0
    mass_error = loss_error = 0.0
    for losses, masses, *errors in bundles(pair, "lower", step)[0]:
        mass_error, loss_error = max(mass_error, errors[0]), max(loss_error, errors[1])
        infinite_atoms = np.isinf(losses)
        infinite += float(masses[infinite_atoms].sum())
        loss, mass = losses[~infinite_atoms], masses[~infinite_atoms]
        index = np.floor(loss / width)
        tally_p.add(index, mass)
        tally_q.add(index, mass * np.exp(-loss))
    keep = tally_q.total > 0.0
    p, q = tally_p.total[keep], tally_q.total[keep]
    loss = np.maximum(np.log(p / q), 0.0)
    tally_error = tally_p.error + tally_q.error + 8.0 * UNIT * (1.0 + float(loss.max(initial=0.0)))
    return pooled_down(
        np.concatenate([-loss[::-1], loss]),
        np.concatenate([q[::-1], p]),
        infinite,
        step,
        (mass_error + tally_error, loss_error + tally_error + 2.0 * width * mass_error),
    )


def split_up(
    losses: Floats,
    masses: Floats,
    infinite: float,
    step: float,
    errors: tuple[float, float],
    index: Floats | None = None,
) -> LossDistribution:
    """Split each atom onto two neighbouring grid points; the result dominates the atoms.

    ``index`` is the index of each atom's lower grid point, which is computed from the loss if it is
    not passed. If it is passed, the exact loss must lie between this point and the next. Each
    computed loss is then raised by its error, within this range, and the result has only the
    rounding error of the grid. The other arguments are those of `pooled_down`.
    """
    mass_error, loss_error = errors
    if index is None:
        index = np.floor(losses / step)
        above = losses - index * step
    else:
        above = losses - index * step + loss_error
        loss_error = 0.0
    # Clipping is necessary because of rounding errors of losses on the grid.
    upper = masses * share_above(
        np.zeros_like(above), above.clip(0.0, step), np.full_like(above, step)
    )
    start = int(index.min())
    tally = Tally()
    tally.add(index - start, masses - upper)
    tally.add(index - start + 1.0, upper)
    largest = float(np.abs(losses).max())
    return LossDistribution(
        step=step,
        start=start,
        mass=tally.total,
        infinite=min(infinite, 1.0),
        mass_error=mass_error + tally.error + 8.0 * UNIT * (1.0 + largest),
        loss_error=loss_error + 8.0 * UNIT * largest,
    )


def pooled_down(
    losses: Floats, masses: Floats, infinite: float, step: float, errors: tuple[float, float]
) -> LossDistribution:
    """Pool neighbouring atoms onto a grid; the atoms dominate the distribution that is returned.

    The atoms below a grid point are pooled with the next atoms above it until the pool has the loss
    of that grid point; the last atom may be divided. If atoms more than one step above would be
    needed, those below are rounded down to the previous grid point instead.

    Parameters
    ----------
    losses, masses
        Atoms in any order (sorting is fastest if they nearly ascend), and their positive
        probabilities under P.
    infinite
        Probability of an infinite loss.
    step
        Distance between grid points.
    errors
        Bounds on the relative error of the masses and the absolute error of the losses.
    """
    order = np.argsort(losses, kind="stable")
    losses, masses = losses[order], masses[order]
    start = int(np.floor(losses[0] / step))
    pools = np.zeros(int(np.floor(losses[-1] / step)) - start + 3)
    # The grid points above and below each atom, and expm1 of the distance: a pool has the loss of
    # a point if the sum of mass * expm1(point - loss) over its atoms is 0. The atoms below the
    # point contribute the deficit, each atom above it a surplus.
    ceiling, floor = np.ceil(losses / step), np.floor(losses / step)
    lack = np.expm1(step * ceiling - losses)
    excess = (-np.expm1(step * floor - losses)).tolist()
    on_grid = (lack <= 0.0).tolist()
    above_index, below_index = (
        (each - start).astype(np.int64).tolist() for each in (ceiling, floor)
    )
    lacking, remaining, atoms = lack.tolist(), masses.tolist(), len(losses)
    i = 0
    while i < atoms:
        point = above_index[i]
        if on_grid[i]:
            pools[point] += remaining[i]
            i += 1
            continue
        below = deficit = 0.0
        while i < atoms and above_index[i] == point and not on_grid[i]:
            below += remaining[i]
            deficit += remaining[i] * lacking[i]
            i += 1
        reached, above = i, 0.0
        while reached < atoms and below_index[reached] == point:
            surplus = excess[reached] * remaining[reached]
            if surplus > deficit:
                break
            above += remaining[reached]
            deficit -= surplus
            reached += 1
        if reached == atoms or below_index[reached] != point:
            pools[point - 1] += below
            continue
        taken = deficit / excess[reached]
        pools[point] += below + above + taken
        remaining[reached] -= taken
        i = reached
    # The sum of a pool has one rounding error per atom. A relative error r of the masses changes a
    # pool's loss by at most r times the range of its losses.
    max_atoms = int(np.bincount(np.floor(losses / step).astype(np.int64) - start).max())
    rounding = UNIT * (2.0 * max_atoms + 32.0)
    reach = max(abs(float(losses[0])), abs(float(losses[-1])))
    mass_error, loss_error = errors[0] + rounding, errors[1] + rounding
    loss_error += 4.0 * step * mass_error + 8.0 * UNIT * (1.0 + reach)
    return LossDistribution(step, start, pools, infinite, mass_error, loss_error)
