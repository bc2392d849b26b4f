"""Paper C's Fourier accountant (Algorithm 1): composition by FFT on a fixed grid.

The privacy loss of one round is rounded to m points of ``[-L, L)``, once down (left) and once up
(right). The laws are convolved by FFT, which is circular, and delta is a sum over the result. By
Lemma 6 the left and right grids enclose delta. The interval also covers losses above the grid
(infinite on the right grid, lowered to its last point on the left), omitted outcomes (an infinite
loss on the right, missing on the left), sums of losses that leave ``[-L, L)`` and wrap around
(Chernoff's bound), and floating-point rounding. The rounding error is about 1e-13 of the total mass
per round, so that, unlike the certified composition, this method cannot resolve smaller deltas.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy
from scipy.special import logsumexp

from shuffledp.accounting.conventions import Side, eps_values
from shuffledp.accounting.laws.multinomial import LogInterval
from shuffledp.accounting.pairs import Pair
from shuffledp.accounting.rounds.convolution import transform_error
from shuffledp.accounting.rounds.outcome_bundles import bundles
from shuffledp.accounting.rounds.privacy_loss import Tally
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import UNIT, Floats


@dataclass(frozen=True)
class LossAtoms:
    """Finite privacy losses of a round, their probabilities under P, and that of infinite loss."""

    losses: Floats
    masses: Floats
    infinite: float


@dataclass(frozen=True)
class GridComposition:
    """Composed law of the privacy loss on one grid.

    Attributes
    ----------
    losses, mass
        Positive grid points, and the probabilities of the composed law there.
    infinite
        Probability of an infinite loss in at least one round.
    wrap_error, transform_error
        Upper bounds on the probability that wraps around, and on the Euclidean norm of the
        rounding error of `mass`.
    mass_error, loss_error
        Relative error of one round's masses, and absolute error of its losses.
    """

    losses: Floats
    mass: Floats
    infinite: float
    wrap_error: float
    transform_error: float
    mass_error: float
    loss_error: float

    def delta(self, eps: float) -> tuple[float, float]:
        """Return delta by Algorithm 1, and a bound on the rounding error of its sum."""
        first = int(np.searchsorted(self.losses, eps, side="right"))
        weights = -np.expm1(eps - self.losses[first:])
        # Not BLAS, whose sums depend on the number of threads.
        value, squares = np.sum(weights * self.mass[first:]), np.sum(weights * weights)
        return self.infinite + float(value), float(np.sqrt(squares)) * self.transform_error


@dataclass(frozen=True)
class FourierBounds:
    """Composed laws on the left and the right grid."""

    left: GridComposition
    right: GridComposition
    rounds: int

    def log_delta(self, eps: float) -> LogInterval:
        """Enclose the log of delta at a total eps >= 0; the time is linear in the grid's size."""
        eps = float(eps_values(eps))
        low, low_error = self.left.delta(eps + self.rounds * self.left.loss_error)
        high, high_error = self.right.delta(eps - self.rounds * self.right.loss_error)
        low -= low_error + self.left.wrap_error
        high = max(high, 0.0) + high_error + self.right.wrap_error
        with np.errstate(divide="ignore"):
            log_low, log_high = float(np.log(max(low, 0.0))), float(np.log(high))
        log_low -= self.rounds * self.left.mass_error
        log_high += self.rounds * self.right.mass_error
        # The factors cover the rounding of the logs; neither is above 0.
        log_low, log_high = log_low * (1.0 + 8.0 * UNIT), log_high * (1.0 - 8.0 * UNIT)
        return LogInterval(min(log_low, 0.0), min(log_high, 0.0))


@dataclass(frozen=True)
class _Piece:
    """Some outcomes of a round: losses, their masses, and errors as in `GridComposition`."""

    losses: Floats
    masses: Floats
    mass_error: float = 0.0
    loss_error: float = 0.0


def _pieces(loss: Pair | LossAtoms, side: Side) -> tuple[Iterator[_Piece], float]:
    """Return outcomes that dominate (upper) or are dominated, and the mass that they leave out."""
    if isinstance(loss, LossAtoms):
        whole = np.append(loss.losses, np.inf), np.append(loss.masses, loss.infinite)
        return iter([_Piece(*whole)]), 0.0
    parts, left_out = bundles(loss, side)

    def both_signs() -> Iterator[_Piece]:
        for losses, masses, *errors in parts:
            yield _Piece(losses, masses, *errors)
            finite = np.isfinite(losses)
            mirrored = masses[finite] * np.exp(-losses[finite])
            yield _Piece(-losses[finite], mirrored, *errors)

    return both_signs(), left_out


