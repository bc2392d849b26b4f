"""Certified privacy of independent integer noise on every cell of a histogram.

The noise of a cell is an integer z with probability f(z), proportional to ``exp(log_weight(z))``:

- *geometric* (discrete Laplace) noise has log weights ``-noise_eps |z| / 2``;
- *discrete Gaussian* noise has log weights ``-z^2 / (2 sigma^2)``.

It may be truncated, that is, conditioned on ``z >= -nu``; then ``nu + z >= 0`` is a number of
dummies, which is added to the count. A second server may add independent noise with the same
weights, not truncated; then f is the law of the sum.

Neighbouring data sets differ in one record, which adds 1 to the first of two cells under P and to
the second under Q. Under P the loss ``log(P / Q)`` is the sum of two independent terms:

    l(z)       = log(f(z) / f(z + 1))       for the noise z of the first cell,
    -l(z - 1)  = log(f(z) / f(z - 1))       for the noise z of the second cell,

where the second term is infinite for the smallest possible z. They are the same for every data set,
and exchanging the cells gives the loss of Q against P. All these laws are log-concave, so l
increases. The curve of one round follows by a sum over the second cell, with a threshold for the
first. Over rounds, the losses of both cells are composed like those of any mechanism.

Sources: Ghosh, Roughgarden and Sundararajan, "Universally utility-maximizing privacy mechanisms"
(2009), for geometric noise; Canonne, Kamath and Steinke, "The discrete Gaussian for differential
privacy" (2020), for Gaussian noise. Truncation at ``-nu`` and the sum of two noises are new here.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from shuffledp.accounting.composition import compose
from shuffledp.accounting.conventions import eps_values
from shuffledp.accounting.curve import Composable, UpperCurve
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
from shuffledp.numerics.arrays import UNIT, Floats, Integers, log_sum_exp, sum_up
from shuffledp.numerics.posterior import NoiseLaw

MIN_SIGMA, MAX_SIGMA = 0.1, 1e4
MAX_NU = 2**53
# Values with a log probability below this, relative to the most likely value, are not listed. Upper
# ends count their probability as infinite loss.
LOG_NEGLIGIBLE_MASS = -700.0
# For a larger sigma, losses are rounded up to a coarser grid than the lattice of all losses.
MAX_LATTICE_SIGMA = 256.0
# Largest number of listed values. Above it, the curve of one of two noises replaces that of both.
MAX_LISTED = 2**23
# Smallest theta for which binomial probabilities keep their digits.
SMALLEST_THETA = 1e-290
# Half-width of a binomial law's truncation window: standard deviations plus a number of terms. The
# probability beyond is below exp(-750) times the probability within.
WINDOW_DEVIATIONS, WINDOW_MARGIN = 40.0, 800
# exp(-x) is set to 0 for x of this size or more.
MAX_EXPONENT = 700.0
# Masses below this may have lost digits by underflow.
SMALLEST_PRECISE_MASS = 1e-290


def check_nu(nu: float) -> None:
    """Raise `InputError` unless a cell's most likely number of dummies is from 0 to 2^53."""
    if not (0 <= nu <= MAX_NU and nu == int(nu)):
        raise InputError(
            "nu, the most likely number of a cell's dummies, must be an integer from 0 to 2^53, "
            f"got nu={nu}"
        )


