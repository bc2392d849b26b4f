"""Shuffled Gaussian reports, each user with noise of its own.

Records lie in an interval of length 1, centred at 0; user i reports its record plus normal noise
of standard deviation ``1 / mu_i``. Neighbours differ in the record of one user, the target, of
``mu`` here. Its noise has density rho; ``e = exp`` of the central budget.

Decoys (`among_decoys`). Take some ``nu <= mu``, and rho' the density of normal noise of standard
deviation ``1 / nu``. Whatever the record, the density of a report with that noise is at least
``rho'(|y| + 1/2)``. That is ``kappa w``, with w a law and ``kappa = 2 Phi(-nu/2)``. For
``mu_i <= nu`` user i's density is at least ``kappa_i w`` with
``kappa_i = kappa (mu_i / nu) exp((nu^2 - mu_i^2) / 8)``, because the quotient of the two normal
densities at ``|y| + 1/2`` is smallest at y = 0. A user of a larger mu_i may be no decoy: its tails
are thinner. Every nu gives a bound. Of those that some user has, one is taken for which the sum of
the G varies little: many cautious users may hide a bold one better than a few bold ones do.

The worst pair of records is the interval's ends, for all even rho and rho' that fall away from 0 so
that ``rho / rho'`` falls, too. G has mean ``1 - e`` for every pair; in the convex order,
``Phi = E(G - t)_+ = sup over A of R(A|x0) - e R(A|x1) - t w(A)``, it grows as follows. Let A be
the best set: it has y where ``R(y|x0) > e R(y|x1) + t w(y)``. *A leans to the left of x* if, for
u > 0, it has x - u wherever it has x + u; then R(A|x), for this A, falls with x.

1. ``x0, x1 >= 0``: mirror the points of A that lie alone on the positive side. w(A) stays, R(A|x1)
   does not grow, and R(A|-x0) is at least what R(A|x0) was. So the pair (-x0, x1) is worse.
2. ``x0 <= 0 <= x1`` and ``t >= 0``. Let x0 fall: A leans to its left, since from x0 + u to x0 - u
   R(.|x0) stays, R(.|x1) and w do not grow. Phi grows. At x0 = -1/2 let x1 rise: A leans to its
   left. For ``R(.|x0) / w`` falls with y on the positive side, and is larger at -y: so it is no
   smaller at x1 - u than at x1 + u, nor is w, nor ``(R(.|x0) / w - t) w``, which is positive where
   A has x1 + u; R(.|x1) is the same at both. Phi grows.
3. ``x0 <= 0 <= x1`` and ``t <= 0``. Let x1 rise: A leans to its left, since R(.|x0) and w are no
   smaller at x1 - u. At x1 = 1/2 let x0 fall: A leans to its left. For, as in 2 with signs turned,
   ``R(.|x1) / w`` and w are no larger at x0 - u than at x0 + u, so that
   ``(e R(.|x1) / w + t) w`` is no larger, or not positive; R(.|x0) is the same at both.

The ratios ``R(y|x) / w(y)`` of the ends may have no bound. Beyond a reach, G is given the value 0.
Delta loses by that at most the chance that the target's report is so far out, since
``(x + y)_+ <= x_+ + y_+``. So that chance is added: such a report counts as an infinite loss.

Up to the reach the two ratios are continuous, and monotone between neighbouring nodes. Each is
replaced by its value at one of the two nodes, at random and its mean kept, independently given y.
G is linear in the ratios: its mean is kept, too, and it only grows.

Vectors. With spherical noise and records in a ball of R^d of diameter 1, the ends of a diameter are
the worst pair for ``nu = mu``, by the same steps, with mirror images for signs; kappa, kappa_i and
w are others. They are not worked out here. The law of one coordinate is no bound for vectors: the
other coordinates tell reports apart.
"""

from collections.abc import Callable

import numpy as np
from scipy.special import erfcx, log_ndtr, logsumexp, ndtri_exp

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
# Bernstein's ellipse, up to so many standard deviations.
_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_FURTHEST = 64.0
# Where the ratio is so many times the number of reports, there is no decoy to hide among.
_EXPOSED = 1e3


def _log_kappa(nu: float) -> float:
    return float(np.log(2.0) + log_ndtr(-0.5 * nu))


def _decoys(others: BudgetGroups, nu: float) -> RandomTrials:
    some = (others.values > 0.0) & (others.values <= nu)
    values = others.values[some]
    log_kappa = _log_kappa(nu) + np.log(values / nu) + 0.125 * (nu - values) * (nu + values)
    # Fewer decoys are never safer: what rounding may have added is taken off.
    log_kappa -= 16.0 * UNIT * (1.0 + nu * nu + np.abs(log_kappa))
    return among_decoys.decoys(log_kappa, others.counts[some])


def _log_ratios(mu: float, nu: float, y: Floats) -> tuple[Floats, Floats]:
    """Logs of ``R(y|x) / w(y)`` for the nearer and the further end of the interval; y >= 0."""
    scale = _log_kappa(nu) + np.log(mu / nu)
    near = 0.5 * (nu * (y + 0.5) - mu * (y - 0.5)) * (nu * (y + 0.5) + mu * (y - 0.5))
    further = -0.5 * (mu - nu) * (mu + nu) * (y + 0.5) ** 2
    return scale + near, scale + further