def _wrap_bound(points: Floats, mass: Floats, rounds: int, half_width: float, side: Side) -> float:
    """Return Chernoff's bound on the probability that the sum of the losses wraps around.

    Sums above the grid reappear at its lower end, where the upper bound on delta misses them. Sums
    below the grid reappear at its upper end, where the lower bound must not count them.
    """
    used = mass > 0.0
    log_mass, losses = np.log(mass[used]), points[used] * (1 if side == "upper" else -1)

    def exponent(log_lam: float) -> float:
        lam = np.exp(log_lam)
        return float(rounds * logsumexp(log_mass + lam * losses) - lam * half_width)

    best = scipy.optimize.minimize_scalar(
        exponent, bounds=(-10.0, 14.0), method="bounded", options={"xatol": 0.01}
    )
    return float(np.exp(min(best.fun, 0.0)))


def _composed(
    loss: Pair | LossAtoms, rounds: int, half_width: float, n_grid: int, side: Side
) -> GridComposition:
    step, half = 2.0 * half_width / n_grid, n_grid // 2
    pieces, left_out = _pieces(loss, side)
    infinite = left_out if side == "upper" else 0.0
    tally, mass_error, loss_error = Tally(n_grid), 0.0, 0.0
    for piece in pieces:
        losses, masses = piece.losses, piece.masses
        mass_error = max(mass_error, piece.mass_error)
        loss_error = max(loss_error, piece.loss_error)
        index = (np.ceil if side == "upper" else np.floor)(losses / step) + half
        beyond = index >= n_grid
        if side == "upper":
            # A loss above the grid counts as infinite; one below is dominated by the grid's end.
            infinite += float(masses[beyond].sum())
            index = np.maximum(index, 0.0)
        else:
            infinite += float(masses[losses == np.inf].sum())
            index = np.where(beyond & (losses < np.inf), n_grid - 1, index)
        inside = (index >= 0) & (index < n_grid)
        tally.add(index[inside], masses[inside])
    rounding = 8.0 * UNIT * (1.0 + half_width)
    points, mass = step * np.arange(-half, half, dtype=np.float64), tally.total
    # The permutation D of Algorithm 1: the loss 0 comes first.
    power = scipy.fft.rfft(np.fft.ifftshift(mass)) ** rounds
    composed = np.fft.fftshift(scipy.fft.irfft(power, n_grid))
    return GridComposition(
        losses=points[half + 1 :],
        mass=composed[half + 1 :],
        infinite=float(-np.expm1(rounds * np.log1p(-min(infinite, 1.0)))),
        wrap_error=_wrap_bound(points, mass, rounds, half_width, side),
        transform_error=transform_error(n_grid, rounds, float(np.linalg.norm(mass))),
        mass_error=mass_error + tally.error + rounding,
        loss_error=loss_error + rounding,
    )


def fourier_bounds(
    loss: Pair | LossAtoms, rounds: int, half_width: float = 20.0, n_grid: int = 10_000_000
) -> FourierBounds:
    """Return the laws of the privacy loss over ``rounds`` rounds, rounded down and up on a grid.

    The loss is a pair whose two laws are mirror images, or the loss atoms of any other pair.
    `rounds` is at least 1 (n_c in the paper). `half_width` and `n_grid` are L and m of the paper:
    the grid is ``-L + 2 L i / m``, with m even. Source: paper C, section 2.2, Algorithm 1 and Lemma
    6, with the grid of appendix C; the bounds on the errors are this project's.
    """
    if not (rounds >= 1 and rounds == int(rounds)):
        raise InputError(f"rounds must be an integer >= 1, got {rounds!r}")
    if n_grid < 2 or n_grid % 2:
        raise InputError(f"n_grid must be an even integer >= 2, got {n_grid}")
    if not (half_width > 0.0 and np.isfinite(half_width)):
        raise InputError(f"half_width must be positive and finite, got {half_width}")
    left = _composed(loss, rounds, half_width, n_grid, "lower")
    right = _composed(loss, rounds, half_width, n_grid, "upper")
    return FourierBounds(left, right, rounds)