@dataclass(frozen=True)
class CellLosses:
    """Losses of the two cells, for groups of values z with the same l(z).

    Attributes
    ----------
    losses
        The finite values of l, in increasing order.
    mass
        Probability that z is in the group: under P, that of loss l in the first cell.
    next_mass
        Probability that z - 1 is in the group: under P, that of loss -l in the second cell.
    unlisted
        Upper bound on the probability of all other values in the first cell.
    log_infinite
        Log of the probability of an infinite loss in the second cell. The upper end includes all
        values that are not listed.
    mass_error, loss_error
        Bounds on the relative error of the masses and the absolute error of the losses.
    step
        Distance between points of a grid that contains all losses; None if there is none, or it is
        too fine.
    """

    losses: Floats
    mass: Floats
    next_mass: Floats
    unlisted: float
    log_infinite: LogInterval
    mass_error: float
    loss_error: float
    step: float | None

    @cached_property
    def _tails(self) -> tuple[Floats, Floats]:
        """Sums of ``mass (1 - exp(L - l))`` and of ``mass exp(L - l)`` over all l >= L.

        They have an entry for each listed loss L. All their terms are positive, so that no digits
        are lost.
        """
        beyond = np.cumsum(self.next_mass[::-1])[::-1]  # mass exp(-l) is next_mass
        weights = self.mass.copy()
        positive = self.next_mass > 0.0
        weights[positive] /= self.next_mass[positive]
        weights[positive] *= beyond[positive]
        increments = -np.expm1(-np.diff(self.losses)) * weights[1:]
        return np.append(np.cumsum(increments[::-1])[::-1], 0.0), weights

    def _finite(self, eps: float) -> float:
        """Return the contribution of listed losses to the hockey-stick divergence."""
        excess_from, weight_from = self._tails
        threshold = eps + self.losses  # for the loss of the first cell
        first = np.searchsorted(self.losses, threshold, side="right")
        kept = first < self.losses.size
        first, threshold = first[kept], threshold[kept]
        shift = np.expm1(threshold - self.losses[first])
        excess = excess_from[first] - shift * weight_from[first]
        return float((self.next_mass[kept] * excess).sum())

    def log_delta(self, eps: float) -> LogInterval:
        """Enclose the log of the hockey-stick divergence of one round."""
        eps_values(eps)  # raises for a negative eps
        relative = 8.0 * self.mass_error + 4.0 * self.loss_error + 4.0 * UNIT * self.losses.size
        shift = 0.0
        if self.loss_error and eps < np.inf:
            largest = float(np.abs(self.losses[[0, -1]]).max())
            shift = 2.0 * self.loss_error + 4.0 * UNIT * (eps + largest)

        def end(sign: float) -> float:
            with np.errstate(divide="ignore"):
                logs = [float(np.log(self._finite(eps - sign * shift))) + sign * relative]
                if sign > 0.0:
                    logs += [float(np.log(self.unlisted)), self.log_infinite.high]
                else:
                    logs.append(self.log_infinite.low)
            value = float(np.logaddexp.reduce(logs))
            if value == -np.inf:
                return value
            return min(value + sign * UNIT * (64.0 + 8.0 * abs(value)), 0.0)

        return LogInterval(end(-1.0), end(1.0))

    def loss(self) -> Loss:
        """Return the privacy loss of one round, for composition with other rounds."""
        errors = (self.mass_error, self.loss_error)
        infinite, infinite_low = np.exp([self.log_infinite.high, self.log_infinite.low]).tolist()
        smallest = min(self.mass.min(), self.next_mass.min())
        may_underflow = smallest < SMALLEST_PRECISE_MASS or self.log_infinite.high > -np.inf
        # If values are unlisted, the bounds on their probability also cover underflow.
        underflow = UNDERFLOW if may_underflow and not self.unlisted else 0.0
        cells = []
        for losses, mass, high, low in (
            (self.losses, self.mass, self.unlisted, 0.0),
            (-self.losses, self.next_mass, infinite, infinite_low),
        ):
            listed = mass > 0.0
            outcomes = (losses[listed], mass[listed], high + underflow, low)
            cells.append(loss_of_outcomes(*outcomes, *errors))
        return loss_of_cells(cells, self.step)


@dataclass(frozen=True)
class _ListedLaw:
    """Probabilities of consecutive values of z, ``first, first + 1, ...``.

    ``losses`` has l(z) for all of them but the last. ``below`` and ``above`` are upper bounds on
    the probabilities of smaller and of larger values; ``below`` is 0 if there are none.
    """

    first: int
    mass: Floats
    losses: Floats
    below: float
    above: float
    error: float
    loss_error: float
    step: float | None = None

    def cell_losses(self) -> CellLosses:
        # `losses` has no entry for the first cell at the last value, nor for the second cell at the
        # first value. The probabilities of these are counted as infinite loss.
        edge_low, edge_high = (self.mass[[0, -1]] * (1.0 + 2.0 * self.error)).tolist()
        outside = self.below + self.above
        low = np.log(float(self.mass[0]) * (1.0 - self.error)) if not self.below else -np.inf
        return CellLosses(
            np.maximum.accumulate(self.losses),  # rounding disturbs their order
            self.mass[:-1],
            self.mass[1:],
            outside + edge_high,
            LogInterval(float(low), float(np.log(outside + edge_low))),
            self.error,
            self.loss_error,
            self.step,
        )

    @property
    def values(self) -> Floats:
        """All listed values of z."""
        return self.first + np.arange(self.mass.size, dtype=np.float64)

    @property
    def mean(self) -> float:
        return float(self.mass @ self.values)

    def absolute_error(self, mean: float) -> float:
        return float(self.mass @ np.abs(self.values - mean))


