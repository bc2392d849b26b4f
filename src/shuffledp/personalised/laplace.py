"""Bounds on delta of shuffled Laplace reports with personal budgets (paper D's Algorithm 2).

Records lie in an interval of length 1, centred at 0. User i reports its record plus Laplace noise
of scale ``1 / eps_i``. Neighbouring data sets differ in the record of one user, the target, whose
local budget is called ``eps`` here. R(.|x) is the law of the target's report of the record x, and
``e`` the exponential of the central budget.

**Decoys** (`decoys`). Let ``w = R(.|0)``. For ``eps_i <= eps`` and any record x, the density of
user i's report is at least ``kappa_i w`` with ``kappa_i = (eps_i / eps) exp(-eps_i / 2)``, because
the exponent of the ratio, ``eps |y| - eps_i |y - x|``, is at least ``-eps_i |x|``. A user with a
larger budget cannot be a decoy, because its tails are thinner.

**The worst pair of records** consists of the two ends of the interval. The variable G has mean
``1 - e`` for every pair of records, so it suffices that it increases in the convex order: for every
t, ``Phi = E(G - t)_+ = sup over A of R(A|x0) - e R(A|x1) - t w(A)`` does not decrease. By symmetry,
``x1 >= 0``.

1. Let ``x0 >= 0``. Reflect every point y > 0 of A for which -y is not in A. w(A) stays the same,
   R(A|x1) does not increase, and R(A|-x0) is at least the former R(A|x0). So the pair (-x0, x1) is
   at least as bad.
2. Let ``x0 <= 0 <= x1``. For convex psi, the derivative of E psi(G) in x1 is ``eps/2`` times the
   integral of ``-e psi'(G)`` over y > x1 minus that over y < x1, each under R(.|x1). For y > x1, G
   has its smallest value. So the pair gets worse as x1 increases and, likewise, as x0 decreases.

**A range of budgets.** Let eps lie between low and high. Multiplying all lengths by
``s = eps / high`` turns the target's budget into high and the others' into ``eps_i / s``, and
shortens the interval, whose data sets are among those of the interval of length 1. So a bound for
high holds for eps if each kappa_i is the smallest value for budgets from eps_i to
``eps_i high / low``. It is attained at an end of this range, since ``x exp(-x/2)`` increases and
then decreases.

**Discretisation.** The law of G is continuous. Splitting its mass between neighbouring nodes y_j at
distance h, so that the mean is kept, makes G larger in the convex order. The node y_j gets the
mass ``exp(-eps |y_j|) tanh(eps h / 2) / 2`` from each side.
"""

import numpy as np

from shuffledp.accounting.curve import SearchHints, UpperCurve
from shuffledp.accounting.laws.mixture import RandomTrials
from shuffledp.numerics.arrays import UNIT
from shuffledp.personalised.decoys import (
    XTOL,
    Target,
    approximate_log_delta,
    decoy_trials,
    log_delta_among_decoys,
    stretch,
)
from shuffledp.personalised.groups import BudgetGroups

# Nodes on each side of the centre. The loss of accuracy is of second order in their distance.
NODES_PER_SIDE = 64


def _target(budget: float) -> Target:
    y = np.arange(-NODES_PER_SIDE, NODES_PER_SIDE + 1) / (2.0 * NODES_PER_SIDE)
    share = np.tanh(budget / (4.0 * NODES_PER_SIDE))
    masses = np.exp(-budget * np.abs(y)) * share
    masses[[0, -1]] = 0.5 * np.exp(-0.5 * budget) * (1.0 + share)
    ratio = budget * (2.0 * np.maximum(y, 0.0) - 0.5)
    return Target(ratio[::-1], ratio, masses, units=24.0)


def _decoys(others: BudgetGroups, low: float, high: float) -> RandomTrials:
    may_hide = (others.values > 0.0) & (others.values <= low)
    values = others.values[may_hide]
    ends = values, values * stretch(low, high)
    log_kappa = np.minimum(*(np.log(budgets / high) - 0.5 * budgets for budgets in ends))
    # Fewer decoys never decrease delta, so the possible rounding error is subtracted.
    log_kappa -= 8.0 * UNIT * (1.0 + np.abs(log_kappa) + high)
    return decoy_trials(log_kappa, others.counts[may_hide])


def curve(
    groups: BudgetGroups, group: int, target_log_delta: float = 0.0, first: int | None = None
) -> UpperCurve:
    """Return an upper bound on delta, for every data set, that holds for a range of budgets.

    `groups` has all users in order of budget. `group` and `first` are the indices of the groups
    with the largest and the smallest budget of the range; `first` is by default `group`. Users with
    a larger budget than that of `first` are not counted as decoys.
    """
    del target_log_delta
    first = group if first is None else first
    high = float(groups.values[group])
    if not high:
        return UpperCurve(0.0, upper=lambda _: -np.inf)
    target = _target(high)
    decoys = _decoys(groups.without(first), float(groups.values[first]), high)

    def upper(eps: float) -> float:
        return -np.inf if eps >= high else log_delta_among_decoys(eps, target, decoys)

    def estimate(eps: float) -> float:
        return -np.inf if eps >= high else approximate_log_delta(eps, target, decoys)

    return UpperCurve(high, upper=upper, hints=SearchHints(estimate=estimate, xtol=XTOL))
