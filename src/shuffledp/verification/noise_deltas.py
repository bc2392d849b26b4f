"""Compute deltas of true reports with noise of servers or users, from the noise in one cell.

A party sees in every cell the number of true records plus noise with law h, independent of the
other cells. The target's record is in one of two cells. Let a and b be their counts without the
records of other users: P(a, b) = h(a - 1) h(b) and Q(a, b) = h(a) h(b - 1). So for every data set
delta = E (r - e^eps r')_+, with r = h(a - 1) / h(a) and an independent r' of the same law.
Exchanging the cells gives the other direction of the divergence.

 * Two-sided geometric noise, theta = exp(-budget / 2): r is 1 / theta above the centre and theta
   elsewhere. So delta = (1 - exp(eps - budget))_+ / (1 + theta)^2.
 * The same noise, but never below -nu: h(-nu - 1) = 0, so r' can also be 0, with probability
   h(-nu). With T = 1 + theta - theta^(nu + 1), delta = theta^nu (1 - theta) / T
   + (1 - theta^nu) (1 - exp(eps - budget))_+ / T^2.
 * The sum of two such noises: h is the sum of two recursions, from below and from above.
 * Discrete Gaussian noise, possibly never below -nu, and the sum of both noises: h and r follow
   from the definition, and the sum is a product of polynomials.
"""

import itertools
import math
from collections.abc import Sequence

from flint import arb, arb_poly

from shuffledp.verification.deltas import Job

TERMS_PER_MASS = 20  # computing time of a probability, in inner terms of a sum
TERMS_PER_PRODUCT = 4  # computing time of a product's probability, for each unit of the level
LEVEL = 60.0  # truncation windows leave out a probability of about exp(-LEVEL) times delta


def mean_excess(masses: Sequence[arb], ratios: Sequence[arb], e: arb) -> arb:
    """Return a ball whose upper end bounds E (r - e r')_+ for independent r and r', with e >= 1.

    r and r' have the given ratios with probabilities ``masses``. Ratios are sorted as floats. Where
    balls overlap, so that their order is unknown, a ratio is replaced by one on the safe side.
    """
    order = sorted(range(len(ratios)), key=lambda i: float(ratios[i]))
    # Exact non-decreasing bounds: r is at most `above`, and e r at least `below`.
    above, below = list[arb](), list[arb]()
    for i in order:
        high = ratios[i].upper()
        above.append(above[-1] if above and above[-1] > high else high)
    for i in reversed(order):
        low = (e * ratios[i].lower()).lower()
        below.append(below[-1] if below and below[-1] < low else low)
    below.reverse()
    first, second = [arb(0)], [arb(0)]  # cumulative sums from the largest r
    for place, i in zip(reversed(above), reversed(order), strict=True):
        first.append(first[-1] + masses[i] * place)
        second.append(second[-1] + masses[i])
    total, start = arb(0), 0
    for threshold, j in zip(below, order, strict=True):
        while start < len(above) and above[start] <= threshold:
            start += 1
        left = len(above) - start
        total += masses[j] * (first[left] - threshold * second[left])
    return total


def delta_of_law(law: Sequence[tuple[arb, arb]], eps: float) -> arb:
    """Return a ball whose upper end bounds delta, from probabilities of values and their ratios r.

    Values may be left out.
    """
    masses, ratios = [mass for mass, _ in law], [ratio for _, ratio in law]
    # Mass left out for the other cell, and for the record's cell, where E r = 1.
    left_out = 2 - sum(masses, arb(0))
    left_out -= sum((m * r for m, r in zip(masses, ratios, strict=True)), arb(0))
    return mean_excess(masses, ratios, arb(eps).exp()) + left_out.max(arb(0))


def geometric(budget: float, nu: int | None, eps: float) -> Job:
    """Compute delta of two-sided geometric noise, never below -nu (unbounded if nu is None)."""

    def run() -> arb:
        theta = (-arb(budget) / 2).exp()
        factor = -(arb(eps) - arb(budget)).expm1() if eps < budget else arb(0)
        if nu is None:
            return factor / (1 + theta) ** 2
        lowest = (-arb(budget) / 2 * nu).exp()
        whole = 1 + theta - lowest * theta
        return lowest * (1 - theta) / whole + (1 - lowest) * factor / whole**2

    return Job(1, run)


