"""The hidden-slot bound of a matrix, maximised over pairs of records and the others' records.

A triple consists of a pair and the one record that all others hold. Each triple has a cheap upper
bound, as in `worst_pair`; all bounds take one matrix product for each record of the others. Only
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

# Largest numbers of triples whose bound exceeds the largest value so far, and of evaluated triples.
# If there are more, the ceiling is returned.
MAX_NEAR_TRIPLES, MAX_EVALUATED_TRIPLES = 2**18, 2**12
# Triples are not evaluated if the log of their bound exceeds the first value by less than this.
LOG_TOLERANCE = 1e-6
# Squares of larger ratios may overflow.
MAX_RATIO = 1e100


@dataclass(frozen=True, eq=False)
class HiddenSlots:
    """Laws of G (see `hidden_slot`) for triples: the target holds x0 or x1, the slot's user x2.

    The report of an exposed user has the law that all records share. A report that some record
    cannot lead to is treated as revealed if it is the target's; its delta is
    `Atoms.exclusive_delta`, as in the blanket bound.

    Attributes
    ----------
    pairs
        Pairs of records x0, x1.
    eps
        Central budget.
    n
        Number of users, at least 2.
    kappa
        Probability with which a user is exposed.
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
        """Probabilities of the reports of users who are not exposed; 0 for revealed reports."""
        exposed = self.kappa / float(self._shared.sum()) * self._shared
        return np.where(self._shared > 0.0, self.pairs.rows - exposed, 0.0)

    @property
    def possible(self) -> bool:
        """Whether kappa leaves enough of the shared law, and no value overflows."""
        if not 2.0 * self.kappa <= float(self._shared.sum()):
            return False
        used = self._shared > 0.0
        max_ratio = float((self.pairs.rows[:, used] / self._shared[used]).max())
        return max_ratio < MAX_RATIO

    def law(self, x0: int, x1: int, x2: int) -> Atoms:
        """Return the law of G for a triple, with values rounded up, without `exclusive_delta`.

        Parameters
        ----------
        x0, x1, x2
            The target's two possible records, and the record of the user whose slot it takes.
        """
        used = self._shared > 0.0
        first, second = self.pairs.rows[[x0, x1]][:, used]
        law = difference(first, second, self._unexposed[x2][used], self.eps, 1.0)
        # The subtraction in `_unexposed` leaves at least half of each entry.
        return replace(widened(law), units=3.0 * law.units).shifted_outwards(1.0)

    @cached_property
    def _unhidden_log_delta(self) -> Floats:
        """Log of `exclusive_delta` plus the delta if no other user is exposed, for each pair."""
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
        """Return the log of a delta that holds for every pair and data set, rounded up.

        It shows a progress bar on a terminal after a second.

        Parameters
        ----------
        ceiling
            Log of a delta that is known to hold; the result is at most that.
        triples
            Triples to evaluate first, shape ``(triples, 3)``.
        """
        leading = max(triples.tolist(), key=lambda each: log_saddle_point(self.law(*each), self.n))
        leading_law = self.law(*leading)
        if not leading_law.values.max() > 0.0:
            return ceiling
        kernel = Kernel.of(leading_law, self.n, self.kappa)
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
        """Return bounds for all pairs if all others hold x2, shape ``(records, records)``."""
        moments = log_moments(self.pairs.rows, self._unexposed[x2], self.eps, kernel.lam)
        ends = kernel.n * moments + kernel.log_total - np.log(self.n)
        return np.asarray(np.logaddexp(ends, self._unhidden_log_delta) + 1e-9)

    def _evaluated(self, kernel: Kernel, near: Integers, worst: float) -> float:
        """Return the maximum of ``worst`` and these triples' values; inf if there are too many.

        If all triples of a pair are below ``worst`` at the kernel's tilt, every data set is.
        """
        classes, class_of = self._law_classes(near)
        if classes.size > MAX_EVALUATED_TRIPLES:
            return np.inf
        pair_values = dict[tuple[int, int], float]()
        for number in tqdm(classes, desc="data sets", leave=False, disable=None, delay=1.0):
            triple = near[class_of == number]
            x0, x1, x2 = triple[0].tolist()
            end = kernel.log_high(self.law(x0, x1, x2)) - float(np.log(self.n))
            if float(np.logaddexp(end, self._unhidden_log_delta[x0, x1])) + 1e-9 <= worst:
                continue
            for pair in {(x0, x1) for x0, x1, _ in triple.tolist()} - pair_values.keys():
                pair_values[pair] = self._pair_log_delta(*pair)
                worst = max(worst, pair_values[pair])
        return worst

    def _law_classes(self, near: Integers) -> tuple[Integers, Integers]:
        """Return the classes of triples whose laws agree, and the class of each triple."""
        used = self._shared > 0.0
        codes = []
        size = max(2**17 // max(int(used.sum()), 1), 1)
        for part in (near[at : at + size] for at in range(0, len(near), size)):
            first, second = (self.pairs.rows[part[:, side]][:, used] for side in (0, 1))
            gain, error = gains(first, second, self.eps)
            unexposed = self._unexposed[part[:, 2]][:, used]
            unhidden_log_delta = self._unhidden_log_delta[part[:, 0], part[:, 1]]
            codes.append(keys((gain + error) / unexposed, unexposed, unhidden_log_delta))
        if not codes:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        _, class_of = np.unique(np.concatenate(codes), axis=0, return_inverse=True)
        return np.unique(class_of), class_of.ravel()
