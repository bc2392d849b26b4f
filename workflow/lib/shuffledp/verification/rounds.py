"""Compute delta of several rounds of shuffled k-RR in balls, from a grid of losses.

A certificate gives the probabilities p_i, i > 0, of the losses i * step, and that of an infinite
loss. P also has p_i exp(-i step) at -i step, and the remaining mass at a loss of 0; Q is its mirror
image. With alpha = exp(eps), the hockey-stick divergence of P and the true one of a round,
h(alpha) = sup sum (P - alpha Q)_+, are convex and non-increasing. That of P is linear between its
losses, constant above them, and 1 at alpha = 0. Both obey h(alpha) = 1 - alpha + alpha h(1/alpha).
So that of P is nowhere below the true one if, at the losses from 0 on, it is not below that of the
privacy blanket. Then the T-fold product dominates any T rounds with fresh randomness, even if each
is chosen after the results of the earlier ones
(Zhu, Dong and Wang 2022, theorem 10).

The product is a power of a polynomial in balls. The accountant uses Fourier transforms of floats.
"""

import math
from dataclasses import dataclass

from flint import arb, arb_poly

from shuffledp.verification.deltas import Job, RandomisedResponse, RefusedError, blanket

MIN_LOG_DELTA = -5000.0  # below this, the precision is insufficient
TERMS_PER_COEFFICIENT = 20  # a coefficient of the power takes as long as 20 terms of a sum


@dataclass(frozen=True)
class Grid:
    """Losses of one round: step, increasing ``(index, probability)``, mass of an infinite loss."""

    step: float
    masses: list[tuple[int, float]]
    infinite: float

    @property
    def last(self) -> int:
        """Index of the largest finite loss."""
        return self.masses[-1][0]

    def precision(self, eps0: float, eps: float, high: float) -> int:
        """Return a precision in bits for a claimed log delta `high` of all rounds at eps."""
        smallest = min(x for x in (eps0, eps, self.step, 1.0) if x > 0)
        # The smallest positive difference of eps0 and a loss.
        near = eps0 - self.step * math.floor(eps0 / self.step) if self.step < eps0 else eps0
        smallest = min(smallest, near) if near > 0.0 else smallest
        log2_delta = max(high, MIN_LOG_DELTA) / math.log(2.0)
        return 128 + math.ceil(6 * eps0 - math.log2(smallest) - log2_delta)

    def profile(self, index: int) -> arb:
        """Return the hockey-stick divergence at eps = index * step, index >= 0."""
        total = arb(self.infinite)
        for other, mass in self.masses:
            if other > index:
                total -= mass * (arb(self.step) * (index - other)).expm1()
        return total

    def law(self) -> list[arb]:
        """Return the probabilities of the losses -last * step, ..., last * step."""
        probabilities = [arb(0)] * (2 * self.last + 1)
        centre = 1 - arb(self.infinite)
        for index, mass in self.masses:
            probabilities[self.last + index] = arb(mass)
            probabilities[self.last - index] = mass * (-arb(self.step) * index).exp()
            centre -= mass + probabilities[self.last - index]
        if not centre >= 0:
            raise RefusedError("upper: the probabilities of the grid add up to more than 1")
        probabilities[self.last] = centre
        return probabilities


def composed(
    grid: Grid, n: int, k: int, eps0: float, eps: float, rounds: int
) -> tuple[list[tuple[arb, Job]], Job]:
    """Return what proves an upper end over rounds.

    Returns
    -------
    For each loss below eps0, the grid's delta of one round and the job for the delta of the privacy
    blanket, which must not be larger. Then the job for the delta of all rounds at eps.
    """
    if math.frexp(grid.step)[0] != 0.5:
        raise RefusedError("malformed certificate: step must be a power of 2")
    jobs = []
    for index in (0, *(index for index, _ in grid.masses)):
        loss = grid.step * index  # exact: a power of 2 times less than 2^53
        if loss < eps0:
            jobs.append((grid.profile(index), blanket(n, RandomisedResponse(k, eps0, loss))))

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

    return jobs, Job(TERMS_PER_COEFFICIENT * (2 * grid.last + 1) * rounds, run)
