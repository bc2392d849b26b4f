"""Bounds on delta of shuffled Gaussian reports with personal noise.

Records lie in an interval of length 1, centred at 0. User i reports its record plus normal noise
of standard deviation ``1 / mu_i``. Neighbours differ in the record of one user, the target, with
parameter ``mu`` and noise of density rho; ``e`` is the exponential of the central budget.

**Decoys** (`decoys`). Take some ``nu <= mu``, and rho' the density of normal noise of standard
deviation ``1 / nu``. For every record the density of a report with that noise is at least
``rho'(|y| + 1/2)``, which is ``kappa w`` with a law w and ``kappa = 2 Phi(-nu/2)``. For
``mu_i <= nu`` user i's density is at least ``kappa_i w`` with
``kappa_i = kappa (mu_i / nu) exp((nu^2 - mu_i^2) / 8)``, because the quotient of the two normal
densities at ``|y| + 1/2`` is smallest at y = 0. A user with a larger mu_i cannot be a decoy,
because its tails are thinner. Every nu gives a bound. Among the mu of the users, nu is chosen such
that the sum of the G has a small variance: many users with much noise may hide the target better
than a few with little noise.

**The worst pair** of records is the interval's ends, for all even rho and rho' that fall away from
0 so that ``rho / rho'`` falls as well. G has mean ``1 - e`` for every pair; in the convex order,
``Phi = E(G - t)_+ = sup over A of R(A|x0) - e R(A|x1) - t w(A)``, it grows as follows. Let A be the
best set: it has y where ``R(y|x0) > e R(y|x1) + t w(y)``. *A leans to the left of x* if, for u > 0,
it has x - u wherever it has x + u; then R(A|x), for this A, falls with x.

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

**Truncation.** The ratios ``R(y|x) / w(y)`` of the ends may be unbounded. Beyond a reach, G is set
to 0. This reduces delta by at most the probability that the target's report is beyond the reach,
since ``(x + y)_+ <= x_+ + y_+``. This probability is added to delta.

**Discretisation.** Up to the reach the two ratios are continuous, and monotone between neighbouring
nodes. Each is replaced by its value at one of the two nodes, drawn such that its mean is kept, and
independently given y. G is linear in the ratios, so its mean is kept as well, and it grows in the
convex order.

**Many budgets.** A mu between low and high is turned into high by a change of the unit of length,
as for Laplace noise (`personalised.laplace`). Each kappa_i is then the smallest one for budgets
from mu_i to ``mu_i high / low``, which is at an end, since ``x exp(-x^2/8)`` rises and then falls.

**Vectors.** With spherical noise and records in a ball of R^d of diameter 1, the ends of a diameter
are the worst pair for ``nu = mu``, by the same steps with mirror images for signs; kappa, kappa_i
and w differ and are not derived here. The law of one coordinate is not a bound for vectors, because
the other coordinates distinguish reports.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import erfcx, log_ndtr, logsumexp, ndtri_exp

from shuffledp.accounting import calibrate
from shuffledp.accounting.curve import SearchHints, UpperCurve
from shuffledp.accounting.laws.mixture import RandomTrials
from shuffledp.accounting.rounds.tradeoff import gdp_epsilon, gdp_upper_log_delta
from shuffledp.numerics.arrays import UNIT, Floats
from shuffledp.personalised.decoys import (
    XTOL,
    Target,
    approximate_log_delta,
    decoy_trials,
    log_delta_among_decoys,
    stretch,
)
from shuffledp.personalised.groups import BudgetGroups

# Share of the target delta that reports beyond the reach may add.
_TRUNCATED_SHARE = 1e-3
# Largest number of candidates for nu.
_MAX_CANDIDATES = 32
# Nodes per standard deviation. The loss of accuracy is of second order in their distance.
_NODES_PER_DEVIATION = 16
# The estimate that starts a search uses only every 8th node.
_COARSE_STEP = 8
# Gauss's rule with 16 points between two nodes has an error below 1e-20 of the integral, by
# Bernstein's ellipse, up to 64 standard deviations.
_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_MAX_DEVIATIONS = 64.0
# Nodes with a larger ratio, relative to the number of reports, are cut off: decoys hide nothing
# there.
_EXPOSED_RATIO = 1e3


def _log_kappa(nu: float) -> float:
    return float(np.log(2.0) + log_ndtr(-0.5 * nu))


@dataclass(frozen=True)
class _TargetAndOthers:
    """The other users, and a target with mu in ``low..mu``, scaled such that its mu is ``mu``."""

    low: float
    mu: float
    others: BudgetGroups

    @property
    def candidates(self) -> list[tuple[float, float]]:
        """Pairs of nu and the largest mu of a decoy."""
        values = self.others.values
        smaller = values[(values > 0.0) & (values < self.low)]
        if smaller.size > _MAX_CANDIDATES:
            smaller = smaller[np.linspace(0, smaller.size - 1, _MAX_CANDIDATES).astype(np.int64)]
        factor = stretch(self.low, self.mu)
        return [(self.mu, self.low), *((min(mu * factor, self.mu), mu) for mu in smaller.tolist())]

    def decoys(self, nu: float, until: float) -> RandomTrials:
        hiding = (self.others.values > 0.0) & (self.others.values <= until)
        values = self.others.values[hiding]
        ends = values, np.minimum(values * stretch(self.low, self.mu), nu)
        log_kappa = _log_kappa(nu) + np.minimum(
            *(np.log(one / nu) + 0.125 * (nu - one) * (nu + one) for one in ends)
        )
        # Fewer decoys never decrease delta, so the possible rounding error is subtracted.
        log_kappa -= 16.0 * UNIT * (1.0 + nu * nu + np.abs(log_kappa))
        return decoy_trials(log_kappa, self.others.counts[hiding])

    @property
    def best(self) -> tuple[float, float]:
        """The candidate for which the mean of the G has approximately the smallest variance."""

        def variance(one: tuple[float, float]) -> float:
            return _log_variance(self.mu, one[0], self.decoys(*one))

        return min(self.candidates, key=variance)


def _log_ratios(mu: float, nu: float, y: Floats) -> tuple[Floats, Floats]:
    """Return the logs of ``R(y|x) / w(y)`` for the nearer and the farther end, where y >= 0."""
    scale = _log_kappa(nu) + np.log(mu / nu)
    near = 0.5 * (nu * (y + 0.5) - mu * (y - 0.5)) * (nu * (y + 0.5) + mu * (y - 0.5))
    farther = -0.5 * (mu - nu) * (mu + nu) * (y + 0.5) ** 2
    return scale + near, scale + farther


def _log_variance(mu: float, nu: float, decoys: RandomTrials) -> float:
    """Return the approximate log variance of the mean of the G, to compare values of nu."""
    y = (0.5 + 8.0 / mu) * np.arange(1, 401) / 400.0
    gap = -0.5 * (mu * (y - 0.5)) ** 2 + np.log(-np.expm1(-mu * mu * y))
    number = 1.0 + float(decoys.counts @ (1.0 / (1.0 + np.exp(-decoys.log_odds))))
    spread = logsumexp(2.0 * gap + 0.5 * (nu * (y + 0.5)) ** 2)
    return float(spread) + _log_kappa(nu) - float(np.log(nu * number))


def _nodes(mu: float, nu: float, reports: float, target_log_delta: float) -> Floats:
    """Return the nodes as distances from the interval's centre; the last one is the reach."""
    deviations = min(
        -float(ndtri_exp(target_log_delta + np.log(_TRUNCATED_SHARE))), _MAX_DEVIATIONS
    )
    reach = 0.5 + deviations / mu
    nodes = np.linspace(0.0, reach, 1 + int(np.ceil(_NODES_PER_DEVIATION * mu * reach)))
    if nu < mu:  # the nearer end's ratio has its maximum at a node
        top = 0.5 * (mu * mu + nu * nu) / ((mu - nu) * (mu + nu))
        nodes = np.unique(np.append(nodes, min(top, reach)))
    hidden = _log_ratios(mu, nu, nodes)[0] <= np.log(_EXPOSED_RATIO * reports)
    return nodes if hidden.all() else nodes[: max(int(np.argmin(hidden)), 2)]


