"""Privacy loss distributions on a grid, rounded up or down.

The privacy loss is ``log(P/Q)`` of an outcome drawn from P, where P and Q are the laws of the
messages for two neighbouring data sets. Both roundings are certified, with errors of second order
in the step of the grid; those of rounding down are of first order where atoms are few:

* up (`split_up`): an atom with a loss between two grid points is split onto these points such that
  its total probability under P and under Q is unchanged. The original pair is a post-processing of
  the new one, so every hockey-stick divergence grows, for any number of rounds. Outcomes outside
  the truncation windows are counted as infinite loss.
* down (`split_down`): atoms are split after delta was lowered as much as splitting may raise it.
  Outcomes outside the truncation windows are left out.

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
# Number of losses that `LossDistribution.pooled` pools, if there are at least so many.
POOL_SIZE, MIN_SIZE_TO_POOL = 16, 1024
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


@dataclass(frozen=True, eq=False)
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

    @cached_property
    def pooled(self) -> tuple[Floats, Floats]:
        """About the same law with fewer losses: their values and the logs of their masses."""
        _, losses, log_mass = self.support
        if losses.size < MIN_SIZE_TO_POOL:
            return losses, log_mass
        starts = np.arange(0, losses.size, POOL_SIZE)
        largest = np.maximum.reduceat(log_mass, starts)
        weights = np.exp(log_mass - np.repeat(largest, POOL_SIZE)[: losses.size])
        total = np.add.reduceat(weights, starts)
        return np.add.reduceat(weights * losses, starts) / total, largest + np.log(total)


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
        return [split_down(losses, mass, infinite_low, step, errors)]

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
    return split_down(
        np.concatenate([-loss[::-1], loss]),
        np.concatenate([q[::-1], p]),
        max(infinite * (1.0 - mass_error - tally_p.error), 0.0),
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
    rounding error of the grid. The other arguments are those of `split_down`.
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


def split_down(
    losses: Floats, masses: Floats, infinite: float, step: float, errors: tuple[float, float]
) -> LossDistribution:
    """Split atoms onto the grid after lowering delta where needed; they dominate the result.

    As a function of ``alpha = exp(eps)``, delta of the atoms is convex. Splitting them connects its
    values at the grid points by chords, which lie above it. Here the values are lowered first such
    that no chord does, by at least the sum of the atoms' own distances from their chord at both
    ends of a cell of the grid; or, where the upper end cannot be lowered so far, by rounding the
    atoms of the cell down. The result is the convex minorant of the lowered values. It is the delta
    of a pair of laws, also together with other rounds, because their joint delta is a sum of
    delta's values with non-negative weights.

    Parameters
    ----------
    losses, masses
        Atoms in any order, and their non-negative probabilities under P.
    infinite
        Lower bound on the probability of an infinite loss.
    step
        Distance between grid points.
    errors
        Bounds on the relative error of the masses and the absolute error of the losses.
    """
    index = np.floor(losses / step)
    start = int(index.min())
    cell, size = (index - start).astype(np.int64), int(index.max()) - start + 2
    above = (losses - index * step).clip(0.0, step)
    upper = masses * share_above(np.zeros_like(above), above, np.full_like(above, step))
    mass = np.bincount(cell, masses - upper, size) + np.bincount(cell + 1, upper, size)
    # Both lowerings of a cell are at most a share of `mass` at its lower end, without rounding.
    both = np.bincount(cell, upper * -np.expm1(above - step), size)
    lower_only = np.bincount(cell, masses * -np.expm1(-above), size)
    # Delta at the upper end of a cell is at least this, without infinite losses.
    beyond = np.append(np.cumsum(mass[::-1])[::-1][2:], [0.0, 0.0]) * -np.expm1(-step)
    can_lower = both <= beyond
    lowering = np.where(can_lower, both, lower_only)
    lowering[1:] = np.maximum(lowering[1:], np.where(can_lower, both, 0.0)[:-1])
    # Points where the lowered values are not convex are left out until there are none.
    used, passes = np.flatnonzero(mass).astype(np.float64), 0
    mass, lowering = mass[mass > 0.0], lowering[mass > 0.0]
    while True:
        gap = step * np.append(np.diff(used), np.inf)
        fall = np.diff(lowering, prepend=0.0) / -np.expm1(-np.append(np.inf, gap[:-1]))
        with np.errstate(over="ignore"):
            rise = np.diff(lowering, append=0.0) / np.expm1(gap)
        convex = mass + fall - rise > 0.0
        convex[-1] = True
        if convex.all():
            break
        kept, out = np.flatnonzero(convex), np.flatnonzero(~convex)
        following = np.searchsorted(kept, out)
        # Below the first point is only alpha = 0, a loss of minus infinity.
        previous = np.where(following > 0, used[kept[following - 1]], -np.inf)
        share = share_above(
            step * (previous - used[out]),
            np.zeros(out.size),
            step * (used[kept[following]] - used[out]),
        )
        moved = mass[out] * share
        mass_below = np.bincount(following, mass[out] - moved, kept.size + 1)[1:]
        mass = mass[kept] + np.bincount(following, moved, kept.size) + mass_below
        lowering, used, passes = lowering[kept], used[kept], passes + 1
    # Each sum has one rounding error per atom, each pass adds a few; mass that is left out only
    # lowers delta.
    units = 2.0 * int(np.bincount(cell).max()) + 16.0 * passes + 64.0
    rounding = UNIT * units * (mass + np.abs(fall) + np.abs(rise))
    result = np.zeros(size)
    result[used.astype(np.int64)] = (mass + fall - rise - rounding).clip(0.0)
    reach = float(np.abs(losses).max())
    # Where a mass is 0 up to rounding, its sign is uncertain: a few units of its terms.
    mass_error, loss_error = errors[0] + 4.0 * UNIT * units, errors[1] + 8.0 * UNIT * (1.0 + reach)
    return LossDistribution(step, start, result, infinite, mass_error, loss_error)
