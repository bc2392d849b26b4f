"""Compute delta of several rounds of k-RR in ball arithmetic, from a grid of privacy losses.

A certificate gives the probabilities p_i of the losses i * step, i > 0, and that of an infinite
loss. They define a pair (P, Q) for one round: under P, the loss is also -i * step with probability
p_i exp(-i * step), and 0 with the remaining probability. Q is the mirror image of P.

Let h(alpha), with alpha = exp(eps), be the hockey-stick divergence sum (P - alpha Q)_+ of this
pair, and let h*(alpha) be the largest divergence of the true round over all data sets. Both are
convex and non-increasing, and obey h(alpha) = 1 - alpha + alpha h(1/alpha). h is linear between the
losses of the grid, constant above them, and 1 at alpha = 0. Hence h >= h* everywhere if, at each
loss from 0 on, h is at least the bound of the privacy blanket. Then the T-fold product of the
pair dominates any T rounds with fresh randomness, even if each round is chosen after the results of
earlier ones (Zhu, Dong and Wang 2022, theorem 10).

The product is a power of a polynomial in balls, whereas the accountant uses Fourier transforms of
floats.
"""

import math
from dataclasses import dataclass

from flint import arb, arb_poly

from shuffledp.verification.deltas import Job, RandomisedResponse, RefusedError, blanket

MIN_LOG_DELTA = -5000.0  # the precision is not increased for smaller deltas
TERMS_PER_COEFFICIENT = 20  # cost of one coefficient of the power, as `Job` counts terms


@dataclass(frozen=True)
class Grid:
    """Losses of one round: grid step, ascending ``(index, probability)``, and mass at infinity."""

    step: float
    masses: list[tuple[int, float]]
    infinite: float

    @property
    def last(self) -> int:
        """Index of the largest finite loss."""
        return self.masses[-1][0]

    def precision(self, eps0: float, eps: float, high: float) -> int:
        """Return a precision in bits that should suffice to prove the upper log delta `high`.

        If it does not, the certificate is refused. More bits are needed if eps0 is just above a
        grid point, so that their difference loses digits, and if delta is small.
        """
        # The smallest positive difference between eps0 and a loss.
        gap = eps0 - self.step * math.floor(eps0 / self.step) if self.step < eps0 else eps0
        smallest = min(x for x in (eps0, eps, self.step, 1.0, gap) if x > 0)
        log2_delta = max(min(high, 0.0), MIN_LOG_DELTA) / math.log(2.0)
        return 128 + math.ceil(6 * eps0 - math.log2(smallest) - log2_delta)

    def profile(self, index: int) -> arb:
        """Return the hockey-stick divergence h of the pair at eps = index * step, index >= 0."""
        total = arb(self.infinite)
        for larger, mass in self.masses:
            if larger > index:
                total -= mass * (arb(self.step) * (index - larger)).expm1()
        return total

    def law(self) -> list[arb]:
        """Return the probabilities under P of the losses -last * step, ..., last * step."""
        probabilities = [arb(0)] * (2 * self.last + 1)
        centre = 1 - arb(self.infinite)
        for index, mass in self.masses:
            probabilities[self.last + index] = arb(mass)
            probabilities[self.last - index] = mass * (-arb(self.step) * index).exp()
            centre -= mass + probabilities[self.last - index]
        if not centre >= 0:
            raise RefusedError(
                "upper: the grid's probabilities are not shown to add up to at most 1"
            )
        probabilities[self.last] = centre
        return probabilities


def composed(
    grid: Grid, n: int, k: int, eps0: float, eps: float, rounds: int
) -> tuple[list[tuple[arb, Job]], Job]:
    """Return what proves an upper end: checks of one round, and a job for all rounds.

    There is a check for 0 and for each positive loss of the grid below eps0: one round's delta
    according to the grid, and the job that computes the privacy blanket's delta, which must not be
    larger. The second result is the job that computes the delta of all rounds at eps.
    """
    if math.frexp(grid.step)[0] != 0.5:
        raise RefusedError("malformed certificate: step must be a power of 2")
    checks = []
    for index in (0, *(index for index, _ in grid.masses)):
        loss = grid.step * index  # exact: a power of 2 times an integer below 2^53
        if loss < eps0:
            checks.append((grid.profile(index), blanket(n, RandomisedResponse(k, eps0, loss))))

    def run() -> arb:
        power = arb_poly(grid.law()) ** rounds
        first = -rounds * grid.last
        start = max(math.floor(eps / grid.step), first)
        shrink, factor = (-arb(grid.step)).exp(), (eps - arb(grid.step) * start).exp()
        total = 1 - (1 - arb(grid.infinite)) ** rounds
        for index in range(start, rounds * grid.last + 1):
            total += power[index - first] * (1 - factor).max(arb(0))
            factor *= shrink
        return total

    return checks, Job(TERMS_PER_COEFFICIENT * (2 * grid.last + 1) * rounds, run)
