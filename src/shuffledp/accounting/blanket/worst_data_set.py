"""Hidden-slot bound of a randomiser with many records, maximised over records of all users.

A *triple* (x0, x1, x2) consists of the target's two possible records and the record that all other
users hold. Cheap upper bounds, as in `worst_pair`, take one matrix product for each x2. Only
triples whose bound exceeds the largest value so far are evaluated.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from tqdm import tqdm

from shuffledp.accounting.blanket.atoms import Atoms, log_saddle_point
from shuffledp.accounting.blanket.coarse_mean_excess import log_moments
from shuffledp.accounting.blanket.hidden_slot import (
    Kernel,
    no_exposure_log_delta,
    uniform_slots_log_high,
)
from shuffledp.accounting.blanket.worst_pair import Pairs, difference, gains, keys, widened
from shuffledp.numerics.arrays import UNIT, Floats, Integers

# Largest number of triples that the cheap bounds do not exclude, and of different laws among them.
# If there are more, the ceiling (another bound) is returned.
MAX_NEAR_TRIPLES, MAX_EVALUATED_TRIPLES = 2**18, 2**12
# Added to the log of the first value. Triples whose bound exceeds that value by less are skipped.
LOG_TOLERANCE = 1e-6
# Squares of larger ratios may overflow.
MAX_RATIO = 1e100


@dataclass(frozen=True, eq=False)
class HiddenSlots:
    """Laws of G (see `hidden_slot`) for triples of records.

    The report of an exposed user has the law that all records share. If the target sends a report
    that has probability 0 for some record, it is treated as revealed; its contribution to delta is
    `Atoms.exclusive_delta`, as in the blanket bound.

    Attributes
    ----------
    pairs
        Pairs of records (x0, x1) that are neighbours.
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
    def _shared(self) -> Floats:
        return np.asarray(self.pairs.rows.min(axis=0))

    @cached_property
    def _unexposed(self) -> Floats:
        """Probability that a user is not exposed and sends y, by record; 0 for revealed reports."""
        exposed = self.kappa / float(self._shared.sum()) * self._shared
        return np.where(self._shared > 0.0, self.pairs.rows - exposed, 0.0)

    @property
    def is_applicable(self) -> bool:
        """Whether kappa is at most half of the shared mass, and no value overflows."""
        if not 2.0 * self.kappa <= float(self._shared.sum()):
            return False
        used = self._shared > 0.0
        max_ratio = float((self.pairs.rows[:, used] / self._shared[used]).max())
        return max_ratio < MAX_RATIO

    def law(self, x0: int, x1: int, x2: int) -> Atoms:
        """Return the law of G for a triple, with values rounded up.

        The target holds x0 or x1; the user whose slot the target's report takes holds x2.
        """
        used = self._shared > 0.0
        first, second = self.pairs.rows[[x0, x1]][:, used]
        law = difference(first, second, self._unexposed[x2][used], self.eps, 1.0)
        # The subtraction in `_unexposed` leaves at least half of each entry.
        return replace(widened(law), units=3.0 * law.units).shifted_outwards(1.0)

    @cached_property
    def _unhidden_log_delta(self) -> Floats:
        """Log of each pair's `exclusive_delta` plus the contribution of no exposed user."""
        local, exclusive_delta = self.pairs.local(self.eps)
        alone = no_exposure_log_delta(
            np.log(np.maximum(local, 1e-300)), self.n - 1, self._exposure_low
        )
        with np.errstate(divide="ignore"):
            return np.asarray(np.logaddexp(np.log(exclusive_delta), alone) + 1e-12)

    @property
    def _exposure_low(self) -> float:
        return self.kappa * (1.0 - (self._shared.size + 8.0) * UNIT)

    def _pair_log_delta(self, x0: int, x1: int) -> float:
        laws = [self.law(x0, x1, x2) for x2 in range(len(self.pairs.rows))]
        log_value = uniform_slots_log_high(laws, self.n, self.kappa)
        return float(np.logaddexp(log_value, self._unhidden_log_delta[x0, x1])) + 1e-12

    def log_high(self, ceiling: float, triples: Integers) -> float:
        """Return an upper bound on log delta that holds for every pair and data set.

        The result is at most ``ceiling``, another upper bound. The ``triples``, shape
        ``(triples, 3)``, are evaluated first. A progress bar appears on a terminal after a second.
        """
        leading = max(triples.tolist(), key=lambda each: log_saddle_point(self.law(*each), self.n))
        leading_law = self.law(*leading)
        if not leading_law.values.max() > 0.0:
            return ceiling
        kernel = Kernel.from_law(leading_law, self.n, self.kappa)
        worst = self._pair_log_delta(*leading[:2]) + LOG_TOLERANCE
        near = list[Integers]()
        records = range(len(self._unexposed))
        for x2 in tqdm(records, desc="records", leave=False, disable=None, delay=1.0):
            ends = self._bounds(kernel, x2)
            pairs = np.argwhere(self.pairs.adjacency & (ends > worst))
            near.append(np.column_stack([pairs, np.full(len(pairs), x2)]))
            if worst >= ceiling or sum(map(len, near)) > MAX_NEAR_TRIPLES:
                return ceiling
        return min(self._evaluated(kernel, np.concatenate(near), worst), ceiling)

    def _bounds(self, kernel: Kernel, x2: int) -> Floats:
        """Return upper bounds on the log delta of each pair if all other users hold x2."""
        moments = log_moments(self.pairs.rows, self._unexposed[x2], self.eps, kernel.lam)
        ends = kernel.n * moments + kernel.log_total - np.log(self.n)
        return np.asarray(np.logaddexp(ends, self._unhidden_log_delta) + 1e-9)

    def _evaluated(self, kernel: Kernel, near: Integers, worst: float) -> float:
        """Return the maximum of ``worst`` and the triples' values; inf if there are too many.

        A pair whose triples are all below ``worst`` with this kernel is below it for all data sets.
        """
        groups, group_of = self._law_groups(near)
        if groups.size > MAX_EVALUATED_TRIPLES:
            return np.inf
        pair_values = dict[tuple[int, int], float]()
        for number in tqdm(groups, desc="data sets", leave=False, disable=None, delay=1.0):
            triple = near[group_of == number]
            x0, x1, x2 = triple[0].tolist()
            end = kernel.log_high(self.law(x0, x1, x2)) - float(np.log(self.n))
            if float(np.logaddexp(end, self._unhidden_log_delta[x0, x1])) + 1e-9 <= worst:
                continue
            for pair in {(x0, x1) for x0, x1, _ in triple.tolist()} - pair_values.keys():
                pair_values[pair] = self._pair_log_delta(*pair)
                worst = max(worst, pair_values[pair])
        return worst

    def _law_groups(self, near: Integers) -> tuple[Integers, Integers]:
        """Group triples with equal laws; return the group numbers, and that of each triple."""
        used = self._shared > 0.0
        codes = []
        size = max(2**17 // max(int(used.sum()), 1), 1)
        for block in (near[at : at + size] for at in range(0, len(near), size)):
            first, second = (self.pairs.rows[block[:, side]][:, used] for side in (0, 1))
            gain, error = gains(first, second, self.eps)
            unexposed = self._unexposed[block[:, 2]][:, used]
            unhidden_log_delta = self._unhidden_log_delta[block[:, 0], block[:, 1]]
            codes.append(keys((gain + error) / unexposed, unexposed, unhidden_log_delta))
        if not codes:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        _, group_of = np.unique(np.concatenate(codes), axis=0, return_inverse=True)
        return np.unique(group_of), group_of.ravel()
