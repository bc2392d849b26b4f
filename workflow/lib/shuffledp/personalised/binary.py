"""Bounds on delta of shuffled binary reports with personal budgets, over all data sets.

The shuffled reports are a count of ones. A data set consists of the number of others who hold the
target's cell x0, for each budget. Let f be the law of the others' count, and p and q the
probabilities that the target reports x0 if it holds x0 and if it does not. The divergence is the
sum over s of

    (p f(s-1) + q f(s) - e (q f(s-1) + p f(s)))_+ = (p - e q) (f(s-1) - kappa f(s))_+,
    kappa = (e p - q) / (p - e q),

as with equal budgets (`one_round.single_bin`). Since f is the law of a sum of binomials, it is
log-concave, and the terms are positive from some t on.

**Blocks.** A block is a range ``low..high`` of counts for each budget. Reveal ``high - low`` users
of each budget to the adversary. Then low users who hold x0 and all but high users who hold x1
remain, for every data set of the block. More knowledge cannot reduce the divergence, so the
divergence of the remaining users is an upper bound for the block. The block with the largest bound
is halved repeatedly. Exchanging x0 and x1 mirrors the count, so one direction suffices.

**Budgets rounded up.** A report that is true with probability p' is a report that is true with
probability p > p' of a record that is flipped with probability (p - p')/(p - q). So the others'
reports are a mixture over data sets with the larger budget. Divergence is convex, so the worst of
these data sets leaks at least as much as the mixture.

**The largest budget is the worst target.** Let A < B be the budgets of two users, f the law of all
others' count, and A the target; the laws' generating functions are products, with a(z) and a'(z)
those of a report of A with record x0 and x1, and b, b' those of B. If B holds x0, the pair is
``a b f`` and ``a' b f``; exchanged, with B the target and A a holder of x0, it is ``b a f`` and
``b' a f``. Here ``b' a - a' b = (p_B - p_A) (1 - z^2)``: over the counts from t on the second law
loses ``(p_B - p_A) (f(t-1) + f(t-2))``, and the divergence grows. If B holds x1, the exchanged pair
is ``b a' f`` and ``b' a' f``, whose second law is the same, and ``b a' - a b' = (p_B - p_A)
(z^2 - 1)``: the first law gains as much. So no target's worst data set leaks more than that of the
largest budget.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from shuffledp.accounting.laws.binomial_sum import Chance
from shuffledp.accounting.laws.multinomial import LogInterval
from shuffledp.accounting.one_round.single_bin import falling_ends
from shuffledp.numerics.arrays import Floats, Integers
from shuffledp.personalised.groups import BudgetGroups

# With more distinct budgets, neighbouring ones are rounded up to the larger one.
_MAX_GROUPS = 4
# Budgets are also merged if this costs at most this share of the others' variance.
_MERGED_VARIANCE = 1e-6
# Numbers of blocks that are halved at once, and in total.
_BLOCKS_AT_ONCE, _MAX_BLOCKS = 256, 4_000
# Tolerance of log delta; the relative change of eps is smaller.
_LOG_DELTA_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Search:
    """The divergence of blocks of counts.

    Attributes
    ----------
    eps, budget
        Central budget, and the target's budget, which is larger.
    others
        All other users.
    """

    eps: float
    budget: float
    others: BudgetGroups

    def ends(self, low: Integers, high: Integers) -> tuple[Floats, Floats]:
        """Return ends of the log divergence of each block's unrevealed users.

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
        return falling_ends(gain, float(np.expm1(self.eps)), *parts)

    def halved(self, low: Integers, high: Integers) -> tuple[Integers, Integers]:
        """Return the halves of blocks along the budget whose counts contribute most variance."""
        widths = (high - low) * _variances(self.others)
        rows, column = np.arange(low.shape[0]), np.argmax(widths, axis=1)
        middle = (low[rows, column] + high[rows, column]) // 2
        first, second = high.copy(), low.copy()
        first[rows, column], second[rows, column] = middle, middle + 1
        return np.concatenate([low, second]), np.concatenate([first, high])


def _variances(groups: BudgetGroups) -> Floats:
    return np.asarray(expit(groups.values) * expit(-groups.values))


def merge_budgets(others: BudgetGroups) -> BudgetGroups:
    """Return groups in which neighbouring budgets are rounded up, with at most four budgets."""
    values, counts = others.values.tolist(), others.counts.tolist()
    spread = _variances(others).tolist()
    total = float(np.dot(spread, counts))
    while len(values) > 1:
        costs = [counts[i] * (spread[i] - spread[i + 1]) for i in range(len(values) - 1)]
        i = int(np.argmin(costs))
        if len(values) <= _MAX_GROUPS and costs[i] > _MERGED_VARIANCE * total:
            break
        counts[i + 1] += counts[i]
        del values[i], counts[i], spread[i]
    return BudgetGroups(np.array(values, np.float64), np.array(counts, np.int64))


def worst(
    eps: float, budget: float, others: BudgetGroups, known_upper: float = -np.inf
) -> LogInterval:
    """Enclose the log of the largest delta over all data sets.

    Parameters
    ----------
    eps
        Central budget, at least 0.
    budget
        Budget of the target.
    others
        All other users, in order of budget.
    known_upper
        A known upper bound on log delta. The search ends if a data set is within the tolerance.

    Returns
    -------
    The lower end is attained by a data set with the rounded budgets of `merge_budgets`. If the
    search ends early, the upper end is the largest bound of an unvisited block.
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
        kept = np.ones(bound.size, np.bool_)
        kept[order] = False
        low, high = np.concatenate([low[kept], new_low]), np.concatenate([high[kept], new_high])
        bound = np.concatenate([bound[kept], new_bound])
    return LogInterval(best, min(max(float(bound.max()), best), 0.0))


def estimate(eps: float, budget: float, others: BudgetGroups) -> float:
    """Return log delta of the data set in which all others hold x0, an approximation of `worst`.

    Parameters
    ----------
    eps
        Central budget, at least 0.
    budget, others
        Budget of the target, and all other users.
    """
    if eps >= budget:
        return -np.inf
    search = Search(eps, budget, merge_budgets(others))
    counts = search.others.counts[None]
    return float(search.ends(counts, counts)[0][0])
