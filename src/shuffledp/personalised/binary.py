"""Bounds on delta of shuffled binary reports with personal budgets, over all data sets.

The analyst sees the number of reports of x0, one of two cells. Neighbouring data sets differ in the
record of one user, the target. A data set is the number of other users who hold x0, for each
budget. Let f be the law of the count of x0 among the others' reports, let p and q be the
probabilities that the target reports x0 if it holds x0 and if it holds x1, and let e be the
exponential of the central budget. As with equal budgets (`one_round.single_bin`), the hockey-stick
divergence is the sum over s of

    (p f(s-1) + q f(s) - e (q f(s-1) + p f(s)))_+ = (p - e q) (f(s-1) - kappa f(s))_+,
    kappa = (e p - q) / (p - e q).

Since f is the law of a sum of binomials, it is log-concave, and the terms are positive from some t
on. Exchanging x0 and x1 mirrors the count, so one direction of the divergence suffices.

**Search over data sets.** A block is a range ``low..high`` of counts for each budget. Suppose that
the adversary learns the records of ``high - low`` users of each budget, the revealed users. Then,
for every data set of the block, low holders of x0 remain, and ``c - high`` holders of x1, where c
is the number of users with that budget. Additional knowledge cannot decrease the divergence, so the
divergence with the remaining users is an upper bound for the block. The block with the largest
bound is halved repeatedly.

**Rounding budgets up is safe.** A report that is true with probability p' equals a report that is
true with probability p > p' of a record that was flipped with probability (p - p')/(p - q). So with
smaller budgets, the others' reports are a mixture over data sets with larger budgets. Divergence is
convex, so the worst of these data sets has at least the divergence of the mixture.

**The target with the largest budget is the worst.** Let A < B be the budgets of two users, and f
the generating function of the count of all other users. Let a(z) and a'(z) be those of the report
of user A with record x0 and x1, and b(z) and b'(z) those of user B. Let A be the target. If B holds
x0, the two hypotheses are ``a b f`` and ``a' b f``; if the roles are exchanged, so that B is the
target and A holds x0, they are ``b a f`` and ``b' a f``. Here
``b' a - a' b = (p_B - p_A) (1 - z^2)``: over the counts from t on, the second law loses
``(p_B - p_A) (f(t-1) + f(t-2))``, so the divergence increases. If B holds x1, the exchanged pair is
``b a' f`` and ``b' a' f``, with the same second law, and
``b a' - a b' = (p_B - p_A) (z^2 - 1)``: the first law gains that much. So no target's worst data
set has a larger divergence than that of the largest budget.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from shuffledp.accounting.laws.binomial_sum import Chance
from shuffledp.accounting.laws.multinomial import LogInterval
from shuffledp.accounting.one_round.single_bin import log_divergence_ends
from shuffledp.numerics.arrays import Floats, Integers
from shuffledp.personalised.groups import BudgetGroups

# With more distinct budgets of others, budgets are rounded up to the next larger one.
_MAX_GROUPS = 4
# Budgets are also rounded up if the others' variance decreases by at most this share.
_MERGED_VARIANCE = 1e-6
# Largest number of blocks that are halved at once, and of blocks that are evaluated.
_BLOCKS_AT_ONCE, _MAX_BLOCKS = 256, 4_000
# Absolute tolerance of log delta; the relative error of eps is smaller.
_LOG_DELTA_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Search:
    """Search for the data set with the largest divergence, by bounds for blocks of data sets.

    ``budget`` is the target's local budget, which exceeds the central budget ``eps``.
    """

    eps: float
    budget: float
    others: BudgetGroups

    def ends(self, low: Integers, high: Integers) -> tuple[Floats, Floats]:
        """Return lower and upper bounds on the log divergence with each block's remaining users.

        ``low`` and ``high`` have shape ``(blocks, groups)``.
        """
        parts = []
        for group, budget in enumerate(self.others.values):
            truth = Chance(float(expit(budget)), float(expit(-budget)))
            parts.append((low[:, group], truth))
            parts.append((self.others.counts[group] - high[:, group], truth.complement))
        gain = float(expit(-self.budget)) * float(
            np.exp(self.eps) * np.expm1(self.budget - self.eps)
        )
        if not parts:
            parts = [(np.zeros(low.shape[0], np.int64), Chance(0.5, 0.5))]
        units = 8.0 + self.budget  # as in `single_bin.forward_ends`
        return log_divergence_ends(gain, units, float(np.expm1(self.eps)), *parts)

    def halved(self, low: Integers, high: Integers) -> tuple[Integers, Integers]:
        """Return both halves of each block, cut along the group that contributes most variance."""
        spreads = (high - low) * _variances(self.others)
        rows, column = np.arange(low.shape[0]), np.argmax(spreads, axis=1)
        middle = (low[rows, column] + high[rows, column]) // 2
        first, second = high.copy(), low.copy()
        first[rows, column], second[rows, column] = middle, middle + 1
        return np.concatenate([low, second]), np.concatenate([first, high])


def _variances(groups: BudgetGroups) -> Floats:
    return np.asarray(expit(groups.values) * expit(-groups.values))


def merge_budgets(others: BudgetGroups) -> BudgetGroups:
    """Return groups with at most four distinct budgets, obtained by rounding budgets up."""
    values, counts = others.values.tolist(), others.counts.tolist()
    variances = _variances(others).tolist()
    total = float(np.dot(variances, counts))
    while len(values) > 1:
        costs = [counts[i] * (variances[i] - variances[i + 1]) for i in range(len(values) - 1)]
        i = int(np.argmin(costs))
        if len(values) <= _MAX_GROUPS and costs[i] > _MERGED_VARIANCE * total:
            break
        counts[i + 1] += counts[i]
        del values[i], counts[i], variances[i]
    return BudgetGroups(np.array(values, np.float64), np.array(counts, np.int64))


def worst(eps: float, budget: float, others: BudgetGroups, known_upper: float) -> LogInterval:
    """Return bounds on the log of the largest delta over all data sets, with rounded budgets.

    ``budget`` is the target's, and ``others`` are in order of budget. The upper end holds for the
    actual budgets too; the lower end only for those of `merge_budgets`. The search stops when a
    data set attains ``known_upper``, a known upper bound, within the tolerance, or after
    `_MAX_BLOCKS` blocks. The upper end is the largest bound of a remaining block.
    """
    if eps >= budget:
        return LogInterval(-np.inf, -np.inf)
    search = Search(eps, budget, merge_budgets(others))
    low, high = np.zeros_like(search.others.counts)[None], search.others.counts[None]
    bound = search.ends(low, high)[1]
    best, visited = float(search.ends(high, high)[0][0]), 0
    while visited < _MAX_BLOCKS and min(bound.max(), known_upper) > best + _LOG_DELTA_TOLERANCE:
        order = np.argsort(-bound, kind="stable")[:_BLOCKS_AT_ONCE]
        order = order[(bound[order] > best) & (high[order] > low[order]).any(axis=1)]
        if not order.size:
            break
        new_low, new_high = search.halved(low[order], high[order])
        values, new_bound = search.ends(new_low, new_high)
        single = (new_low == new_high).all(axis=1)
        corners = search.ends(new_high, new_high)[0]
        best = max(best, float(values[single].max(initial=-np.inf)), float(corners.max()))
        visited += new_bound.size
        whole = np.ones(bound.size, np.bool_)
        whole[order] = False
        low, high = np.concatenate([low[whole], new_low]), np.concatenate([high[whole], new_high])
        bound = np.concatenate([bound[whole], new_bound])
    return LogInterval(best, min(max(float(bound.max()), best), 0.0))


def estimate(eps: float, budget: float, others: BudgetGroups) -> float:
    """Approximate `worst` by the log delta of the data set in which all other users hold x0."""
    if eps >= budget:
        return -np.inf
    search = Search(eps, budget, merge_budgets(others))
    counts = search.others.counts[None]
    return float(search.ends(counts, counts)[0][0])
