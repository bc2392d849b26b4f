"""Bounds on the delta of a randomiser given by its matrix: the maximum over all pairs of records.

Any record of the target may be replaced by any other, so an upper end must hold for every ordered
pair (x0, x1). Each pair has a cheap upper bound: its delta without a shuffler or Chernoff's bound,
which takes one matrix product for all pairs. Pairs are evaluated in descending order of this bound
until it is at most the largest value so far. ``R(y|x)`` is the probability of report y for record
x.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
from tqdm import tqdm

from shuffledp.accounting.blanket.atoms import Atoms, log_saddle_point, tilt
from shuffledp.accounting.blanket.hidden_slot import (
    Kernel,
    no_exposure_log_delta,
    uniform_slots_log_high,
)
from shuffledp.accounting.blanket.mean_excess import (
    SPLITTING_LOG_TOLERANCE,
    log_mean_excess_high,
)
from shuffledp.numerics.arrays import UNIT, Floats, Integers

# Relative error of values and masses, in units of rounding, due to three entries and exp(eps).
ENTRY_UNITS = 16.0
# Up to this number of pairs, all are candidates for the pair that is evaluated first.
MAX_PAIRS_WITHOUT_CHOICE = 20
# Tolerances with which a pair is evaluated, one after the other, while it may be the worst one.
LOG_TOLERANCES = (0.05, 5e-4, SPLITTING_LOG_TOLERANCE)
# Largest number of different laws that are evaluated. If there are more, the largest cheap bound of
# the other pairs is used or, for triples, the ceiling (another bound).
MAX_EVALUATED_LAWS = 2**12
# Largest number of triples that the cheap bounds do not exclude, with the same consequence.
MAX_NEAR_TRIPLES = 2**18
# Added to the log of the first value of a pair with a hidden slot. Triples whose bound exceeds that
# value by less are skipped.
LOG_TOLERANCE = 1e-6
# Number of additional triples in `with_others_record`.
KEPT_TRIPLES = 16
# Exponentials of exponents up to this size do not overflow.
MAX_EXPONENT = 300.0
# Squares of larger ratios may overflow.
MAX_RATIO = 1e100
# A progress bar, on a terminal, after a second.
_BAR: Final[Any] = {"leave": False, "disable": None, "delay": 1.0}


def difference(first: Floats, second: Floats, shared: Floats, eps: float, sign: float) -> Atoms:
    """Return the law of ``G = (R(y|x0) - exp(eps) R(y|x1)) / w(y)``, where y has mass w(y).

    Parameters
    ----------
    first, second
        ``R(.|x0)`` and ``R(.|x1)``, shape ``(reports,)``, accurate to 2 units of rounding.
    shared
        w, equally accurate. Reports with ``w(y) = 0`` contribute the positive part of the
        difference to `Atoms.exclusive_delta`.
    eps
        Central budget.
    sign
        Direction in which `exclusive_delta` is rounded: up (1) or down (-1).
    """
    used = shared > 0.0
    gain, error = gains(first, second, eps)
    exclusive_delta = _exclusive_delta(gain[~used] + sign * error[~used], sign)
    mass = shared[used]
    return Atoms(gain[used] / mass, mass, ENTRY_UNITS, error[used] / mass, float(exclusive_delta))


def gains(first: Floats, second: Floats, eps: float) -> tuple[Floats, Floats]:
    """Return ``R(y|x0) - exp(eps) R(y|x1)`` and its absolute error.

    ``first`` and ``second`` are ``R(.|x0)`` and ``R(.|x1)``, and are broadcast. The error covers 2
    units of rounding of each entry and of exp(eps), and the rounding of the difference. Where the
    first entry is 0, the error is set to 0: the difference is certainly not positive.
    """
    gain = (first - second) - np.expm1(eps) * second
    error = 16.0 * UNIT * (first + np.exp(eps) * second)
    return gain, np.where(first > 0.0, error, 0.0)


def _exclusive_delta(gains: Floats, sign: float) -> Floats:
    total = np.maximum(gains, 0.0).sum(axis=-1)
    return np.asarray(total * (1.0 + sign * (gains.shape[-1] + 8.0) * UNIT))


def distances(rows: Floats, others: Floats) -> Floats:
    """Return squared distances of all pairs of rows, weighted by the inverse of ``others``.

    They estimate how well two records can be distinguished among reports with the law ``others``.
    """
    # Reports that the others never send get a huge weight: they distinguish rows with certainty.
    scaled = rows / np.sqrt(np.maximum(others, UNIT * rows.max(axis=0)))
    squares = (scaled**2).sum(axis=1)
    return np.asarray(squares[:, None] + squares - 2.0 * scaled @ scaled.T)


def log_moments(rows: Floats, masses: Floats, eps: float, lam: float) -> Floats:
    """Return upper bounds on ``log E[exp(lam G)]`` for all pairs of rows; all inf if one overflows.

    ``masses`` is w of `difference`, shape ``(reports,)``. The result has shape
    ``(records, records)``.
    """
    used = masses > 0.0
    ratios = rows[:, used] / masses[used]
    if lam * float(ratios.max(initial=0.0)) > MAX_EXPONENT:
        return np.full((len(rows), len(rows)), np.inf)
    zero_mass = max(1.0 - float(masses.sum()) + masses.size * UNIT, 0.0)
    # Raising very negative exponents can only raise the moment.
    downs = np.maximum(-lam * np.exp(eps) * ratios, -MAX_EXPONENT)
    products = (masses[used] * np.exp(lam * ratios)) @ np.exp(downs).T
    rounding = masses.size + 64.0 * (MAX_EXPONENT + 1.0)
    return np.asarray(np.log(products + zero_mass) + 2.0 * rounding * UNIT)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Ordered pairs of different records.

    Attributes
    ----------
    rows
        Probabilities of the reports for each record, shape ``(records, reports)``, accurate to 2
        units of rounding.
    """

    rows: Floats

    @cached_property
    def shared(self) -> Floats:
        """The privacy blanket: for each report its smallest probability over all records."""
        return np.asarray(self.rows.min(axis=0))

    def law(self, pair: Integers, eps: float) -> Atoms:
        """Return the law of G under the privacy blanket for a pair, with values rounded up."""
        first, second = self.rows[pair]
        return difference(first, second, self.shared, eps, 1.0)

    def distinguishable(self, horizon: float) -> Integers:
        """Return a few dozen pairs, shape ``(pairs, 2)``; one is probably close to the worst.

        ``horizon`` is the largest eps of interest.
        """
        count = len(self.rows)
        different = ~np.eye(count, dtype=bool)
        if different.sum() <= MAX_PAIRS_WITHOUT_CHOICE:
            return np.argwhere(different)
        tables = [self.local(share * horizon)[0] for share in (0.0, 0.02, 0.1, 0.3, 0.6, 0.9)]
        flat_indices = set[int]()
        for table in (*tables, distances(self.rows, self.shared)):
            np.fill_diagonal(table, -np.inf)
            flat_indices |= set(np.argpartition(table.ravel(), -2)[-2:].tolist())
        pairs = np.stack(np.divmod(np.array(sorted(flat_indices)), count), axis=1)
        return np.unique(np.concatenate([pairs, pairs[:, ::-1]]), axis=0)

    def with_others_record(self, distinguishable: Integers) -> Integers:
        """Return a few dozen triples for which delta is probably large, one in each row.

        A triple ``(x0, x1, x2)`` is a pair and the record that all other users hold. The argument
        is the result of the method `distinguishable`, whose pairs are included.
        """
        count = len(self.rows)
        best = np.full(len(distinguishable), -np.inf)
        best_record = np.zeros(len(distinguishable), np.int64)
        largest, pairs = np.empty(count), np.empty((count, 2), np.int64)
        for record, others in enumerate(self.rows):
            table = distances(self.rows, others)
            np.fill_diagonal(table, -np.inf)
            current = table[distinguishable[:, 0], distinguishable[:, 1]]
            best_record = np.where(current > best, record, best_record)
            best = np.maximum(best, current)
            pairs[record] = np.divmod(int(table.argmax()), count)
            largest[record] = table[tuple(pairs[record])]
        kept = np.argsort(-largest, kind="stable")[:KEPT_TRIPLES]
        triples = np.concatenate(
            [np.column_stack([distinguishable, best_record]), np.column_stack([pairs[kept], kept])]
        )
        return np.unique(np.concatenate([triples, triples[:, [1, 0, 2]]]), axis=0)

    def log_high_estimate(
        self, eps: float, n: int, distinguishable: Integers
    ) -> tuple[float, Atoms]:
        """Return a cheap estimate of `log_high`, without a guarantee, and the law of its pair."""
        laws = [self.law(pair, eps) for pair in distinguishable]
        values = [log_saddle_point(law, n) for law in laws]
        return max(values), laws[int(np.argmax(values))]

    def local(self, eps: float) -> tuple[Floats, Floats]:
        """Return the delta of each pair without a shuffler, and its `Atoms.exclusive_delta`.

        Both are rounded up and have shape ``(records, records)``.
        """
        not_shared = self.shared == 0.0
        total, exclusive_delta = np.empty((2, len(self.rows), len(self.rows)))
        for x, first in enumerate(self.rows):
            gain, error = gains(first, self.rows, eps)
            total[x] = _exclusive_delta(gain + error, 1.0)
            exclusive_delta[x] = _exclusive_delta((gain + error)[:, not_shared], 1.0)
        return total, exclusive_delta

    def log_high(self, eps: float, n: int, distinguishable: Integers) -> float:
        """Return an upper bound on the log mean excess of n copies of G for every pair.

        This is the blanket bound on log delta of n users. One of the pairs ``distinguishable`` is
        evaluated first. A progress bar appears on a terminal after a second.
        """
        _, first = self.log_high_estimate(eps, n, distinguishable)
        worst, evaluated = log_mean_excess_high(first, n), {_key(first)}
        bounds = self._chernoff_bounds(first, eps, n)
        pairs = np.argwhere(bounds > worst)
        pairs = pairs[np.argsort(-bounds[tuple(pairs.T)], kind="stable")]
        for pair in tqdm(pairs, **_BAR, desc="pairs of records"):
            if bounds[tuple(pair)] <= worst or len(evaluated) > MAX_EVALUATED_LAWS:
                # The bound of this pair is the largest of those that remain.
                return max(worst, float(bounds[tuple(pair)]))
            law = self.law(pair, eps)
            if (key := _key(law)) in evaluated:
                continue
            evaluated.add(key)
            for tolerance in LOG_TOLERANCES:
                if (high := log_mean_excess_high(law, n, tolerance)) <= worst:
                    break
            worst = max(worst, high)
        return worst

    def _chernoff_bounds(self, first: Atoms, eps: float, n: int) -> Floats:
        """Return upper bounds on the log mean excess of each pair, shape ``(records, records)``.

        They are Chernoff's for several tilts around that of the law ``first``, or log delta without
        a shuffler if that is smaller.
        """
        with np.errstate(divide="ignore"):
            bounds, log_exclusive_delta = np.log(self.local(eps))
        law = first.shifted_outwards(1.0)
        if (top := float(law.values.max(initial=0.0))) > 0.0:
            best = tilt(law.values / top, law.masses, n).lam / top
            for lam in best * 2.0 ** np.arange(-3.0, 4.0):
                # x_+ is at most exp(lam x) / (e lam).
                logs = n * log_moments(self.rows, self.shared, eps, lam) - 1.0 - np.log(lam * n)
                bounds = np.minimum(bounds, np.logaddexp(logs, log_exclusive_delta))
        np.fill_diagonal(bounds, -np.inf)
        return np.asarray(bounds + 1e-9)


