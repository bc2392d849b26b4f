"""Exact privacy of two-sided geometric noise on every cell of a histogram, truncated or not.

The noise of a cell is an integer z >= 0 with probability f(z) proportional to ``theta^|z - nu|``,
where ``theta = exp(-noise_eps / 2)``. Noise without truncation is the limit of large nu. The
distinguished user's record is in cell x0 under P and in x1 under Q. Let a and b be the counts of x0
and x1 minus the other users' records:

    P(a, b) = f(a - 1) f(b),    Q(a, b) = f(a) f(b - 1).

``f(a - 1) / f(a)`` is 0 for ``a = 0``, ``theta`` for ``1 <= a <= nu`` and ``1 / theta`` above. So
the loss ``log(P / Q)`` is infinite where b = 0, equals ``noise_eps`` where ``a > nu`` and
``1 <= b <= nu``, and is at most 0 elsewhere. Hence delta is a sum of two terms. It is the same for
Q against P, by symmetry, and for all records of the other users.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from shuffledp.accounting.conventions import eps_values
from shuffledp.accounting.laws.binomial import log_pmf_with_error, log_tail_ends
from shuffledp.accounting.laws.multinomial import ZERO, LogInterval
from shuffledp.accounting.rounds.privacy_loss import (
    UNDERFLOW,
    Loss,
    loss_of_cells,
    loss_of_outcomes,
)
from shuffledp.accounting.setting import SMALLEST_EPS0
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import UNIT, Floats, log_sum_exp


def check_noise_eps(noise_eps: float) -> None:
    """Raise `InputError` unless the eps of geometric noise is at least 1e-200 and finite."""
    if not SMALLEST_EPS0 <= noise_eps < np.inf:
        raise InputError(
            f"eps of geometric noise must be at least {SMALLEST_EPS0:g} and finite, "
            f"got eps={noise_eps}"
        )


def check_centre(nu: float) -> None:
    """Raise `InputError` unless the centre of truncated noise is an integer >= 0 or infinite."""
    if not (nu >= 0.0 and nu == np.floor(nu)):
        raise InputError(f"nu, the centre of the noise, must be an integer >= 0, got nu={nu}")


def geometric_log_delta(eps: float, noise_eps: float, nu: float = np.inf) -> LogInterval:
    """Return an interval around log delta of a histogram with two-sided geometric noise.

    Neighbouring data sets differ by the replacement of one record; all such pairs have the same
    delta. Both ends are -inf if delta is 0; else their deltas differ by about 1e-14 (relative).

    Parameters
    ----------
    eps
        At least 0.
    noise_eps
        ``-2 log(theta)``, positive: the largest loss without truncation.
    nu
        Centre of the noise, an integer >= 0; inf without truncation.
    """
    eps_values(eps)
    check_noise_eps(noise_eps)
    check_centre(nu)
    half = noise_eps / 2.0
    depth = half * nu
    theta, log_co_theta = np.exp(-half), np.log(-np.expm1(-half))
    below = -np.expm1(-depth)  # 1 - theta^nu
    log_total = np.log1p(theta * below)
    log_infinite = -depth + log_co_theta - log_total
    terms = [log_infinite]
    if eps < noise_eps and nu > 0.0:
        terms.append(np.log(below) + np.log(-np.expm1(eps - noise_eps)) - 2.0 * log_total)
    value = min(float(np.logaddexp.reduce(terms)), 0.0)
    if value == -np.inf:
        return ZERO
    # All summands of a term have the same sign and are accurate to a few units relative to their
    # size. The error of a term is weighted by its share of the total.
    sizes = sum(abs(term) * np.exp(term - value) for term in terms if term > -np.inf)
    slack = float(UNIT * (64.0 + 8.0 * (sizes + abs(value))))
    return LogInterval(value - slack, min(value + slack, 0.0))


def composed_geometric_log_delta(eps: float, noise_eps: float, rounds: int) -> float:
    """Return an upper bound, tight up to rounding, on log delta of untruncated noise over rounds.

    In each round the loss of either of the two cells is ``noise_eps / 2`` with probability
    ``p = 1 / (1 + theta)`` and ``-noise_eps / 2`` otherwise. The total loss is
    ``net * noise_eps``, where ``rounds + net`` is binomial with ``2 * rounds`` trials.

    ``noise_eps`` is that of one round, see `geometric_log_delta`. The result is -inf if and only if
    ``eps >= rounds * noise_eps`` exactly.
    """
    eps_values(eps)
    check_noise_eps(noise_eps)
    if not np.isfinite(eps):
        return -np.inf
    exact_eps, exact_noise_eps = Fraction(eps), Fraction(noise_eps)
    first = exact_eps // exact_noise_eps + 1  # smallest value of net with a loss above eps
    if first > rounds:
        return -np.inf
    trials, theta = 2.0 * rounds, float(np.exp(-0.5 * noise_eps))
    # The smaller probability is raised until floats keep all digits, which can only increase delta.
    p, q = 1.0 / (1.0 + theta), max(theta, SMALLEST_THETA) / (1.0 + theta)
    deviation = float(np.sqrt(trials * p * q))
    reach = WINDOW_DEVIATIONS * deviation + WINDOW_MARGIN
    lowest = max(rounds + first, int(trials * p - reach))
    highest = int(min(trials, max(lowest, trials * p) + reach))
    successes = np.arange(lowest, highest + 1, dtype=np.float64)
    # Loss minus eps, as a sum of positive terms, so that no digits are lost.
    with np.errstate(over="ignore"):
        steps = (successes - rounds - first) * noise_eps
        above = float(first * exact_noise_eps - exact_eps) + steps
    log_mass, error = log_pmf_with_error(successes, trials, p, q, 8.0)
    logs = log_mass + error + np.log(-np.expm1(-above))
    # Losses outside the truncation window are counted with their full probability.
    outside = [float(log_tail_ends(highest + 1.0, trials, p, q, 8.0).high)]
    if lowest > rounds + first:
        outside.append(float(log_tail_ends(rounds * 2 - lowest + 1.0, trials, q, p, 8.0).high))
    total = float(log_sum_exp(np.append(logs, outside)))
    slack = UNIT * (32.0 + float(np.log2(logs.size + 2.0)) + 8.0 * abs(total))
    return min(total + slack, 0.0)


def geometric_loss(noise_eps: float, nu: float = np.inf) -> Loss:
    """Return the privacy loss of one round of a histogram with two-sided geometric noise.

    It is the sum of the losses of two cells. Each is ``noise_eps / 2`` or ``-noise_eps / 2``, or
    infinite if the cell without the distinguished user's record has noise 0. See
    `geometric_log_delta` for the arguments.
    """
    half = noise_eps / 2.0
    theta, co_theta, below = np.exp(-half), -np.expm1(-half), -np.expm1(-half * nu)
    total = 1.0 + theta * below  # (1 - theta) times the sum of theta^|z - nu|
    infinite_mass = float(co_theta * np.exp(-half * nu) / total)
    error = UNIT * (16.0 + 8.0 * half)
    infinite_error = UNIT * (16.0 + 8.0 * half * (nu + 1.0)) if nu < np.inf else 0.0
    # Added to cover masses that underflow.
    underflow = UNDERFLOW if max(half, half * nu if nu < np.inf else 0.0) > MAX_EXPONENT else 0.0
    infinite_ends = (
        infinite_mass * (1.0 + infinite_error) + underflow,
        max(infinite_mass * (1.0 - infinite_error), 0.0),
    )

    def cell(negative: float, positive: float, infinite: float, infinite_low: float) -> Loss:
        """Return the outcomes of a cell with losses -half and half, and an infinite loss.

        ``negative`` and ``positive`` are the probabilities of the finite losses times ``total``.
        """
        losses, mass = np.array([-half, half]), np.array([negative, positive]) / total
        return loss_of_outcomes(
            losses[mass > 0.0], mass[mass > 0.0], infinite, infinite_low, error, UNIT * half
        )

    # The cell to which the record adds 1, and the other cell.
    return loss_of_cells(
        [cell(theta * below, 1.0, underflow, 0.0), cell(theta, below, *infinite_ends)], half
    )


# Smallest theta for which binomial probabilities keep their digits.
SMALLEST_THETA = 1e-290
# Half-width of a binomial law's truncation window: standard deviations plus a number of terms. The
# probability beyond is below exp(-750) times the probability within.
WINDOW_DEVIATIONS, WINDOW_MARGIN = 40.0, 800
# Exponentials of exponents up to this size, of either sign, neither overflow nor underflow.
MAX_EXPONENT = 300.0
# Log of the probability left out of the law of `BothNoises`.
LOG_TAIL_OF_BOTH = -700.0
# Largest number of values of that law. Above it, callers use the bound for one of the two noises.
MAX_LAW_VALUES = 2**23


@dataclass(frozen=True)
class BothNoises:
    """Sum of two independent noises of a cell: one truncated, with centre nu, and one untruncated.

    Both have ``theta = exp(-noise_eps / 2)``. The law is ``h(z) = c theta^|z - nu| w(z)``. With
    ``r = 1 / (1/theta^2 - 1)``, ``w(z)`` is ``nu + 1 + r`` for ``z <= 0``,
    ``nu - z + 1 + 2r - r theta^(2z)`` up to nu, and ``z - nu + 1 + 2r - r theta^(2 nu)`` above.
    Below 0 the law is geometric. It is log-concave: ``h(z + 1) / h(z)`` falls from ``1 / theta``
    towards theta as z grows.

    Attributes
    ----------
    noise_eps, nu
        See `geometric_log_delta`, nu finite.
    """

    noise_eps: float
    nu: float

    @property
    def is_summable(self) -> bool:
        """Whether the law is short enough to be summed."""
        return bool(self.last < MAX_LAW_VALUES)

    @property
    def last(self) -> float:
        """Value that the noise exceeds with probability about exp(-700)."""
        return float(self.nu + np.ceil(-LOG_TAIL_OF_BOTH * 2.0 / self.noise_eps))

    def log_law(self, first: int) -> Floats:
        """Return natural logs of h from ``first`` (at most 0) to `last`."""
        return self.log_probability(np.arange(first, int(self.last) + 1, dtype=np.float64))

    def log_probability(self, z: Floats) -> Floats:
        """Return the natural log of h(z) for each integer z; same shape."""
        half, nu = self.noise_eps / 2.0, self.nu
        r = np.exp(-self.noise_eps) / -np.expm1(-self.noise_eps)
        inside = np.clip(z, 0.0, nu)
        weights = (
            1.0
            + 2.0 * r
            + np.abs(inside - np.maximum(z, nu))
            - r * np.exp(-self.noise_eps * inside)
        )
        weights[z <= 0.0] = nu + 1.0 + r
        theta, co_theta = np.exp(-half), -np.expm1(-half)
        # The sums of theta^|j| over j >= -nu, and over all j.
        total = (1.0 - theta * np.expm1(-half * nu)) / co_theta * (1.0 + theta) / co_theta
        return np.asarray(np.log(weights) - half * np.abs(z - nu) - np.log(total))

    @cached_property
    def loss(self) -> Loss:
        """Privacy loss of one round: the sum of the losses of the two cells."""
        logs = self.log_law(-1)
        # Rounding of the exponents of the law.
        slack = float(UNIT * (128.0 + 8.0 * np.abs(logs).max()))
        losses, law = -np.diff(logs), np.exp(logs)
        # The loss is the same for all values up to 0, whose masses form a geometric series.
        multiplicity = np.ones(losses.size)
        multiplicity[0] /= -np.expm1(-self.noise_eps / 2.0)
        beyond = float(law[-1] / -np.expm1(logs[-1] - logs[-2]) * (1.0 + slack)) + UNDERFLOW
        return loss_of_cells(
            [
                loss_of_outcomes(losses, law[:-1] * multiplicity, beyond, 0.0, slack, slack),
                loss_of_outcomes(-losses, law[1:] * multiplicity, beyond, 0.0, slack, slack),
            ]
        )

    def log_delta(self, eps: float) -> float:
        """Return an upper bound on log delta of a histogram with both noises on every cell.

        The loss of counts (a, b) is ``L(a) - L(b)``, where ``L(z) = log(h(z - 1) / h(z))`` grows
        with z and is constant for z <= 0.
        """
        logs = self.log_law(-1)
        # Losses for a = 0, 1, ..., last; rounding disturbs their order by less than the slack.
        losses = np.maximum.accumulate(-np.diff(logs))
        law = np.exp(logs)
        # Rounding of the exponents of the law, and of sums over it.
        slack = float(UNIT * (128.0 + 8.0 * np.abs(logs).max() + 2.0 * logs.size + 8.0 * eps))
        # Probabilities of a or more, with and without the record.
        first = np.cumsum(law[:-1][::-1])[::-1]
        second = np.cumsum(law[1:][::-1])[::-1]
        start = np.searchsorted(losses, losses + (eps - slack))
        reachable = start < losses.size
        multiplicity = np.where(
            np.arange(losses.size) == 0, 1.0 / -np.expm1(-self.noise_eps / 2.0), 1.0
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