def _log_variance(mu: float, nu: float, others: BudgetGroups) -> float:
    """About the log of the variance of the mean of the G: which nu is good."""
    y = (0.5 + 8.0 / mu) * np.arange(1, 401) / 400.0
    gap = -0.5 * (mu * (y - 0.5)) ** 2 + np.log(-np.expm1(-mu * mu * y))
    decoys = _decoys(others, nu)
    number = 1.0 + float(decoys.counts @ (1.0 / (1.0 + np.exp(-decoys.log_odds))))
    spread = logsumexp(2.0 * gap + 0.5 * (nu * (y + 0.5)) ** 2)
    return float(spread) + _log_kappa(nu) - float(np.log(nu * number))


def _nu(mu: float, others: BudgetGroups) -> float:
    candidates = [mu, *others.values[(others.values > 0.0) & (others.values < mu)].tolist()]
    return float(min(candidates, key=lambda nu: _log_variance(mu, nu, others)))


def _nodes(mu: float, nu: float, reports: float, aim: float) -> Floats:
    """Distances from the interval's centre, the last one the reach."""
    deviations = min(-float(ndtri_exp(aim + np.log(_LOST))), _FURTHEST)
    reach = 0.5 + deviations / mu
    nodes = np.linspace(0.0, reach, 1 + int(np.ceil(_NODES * mu * reach)))
    if nu < mu:  # the nearer end's ratio has its maximum at a node
        top = 0.5 * (mu * mu + nu * nu) / ((mu - nu) * (mu + nu))
        nodes = np.unique(np.append(nodes, min(top, reach)))
    hidden = _log_ratios(mu, nu, nodes)[0] <= np.log(_EXPOSED * reports)
    return nodes if hidden.all() else nodes[: max(int(np.argmin(hidden)), 2)]


def _shares(ends: Floats, inside: Floats) -> Floats:
    """What goes to the end of each interval so that the mean of a ratio is kept, by its logs."""
    whole = np.diff(ends)[:, None]
    flat = whole == 0.0
    part = np.expm1(inside - ends[:-1, None]) / np.where(flat, 1.0, np.expm1(whole))
    return np.where(flat, 0.0, np.clip(part, 0.0, 1.0))


def _target(mu: float, nu: float, nodes: Floats) -> Target:
    width = np.diff(nodes)[:, None]
    y = nodes[:-1, None] + 0.5 * width * (1.0 + _POINTS)
    density = nu * np.exp(-0.5 * nu * y * (nu * y + nu)) / erfcx(nu / np.sqrt(8.0))
    mass = density / np.sqrt(2.0 * np.pi) * 0.5 * width * _WEIGHTS
    ends = _log_ratios(mu, nu, nodes)
    after = [_shares(*pair) for pair in zip(ends, _log_ratios(mu, nu, y), strict=True)]
    near, further, masses = (
        np.concatenate(column)
        for column in zip(
            *(
                (end, other_end, (mass * share * other_share).sum(axis=1))
                for end, share in ((ends[0][:-1], 1.0 - after[0]), (ends[0][1:], after[0]))
                for other_end, other_share in (
                    (ends[1][:-1], 1.0 - after[1]),
                    (ends[1][1:], after[1]),
                )
            ),
            strict=True,
        )
    )
    some = masses > 0.0
    near, further, masses = near[some], further[some], masses[some]
    # The exponents of the masses, and some twenty operations.
    units = 128.0 + 4.0 * nu * nu * float(nodes[-1]) * (float(nodes[-1]) + 1.0)
    first, second = np.concatenate([near, further]), np.concatenate([further, near])
    return Target(first, second, np.concatenate([masses, masses]), units)


def _log_lost(mu: float, reach: float) -> float:
    """Log of the chance of a report beyond the reach, on either side."""
    sides = log_ndtr(mu * (0.5 - reach)), log_ndtr(mu * (-0.5 - reach))
    # More than rounding takes; it is a small part of delta.
    return float(np.logaddexp(*sides)) + 1e-9


def _log_delta(
    hidden: Callable[[float, Target, RandomTrials], float],
    eps: float,
    mu: float,
    others: BudgetGroups,
    aim: float,
) -> float:
    nu = _nu(mu, others)
    nodes = _nodes(mu, nu, 1.0 + float(others.counts.sum()), aim)
    found = hidden(eps, _target(mu, nu, nodes), _decoys(others, nu))
    # More than its rounding.
    alone = float(gdp_to_log_delta(eps, mu)) + 1e-11
    return min(float(np.logaddexp(found, _log_lost(mu, float(nodes[-1])))), alone, 0.0)


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
    return _log_delta(among_decoys.log_delta, eps, mu, others, aim)


def gaussian_lead(eps: float, mu: float, others: BudgetGroups, aim: float) -> float:
    """About `gaussian_log_delta`, at once."""
    return _log_delta(among_decoys.lead, eps, mu, others, aim)
