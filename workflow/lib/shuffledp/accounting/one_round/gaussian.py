"""Shuffled Gaussian reports, each user with noise of its own.

Records lie in an interval of length 1, centred at 0; user i reports its record plus normal noise
of standard deviation ``1 / mu_i``. Neighbours differ in the record of one user, the target, of
``mu`` here. Its noise has density rho; ``e = exp`` of the central budget.

Decoys (`among_decoys`). Whatever the record, the density of the target's report is at least
``rho(|y| + 1/2)``. That is ``kappa w``, with w a law and ``kappa = 2 Phi(-mu/2)``. For
``mu_i <= mu`` user i's density is at least ``kappa_i w`` with
``kappa_i = kappa (mu_i / mu) exp((mu^2 - mu_i^2) / 8)``, because the quotient of the two normal
densities at ``|y| + 1/2`` is smallest at y = 0. A user of a larger mu may be no decoy: its tails
are thinner.

The worst pair of records is the interval's ends, for any rho that is even and falls away from 0.
G has mean ``1 - e`` for every pair; in the convex order,
``Phi = E(G - t)_+ = sup over A of R(A|x0) - e R(A|x1) - t w(A)``, it grows as follows. Let A be
the best set: it has y where ``R(y|x0) > e R(y|x1) + t w(y)``. *A leans to the left of x* if, for
u > 0, it has x - u wherever it has x + u; then R(A|x), for this A, falls with x.

1. ``x0, x1 >= 0``: mirror the points of A that lie alone on the positive side. w(A) stays, R(A|x1)
   does not grow, and R(A|-x0) is at least what R(A|x0) was. So the pair (-x0, x1) is worse.
2. ``x0 <= 0 <= x1`` and ``t >= 0``. Let x0 fall: A leans to its left, since from x0 + u to x0 - u
   R(.|x0) stays, R(.|x1) and w do not grow. Phi grows. At x0 = -1/2 let x1 rise: A leans to its
   left. For where A has x1 + u, R(.|x0) is ``kappa w``, hence ``(kappa - t) w > e R(.|x1)``; at
   x1 - u R(.|x1) is the same, w no smaller, R(.|x0) at least ``kappa w``. Phi grows.
3. ``x0 <= 0 <= x1`` and ``t <= 0``. Let x1 rise: A leans to its left, since R(.|x0) and w are no
   smaller at x1 - u. At x1 = 1/2 let x0 fall: A leans to its left. For at x0 - u, R(.|x1) is
   ``kappa w``, so that ``e R(.|x1) + t w`` is ``(e kappa + t) w``. If that is not positive, A has
   x0 - u. Else it is at most ``(e kappa + t) w`` at x0 + u, and so at most ``e R(.|x1) + t w``
   there, which is below R(.|x0), the same at both.

The ratios ``R(y|x) / w(y)`` of the ends are kappa on one side, ``kappa exp(mu^2 |y|)`` on the
other: they have no bound. Beyond a reach, G is given its value there. Where that raises G, delta
can but grow. Where it lowers G, delta loses at most the chance that the target's report is that
far out, since ``(x + y)_+ <= x_+ + y_+``. So that chance is added: such a report counts as an
infinite loss. Up to the reach G is continuous. Split between neighbouring nodes, its mean kept, it
only grows.

Vectors. With spherical noise and records in a ball of R^d of diameter 1, the ends of a diameter are
the worst pair, by the same steps, with mirror images for signs; kappa, kappa_i and w are others.
They are not worked out here. The law of one coordinate is no bound for vectors: the other
coordinates tell reports apart.
"""

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtri_exp

from shuffledp.accounting.laws.mixture import RandomTrials
from shuffledp.accounting.one_round import among_decoys
from shuffledp.accounting.one_round.among_decoys import Target
from shuffledp.accounting.one_round.personalised import BudgetGroups
from shuffledp.accounting.rounds.tradeoff import gdp_to_log_delta
from shuffledp.arrays import UNIT, Floats

# What reports beyond the reach may add, of the delta that is aimed at.
_LOST = 1e-3
# Nodes for each standard deviation. The loss is of second order.
_NODES = 32
# Gauss's rule with so many points between two nodes leaves less than 1e-20 of the integral, by
# Bernstein's ellipse, up to this reach.
_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(8)
_FURTHEST = 64.0
# Where the ratio is so many times the number of reports, there is no decoy to hide among.
_EXPOSED = 1e3


