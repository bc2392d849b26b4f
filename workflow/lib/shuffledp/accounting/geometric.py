"""Exact privacy of two-sided geometric noise on every cell of a histogram, truncated or not.

The noise z of a cell has law ``f(z)`` proportional to ``theta^|z - nu|``, ``z >= 0``,
``theta = exp(-budget / 2)``; without truncation nu is infinite. The target's record x0 or x1 adds 1
to one of two cells. Let (a, b) be their counts without the other users' records:

    P(a, b) = f(a - 1) f(b),    Q(a, b) = f(a) f(b - 1).

``f(a - 1) / f(a)`` is ``theta`` for ``1 <= a <= nu`` and ``1 / theta`` above. So the loss
``log(P / Q)`` is infinite where b = 0, equals the budget where ``a > nu`` and ``1 <= b <= nu``, and
is at most 0 elsewhere. Hence the divergence is a sum of two terms. Exchanging a and b gives the
other direction, and the records of all others do not matter.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from shuffledp.accounting.conventions import eps_values
from shuffledp.accounting.laws.binomial import log_pmf_with_error, log_sf_ends
from shuffledp.accounting.laws.multinomial import ZERO, LogInterval
from shuffledp.accounting.rounds.privacy_loss import UNDERFLOW, Loss, Outcomes, loss_of_cells
from shuffledp.accounting.setting import SMALLEST_EPS0
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import UNIT, Floats, log_sum_exp


def check_budget(budget: float) -> None:
    """Check that a budget of two-sided geometric noise is at least 1e-200 and finite.

    Raises
    ------
    InputError
        If it is not: theta = exp(-budget / 2) must lie strictly between 0 and 1 as a float.
    """
    if not SMALLEST_EPS0 <= budget < np.inf:
        raise InputError(
            f"eps of geometric noise must be positive and finite, at least {SMALLEST_EPS0:g}, so "
            f"that theta = exp(-eps/2) lies strictly between 0 and 1 (got eps={budget})"
        )


def check_centre(nu: float) -> None:
    """Check that the centre of truncated noise is an integer >= 0 or infinite.

    Raises
    ------
    InputError
        If it is not.
    """
    if not (nu >= 0.0 and nu == np.floor(nu)):
        raise InputError(f"nu must be whole and at least 0, a number of dummies (got nu={nu})")


def geometric_noise(eps: float, budget: float, nu: float = np.inf) -> LogInterval:
    """Enclose the log of the exact delta of a histogram with two-sided geometric noise.

    Neighbours differ by the replacement of one record. Delta is the same in both directions and for
    all data sets.

    Parameters
    ----------
    eps
        At least 0.
    budget
        ``-2 log(theta)``, positive: the loss without truncation.
    nu
        Centre of the noise, an integer >= 0; inf without truncation.

    Returns
    -------
    Ends that differ by about 1e-14 relative to their size; both are -inf if delta is 0.

    Raises
    ------
    InputError
        If an argument is out of range.
    """
    eps_values(eps)
    check_budget(budget)
    check_centre(nu)
    half = budget / 2.0
    depth = half * nu
    theta, log_rest = np.exp(-half), np.log(-np.expm1(-half))
    below = -np.expm1(-depth)  # 1 - theta^nu
    log_total = np.log1p(theta * below)
    log_infinite = -depth + log_rest - log_total
    terms = [log_infinite]
    if eps < budget and nu > 0.0:
        terms.append(np.log(below) + np.log(-np.expm1(eps - budget)) - 2.0 * log_total)
    value = min(float(np.logaddexp.reduce(terms)), 0.0)
    if value == -np.inf:
        return ZERO
    # All parts of a term have the same sign, and each is accurate to a few units relative to its
    # size. The error of a term is weighted by the term's share of the sum.
    sizes = sum(abs(term) * np.exp(term - value) for term in terms if term > -np.inf)
    slack = float(UNIT * (64.0 + 8.0 * (sizes + abs(value))))
    return LogInterval(value - slack, min(value + slack, 0.0))


def composed_geometric_noise(eps: float, budget: float, rounds: int) -> float:
    """Return the log of the exact delta of untruncated geometric noise over rounds, rounded up.

    In each round the loss of either of the two cells is ``budget / 2`` with probability
    ``p = 1 / (1 + theta)`` and ``-budget / 2`` otherwise, so that the total loss is
    ``net * budget``, where ``rounds + net`` is binomial with ``2 * rounds`` trials.

    Parameters
    ----------
    eps
        Central budget of all rounds, at least 0.
    budget
        Budget of one round, as for `geometric_noise`.
    rounds
        Number of rounds, at least 1.

    Returns
    -------
    At most 0; -inf if and only if ``eps >= rounds * budget`` exactly.
    """
    eps_values(eps)
    check_budget(budget)
    if not np.isfinite(eps):
        return -np.inf
    exact_eps, exact_budget = Fraction(eps), Fraction(budget)
    first = exact_eps // exact_budget + 1  # smallest net loss above eps, in budgets
    if first > rounds:
        return -np.inf
    trials, theta = 2.0 * rounds, float(np.exp(-0.5 * budget))
    # The smaller probability is raised until floats keep all digits, which can only increase delta.
    p, q = 1.0 / (1.0 + theta), max(theta, SMALLEST_THETA) / (1.0 + theta)
    deviation = float(np.sqrt(trials * p * q))
    reach = WINDOW_DEVIATIONS * deviation + WINDOW_MARGIN
    lowest = max(rounds + first, int(trials * p - reach))
    highest = int(min(trials, max(lowest, trials * p) + reach))
    successes = np.arange(lowest, highest + 1, dtype=np.float64)
    # Excess of each loss over eps, as a sum of positive terms, so that no digits are lost.
    above = float(first * exact_budget - exact_eps) + (successes - rounds - first) * budget
    log_mass, error = log_pmf_with_error(successes, trials, p, q, 8.0)
    logs = log_mass + error + np.log(-np.expm1(-above))
    # Losses outside the window are counted with their full probability.
    outside = [float(log_sf_ends(highest + 1.0, trials, p, q, 8.0).high)]
    if lowest > rounds + first:
        outside.append(float(log_sf_ends(rounds * 2 - lowest + 1.0, trials, q, p, 8.0).high))
    total = float(log_sum_exp(np.append(logs, outside)))
    slack = UNIT * (32.0 + float(np.log2(logs.size + 2.0)) + 8.0 * abs(total))
    return min(total + slack, 0.0)


def geometric_loss(budget: float, nu: float = np.inf) -> Loss:
    """Return the privacy loss of a histogram with two-sided geometric noise.

    It is the sum of the losses of two cells. Each is plus or minus half the budget, or infinite if
    the noise of the cell without the record is 0.

    Parameters
    ----------
    budget, nu
        See `geometric_noise`.
    """
    half = budget / 2.0
    theta, rest, below = np.exp(-half), -np.expm1(-half), -np.expm1(-half * nu)
    total = 1.0 + theta * below  # total of the law, times 1 - theta
    infinite_mass = float(rest * np.exp(-half * nu) / total)
    error = UNIT * (16.0 + 8.0 * half)
    infinite_error = UNIT * (16.0 + 8.0 * half * (nu + 1.0)) if nu < np.inf else 0.0
    # The addend covers masses that underflow.
    underflow = UNDERFLOW if max(half, half * nu if nu < np.inf else 0.0) > MAX_EXPONENT else 0.0
    infinite_ends = (
        infinite_mass * (1.0 + infinite_error) + underflow,
        max(infinite_mass * (1.0 - infinite_error), 0.0),
    )

    def cell(down: float, up: float, infinite: float, infinite_low: float) -> Outcomes:
        losses, mass = np.array([-half, half]), np.array([down, up]) / total
        return Outcomes(
            losses[mass > 0.0], mass[mass > 0.0], infinite, infinite_low, error, UNIT * half
        )

    # The cell to which the record adds 1, and the other cell.
    return loss_of_cells(
        [cell(theta * below, 1.0, underflow, 0.0), cell(theta, below, *infinite_ends)], half
    )


# Smallest theta for which binomial probabilities keep their digits.
SMALLEST_THETA = 1e-290
# Window of a binomial law: a number of standard deviations plus a number of terms. The probability
# beyond is below exp(-750) times the probability within.
WINDOW_DEVIATIONS, WINDOW_MARGIN = 40.0, 800
# Exponentials of exponents up to this size, of either sign, neither overflow nor underflow.
MAX_EXPONENT = 300.0
# Log of the probability that is left out of the law of both noises.
LOG_TAIL_OF_BOTH = -700.0
# Largest number of values of the law of both noises; above it, the bound
# for one of the two noises alone is used.
MAX_LAW_VALUES = 2**23


@dataclass(frozen=True)
class BothNoises:
    """Law of the sum of truncated (about nu) and untruncated noise of a cell.

    Both have ``theta = exp(-budget / 2)``. The law is ``h(z) = c theta^|z - nu| w(z)``. With
    ``r = 1 / (1/theta^2 - 1)``, ``w(z)`` is ``nu + 1 + r`` for ``z <= 0``,
    ``nu - z + 1 + 2r - r theta^(2z)`` up to nu, and ``z - nu + 1 + 2r - r theta^(2 nu)`` above.
    Below 0 the law is geometric, and above nu its ratios fall to theta; it is log-concave.

    Attributes
    ----------
    budget, nu
        See `geometric_noise`, nu finite.
    """

    budget: float
    nu: float

    @property
    def known(self) -> bool:
        """Whether the law is short enough to be summed."""
        return bool(self.last < MAX_LAW_VALUES)

    @property
    def last(self) -> float:
        """A value that the noise exceeds with probability about exp(-700)."""
        return float(self.nu + np.ceil(-LOG_TAIL_OF_BOTH * 2.0 / self.budget))

    def log_law(self, first: int) -> Floats:
        """Return natural logs of h from ``first`` (at most 0) to `last`."""
        half, nu = self.budget / 2.0, self.nu
        z = np.arange(first, int(self.last) + 1, dtype=np.float64)
        r = np.exp(-self.budget) / -np.expm1(-self.budget)
        inside = np.clip(z, 0.0, nu)
        weights = (
            1.0 + 2.0 * r + np.abs(inside - np.maximum(z, nu)) - r * np.exp(-self.budget * inside)
        )
        weights[z <= 0.0] = nu + 1.0 + r
        theta, rest = np.exp(-half), -np.expm1(-half)
        # The sums of theta^|j| over j >= -nu, and over all j.
        total = (1.0 - theta * np.expm1(-half * nu)) / rest * (1.0 + theta) / rest
        return np.asarray(np.log(weights) - half * np.abs(z - nu) - np.log(total))

    @cached_property
    def loss(self) -> Loss:
        """Privacy loss of the two cells."""
        logs = self.log_law(-1)
        # Rounding of the exponents of the law.
        slack = float(UNIT * (128.0 + 8.0 * np.abs(logs).max()))
        losses, law = -np.diff(logs), np.exp(logs)
        # The loss is the same for all values up to 0.
        multiplicity = np.ones(losses.size)
        multiplicity[0] /= -np.expm1(-self.budget / 2.0)
        beyond = float(law[-1] / -np.expm1(logs[-1] - logs[-2]) * (1.0 + slack)) + UNDERFLOW
        return loss_of_cells(
            [
                Outcomes(losses, law[:-1] * multiplicity, beyond, 0.0, slack, slack),
                Outcomes(-losses, law[1:] * multiplicity, beyond, 0.0, slack, slack),
            ]
        )

    def log_delta(self, eps: float) -> float:
        """Return log delta of a histogram with both noises on every cell, rounded up.

        The loss of the two cells is a difference of values of ``log h(a - 1) / h(a)``, which grows
        with a. Where the noise of x1's cell is at most 0, the loss does not depend on its value.

        Parameters
        ----------
        eps
            At least 0.
        """
        logs = self.log_law(-1)
        # Losses for a = 0, 1, ..., last; rounding disturbs their order by less than the slack.
        losses = np.maximum.accumulate(-np.diff(logs))
        law = np.exp(logs)
        # Rounding of the exponents of the law, and of sums over it.
        slack = float(UNIT * (128.0 + 8.0 * np.abs(logs).max() + 2.0 * logs.size + 8.0 * eps))
        first = np.cumsum(law[:-1][::-1])[::-1]  # probability of a or more
        second = np.cumsum(law[1:][::-1])[::-1]
        start = np.searchsorted(losses, losses + (eps - slack))
        reachable = start < losses.size
        multiplicity = np.where(
            np.arange(losses.size) == 0, 1.0 / -np.expm1(-self.budget / 2.0), 1.0
        )
        p = (law[1:] * multiplicity)[reachable] * first[start[reachable]]
        with np.errstate(divide="ignore"):
            log_q = (
                eps
                + logs[:-1][reachable]
                + np.log(multiplicity[reachable])
                + np.log(second[start[reachable]])
            )
        q = np.minimum(np.exp(np.minimum(log_q, 0.0)), p)  # exp(eps) alone may overflow
        beyond = law[-1] / -np.expm1(logs[-1] - logs[-2]) + UNDERFLOW
        value = float((p - q).sum() + 4.0 * slack * (p + q).sum() + beyond)
        return min(float(np.log(value)), 0.0)
