"""Bounds on delta of shuffled reports with Laplace or Gaussian noise of personal size.

Records lie in an interval of length 1, centred at 0. User i reports its record plus noise: Laplace
noise of scale ``1 / eps_i`` (paper D's Algorithm 2), or normal noise of standard deviation
``1 / mu_i``. Neighbouring data sets differ in the record of one user, the target, whose local
budget is called ``eps`` or ``mu`` here, and whose noise has the density rho. R(.|x) is the law of
the target's report of the record x, and ``e`` the exponential of the central budget.

**Laplace decoys** (`decoys`). Let ``w = R(.|0)``. For ``eps_i <= eps`` and any record x, the
density of user i's report is at least ``kappa_i w`` with ``kappa_i = (eps_i / eps) exp(-eps_i/2)``,
because the exponent of the ratio, ``eps |y| - eps_i |y - x|``, is at least ``-eps_i |x|``. A user
with a larger budget cannot be a decoy, because its tails are thinner.

**Gaussian decoys.** Let ``nu <= mu``, and let rho' be the density of normal noise of standard
deviation ``1 / nu``. For every record the density of a report with that noise is at least
``rho'(|y| + 1/2)``, which is ``kappa w`` with a law w and ``kappa = 2 Phi(-nu/2)``. For
``mu_i <= nu`` user i's density is at least ``kappa_i w`` with
``kappa_i = kappa (mu_i / nu) exp((nu^2 - mu_i^2) / 8)``, because the quotient of the two normal
densities at ``|y| + 1/2`` is smallest at y = 0. A user with a larger mu_i cannot be a decoy.
Every nu gives a bound. The nu used is one of the users' mu, chosen so that the mean of the G has
nearly the smallest variance: many users with much noise may hide the target better than a few with
little noise.

**The worst pair of records** consists of the two ends of the interval: for Gaussian noise, whenever
rho and rho' are even, and rho, rho' and ``rho / rho'`` decrease away from 0. The variable G has
mean ``1 - e`` for every pair of records, so it suffices that it increases in the convex order: for
every real t, ``Phi = E(G - t)_+ = sup over A of R(A|x0) - e R(A|x1) - t w(A)`` does not decrease.
Let A be the maximising set, which contains y if ``R(y|x0) > e R(y|x1) + t w(y)``. By symmetry,
``x1 >= 0``.

1. Let ``x0 >= 0``. Reflect every point y > 0 of A for which -y is not in A. w(A) stays the same,
   R(A|x1) does not increase, and R(A|-x0) is at least the former R(A|x0). So the pair (-x0, x1) is
   at least as bad.
2. Laplace noise: let ``x0 <= 0 <= x1``. For convex psi, the derivative of E psi(G) in x1 is
   ``eps/2`` times the integral of ``-e psi'(G)`` over y > x1 minus that over y < x1, each under
   R(.|x1). For y > x1, G has its smallest value. So the pair gets worse as x1 increases and,
   likewise, as x0 decreases.

For Gaussian noise, say that *A leans to the left of x* if it contains x - u whenever it contains
x + u, for every u > 0. Then R(A|x), with A fixed, decreases in x.

3. Let ``x0 <= 0 <= x1`` and ``t >= 0``. First decrease x0. A leans to the left of x0, because
   R(.|x0) is the same at x0 - u and x0 + u, while R(.|x1) and w are no larger at x0 - u. So Phi
   increases. Then fix x0 = -1/2 and increase x1. A leans to the left of x1: ``R(.|x0) / w``
   decreases for y > 0 and is larger at -y than at y, so it is no smaller at x1 - u than at x1 + u.
   The same holds for w, and so for ``(R(.|x0) / w - t) w``, which is positive where A contains
   x1 + u, while R(.|x1) is the same at both points. So Phi increases.
4. Let ``x0 <= 0 <= x1`` and ``t <= 0``. First increase x1. A leans to the left of x1, because
   R(.|x0) and w are no smaller at x1 - u. Then fix x1 = 1/2 and decrease x0. A leans to the left of
   x0: as in step 3 with signs exchanged, ``R(.|x1) / w`` and w are no larger at x0 - u than at
   x0 + u, so ``(e R(.|x1) / w + t) w`` is no larger there or not positive, while R(.|x0) is the
   same at both points.

**A range of budgets.** Let eps lie between low and high. Multiplying all lengths by
``s = eps / high`` turns the target's budget into high and the others' into ``eps_i / s``, and
shortens the interval, whose data sets are among those of the interval of length 1. So a bound for
high holds for eps if each kappa_i is the smallest value for budgets from eps_i to
``eps_i high / low``. It is attained at an end of this range, since ``x exp(-x/2)`` increases and
then decreases, and so does ``x exp(-x^2/8)`` for the mu of Gaussian noise.

**Laplace discretisation.** The law of G is continuous. Splitting its mass between neighbouring
nodes y_j at distance h, so that the mean is kept, makes G larger in the convex order. The node y_j
gets the mass ``exp(-eps |y_j|) tanh(eps h / 2) / 2`` from each side.

**Gaussian truncation.** The ratios ``R(y|x) / w(y)`` of the two ends may be unbounded, so G is set
to 0 for y beyond a distance called the reach. This decreases delta by at most the probability that
the target's report is beyond the reach, since ``(x + y)_+ <= x_+ + y_+``. The curve adds this
probability to delta.

**Gaussian discretisation.** Within the reach both ratios are continuous, and monotone between
neighbouring nodes. Each ratio is replaced by its value at one of the two nodes, drawn so that its
mean is kept, and independently of the other ratio given y. G is linear in the ratios, so its mean
is kept as well, and G increases in the convex order.

**Vectors.** With spherical normal noise and records in a ball of R^d of diameter 1, the ends of a
diameter are the worst pair for ``nu = mu``, by the same steps with reflections in place of signs;
kappa, kappa_i and w differ and are not derived here. The law of one coordinate gives no bound for
vectors, because the other coordinates also distinguish reports.
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

# --- Laplace noise --------------------------------------------------------------------------------

# Nodes on each side of the centre. The loss of accuracy is of second order in their distance.
NODES_PER_SIDE = 64


def _laplace_target(budget: float) -> Target:
    y = np.arange(-NODES_PER_SIDE, NODES_PER_SIDE + 1) / (2.0 * NODES_PER_SIDE)
    share = np.tanh(budget / (4.0 * NODES_PER_SIDE))
    masses = np.exp(-budget * np.abs(y)) * share
    masses[[0, -1]] = 0.5 * np.exp(-0.5 * budget) * (1.0 + share)
    ratio = budget * (2.0 * np.maximum(y, 0.0) - 0.5)
    return Target(ratio[::-1], ratio, masses, units=24.0)


def _laplace_decoys(others: BudgetGroups, low: float, high: float) -> RandomTrials:
    may_hide = (others.values > 0.0) & (others.values <= low)
    values = others.values[may_hide]
    ends = values, values * stretch(low, high)
    log_kappa = np.minimum(*(np.log(budgets / high) - 0.5 * budgets for budgets in ends))
    # Fewer decoys never decrease delta, so the possible rounding error is subtracted.
    log_kappa -= 8.0 * UNIT * (1.0 + np.abs(log_kappa) + high)
    return decoy_trials(log_kappa, others.counts[may_hide])


def laplace_curve(
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
    target = _laplace_target(high)
    decoys = _laplace_decoys(groups.without(first), float(groups.values[first]), high)

    def upper(eps: float) -> float:
        return -np.inf if eps >= high else log_delta_among_decoys(eps, target, decoys)

    def estimate(eps: float) -> float:
        return -np.inf if eps >= high else approximate_log_delta(eps, target, decoys)

    return UpperCurve(high, upper=upper, hints=SearchHints(estimate=estimate, xtol=XTOL))


# --- Gaussian noise -------------------------------------------------------------------------------

# Largest probability of a report beyond the reach, relative to the target delta.
_TRUNCATED_SHARE = 1e-3
# Largest number of values of nu that are compared, besides mu.
_MAX_CANDIDATES = 32
# Nodes per standard deviation. The loss of accuracy is of second order in their distance.
_NODES_PER_DEVIATION = 16
# The estimate that starts a search uses only every 8th node.
_COARSE_STEP = 8
# Gauss-Legendre quadrature with 16 points between two nodes has a relative error below 1e-20, by
# the bound with Bernstein's ellipse, up to 64 standard deviations.
_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_MAX_DEVIATIONS = 64.0
# The reach excludes nodes with a larger ratio, relative to the number of reports, because decoys
# hide nothing there.
_EXPOSED_RATIO = 1e3


def _log_kappa(nu: float) -> float:
    return float(np.log(2.0) + log_ndtr(-0.5 * nu))


@dataclass(frozen=True)
class _TargetAndOthers:
    """A target with a parameter in ``low..mu``, rescaled to ``mu``, and the other users."""

    low: float
    mu: float
    others: BudgetGroups

    @property
    def candidates(self) -> list[tuple[float, float]]:
        """Pairs of nu and the largest parameter mu_i of a decoy."""
        values = self.others.values
        smaller = values[(values > 0.0) & (values < self.low)]
        if smaller.size > _MAX_CANDIDATES:
            smaller = smaller[np.linspace(0, smaller.size - 1, _MAX_CANDIDATES).astype(np.int64)]
        factor = stretch(self.low, self.mu)
        return [(self.mu, self.low), *((min(mu * factor, self.mu), mu) for mu in smaller.tolist())]

    def decoys(self, nu: float, max_mu: float) -> RandomTrials:
        """Return the trials in which users with a parameter up to ``max_mu`` become decoys."""
        may_hide = (self.others.values > 0.0) & (self.others.values <= max_mu)
        values = self.others.values[may_hide]
        ends = values, np.minimum(values * stretch(self.low, self.mu), nu)
        log_kappa = _log_kappa(nu) + np.minimum(
            *(np.log(mu / nu) + 0.125 * (nu - mu) * (nu + mu) for mu in ends)
        )
        # Fewer decoys never decrease delta, so the possible rounding error is subtracted.
        log_kappa -= 16.0 * UNIT * (1.0 + nu * nu + np.abs(log_kappa))
        return decoy_trials(log_kappa, self.others.counts[may_hide])

    @property
    def best(self) -> tuple[float, float]:
        """The candidate for which the mean of the G has approximately the smallest variance."""

        def log_variance(candidate: tuple[float, float]) -> float:
            return _log_variance(self.mu, candidate[0], self.decoys(*candidate))

        return min(self.candidates, key=log_variance)


def _log_ratios(mu: float, nu: float, y: Floats) -> tuple[Floats, Floats]:
    """Return the logs of ``R(y|x) / w(y)`` at y >= 0 for the nearer and the farther end x."""
    scale = _log_kappa(nu) + np.log(mu / nu)
    near = 0.5 * (nu * (y + 0.5) - mu * (y - 0.5)) * (nu * (y + 0.5) + mu * (y - 0.5))
    farther = -0.5 * (mu - nu) * (mu + nu) * (y + 0.5) ** 2
    return scale + near, scale + farther


def _log_variance(mu: float, nu: float, decoys: RandomTrials) -> float:
    """Return approximately the log variance of the mean of the G, to compare values of nu."""
    y = (0.5 + 8.0 / mu) * np.arange(1, 401) / 400.0
    gap = -0.5 * (mu * (y - 0.5)) ** 2 + np.log(-np.expm1(-mu * mu * y))
    reports = 1.0 + float(decoys.counts @ (1.0 / (1.0 + np.exp(-decoys.log_odds))))
    spread = logsumexp(2.0 * gap + 0.5 * (nu * (y + 0.5)) ** 2)
    return float(spread) + _log_kappa(nu) - float(np.log(nu * reports))


def _nodes(mu: float, nu: float, reports: float, target_log_delta: float) -> Floats:
    """Return the nodes as distances from the interval's centre; the last one is the reach."""
    deviations = min(
        -float(ndtri_exp(target_log_delta + np.log(_TRUNCATED_SHARE))), _MAX_DEVIATIONS
    )
    reach = 0.5 + deviations / mu
    nodes = np.linspace(0.0, reach, 1 + int(np.ceil(_NODES_PER_DEVIATION * mu * reach)))
    if nu < mu:  # the maximum of the nearer end's ratio must be a node
        top = 0.5 * (mu * mu + nu * nu) / ((mu - nu) * (mu + nu))
        nodes = np.unique(np.append(nodes, min(top, reach)))
    hidden = _log_ratios(mu, nu, nodes)[0] <= np.log(_EXPOSED_RATIO * reports)
    return nodes if hidden.all() else nodes[: max(int(np.argmin(hidden)), 2)]


