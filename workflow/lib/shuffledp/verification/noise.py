"""Deltas of true reports among the noise of servers or users, in balls, from its law in a cell.

Of a cell is seen x true records and noise of law h, independent of all other cells. Hence on every
data set P(a, b) = h(a - 1) h(b) against Q(a, b) = h(a) h(b - 1) in the two cells of the target, and
with r = h(a - 1) / h(a) and an independent r' of the same law, delta = E (r - e^eps r')_+.
Exchanging the cells gives the other direction.

 * Two-sided geometric noise, theta = exp(-budget / 2): r is 1 / theta above its centre, else theta.
   So delta = (1 - exp(eps - budget))_+ / (1 + theta)^2.
 * The same, but never below -nu: h(-nu - 1) = 0, so that r' = 0 has the mass h(-nu) too. With T = 1
   + theta - theta^(nu + 1), delta = theta^nu (1 - theta) / T + (1 - theta^nu) (1 - exp(eps -
   budget))_+ / T^2.
 * The sum of both: h by two recursions, of what lies below and above.
 * Signed dummies: (a, b) = (A + Z, B + Z). r = 1 / q where a > b, of mass q / (1 + q); else it
   depends on t = a: G(t) = P(Z = t) + q^2 G(t - 1), r = q G(t - 1) / G(t), of mass (1 - q) G(t). If
   A and B are of another size than 1, with chances g, it is of the table h(a, b) = sum_z P(Z = z)
   g(a - z) g(b - z). It is that of M users; others are told. Who has more messages than fit draws
   anew, which moves the law of one user by the chance of that: M (1 + e^eps) times it is added.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from flint import arb, arb_poly

from shuffledp.verification.deltas import Job, RefusedError

# A term of a law takes as long as so many inner terms of a sum.
TERM = 20
# And an entry of a table.
ENTRY = 6
# How much less than delta, in nats, windows leave out.
LEVEL = 60.0


def at_least(masses: Sequence[arb], ratios: Sequence[arb], e: arb) -> arb:
    """E (r - e r')_+ of the masses that are given: the ball's upper end is not below it.

    They are sorted by floats. Where balls do not tell the order, one ratio is taken for larger, or
    smaller, than it is.

    Parameters
    ----------
    masses, ratios
        The law of r, and of r'.
    e
        At least 1.
    """
    order = sorted(range(len(ratios)), key=lambda i: float(ratios[i]))
    # Exact numbers, which do not fall: r is at most the first, e r at least the second.
    above, below = list[arb](), list[arb]()
    for i in order:
        high = ratios[i].upper()
        above.append(above[-1] if above and above[-1] > high else high)
    for i in reversed(order):
        low = (e * ratios[i].lower()).lower()
        below.append(below[-1] if below and below[-1] < low else low)
    below.reverse()
    first, second = [arb(0)], [arb(0)]  # of r from the largest on
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


def geometric(budget: float, nu: int | None, eps: float) -> Job:
    """Two-sided geometric noise, never below -nu; None: the whole law.

    Parameters
    ----------
    budget
        Positive.
    nu
        At least 0.
    eps
        At least 0.
    """

    def run() -> arb:
        theta = (-arb(budget) / 2).exp()
        less = -(arb(eps) - arb(budget)).expm1() if eps < budget else arb(0)
        if nu is None:
            return less / (1 + theta) ** 2
        lowest = (-arb(budget) / 2 * nu).exp()
        whole = 1 + theta - lowest * theta
        return lowest * (1 - theta) / whole + (1 - lowest) * less / whole**2

    return Job(1, run)


def both_noises(budget: float, nu: int, eps: float, deep: float) -> Job:
    """The sum of the noise of mixer and analyst.

    Parameters
    ----------
    budget, nu, eps
        As for `geometric`.
    deep
        Windows leave out about exp(-deep).
    """
    reach = math.ceil(2.0 * deep / budget)
    low, high = -nu - reach, reach  # the mixer's noise is from -nu on

    def run() -> arb:
        theta, zero = (-arb(budget) / 2).exp(), arb(0)
        powers = [arb(1)]
        for _ in range(max(nu, reach)):
            powers.append(powers[-1] * theta)
        one = (1 + theta) / (1 - theta)  # sums of theta^|z|, of the analyst and of the mixer
        other = (1 + theta - theta * powers[nu]) / (1 - theta)

        def mixers(z: int) -> arb:
            return powers[abs(z)] / other if z >= -nu else zero

        from_below = list[arb]()
        for z in range(low, high + 1):
            before = from_below[-1] * theta if from_below else zero
            from_below.append(before + mixers(z))
        from_above = [mixers(high) * theta**2 / (1 - theta**2)]
        for z in range(high - 1, low - 1, -1):
            from_above.append(theta * (from_above[-1] + mixers(z + 1)))
        from_above.reverse()
        law = [(x + y) / one for x, y in zip(from_below, from_above, strict=True)]
        ratios = [law[i - 1] / law[i] for i in range(1, len(law))]
        beyond = 2 * (1 - sum(law[1:-1], zero))
        return at_least(law[1:], ratios, arb(eps).exp()) + beyond.max(zero)

    return Job(TERM * (high - low), run)


@dataclass(frozen=True)
class SignedDummies:
    """A user's dummies: as the certificate has them, shape None for a Poisson number of pairs."""

    ratio: float
    pairs: float
    shape: float | None
    slots: int
    smallest: int
    size: float = 1.0

    def twins(self, times: arb, last: int) -> list[arb]:
        """Chances of 0, 1, ..., last pairs of so many times all cells' users."""
        if self.shape is None:
            mean = arb(self.pairs) * times
            found = [(-mean).exp()]
            for t in range(last):
                found.append(found[-1] * mean / (t + 1))
            return found
        share = arb(self.pairs) / (arb(self.pairs) + arb(self.shape))
        return negative_binomial(arb(self.shape) * times, share, last)

    def overflow(self, k: int) -> arb:
        """Chance that a user's messages over k cells are more than the slots."""
        room, times = self.slots - 1, arb(k) / self.smallest
        fit, total = list[arb](), arb(0)
        for chance in negative_binomial(2 * arb(self.size) * times, arb(self.ratio), room):
            total += chance
            fit.append(total)
        pairs = self.twins(times, room // 2)
        return 1 - sum((p * fit[room - 2 * t] for t, p in enumerate(pairs)), arb(0))

    def last(self, deep: float) -> int:
        """What the smaller number of a cell's messages exceeds by about exp(-deep)."""
        spread = 1.0 if self.shape is None else 1.0 + self.pairs / self.shape
        reach = deep * spread / 3.0 + math.sqrt(
            (deep * spread) ** 2 / 9.0 + 2.0 * deep * self.pairs
        )
        reach += (spread - 1.0) * deep
        return math.ceil(self.pairs + reach - 0.5 * deep / math.log(self.ratio))

    def delta(self, k: int, eps: float, deep: float) -> Job:
        """Of who opens the messages, with at least the smallest number of honest users.

        Parameters
        ----------
        k
            Number of cells.
        eps
            At least 0.
        deep
            As for `both_noises`.
        """
        first, last, reach = self.first(deep), self.last(deep), self.reach(deep)
        terms = TERM * last if self.size == 1.0 else ENTRY * 2 * reach * (last - first)

        def run() -> arb:
            e = arb(eps).exp()
            found = self.formula(last) if self.size == 1.0 else self.table(first, last, reach)
            masses, ratios = [mass for mass, _ in found], [ratio for _, ratio in found]
            if not all(ratio.is_finite() for ratio in ratios):
                raise RefusedError("the law of the pairs is not told in balls")
            # Of the other cell, and of the record's: E r = 1.
            beyond = 2 - sum(masses, arb(0))
            beyond -= sum((m * r for m, r in zip(masses, ratios, strict=True)), arb(0))
            over = self.smallest * self.overflow(k).max(arb(0)) * (1 + e)
            return at_least(masses, ratios, e) + beyond.max(arb(0)) + over

        return Job(terms + TERM * self.slots, run)

    def formula(self, last: int) -> list[tuple[arb, arb]]:
        """Masses of the noise and ratios r, of geometric A and B."""
        q, before = arb(self.ratio), arb(0)
        found = [(q / (1 + q), 1 / q)]
        for chance in self.twins(arb(1), last):
            weight = chance + q * q * before
            found.append(((1 - q) * weight, q * before / weight))
            before = weight
        return found

    def reach(self, deep: float) -> int:
        """What A or B exceeds by about exp(-deep)."""
        return math.ceil((deep + 4.0 * self.size) / -math.log(self.ratio))

    def first(self, deep: float) -> int:
        """What Z is below by about exp(-deep)."""
        if self.shape is not None:
            return 0
        return max(math.floor(self.pairs - math.sqrt(2.0 * deep * self.pairs)), 0)

    def table(self, first: int, last: int, reach: int) -> list[tuple[arb, arb]]:
        """As `formula`, of any A and B: where Z, A and B are not too large, nor Z too small.

        Parameters
        ----------
        first, last
            Of Z.
        reach
            The largest difference of A and B, and of the smaller one of them.
        """
        single = negative_binomial(arb(self.size), arb(self.ratio), 2 * reach)
        pairs = arb_poly(self.twins(arb(1), last)[first:])
        # By the difference of a and b, from 0 on, and the smaller one.
        rows = list[list[arb]]()
        for d in range(reach + 1):
            both = arb_poly([single[t] * single[t + d] for t in range(reach)])
            rows.append((pairs * both).coeffs())
        found = list[tuple[arb, arb]]()
        for less, row in itertools.pairwise(rows):
            # a > b: a - 1 is nearer to b; a <= b: it is farther from it.
            found += [(mass, other / mass) for mass, other in zip(row, less, strict=True)]
            found += [
                (mass, other / mass) for mass, other in zip(less, [arb(0), *row[:-1]], strict=True)
            ]
        return found


def negative_binomial(size: arb, ratio: arb, last: int) -> list[arb]:
    """Chances of 0, 1, ..., last.

    Parameters
    ----------
    size
        Positive.
    ratio
        In (0, 1).
    last
        At least 0.
    """
    found = [(1 - ratio) ** size]
    for t in range(last):
        found.append(found[-1] * ratio * (size + t) / (t + 1))
    return found