def both_noises(budget: float, nu: int, eps: float, level: float) -> Job:
    """Compute delta of the sum of the shuffler's noise, never below -nu, and the analyst's.

    Windows leave out a probability of about exp(-level).
    """
    reach = math.ceil(2.0 * level / budget)
    low, high = -nu - reach, reach

    def run() -> arb:
        theta, zero = (-arb(budget) / 2).exp(), arb(0)
        powers = [arb(1)]
        for _ in range(max(nu, reach)):
            powers.append(powers[-1] * theta)
        # Sums of theta^|z| over the noise of the analyst and of the shuffler.
        analyst_sum = (1 + theta) / (1 - theta)
        shuffler_sum = (1 + theta - theta * powers[nu]) / (1 - theta)

        def shuffler_mass(z: int) -> arb:
            return powers[abs(z)] / shuffler_sum if z >= -nu else zero

        from_below = list[arb]()
        for z in range(low, high + 1):
            before = from_below[-1] * theta if from_below else zero
            from_below.append(before + shuffler_mass(z))
        from_above = [shuffler_mass(high) * theta**2 / (1 - theta**2)]
        for z in range(high - 1, low - 1, -1):
            from_above.append(theta * (from_above[-1] + shuffler_mass(z + 1)))
        from_above.reverse()
        law = [(x + y) / analyst_sum for x, y in zip(from_below, from_above, strict=True)]
        ratios = [law[i - 1] / law[i] for i in range(1, len(law))]
        left_out = 2 * (1 - sum(law[1:-1], zero))
        return mean_excess(law[1:], ratios, arb(eps).exp()) + left_out.max(zero)

    return Job(TERMS_PER_MASS * (high - low), run)


def gaussian(sigma: float, nu: int | None, eps: float, level: float) -> Job:
    """Compute delta of discrete Gaussian noise, never below -nu (unbounded if nu is None).

    Windows leave out a probability of about exp(-level).
    """
    reach = gaussian_reach(sigma, level)

    def run() -> arb:
        bounded = nu is not None and nu <= reach
        return delta_of_law(neighbour_ratios(gaussian_law(sigma, nu, reach), bounded), eps)

    return Job(2 * TERMS_PER_MASS * reach, run)


def both_gaussians(sigma: float, nu: int, eps: float, level: float) -> Job:
    """Compute delta of the sum of the shuffler's noise, never below -nu, and the analyst's.

    Windows leave out a probability of about exp(-level).
    """
    # The sum is used where its probability is far above what windows of its summands leave out.
    reach = gaussian_reach(sigma, 2.0 * level + 40.0)

    def run() -> arb:
        dummies, noise = gaussian_law(sigma, nu, reach), gaussian_law(sigma, None, reach)
        products = (arb_poly(dummies) * arb_poly(noise)).coeffs()
        left_out = arb(0).union(1 - sum(products, arb(0)))
        smallest = (-arb(level) - 20).exp()
        law = [mass + left_out for mass in products if mass > smallest]  # h is log-concave
        return delta_of_law(neighbour_ratios(law, bounded=False), eps)

    return Job(math.ceil(TERMS_PER_PRODUCT * level * reach), run)


def gaussian_reach(sigma: float, level: float) -> int:
    """Return a number that Gaussian noise exceeds with a probability of about exp(-level)."""
    return math.ceil(sigma * math.sqrt(2.0 * level)) + 1


def gaussian_law(sigma: float, nu: int | None, reach: int) -> list[arb]:
    """Return the probabilities of discrete Gaussian noise from -reach, or -nu if larger, to reach.

    They are proportional to exp(-z^2 / (2 sigma^2)). Noise is never below -nu, and unbounded if nu
    is None.
    """
    rate, bounded = 1 / (2 * arb(sigma) ** 2), nu is not None and nu <= reach
    first = -nu if nu is not None and bounded else -reach
    weights = [(-rate * z**2).exp() for z in range(first, reach + 1)]
    # Ratios of consecutive weights fall, so each tail is at most a geometric series.
    tail = (-rate * (reach + 1) ** 2).exp() / (1 - (-rate * (2 * reach + 3)).exp())
    total = sum(weights, arb(0).union(tail if bounded else 2 * tail))
    return [weight / total for weight in weights]


def neighbour_ratios(law: Sequence[arb], bounded: bool) -> list[tuple[arb, arb]]:
    """Return h(z) and r = h(z - 1) / h(z) for consecutive values z of a law.

    The first value, at which r needs the law at a smaller one, is left out unless it is the
    smallest possible value (``bounded``).
    """
    ratios = [(mass, before / mass) for before, mass in itertools.pairwise(law)]
    return [(law[0], arb(0)), *ratios] if bounded else ratios