def _geometric_tail(edge: float, log_ratio: float) -> float:
    """Bound the mass beyond a value of mass ``edge``; logs fall by >= log_ratio a step."""
    return float(edge * np.exp(-log_ratio) / -np.expm1(-log_ratio)) * 1.01 + UNDERFLOW


@dataclass(frozen=True, kw_only=True)
class AdditiveNoise(ABC):
    """Law of the integer noise of a cell, the same and independent for all cells.

    Attributes
    ----------
    nu
        An integer from 0 to 2^53: the noise of the first server is truncated to at least -nu, and
        nu is added to it. inf if it is not truncated.
    servers
        1, or 2 if a second server adds noise, which is not truncated.
    """

    nu: float = np.inf
    servers: int = 1

    def __post_init__(self) -> None:
        if self.nu != np.inf:
            check_nu(self.nu)

    @property
    def centre(self) -> int:
        """Value that the noise of the first server most likely has: nu, or 0 if nu is infinite."""
        return int(self.nu) if self.nu < np.inf else 0

    @property
    @abstractmethod
    def budget(self) -> float:
        """Smallest eps at which one round has delta 0; inf if there is none."""

    @property
    @abstractmethod
    def largest_loss(self) -> float:
        """Supremum of the finite losses; inf if they are unbounded."""

    @cached_property
    @abstractmethod
    def cell_losses(self) -> CellLosses:
        """Losses of the two cells in one round."""

    @property
    @abstractmethod
    def is_listable(self) -> bool:
        """Whether all values that are not negligible can be listed."""

    @property
    @abstractmethod
    def mean(self) -> float:
        """Mean of the total noise of a cell; the second server's noise has mean 0."""

    @property
    def variance(self) -> float:
        """Variance of a cell's noise."""
        first = self._first_variance
        return first if self.servers == 1 else first + self.alone()._first_variance

    @property
    @abstractmethod
    def _first_variance(self) -> float:
        """Variance of the first server's noise."""

    @property
    @abstractmethod
    def absolute_error(self) -> float | None:
        """Mean absolute deviation from the mean; None if the law is too wide to be listed."""

    @abstractmethod
    def log_weight(self, noise: Floats) -> Floats:
        """Return the log of the probability of each value of the noise, up to a constant.

        ``noise`` includes nu: it is ``centre + z``. The result has the same shape.
        """

    @abstractmethod
    def _draw_first(self, k: int, rng: np.random.Generator) -> Integers:
        """Draw the noise of the first server for k cells, counted from its centre."""

    def alone(self, nu: float = np.inf) -> "AdditiveNoise":
        """Return the noise of a single server, by default not truncated, like the second one's."""
        return replace(self, nu=nu, servers=1)

    def curve(self, rounds: int = 1) -> UpperCurve:
        """Return the privacy curve after a number of rounds, each with fresh noise of this law."""
        return compose(self._one_round(), rounds)

    def _one_round(self) -> UpperCurve:
        if not self.is_listable:
            return self.alone().curve()  # more noise only adds privacy
        one_noise = self.alone().curve().upper if self.servers > 1 else None

        def upper(eps: float) -> float:
            if eps >= self.budget:
                return -np.inf
            high = self.cell_losses.log_delta(eps).high
            return high if one_noise is None else min(high, one_noise(eps))

        def lower(eps: float) -> float:
            return -np.inf if eps >= self.budget else self.cell_losses.log_delta(eps).low

        return UpperCurve(
            self.budget,
            upper=upper,
            lower=lower,
            horizon=self.largest_loss if self.budget == np.inf else np.inf,
            composable=Composable(loss=self._loss),
        )

    def _loss(self) -> Loss:
        return self.cell_losses.loss()

    def draw(self, k: int, rng: np.random.Generator) -> Integers:
        """Draw the noise of k cells, shape ``(k,)``."""
        noise = self.centre + self._draw_first(k, rng)
        return noise if self.servers == 1 else noise + self.alone()._draw_first(k, rng)

    @property
    def posterior_law(self) -> NoiseLaw:
        """Law of the noise, for posterior medians of the counts."""
        return NoiseLaw(float(np.sqrt(self.variance)), self.log_weight, self.centre)