def _shares(ends: Floats, inside: Floats) -> Floats:
    """Return the probabilities of intervals' ends that keep the mean of a ratio, from its logs."""
    log_growth = np.diff(ends)[:, None]
    flat = log_growth == 0.0
    part = np.expm1(inside - ends[:-1, None]) / np.where(flat, 1.0, np.expm1(log_growth))
    return np.where(flat, 0.0, np.clip(part, 0.0, 1.0))


def _target(mu: float, nu: float, nodes: Floats) -> Target:
    width = np.diff(nodes)[:, None]
    y = nodes[:-1, None] + 0.5 * width * (1.0 + _POINTS)
    density = nu * np.exp(-0.5 * nu * y * (nu * y + nu)) / erfcx(nu / np.sqrt(8.0))
    mass = density / np.sqrt(2.0 * np.pi) * 0.5 * width * _WEIGHTS
    ends = _log_ratios(mu, nu, nodes)
    after = [_shares(*pair) for pair in zip(ends, _log_ratios(mu, nu, y), strict=True)]
    near, farther, masses = (
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
    positive = masses > 0.0
    near, farther, masses = near[positive], farther[positive], masses[positive]
    # Units of rounding: the exponents of the masses, and about twenty operations.
    units = 128.0 + 4.0 * nu * nu * float(nodes[-1]) * (float(nodes[-1]) + 1.0)
    first, second = np.concatenate([near, farther]), np.concatenate([farther, near])
    return Target(first, second, np.concatenate([masses, masses]), units)


def _log_truncated(mu: float, reach: float) -> float:
    """Return the log probability of a report beyond the reach, on either side."""
    sides = log_ndtr(mu * (0.5 - reach)), log_ndtr(mu * (-0.5 - reach))
    # The allowance exceeds the rounding error and is negligible relative to delta.
    return float(np.logaddexp(*sides)) + 1e-9


def curve(
    groups: BudgetGroups, group: int, target_log_delta: float, first: int | None = None
) -> UpperCurve:
    """Return an upper bound on delta for users with a range of mu and every data set.

    Parameters
    ----------
    groups, group
        All users in order of mu, and the group with the largest mu of the range. mu is the length
        of the records' interval in standard deviations of the noise, and 0 if a user reports
        nothing.
    target_log_delta
        Approximate natural log of the target delta, at most 0. Reports beyond the reach add at most
        a thousandth of it. The curve is an upper bound for every eps.
    first
        The group with the smallest mu of the range, by default the same group. Users with a larger
        mu than this one are not counted as decoys.

    Returns
    -------
    A curve that is never above that of a single report without other users.
    """
    first = group if first is None else first
    mu = float(groups.values[group])
    if not mu:
        return UpperCurve(0.0, upper=lambda _: -np.inf)
    users = _TargetAndOthers(float(groups.values[first]), mu, groups.without(first))
    nu, until = users.best
    nodes = _nodes(mu, nu, float(groups.counts.sum()), target_log_delta)
    target, decoys = _target(mu, nu, nodes), users.decoys(nu, until)
    coarse = _target(mu, nu, np.append(nodes[:-1:_COARSE_STEP], nodes[-1]))
    log_truncated = _log_truncated(mu, float(nodes[-1]))

    def end(eps: float, log_delta: float) -> float:
        alone = gdp_upper_log_delta(eps, mu)
        return min(float(np.logaddexp(log_delta, log_truncated)), alone, 0.0)

    def upper(eps: float) -> float:
        return end(eps, log_delta_among_decoys(eps, target, decoys))

    def estimate(eps: float) -> float:
        return end(eps, approximate_log_delta(eps, coarse, decoys))

    def inverse(log_delta: float) -> float:
        alone = gdp_epsilon(mu, log_delta)
        return calibrate.guided_epsilon(upper, log_delta, alone, "upper", estimate, XTOL)

    return UpperCurve(np.inf, upper=upper, hints=SearchHints(inverse=inverse))