def _log_kappa(mu: float) -> float:
    return float(np.log(2.0) + log_ndtr(-0.5 * mu))


def _reach(mu: float, others: BudgetGroups, aim: float) -> float:
    """Standard deviations from the interval's centre to where losses count as infinite."""
    wanted = 0.5 * mu - float(ndtri_exp(aim + np.log(_LOST)))
    exposed = np.log(_EXPOSED * (1.0 + float(others.counts.sum()))) / mu
    return min(wanted, float(exposed), _FURTHEST)


def _log_lost(mu: float, reach: float) -> float:
    # More than rounding takes; it is a small part of delta.
    return float(log_ndtr(0.5 * mu - reach)) + 1e-9


def _masses(mu: float, reach: float, nodes: int) -> Floats:
    """Of the nodes on one side of the centre, beginning there."""
    h = reach / nodes
    t, weights = 0.5 * h * (1.0 + _POINTS), 0.5 * h * _WEIGHTS
    z = h * np.arange(nodes)[:, None] + t
    # rho(|y| + 1/2) / kappa, in standard deviations.
    density = np.exp(-0.5 * z * (z + mu)) / (np.sqrt(2.0 * np.pi) * erfcx(mu / np.sqrt(8.0)))
    # Which part of the density goes to the node after it keeps the mean of exp(mu z).
    after = np.expm1(mu * t) / np.expm1(mu * h)
    before = np.expm1(-mu * (h - t)) / np.expm1(-mu * h)
    masses = np.zeros(nodes + 1)
    masses[1:] = density @ (weights * after)
    masses[:-1] += density @ (weights * before)
    masses[-1] += 0.5 * np.exp(log_ndtr(-reach - 0.5 * mu) - log_ndtr(-0.5 * mu))
    return masses


def _target(mu: float, reach: float) -> Target:
    nodes = int(np.ceil(_NODES * reach))
    masses = _masses(mu, reach, nodes)
    rising = mu * reach / nodes * np.arange(nodes + 1)
    ratio = _log_kappa(mu) + np.concatenate([np.zeros(nodes + 1), rising])
    # The exponents of the masses, and ten operations.
    units = 64.0 + 4.0 * reach * (reach + mu)
    return Target(ratio[::-1], ratio, np.concatenate([masses[::-1], masses]), units)


def _decoys(others: BudgetGroups, mu: float) -> RandomTrials:
    some = (others.values > 0.0) & (others.values <= mu)
    values = others.values[some]
    log_kappa = _log_kappa(mu) + np.log(values / mu) + 0.125 * (mu - values) * (mu + values)
    # Fewer decoys are never safer: what rounding may have added is taken off.
    log_kappa -= 16.0 * UNIT * (1.0 + mu * mu + np.abs(log_kappa))
    return among_decoys.decoys(log_kappa, others.counts[some])


def _at_most_alone(eps: float, mu: float, log_delta: float) -> float:
    # More than its rounding.
    return min(log_delta, float(gdp_to_log_delta(eps, mu)) + 1e-11, 0.0)


def gaussian_log_delta(eps: float, mu: float, others: BudgetGroups, aim: float) -> float:
    """Natural log of a delta of shuffled Gaussian reports, rounded up, for one user.

    Parameters
    ----------
    eps
        Central budget, at least 0.
    mu
        Length of the records' interval in standard deviations of the noise of the user whose
        record changes, positive.
    others
        The same of everybody else, in place of budgets; 0 if a user reports nothing.
    aim
        Natural log of about the delta that is sought, at most 0: a thousandth of it is what reports
        far out may add. The result holds for any.

    Returns
    -------
    Holds for every data set; never above that of one report alone. Users with less noise than the
    target's are not counted as decoys.
    """
    reach = _reach(mu, others, aim)
    hidden = among_decoys.log_delta(eps, _target(mu, reach), _decoys(others, mu))
    return _at_most_alone(eps, mu, float(np.logaddexp(hidden, _log_lost(mu, reach))))


def gaussian_lead(eps: float, mu: float, others: BudgetGroups, aim: float) -> float:
    """About `gaussian_log_delta`, at once."""
    reach = _reach(mu, others, aim)
    hidden = among_decoys.lead(eps, _target(mu, reach), _decoys(others, mu))
    return _at_most_alone(eps, mu, float(np.logaddexp(hidden, _log_lost(mu, reach))))
