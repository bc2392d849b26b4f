"""The hidden-slot bound of a matrix: its maximum over pairs of records and others' records.

As in `worst_pair`, every pair with each record that all others may hold has a cheap upper bound, by
one matrix product for each of these records. Only triples whose bound is above the largest value so
far are evaluated.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from tqdm import tqdm

from shuffledp.accounting.blanket.atoms import Atoms, log_saddle_point
from shuffledp.accounting.blanket.coarse_mean_excess import log_moments
from shuffledp.accounting.blanket.hidden_slot import Kernel, all_alike_log_high, alone_log_delta
from shuffledp.accounting.blanket.worst_pair import Pairs, difference, gains, keys, widened
from shuffledp.numerics.arrays import UNIT, Floats, Integers

# Largest numbers of triples near the worst and of evaluated ones; with more the ceiling is
# returned.
MAX_NEAR_TRIPLES, MAX_EVALUATED_TRIPLES = 2**18, 2**12
# Laws whose bounds differ by less are not distinguished.
LOG_TOLERANCE = 1e-6
# Squares of larger ratios may overflow.
MAX_RATIO = 1e100


@dataclass(frozen=True, eq=False)
class HiddenSlots:
    """Laws of G for triples: the target holds x0 or x1, and the user whose slot it takes holds x2.

    The report of an exposed user has the law that all records share. A report that some record
    cannot lead to is treated as revealed if it is the target's; its delta is `Atoms.apart`, as in
    the blanket bound.

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
    def _left(self) -> Floats:
        """Probabilities of the reports of users who are not exposed; 0 for revealed reports."""
        exposed = self.kappa / float(self._shared.sum()) * self._shared
        return np.where(self._shared > 0.0, self.pairs.rows - exposed, 0.0)

    @property
    def possible(self) -> bool:
        """Whether kappa leaves enough of the shared law, and values do not overflow."""
        if not 2.0 * self.kappa <= float(self._shared.sum()):
            return False
        used = self._shared > 0.0
        most = float((self.pairs.rows[:, used] / self._shared[used]).max())
        return most < MAX_RATIO

    def law(self, x0: int, x1: int, x2: int) -> Atoms:
        """Return the law of G for a triple, its values moved up, without `apart`.

        Parameters
        ----------
        x0, x1, x2
            The target's two possible records, and the record of the user whose slot it takes.
        """
        used = self._shared > 0.0
        first, second = self.pairs.rows[[x0, x1]][:, used]
        law = difference(first, second, self._left[x2][used], self.eps, 1.0)
        # The subtraction leaves at least half of each entry.
        return replace(widened(law), units=3.0 * law.units).safe(1.0)

    @cached_property
    def _apart(self) -> Floats:
        """Log of the sum of `apart` and the delta if nobody is exposed, for each pair."""
        local, apart = self.pairs.local(self.eps)
        alone = alone_log_delta(np.log(np.maximum(local, 1e-300)), self.n - 1, self._exposed)
        with np.errstate(divide="ignore"):
            return np.asarray(np.logaddexp(np.log(apart), alone) + 1e-12)

    @property
    def _exposed(self) -> float:
        return self.kappa * (1.0 - (self._shared.size + 8.0) * UNIT)

    def _of_pair(self, x0: int, x1: int) -> float:
        laws = [self.law(x0, x1, x2) for x2 in range(len(self.pairs.rows))]
        found = all_alike_log_high(laws, self.n, self.kappa)
        return float(np.logaddexp(found, self._apart[x0, x1])) + 1e-12

    def log_high(self, ceiling: float, held: Integers) -> float:
        """Return the log of a delta that holds for every pair and data set, rounded up.

        It shows a progress bar on a terminal after a second.

        Parameters
        ----------
        ceiling
            Log of a delta that is known to hold; the result is at most that.
        held
            Triples to evaluate first, shape ``(triples, 3)``.
        """
        leading = max(held.tolist(), key=lambda each: log_saddle_point(self.law(*each), self.n))
        leading_law = self.law(*leading)
        if not leading_law.values.max() > 0.0:
            return ceiling
        kernel = Kernel.of(leading_law, self.n, self.kappa)
        worst = self._of_pair(*leading[:2]) + LOG_TOLERANCE
        near = list[Integers]()
        records = range(len(self._left))
        for x2 in tqdm(records, desc="records", leave=False, disable=None, delay=1.0):
            ends = self._bounds(kernel, x2)
            pairs = np.argwhere(self.pairs.among & (ends > worst))
            near.append(np.column_stack([pairs, np.full(len(pairs), x2)]))
            if worst >= ceiling or sum(map(len, near)) > MAX_NEAR_TRIPLES:
                return ceiling
        return min(self._evaluated(kernel, np.concatenate(near), worst), ceiling)

    def _bounds(self, kernel: Kernel, x2: int) -> Floats:
        """Return bounds for all pairs if all others hold x2, shape ``(records, records)``."""
        moments = log_moments(self.pairs.rows, self._left[x2], self.eps, kernel.lam)
        ends = kernel.n * moments + kernel.log_total - np.log(self.n)
        return np.asarray(np.logaddexp(ends, self._apart) + 1e-9)

    def _evaluated(self, kernel: Kernel, near: Integers, worst: float) -> float:
        """Return the largest value, where these triples may exceed it; inf if they are too many.

        If all triples of a pair are below at the one tilt, so is every data set of the pair.
        """
        order, agreeing = self._merged(near)
        if order.size > MAX_EVALUATED_TRIPLES:
            return np.inf
        own = dict[tuple[int, int], float]()
        for number in tqdm(order, desc="data sets", leave=False, disable=None, delay=1.0):
            triple = near[agreeing == number]
            x0, x1, x2 = triple[0].tolist()
            end = kernel.log_high(self.law(x0, x1, x2)) - float(np.log(self.n))
            if float(np.logaddexp(end, self._apart[x0, x1])) + 1e-9 <= worst:
                continue
            for pair in {(x0, x1) for x0, x1, _ in triple.tolist()} - own.keys():
                own[pair] = self._of_pair(*pair)
                worst = max(worst, own[pair])
        return worst

    def _merged(self, near: Integers) -> tuple[Integers, Integers]:
        """Return the classes of triples whose laws agree, and the class of each triple."""
        used = self._shared > 0.0
        found = []
        size = max(2**17 // max(int(used.sum()), 1), 1)
        for part in (near[at : at + size] for at in range(0, len(near), size)):
            first, second = (self.pairs.rows[part[:, side]][:, used] for side in (0, 1))
            gain, error = gains(first, second, self.eps)
            left = self._left[part[:, 2]][:, used]
            apart = self._apart[part[:, 0], part[:, 1]]
            found.append(keys((gain + error) / left, left, apart))
        if not found:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        _, agreeing = np.unique(np.concatenate(found), axis=0, return_inverse=True)
        return np.unique(agreeing), agreeing.ravel()