def _shares(ends: Floats, inside: Floats) -> Floats:
    """Return probabilities of right nodes that keep a ratio's mean, from logs of the ratio."""
    log_growth = np.diff(ends)[:, None]
    flat = log_growth == 0.0
    share = np.expm1(inside - ends[:-1, None]) / np.where(flat, 1.0, np.expm1(log_growth))
    return np.where(flat, 0.0, np.clip(share, 0.0, 1.0))


def _gaussian_target(mu: float, nu: float, nodes: Floats) -> Target:
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
    # Relative error in units of rounding: exponents of the masses, and about twenty operations.
    units = 128.0 + 4.0 * nu * nu * float(nodes[-1]) * (float(nodes[-1]) + 1.0)
    first, second = np.concatenate([near, farther]), np.concatenate([farther, near])
    return Target(first, second, np.concatenate([masses, masses]), units)


def gaussian_curve(
    groups: BudgetGroups, group: int, target_log_delta: float, first: int | None = None
) -> UpperCurve:
    """Return an upper bound on delta, for every data set, that holds for a range of mu.

    It is never above the curve of a single report without other users. The arguments are those of
    `laplace_curve`, with mu in place of the budget: the length of the records' interval in
    standard deviations of the noise, and 0 if a user reports nothing. `target_log_delta` is the
    approximate natural log of the delta of interest, at most 0. Truncation adds at most a
    thousandth of this delta. The curve is an upper bound for every eps.
    """
    first = group if first is None else first
    mu = float(groups.values[group])
    if not mu:
        return UpperCurve(0.0, upper=lambda _: -np.inf)
    users = _TargetAndOthers(float(groups.values[first]), mu, groups.without(first))
    nu, max_mu = users.best
    nodes = _nodes(mu, nu, float(groups.counts.sum()), target_log_delta)
    target, decoys = _gaussian_target(mu, nu, nodes), users.decoys(nu, max_mu)
    coarse = _gaussian_target(mu, nu, np.append(nodes[:-1:_COARSE_STEP], nodes[-1]))
    reach = float(nodes[-1])
    beyond = np.logaddexp(log_ndtr(mu * (0.5 - reach)), log_ndtr(mu * (-0.5 - reach)))
    # The allowance exceeds the rounding error and is negligible relative to delta.
    log_truncated = float(beyond) + 1e-9

    def with_truncation(eps: float, log_delta: float) -> float:
        alone = gdp_upper_log_delta(eps, mu)
        return min(float(np.logaddexp(log_delta, log_truncated)), alone, 0.0)

    def upper(eps: float) -> float:
        return with_truncation(eps, log_delta_among_decoys(eps, target, decoys))

    def estimate(eps: float) -> float:
        return with_truncation(eps, approximate_log_delta(eps, coarse, decoys))

    def inverse(log_delta: float) -> float:
        alone = gdp_epsilon(mu, log_delta)
        return calibrate.guided_epsilon(upper, log_delta, alone, "upper", estimate, XTOL)

    return UpperCurve(np.inf, upper=upper, hints=SearchHints(inverse=inverse))