@dataclass(frozen=True)
class GeometricNoise(AdditiveNoise):
    """Two-sided geometric noise with ``theta = exp(-noise_eps / 2)``.

    Without a condition, its largest loss is ``noise_eps``, positive and finite: the histogram has
    L1 sensitivity 2.
    """

    noise_eps: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not SMALLEST_EPS0 <= self.noise_eps < np.inf:
            raise InputError(
                f"eps of geometric noise must be at least {SMALLEST_EPS0:g} and finite, "
                f"got eps={self.noise_eps}"
            )

    @property
    def budget(self) -> float:
        return self.noise_eps if self.servers > 1 or self.nu == np.inf else np.inf

    @property
    def largest_loss(self) -> float:
        return self.noise_eps

    def _one_round(self) -> UpperCurve:
        once = super()._one_round()
        if self.servers > 1 or self.nu < np.inf:
            return once
        return replace(once, composable=replace(once.composable, repeated=self._rounds))

    def _rounds(self, rounds: int) -> UpperCurve:
        """Return the exact curve of several rounds of noise that is not truncated."""
        if rounds == 1:
            return self._one_round()
        return UpperCurve(
            sum_up([(rounds, self.noise_eps)]),
            upper=lambda eps: _composed_log_delta(eps, self.noise_eps, rounds).high,
            lower=lambda eps: _composed_log_delta(eps, self.noise_eps, rounds).low,
            composable=Composable(repeated=lambda times: self._rounds(rounds * times)),
        )

    @cached_property
    def cell_losses(self) -> CellLosses:
        """Losses of the two cells in one round."""
        if self.servers > 1:
            return self._cell_losses_of_sum()
        # l is -half below the centre and half from there on; the second cell's loss is infinite at
        # the smallest value. In closed form no mass is left out.
        half = self.noise_eps / 2.0
        depth = half * self.nu
        theta = np.exp(-half) if half < MAX_EXPONENT else 0.0
        cut = -np.expm1(-depth)  # 1 - theta^nu
        total = 1.0 + theta * cut  # the sum of theta^|z| times 1 - theta
        log_infinite = float(-depth + np.log(-np.expm1(-half)) - np.log1p(theta * cut))
        slack = UNIT * (16.0 + 8.0 * abs(log_infinite)) if depth < np.inf else 0.0
        return CellLosses(
            np.array([-half, half]),
            np.array([theta * cut, 1.0]) / total,
            np.array([cut, theta]) / total,
            unlisted=0.0,
            log_infinite=LogInterval(log_infinite - slack, log_infinite + slack),
            mass_error=16.0 * UNIT,
            loss_error=0.0,
            step=half,
        )

    @property
    def is_listable(self) -> bool:
        left = min(self.centre + 1.0, self._reach) if self.nu < np.inf else self._reach
        return self.servers == 1 or bool(left + self._reach < MAX_LISTED)

    @property
    def _reach(self) -> float:
        """Distance from the centre that the noise exceeds with probability about exp(-700)."""
        return float(np.ceil(-LOG_NEGLIGIBLE_MASS * 2.0 / self.noise_eps))

    def _law_of_sum(self, first: int) -> _ListedLaw:
        """Return the law of the sum of both noises, from ``centre + z = first`` on."""
        noise = np.arange(first, self.centre + int(self._reach) + 1, dtype=np.float64)
        theta, co_theta = self._theta
        # The sums of theta^|j| over j >= -nu, and over all j.
        cut = -np.expm1(-self.noise_eps / 2.0 * self.nu)
        logs = self.log_weight(noise) - np.log((1.0 + theta * cut) / co_theta)
        logs -= np.log((1.0 + theta) / co_theta)
        slack = float(UNIT * (128.0 + 8.0 * np.abs(logs).max()))  # rounding of the exponents
        mass, losses = np.exp(logs), -np.diff(logs)
        return _ListedLaw(
            first - self.centre,
            mass,
            losses,
            below=_geometric_tail(mass[0], -losses[0]),
            above=_geometric_tail(mass[-1], losses[-1]),
            error=slack,
            loss_error=slack,
        )

    def _cell_losses_of_sum(self) -> CellLosses:
        leftmost = self.centre - int(self._reach)
        if self.nu == np.inf or leftmost >= -1:
            return self._law_of_sum(leftmost).cell_losses()
        # Where centre + z < 0 the law is geometric and l constant, so these values form one group.
        cells = self._law_of_sum(-1).cell_losses()
        group = np.ones(cells.losses.size)
        group[0] /= self._theta[1]
        above = _geometric_tail(cells.next_mass[-1], cells.losses[-1])
        return replace(
            cells,
            mass=cells.mass * group,
            next_mass=cells.next_mass * group,
            unlisted=float(cells.next_mass[-1]) * (1.0 + 2.0 * cells.mass_error) + above,
            log_infinite=LogInterval(-np.inf, float(np.log(above))),
        )

    def log_weight(self, noise: Floats) -> Floats:
        half, nu = self.noise_eps / 2.0, self.nu
        if self.servers == 1:
            weights = -half * np.abs(noise - self.centre)
            return np.asarray(weights) if nu == np.inf else np.where(noise >= 0.0, weights, -np.inf)
        # The sum of theta^(|j - nu| + |x - j|) over j >= 0, for noise x, is theta^|x - nu| times
        # this weight.
        r = np.exp(-self.noise_eps) / -np.expm1(-self.noise_eps)
        if nu == np.inf:
            return np.asarray(np.log(np.abs(noise) + 1.0 + 2.0 * r) - half * np.abs(noise))
        inside = np.clip(noise, 0.0, nu)
        weights = 1.0 + 2.0 * r + np.abs(inside - np.maximum(noise, nu))
        weights -= r * np.exp(-self.noise_eps * inside)
        weights[noise <= 0.0] = nu + 1.0 + r
        return np.asarray(np.log(weights) - half * np.abs(noise - nu))

    @property
    def _theta(self) -> tuple[float, float]:
        """Theta, and 1 - theta without cancellation."""
        half = self.noise_eps / 2.0
        return float(np.exp(-half)), float(-np.expm1(-half))

    @property
    def _cut(self) -> tuple[float, float]:
        """Probability that is cut off at -nu, and the mean distance of that part from the centre.

        It has a geometric law that begins nu + 1 below the centre.
        """
        theta, co_theta = self._theta
        cut = float(np.exp(-self.noise_eps / 2.0 * (self.nu + 1.0))) / (1.0 + theta)
        return cut, self.nu + 1.0 + theta / co_theta

    @property
    def mean(self) -> float:
        """Mean of a cell's noise, in records."""
        if self.nu == np.inf:
            return 0.0
        cut, distance = self._cut
        return self.nu + cut * distance / (1.0 - cut)

    @property
    def _first_variance(self) -> float:
        theta, co_theta = self._theta
        odds = theta / co_theta  # mean of a geometric law, whose variance is odds / (1 - theta)
        variance = 2.0 * odds / co_theta
        if self.nu == np.inf:
            return variance
        cut, distance = self._cut
        shift = cut * distance / (1.0 - cut)
        return (variance - cut * (odds / co_theta + distance**2)) / (1.0 - cut) - shift**2

    @cached_property
    def absolute_error(self) -> float | None:
        """Mean absolute deviation from the mean, in records."""
        if self.servers > 1:
            if 2.0 * self._reach >= MAX_LISTED:
                return None
            return self._law_of_sum(self.centre - int(self._reach)).absolute_error(
                self.mean - self.centre
            )
        theta, co_theta = self._theta
        odds = theta / co_theta
        if self.nu == np.inf:
            return 2.0 * odds / (1.0 + theta)
        # The mean absolute deviation is twice the mean excess above the mean.
        cut, distance = self._cut
        shift = cut * distance / (1.0 - cut)
        first = float(np.floor(shift)) + 1.0
        return float(2.0 * theta**first * (first - shift + odds) / (1.0 + theta) / (1.0 - cut))

    def _draw_first(self, k: int, rng: np.random.Generator) -> Integers:
        def untruncated(size: int) -> Integers:
            first, second = rng.geometric(-np.expm1(-self.noise_eps / 2.0), size=(2, size))
            return np.asarray(first - second, dtype=np.int64)

        noise = untruncated(k)
        # Each draw is accepted with probability at least one half.
        while (low := np.flatnonzero(noise < -self.nu)).size:
            noise[low] = untruncated(low.size)
        return noise


