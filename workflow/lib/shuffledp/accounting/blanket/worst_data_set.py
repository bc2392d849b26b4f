"""The hidden slot's bound of a matrix: the worst pair of records, and what all others hold.

As in `worst_pair` every pair, with each record that all others may hold, has a cheap upper bound,
by one product of matrices for each of these records. Only what is above the worst so far is
evaluated.
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

# So many triples may be near the worst, and are evaluated, or the ceiling stands.
_NEAR, _EVALUATED = 2**18, 2**12
# Laws whose bounds differ by less are not told apart.
_TOLERANCE = 1e-6
# Beyond, squares of tilts are no floats.
_LARGEST = 1e100


@dataclass(frozen=True, eq=False)
class HiddenSlots:
    """Laws of G for triples: the target holds x0 or x1, the other whose slot it takes x2.

    What an exposed user reports has the law of what all records share. A report that some record
    cannot lead to is told by name if it is the target's: that is apart, as in the blanket's bound.

    Attributes
    ----------
    pairs
        Of records x0, x1.
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
        """Chances of the reports of who is not exposed; 0 for a report that is apart."""
        exposed = self.kappa / float(self._shared.sum()) * self._shared
        return np.where(self._shared > 0.0, self.pairs.rows - exposed, 0.0)

    @property
    def possible(self) -> bool:
        """Whether enough is left of what all share, and values are no larger than floats bear."""
        if not 2.0 * self.kappa <= float(self._shared.sum()):
            return False
        used = self._shared > 0.0
        most = float((self.pairs.rows[:, used] / self._shared[used]).max())
        return most < _LARGEST

    def law(self, x0: int, x1: int, x2: int) -> Atoms:
        """G of a triple, its values moved up. Without what is apart.

        Parameters
        ----------
        x0, x1, x2
            What the target holds, or would hold, and who has the slot.
        """
        used = self._shared > 0.0
        first, second = self.pairs.rows[[x0, x1]][:, used]
        law = difference(first, second, self._left[x2][used], self.eps, 1.0)
        # At least half of each entry is left.
        return replace(widened(law), units=3.0 * law.units).safe(1.0)

    @cached_property
    def _apart(self) -> Floats:
        """Log of what is apart, and of what leaks if nobody is exposed; of each pair."""
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
        """Log of a delta that holds for every pair and data set, rounded up.

        A progress bar on a terminal where it takes more than a second.

        Parameters
        ----------
        ceiling
            Log of a delta that is known to hold; the answer is at most that.
        held
            Triples to look at first, shape ``(triples, 3)``.
        """
        leading = max(held.tolist(), key=lambda each: log_saddle_point(self.law(*each), self.n))
        lead = self.law(*leading)
        if not lead.values.max() > 0.0:
            return ceiling
        kernel = Kernel.of(lead, self.n, self.kappa)
        worst = self._of_pair(*leading[:2]) + _TOLERANCE
        near = list[Integers]()
        records = range(len(self._left))
        for x2 in tqdm(records, desc="records", leave=False, disable=None, delay=1.0):
            ends = self._bounds(kernel, x2)
            pairs = np.argwhere(self.pairs.among & (ends > worst))
            near.append(np.column_stack([pairs, np.full(len(pairs), x2)]))
            if worst >= ceiling or sum(map(len, near)) > _NEAR:
                return ceiling
        return min(self._evaluated(kernel, np.concatenate(near), worst), ceiling)

    def _bounds(self, kernel: Kernel, x2: int) -> Floats:
        """Of all pairs at once, all others holding one record; shape ``(records, records)``."""
        moments = log_moments(self.pairs.rows, self._left[x2], self.eps, kernel.lam)
        ends = kernel.n * moments + kernel.log_total - np.log(self.n)
        return np.asarray(np.logaddexp(ends, self._apart) + 1e-9)

    def _evaluated(self, kernel: Kernel, near: Integers, worst: float) -> float:
        """The worst, where these triples may be above it; inf if they are too many.

        A pair whose triples are all below, at the one tilt, is: so is each data set.
        """
        order, agreeing = self._merged(near)
        if order.size > _EVALUATED:
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
        """Numbers of sets of triples whose laws agree, and the set of each triple."""
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