@dataclass(frozen=True, eq=False)
class HiddenSlots:
    """Laws of G (see `hidden_slot`) for triples of records ``(x0, x1, x2)``.

    The target holds x0 or x1, the user whose slot the target's report takes x2. The report of an
    exposed user has the law that all records share. If the target sends a report that has
    probability 0 for some record, it is treated as revealed; its contribution to delta is
    `Atoms.exclusive_delta`, as in the blanket bound.

    Attributes
    ----------
    pairs
        Pairs of records (x0, x1).
    eps
        Central budget.
    n
        Number of users, at least 2.
    kappa
        Probability that a user is exposed.
    """

    pairs: Pairs
    eps: float
    n: int
    kappa: float

    @cached_property
    def _unexposed(self) -> Floats:
        """Probability that a user is not exposed and sends y, by record; 0 for revealed reports."""
        shared = self.pairs.shared
        exposed = self.kappa / float(shared.sum()) * shared
        return np.where(shared > 0.0, self.pairs.rows - exposed, 0.0)

    @property
    def is_applicable(self) -> bool:
        """Whether kappa is at most half of the shared mass, and no value overflows."""
        shared = self.pairs.shared
        if not 2.0 * self.kappa <= float(shared.sum()):
            return False
        used = shared > 0.0
        return float((self.pairs.rows[:, used] / shared[used]).max()) < MAX_RATIO

    def law(self, x0: int, x1: int, x2: int) -> Atoms:
        """Return the law of G for a triple, with values rounded up."""
        used = self.pairs.shared > 0.0
        first, second = self.pairs.rows[[x0, x1]][:, used]
        law = difference(first, second, self._unexposed[x2][used], self.eps, 1.0)
        # The subtraction in `_unexposed` leaves at least half of each entry.
        return replace(law, units=3.0 * law.units).shifted_outwards(1.0)

    @cached_property
    def _unhidden_log_delta(self) -> Floats:
        """Log of each pair's `exclusive_delta` plus the contribution of no exposed user."""
        local, exclusive_delta = self.pairs.local(self.eps)
        kappa_low = self.kappa * (1.0 - (self.pairs.shared.size + 8.0) * UNIT)
        alone = no_exposure_log_delta(np.log(np.maximum(local, 1e-300)), self.n - 1, kappa_low)
        with np.errstate(divide="ignore"):
            return np.asarray(np.logaddexp(np.log(exclusive_delta), alone) + 1e-12)

    def _pair_log_delta(self, x0: int, x1: int) -> float:
        laws = [self.law(x0, x1, x2) for x2 in range(len(self.pairs.rows))]
        log_value = uniform_slots_log_high(laws, self.n, self.kappa)
        return float(np.logaddexp(log_value, self._unhidden_log_delta[x0, x1])) + 1e-12

    def log_high(self, ceiling: float, triples: Integers) -> float:
        """Return an upper bound on log delta that holds for every pair and data set.

        The result is at most ``ceiling``, another upper bound. One of the ``triples``, shape
        ``(triples, 3)``, is evaluated first. A progress bar appears on a terminal after a second.
        """
        leading = max(triples.tolist(), key=lambda each: log_saddle_point(self.law(*each), self.n))
        leading_law = self.law(*leading)
        if not leading_law.values.max() > 0.0:
            return ceiling
        kernel = Kernel.from_law(leading_law, self.n, self.kappa)
        worst = self._pair_log_delta(*leading[:2]) + LOG_TOLERANCE
        near, bounds = list[Integers](), list[Floats]()
        for x2 in tqdm(range(len(self._unexposed)), **_BAR, desc="records"):
            ends = self._bounds(kernel, x2)
            pairs = np.argwhere(ends > worst)
            near.append(np.column_stack([pairs, np.full(len(pairs), x2)]))
            bounds.append(ends[ends > worst])
            if worst >= ceiling or sum(map(len, near)) > MAX_NEAR_TRIPLES:
                return ceiling
        values, evaluated = dict[bytes, float](), {(leading[0], leading[1])}
        order = np.argsort(-np.concatenate(bounds), kind="stable")
        for x0, x1, x2 in tqdm(np.concatenate(near)[order].tolist(), **_BAR, desc="data sets"):
            if (x0, x1) in evaluated:
                continue
            # A pair whose triples are all below ``worst`` with this kernel is below it for all
            # data sets.
            law = self.law(x0, x1, x2)
            if (key := _key(law)) not in values:
                values[key] = kernel.log_high(law) - float(np.log(self.n))
                if len(values) > MAX_EVALUATED_LAWS:
                    return ceiling
            if np.logaddexp(values[key], self._unhidden_log_delta[x0, x1]) + 1e-9 > worst:
                evaluated.add((x0, x1))
                worst = max(worst, self._pair_log_delta(x0, x1))
        return min(worst, ceiling)

    def _bounds(self, kernel: Kernel, x2: int) -> Floats:
        """Return upper bounds on the log delta of each pair if all other users hold x2."""
        moments = log_moments(self.pairs.rows, self._unexposed[x2], self.eps, kernel.lam)
        ends = kernel.n * moments + kernel.log_total - np.log(self.n)
        ends = np.logaddexp(ends, self._unhidden_log_delta) + 1e-9
        np.fill_diagonal(ends, -np.inf)
        return np.asarray(ends)


def _key(law: Atoms) -> bytes:
    """Return bytes that are equal for laws that differ in the order of their atoms alone."""
    atoms = np.stack([law.values, law.masses, np.broadcast_to(law.errors, law.values.shape)])
    return atoms[:, np.lexsort(atoms)].tobytes() + np.float64(law.exclusive_delta).tobytes()