def _composed_log_delta(eps: float, noise_eps: float, rounds: int) -> LogInterval:
    """Enclose log delta of geometric noise, not truncated, over rounds.

    In each round the loss of either of the two cells is ``noise_eps / 2`` with probability ``p = 1
    / (1 + theta)`` and ``-noise_eps / 2`` otherwise. The total loss is ``net * noise_eps``, where
    ``rounds + net`` is binomial with ``2 * rounds`` trials. The upper end is -inf if and only if
    ``eps >= rounds * noise_eps`` exactly.
    """
    eps_values(eps)  # raises for a negative eps
    if not np.isfinite(eps):
        return ZERO
    exact_eps, exact_noise_eps = Fraction(eps), Fraction(noise_eps)
    first = exact_eps // exact_noise_eps + 1  # smallest value of net with a loss above eps
    if first > rounds:
        return ZERO
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
    logs = log_mass + np.log(-np.expm1(-above))
    # The upper end counts losses outside the truncation window with their full probability.
    outside = [float(log_tail_ends(highest + 1.0, trials, p, q, 8.0).high)]
    if lowest > rounds + first:
        outside.append(float(log_tail_ends(rounds * 2 - lowest + 1.0, trials, q, p, 8.0).high))
    high = float(log_sum_exp(np.append(logs + error, outside)))
    low = float(log_sum_exp(logs - error)) if theta >= SMALLEST_THETA else -np.inf

    def slack(total: float) -> float:
        return UNIT * (32.0 + float(np.log2(logs.size + 2.0)) + 8.0 * abs(total))

    return LogInterval(low - slack(low) if low > -np.inf else low, min(high + slack(high), 0.0))


