"""Shuffled Laplace reports, each user with a budget of its own (paper D's Algorithm 2).

Records lie in an interval of length 1, centred at 0; user i reports its record plus Laplace noise
of scale ``1 / eps_i``. Neighbours differ in the record of one user, the target, of budget ``eps``
here; ``e = exp`` of the central budget.

Decoys (`among_decoys`). Let w be the law of the target's report if its record were 0. For
``eps_i <= eps`` and any record, the density of user i's report is at least ``kappa_i w`` with
``kappa_i = (eps_i / eps) exp(-eps_i / 2)``: the ratio's exponent ``eps |y| - eps_i |y - x|`` is at
least ``-eps_i |x|``. A user of a larger budget may be no decoy: its tails are thinner.

The worst pair of records is the interval's ends. G has mean ``1 - e`` for every pair; in the convex
order, ``Phi = E(G - t)_+ = sup over A of R(A|x0) - e R(A|x1) - t w(A)``, it grows as follows.

1. ``x0, x1 >= 0``: mirror the points of A that lie alone on the positive side. w(A) stays, R(A|x1)
   does not grow, and R(A|-x0) is at least what R(A|x0) was. So the pair (-x0, x1) is worse.
2. ``x0 <= 0 <= x1``: for convex psi, d/dx1 E psi(G) is ``eps/2`` times the mean of
   ``-e psi'(G)`` over y > x1 less that over y < x1, each under R(.|x1). Over y > x1, G has its
   smallest value. So the pair gets worse as x1 grows, and, likewise, as x0 falls.

G is continuous. Split between neighbouring nodes y_j at distance h, its mean kept, it only grows;
the node y_j gets the mass ``exp(-eps |y_j|) tanh(eps h / 2) / 2`` from each side.
"""

import numpy as np

from shuffledp.accounting.laws.mixture import RandomTrials
from shuffledp.accounting.one_round import among_decoys
from shuffledp.accounting.one_round.among_decoys import Target
from shuffledp.accounting.one_round.personalised import BudgetGroups

# Nodes on each side of the centre. The loss is of second order.
_NODES = 64


def _target(budget: float) -> Target:
    y = np.arange(-_NODES, _NODES + 1) / (2.0 * _NODES)
    share = np.tanh(budget / (4.0 * _NODES))
    masses = np.exp(-budget * np.abs(y)) * share
    masses[[0, -1]] = 0.5 * np.exp(-0.5 * budget) * (1.0 + share)
    ratio = budget * (2.0 * np.maximum(y, 0.0) - 0.5)
    return Target(ratio[::-1], ratio, masses, units=24.0)


def _decoys(others: BudgetGroups, budget: float) -> RandomTrials:
    some = (others.values > 0.0) & (others.values <= budget)
    values = others.values[some]
    return among_decoys.decoys(np.log(values / budget) - 0.5 * values, others.counts[some])


def laplace_log_delta(eps: float, budget: float, others: BudgetGroups) -> float:
    """Natural log of a delta of shuffled Laplace reports, rounded up, for one user.

    Parameters
    ----------
    eps
        Central budget, at least 0.
    budget
        Of the user whose record changes, positive.
    others
        Everybody else's.

    Returns
    -------
    Holds for every data set; -inf where ``eps >= budget``. Users of a larger budget than the
    target's are not counted as decoys.
    """
    if eps >= budget:
        return -np.inf
    return among_decoys.log_delta(eps, _target(budget), _decoys(others, budget))


def laplace_lead(eps: float, budget: float, others: BudgetGroups) -> float:
    """About `laplace_log_delta`, at once."""
    if eps >= budget:
        return -np.inf
    return among_decoys.lead(eps, _target(budget), _decoys(others, budget))
