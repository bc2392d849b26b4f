"""Compute delta of several rounds of shuffled k-RR in balls, from a grid of losses.

A certificate gives probabilities p_i, i > 0, of the losses i * step, and one of an infinite loss.
P also has p_i exp(-i step) at -i step, and what is missing to 1 at a loss of 0; Q is its mirror
image. With alpha = exp(eps), both P's and the true hockey-stick divergence of one round,
h(alpha) = sup sum (P - alpha Q)_+, are convex and do not grow. P's is linear between its losses,
constant above them, and 1 at alpha = 0. Both obey h(alpha) = 1 - alpha + alpha h(1/alpha). So P's
is nowhere below the truth if it is not below the privacy blanket's at the losses from 0 on. Then
the T-fold product dominates any T rounds with fresh randomness, also chosen in view of earlier ones
(Zhu, Dong and Wang 2022, theorem 10).

The product is a power of a polynomial in balls, which shares no Fourier transform of floats with
the accountant.
"""

import math
from dataclasses import dataclass

from flint import arb, arb_poly

from shuffledp.verification.deltas import (
    Job,
    Mechanism,
    RefusedError,
    blanket,
)

MIN_LOG_DELTA = -5000.0  # below this, the precision is insufficient
TERMS_PER_COEFFICIENT = 20  # time of a coefficient of the power, in terms of a sum


@dataclass(frozen=True)
class Grid:
    """Losses of one round: step, ``(index, probability)`` by index, mass of an infinite loss."""

    step: float
    masses: list[tuple[int, float]]
    infinite: float

    @property
    def last(self) -> int:
        """Index of the largest finite loss."""
        return self.masses[-1][0]

    def precision(self, eps0: float, eps: float, high: float) -> int:
        """Return the bits that may cancel, and those that small coefficients lose.

        Parameters
        ----------
        eps0, eps
            Local budget, and the eps of all rounds.
        high
            Natural log of the claimed delta.
        """
        least = min(x for x in (eps0, eps, self.step, 1.0) if x > 0)
        # The smallest positive difference of eps0 and a loss.
        near = eps0 - self.step * math.floor(eps0 / self.step) if self.step < eps0 else eps0
        least = min(least, near) if near > 0.0 else least
        deep = max(high, MIN_LOG_DELTA) / math.log(2.0)
        return 128 + math.ceil(6 * eps0 - math.log2(least) - deep)

    def profile(self, index: int) -> arb:
        """Return the hockey-stick divergence at eps = index * step, index >= 0."""
        total = arb(self.infinite)
        for other, mass in self.masses:
            if other > index:
                total -= mass * (arb(self.step) * (index - other)).expm1()
        return total

    def law(self) -> list[arb]:
        """Return the probabilities of the losses from -last to last, in steps."""
        mirrored = [arb(0)] * (2 * self.last + 1)
        centre = 1 - arb(self.infinite)
        for index, mass in self.masses:
            mirrored[self.last + index] = arb(mass)
            mirrored[self.last - index] = mass * (-arb(self.step) * index).exp()
            centre -= mass + mirrored[self.last - index]
        if not centre >= 0:
            raise RefusedError("upper: the probabilities of the grid add up to more than 1")
        mirrored[self.last] = centre
        return mirrored


def composed(
    grid: Grid, n: int, k: int, eps0: float, eps: float, rounds: int
) -> tuple[list[tuple[arb, Job]], Job]:
    """Return the bound on one round and its delta, at each loss, and the delta of all rounds.

    Parameters
    ----------
    grid
        The law of the loss in the certificate.
    n, k, eps0
        Users, cells and local budget of each round.
    eps
        Budget of all rounds together.
    rounds
        Number of rounds, at least 1.
    """
    if math.frexp(grid.step)[0] != 0.5:
        raise RefusedError("malformed certificate: step must be a power of 2")
    jobs = []
    for index in (0, *(index for index, _ in grid.masses)):
        loss = grid.step * index  # exact: a power of 2 times less than 2^53
        if loss < eps0:
            jobs.append((grid.profile(index), blanket(n, Mechanism(k, eps0, loss))))

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