@dataclass(frozen=True)
class GaussianNoise(AdditiveNoise):
    """Discrete Gaussian noise with parameter sigma, from 0.1 to 1e4 counts.

    Sigma is nearly the standard deviation unless sigma or nu / sigma is small. All losses of one
    server are odd multiples of ``1 / (2 sigma^2)``. For sigma up to 256, upper ends of identical
    rounds therefore compose without rounding of losses.
    """

    sigma: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not MIN_SIGMA <= self.sigma <= MAX_SIGMA:
            raise InputError(
                f"sigma of discrete Gaussian noise must be from {MIN_SIGMA:g} to {MAX_SIGMA:g} "
                f"counts, got sigma={self.sigma}"
            )

    @property
    def budget(self) -> float:
        return np.inf

    @property
    def largest_loss(self) -> float:
        return np.inf

    @property
    def is_listable(self) -> bool:
        return True

    @cached_property
    def cell_losses(self) -> CellLosses:
        """Losses of the two cells in one round."""
        return self._law.cell_losses()

    @cached_property
    def _law(self) -> _ListedLaw:
        """Law without values of negligible probability."""
        return self._law_of_first_server if self.servers == 1 else self._law_of_sum()

    @cached_property
    def _law_of_first_server(self) -> _ListedLaw:
        """Law of the first server's noise."""
        reach = int(self.sigma * np.sqrt(-2.0 * LOG_NEGLIGIBLE_MASS))
        bounded = self.nu <= reach
        first, last = (-int(self.nu) if bounded else -reach), reach
        z = np.arange(first, last + 1, dtype=np.float64)
        rate = 0.5 / self.sigma**2
        weights = np.exp(-rate * z**2)
        total = float(weights.sum())
        # Exponents have a relative error of 4 units. The sum, and the division by it, add one for
        # each term; the terms that it leaves out are below a unit.
        exponent = rate * float(last) ** 2
        error = UNIT * (64.0 + 8.0 * exponent + 2.0 * z.size)
        # Ratios of consecutive weights fall, so the tail is at most a geometric series.
        beyond = float(np.exp(-rate * (last + 1.0) ** 2)) / -np.expm1(-rate * (2.0 * last + 3.0))
        beyond = float(beyond / total) * (1.0 + 16.0 * error) + UNDERFLOW
        losses = rate * (2.0 * z[:-1] + 1.0)
        return _ListedLaw(
            first,
            weights / total,
            losses,
            below=0.0 if bounded else beyond,
            above=beyond,
            error=error,
            loss_error=8.0 * UNIT * float(np.abs(losses).max()),
            step=rate if self.sigma <= MAX_LATTICE_SIGMA else None,
        )

    def _law_of_sum(self) -> _ListedLaw:
        """Return the law of the sum of both noises.

        Let the first noise be j and the second z - j. By
        ``j^2 + (z - j)^2 = z^2 / 2 + 2 (j - z / 2)^2``, the probability of z is proportional to
        ``exp(-z^2 / (4 sigma^2)) S(z)``, where S(z) is the sum of ``exp(-i^2 / sigma^2)`` over
        ``i = j - z / 2``, ``j >= -nu``.
        """
        reach = int(self.sigma * np.sqrt(-4.0 * LOG_NEGLIGIBLE_MASS))
        z = np.arange(-reach, reach + 1, dtype=np.float64)
        variance = self.sigma**2
        # For each parity: the numbers 2 i, and the sums S over each of them and all larger ones.
        span = int(2.0 * self.sigma * np.sqrt(-LOG_NEGLIGIBLE_MASS)) + 2
        sums = np.empty_like(z)
        for parity in (0, 1):
            twice_i = np.arange(-span + (span + parity) % 2, span + 1, 2, dtype=np.float64)
            terms = np.exp(-(twice_i**2) / (4.0 * variance))
            sum_from = np.append(np.cumsum(terms[::-1])[::-1], 0.0)
            has_parity = z % 2 == parity
            start = np.maximum(-2.0 * self.nu - z[has_parity], twice_i[0])
            index = np.minimum((start - twice_i[0]) / 2.0, twice_i.size).astype(np.int64)
            sums[has_parity] = sum_from[index]
        with np.errstate(divide="ignore"):
            logs = np.log(sums) - z**2 / (4.0 * variance)
        kept = np.flatnonzero(logs > LOG_NEGLIGIBLE_MASS)
        listed = slice(int(kept[0]), int(kept[-1]) + 1)
        z, sums, logs = z[listed], sums[listed], logs[listed]
        mass = np.exp(logs) / float(np.exp(logs).sum())
        error = UNIT * (128.0 + 16.0 * -LOG_NEGLIGIBLE_MASS + 4.0 * (z.size + span))
        losses = (2.0 * z[:-1] + 1.0) / (4.0 * variance) - np.diff(np.log(sums))
        return _ListedLaw(
            int(z[0]),
            mass,
            losses,
            below=_geometric_tail(mass[0], -losses[0]),
            above=_geometric_tail(mass[-1], losses[-1]),
            error=error,
            loss_error=error,
        )

    def log_weight(self, noise: Floats) -> Floats:
        listed = self._law
        index = np.asarray(noise - self.centre - listed.first, np.int64)
        inside = (index >= 0) & (index < listed.mass.size)
        with np.errstate(divide="ignore"):
            return np.where(inside, np.log(listed.mass[np.where(inside, index, 0)]), -np.inf)

    @cached_property
    def mean(self) -> float:
        """Mean of a cell's noise, in records."""
        return self.centre + self._law_of_first_server.mean

    @cached_property
    def _first_variance(self) -> float:
        first = self._law_of_first_server
        return float(first.mass @ (first.values - first.mean) ** 2)

    @cached_property
    def absolute_error(self) -> float:
        """Mean absolute deviation from the mean, in records."""
        return self._law.absolute_error(self.mean - self.centre)

    def _draw_first(self, k: int, rng: np.random.Generator) -> Integers:
        # Geometric noise is drawn and accepted with a probability that makes it Gaussian: Canonne,
        # Kamath and Steinke (2020), Algorithm 3.
        scale = np.floor(self.sigma) + 1.0
        proposals = GeometricNoise(2.0 / scale)
        drawn, missing = np.empty(k, np.int64), np.arange(k)
        while missing.size:
            proposal = proposals.draw(missing.size, rng)
            distance = (np.abs(proposal) - self.sigma**2 / scale) / self.sigma
            accepted = rng.random(missing.size) < np.exp(-0.5 * distance**2)
            accepted &= proposal >= -self.nu
            drawn[missing[accepted]] = proposal[accepted]
            missing = missing[~accepted]
        return drawn
