"""Bound delta of shuffled binary reports with personal budgets by a search of all data sets.

The shuffled reports are a count of ones. A data set is the number of holders of the target's cell
x0 among the others, for each budget. Let f be the law of the others' count, and p and q the
probabilities that the target reports x0 if it holds x0 and if not. The divergence is the sum over s
of

    (p f(s-1) + q f(s) - e (q f(s-1) + p f(s)))_+ = (p - e q) (f(s-1) - kappa f(s))_+,
    kappa = (e p - q) / (p - e q),

as with equal budgets (`one_round.single_bin`). f is the law of a sum of binomials, so log-concave:
the positive terms are those from some t on.

**Blocks.** A block is a range ``low..high`` of counts for each budget. Reveal ``high - low`` users
of each budget to the adversary: what remains is low holders of x0 and all but high non-holders, the
same for every data set of the block. An adversary who knows more sees no smaller divergence. So the
divergence of the remaining users bounds the whole block. The block with the largest bound is
halved, repeatedly. Exchanging x0 and x1 mirrors the count, so that one direction suffices.

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

_MAX_GROUPS = 4  # with more budgets, neighbouring ones become the larger of the two
_MERGED_VARIANCE = 1e-6  # share of the others' variance that merging two budgets may cost anyway
_BLOCKS_AT_ONCE, _MAX_BLOCKS = 256, 4_000  # that are halved
_TOLERANCE = 1e-4  # of log delta; eps changes by less than this share


@dataclass(frozen=True)
class Search:
    """The divergence of blocks of counts.

    Attributes
    ----------
    eps, budget
        Central budget, and the larger budget of the target.
    others
        All other users.
    """

    eps: float
    budget: float
    others: BudgetGroups

    def ends(self, low: Integers, high: Integers) -> tuple[Floats, Floats]:
        """Return ends of the log divergence of the unrevealed users of each block.

        Blocks have shape ``(blocks, groups)``.
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
        """Return blocks halved along the budget whose counts contribute most variance."""
        wide = (high - low) * _variances(self.others)
        rows, column = np.arange(low.shape[0]), np.argmax(wide, axis=1)
        middle = (low[rows, column] + high[rows, column]) // 2
        first, second = high.copy(), low.copy()
        first[rows, column], second[rows, column] = middle, middle + 1
        return np.concatenate([low, second]), np.concatenate([first, high])


def _variances(groups: BudgetGroups) -> Floats:
    return np.asarray(expit(groups.values) * expit(-groups.values))


def fewer(others: BudgetGroups) -> BudgetGroups:
    """Round neighbouring budgets up to the larger one until at most four are left."""
    values, counts = others.values.tolist(), others.counts.tolist()
    spread = _variances(others).tolist()
    whole = float(np.dot(spread, counts))
    while len(values) > 1:
        costs = [counts[i] * (spread[i] - spread[i + 1]) for i in range(len(values) - 1)]
        i = int(np.argmin(costs))
        if len(values) <= _MAX_GROUPS and costs[i] > _MERGED_VARIANCE * whole:
            break
        counts[i + 1] += counts[i]
        del values[i], counts[i], spread[i]
    return BudgetGroups(np.array(values, np.float64), np.array(counts, np.int64))


def worst(eps: float, budget: float, others: BudgetGroups, enough: float = -np.inf) -> LogInterval:
    """Enclose the log of the largest delta over all data sets.

    Parameters
    ----------
    eps
        Central budget, at least 0.
    budget
        Budget of the target.
    others
        All other users, in order of budget.
    enough
        A known upper bound on log delta: the search ends once a data set is within the tolerance.

    Returns
    -------
    The lower end is attained by a data set with the rounded budgets of `fewer`. If the search ends
    early, the upper end is the largest bound of an unvisited block.
    """
    if eps >= budget:
        return LogInterval(-np.inf, -np.inf)
    search = Search(eps, budget, fewer(others))
    low, high = np.zeros_like(search.others.counts)[None], search.others.counts[None]
    bound = search.ends(low, high)[1]
    best, visited = float(search.ends(high, high)[0][0]), 0
    while visited < _MAX_BLOCKS and min(bound.max(), enough) > best + _TOLERANCE:
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
    """Return a cheap approximation of the upper end of `worst`: all others hold the target's cell.

    Parameters
    ----------
    eps
        Central budget, at least 0.
    budget, others
        Budget of the target, and all other users.
    """
    if eps >= budget:
        return -np.inf
    search = Search(eps, budget, fewer(others))
    held = search.others.counts[None]
    return float(search.ends(held, held)[0][0])
