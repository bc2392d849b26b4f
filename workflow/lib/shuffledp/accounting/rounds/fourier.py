"""Paper C's Fourier accountant (Algorithm 1): composition by FFT on a fixed grid, with all errors.

The loss of one round is put on m points of ``[-L, L)``, rounded to the left and to the right; the
laws are convolved by FFT, which is circular, and delta is summed up. Lemma 6: the left and right
grids enclose delta. Three errors are added to the interval, each computed: losses beyond the grid
and outcomes left out (infinite loss to the right, missing to the left), sums of losses that leave
``[-L, L)`` and wrap around (Chernoff's bound), and floating point. The last is some 1e-13 of the
total mass per round: unlike `composition`, this method says nothing about smaller deltas.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy
from scipy.special import logsumexp

from shuffledp.accounting.laws.binomial import log_cdf, log_pmf, log_sf
from shuffledp.accounting.laws.multinomial import LogInterval, MultinomialPair, log_mean_excess
from shuffledp.accounting.rounds.composition import transform_error
from shuffledp.accounting.rounds.privacy_loss import LinearPair, bundles, other_report
from shuffledp.arrays import Floats

# Paper C, appendix C.
HALF_WIDTH = 20.0
N_GRID = 10_000_000
# Relative error of every probability of one round, as in `composition`.
_ROUNDING = 1e-11
_WIDTH = 9.3
_MARGIN = 20.0
_BLOCK = 1_000_000


@dataclass(frozen=True)
class LossAtoms:
    """Losses of the outcomes of one round, and their probabilities under P.

    Attributes
    ----------
    losses, masses
        Finite losses in any order, and their probabilities.
    infinite
        Probability of an infinite loss.
    left_out
        Bound of the probability of all outcomes left out.
    """

    losses: Floats
    masses: Floats
    infinite: float
    left_out: float


@dataclass(frozen=True)
class GridComposition:
    """``rounds`` rounds of a loss on one grid, composed.

    Attributes
    ----------
    losses, mass
        The positive grid points and the composed law there.
    infinite
        Probability of an infinite loss in some round.
    wrap_error, transform_error
        Bounds of the probability that wraps around, and of the Euclidean norm of the rounding
        error of `mass`.
    """

    losses: Floats
    mass: Floats
    infinite: float
    wrap_error: float
    transform_error: float

    def delta(self, eps: float) -> tuple[float, float]:
        """Delta by Algorithm 1, and a bound of the numerical error of its sum."""
        first = int(np.searchsorted(self.losses, eps, side="right"))
        value, squares = 0.0, 0.0
        for i in range(first, self.losses.size, _BLOCK):
            weights = -np.expm1(eps - self.losses[i : i + _BLOCK])
            value += float(np.sum(weights * self.mass[i : i + _BLOCK]))
            squares += float(np.sum(weights * weights))  # BLAS would sum by its threads
        return self.infinite + value, float(np.sqrt(squares)) * self.transform_error


@dataclass(frozen=True)
class FourierBounds:
    """Left and right grid of a composition."""

    left: GridComposition
    right: GridComposition
    rounds: int

    def log_delta(self, eps: float) -> LogInterval:
        """Enclose the log of delta at a total eps of at least 0; the time is linear in the grid."""
        if not eps >= 0.0:
            raise ValueError(f"eps must be at least 0 (got eps={eps})")
        slack = self.rounds * _ROUNDING
        low, low_error = self.left.delta(eps + 2.0 * slack)
        high, high_error = self.right.delta(max(eps - 2.0 * slack, 0.0))
        low -= low_error + self.left.wrap_error
        high = max(high, 0.0) + high_error + self.right.wrap_error
        with np.errstate(divide="ignore"):
            return LogInterval(
                float(np.log(max(low, 0.0)) - slack), float(min(np.log(high) + slack, 0.0))
            )


def _pieces(
    loss: LinearPair | LossAtoms, *, up: bool
) -> tuple[Iterator[tuple[Floats, Floats]], float, float]:
    """Losses and masses that dominate (up) or are dominated; infinite mass; mass left out."""
    if isinstance(loss, LossAtoms):
        return iter([(loss.losses, loss.masses)]), loss.infinite, loss.left_out
    parts, left_out = bundles(loss, up=up)

    def both_signs() -> Iterator[tuple[Floats, Floats]]:
        for part in parts:
            for losses, masses in part.spread() if up else [part.pooled()]:
                yield losses, masses
                finite = np.isfinite(losses)
                yield -losses[finite], masses[finite] * np.exp(-losses[finite])

    return both_signs(), 0.0, left_out


def _wrap_bound(points: Floats, mass: Floats, rounds: int, half_width: float, sign: int) -> float:
    """Chernoff's bound of the probability that ``sign * sum`` is at least the half-width."""
    used = mass > 0.0
    log_mass, losses = np.log(mass[used]), sign * points[used]

    def exponent(log_lam: float) -> float:
        lam = np.exp(log_lam)
        return float(rounds * logsumexp(log_mass + lam * losses) - lam * half_width)

    best = scipy.optimize.minimize_scalar(
        exponent, bounds=(-10.0, 14.0), method="bounded", options={"xatol": 0.01}
    )
    return float(np.exp(min(best.fun, 0.0)))


def _composed(
    loss: LinearPair | LossAtoms, rounds: int, half_width: float, n_grid: int, *, up: bool
) -> GridComposition:
    step = 2.0 * half_width / n_grid
    half = n_grid // 2
    pieces, infinite, left_out = _pieces(loss, up=up)
    mass = np.zeros(n_grid)
    for losses, masses in pieces:
        index = (np.ceil(losses / step) if up else np.floor(losses / step)) + half
        beyond = index >= n_grid
        # Only an infinite loss is as bad as one beyond the grid; below, the grid's end is.
        infinite += float(masses[beyond & (up | np.isinf(losses))].sum())
        if not up:
            index = np.where(beyond & np.isfinite(losses), n_grid - 1, index)
        below = index < 0
        index = np.where(below, 0.0, index) if up else index
        inside = (index >= 0) & (index < n_grid)
        mass += np.bincount(index[inside].astype(np.int64), masses[inside], minlength=n_grid)
    infinite += left_out if up else 0.0
    points = step * np.arange(-half, half, dtype=np.float64)
    wrap = _wrap_bound(points, mass, rounds, half_width, 1 if up else -1)
    # Algorithm 1's D: the loss 0 comes first.
    power = scipy.fft.rfft(np.fft.ifftshift(mass)) ** rounds
    composed = np.fft.fftshift(scipy.fft.irfft(power, n_grid))
    return GridComposition(
        losses=points[half + 1 :],
        mass=composed[half + 1 :],
        infinite=float(-np.expm1(rounds * np.log1p(-min(infinite, 1.0)))),
        wrap_error=wrap,
        transform_error=transform_error(n_grid, rounds, float(np.linalg.norm(mass))),
    )


def fourier_bounds(
    loss: LinearPair | LossAtoms,
    rounds: int,
    half_width: float = HALF_WIDTH,
    n_grid: int = N_GRID,
) -> FourierBounds:
    """Compose ``rounds`` rounds of a pair on paper C's grid, rounded to either side.

    Parameters
    ----------
    loss
        A pair of `privacy_loss`, or the atoms of any other.
    rounds
        At least 1 (n_c in the paper).
    half_width, n_grid
        L and m of the paper: the grid is ``-L + 2 L i / m``. m is even.

    Raises
    ------
    ValueError
        If ``rounds`` or the grid is outside its range.

    Source: paper C, section 2.2, Algorithm 1 and Lemma 6; the bounds of the errors are our own.
    """
    if not (rounds >= 1 and rounds == int(rounds)):
        raise ValueError(f"rounds must be an integer of at least 1 (got {rounds!r})")
    if n_grid < 2 or n_grid % 2:
        raise ValueError(f"n_grid must be even and at least 2 (got n_grid={n_grid})")
    if not (half_width > 0.0 and np.isfinite(half_width)):
        raise ValueError(f"half_width must be positive and finite (got {half_width})")
    left, right = (_composed(loss, rounds, half_width, n_grid, up=up) for up in (False, True))
    return FourierBounds(left, right, rounds)


def fourier_log_delta(
    eps: float,
    loss: LinearPair | LossAtoms,
    rounds: int,
    half_width: float = HALF_WIDTH,
    n_grid: int = N_GRID,
) -> LogInterval:
    """Enclose the log of delta by Algorithm 1, at one eps; arguments as for `fourier_bounds`."""
    return fourier_bounds(loss, rounds, half_width, n_grid).log_delta(eps)


# --- The pairs of paper C, corrected ------------------------------------------------------------


def strong_pair(eps0: float, n: int, k: int) -> LinearPair:
    """``(N1 + 1, N2)`` against ``(N1, N2 + 1)``, (N1, N2) trinomial of n - 1 trials with q, q.

    What paper C's strong adversary (Definition 8) sees when the target tells the truth. He sees
    this with probability ``1 - gamma`` only, so a hockey-stick divergence of this pair is
    ``1 / (1 - gamma)`` times his delta: still an upper bound.
    """
    q = other_report(eps0, n, k)
    return LinearPair(n, q, 0.0, 1.0 / q, 1.0 / q, 0.0, 0.0)


def clones_pair(eps0: float, n: int) -> LinearPair:
    """Pair of the clones bound, for any eps0-LDP randomiser (paper C, eq. 6.1, corrected)."""
    other_report(eps0, n, 2)
    E = np.exp(eps0)
    slope = np.tanh(eps0 / 2.0)
    return LinearPair(n, 0.5 / E, 0.0, 2.0 * E * slope, 2.0 * E, 0.0, 0.0)


def strong_adversary_log_delta(eps: float, eps0: float, n: int, k: int) -> LogInterval:
    """Enclose the log of the delta of paper C's strong adversary (Definition 8), one round.

    Exactly ``(1 - gamma)`` times the divergence of `strong_pair`, since the adversary sees
    whether the target randomised. Above the weak adversary's delta, and positive also for
    ``eps >= eps0``.
    """
    q = other_report(eps0, n, k)
    excess = log_mean_excess(
        MultinomialPair(
            n=n, p1=q, p2=q, p3=0.0, p4=1.0 - 2.0 * q, a=1.0 / q, b=np.exp(eps) / q, c=0.0
        )
    )
    log_truth = float(np.log(np.expm1(eps0)) + np.log(q))
    return LogInterval(excess.low + log_truth, min(excess.high + log_truth, 0.0))


# --- The pairs of paper C, as printed -------------------------------------------------------------


def _window(mean: float, variance: float, largest: float) -> Floats:
    half = _WIDTH * np.sqrt(variance) + _MARGIN
    return np.arange(max(np.floor(mean - half), 0.0), min(np.ceil(mean + half), largest) + 1.0)


def printed_pair_loss(
    eps0: float,
    n: int,
    k: int,
    adversary: Literal["strong", "weak"],
    direction: Literal["forward", "backward"] = "forward",
) -> LossAtoms:
    """Loss of paper C's pairs as printed; NOT A GUARANTEE, for reproducing its figures only.

    ``"strong"``: eq. (5.1), ``Bin(n-1, gamma/k) + 1`` against ``Bin(n-1, gamma/k)``. ``"weak"``:
    Theorem 10, the counts ``N1|B`` against ``N2|B`` together with B. Both forget the other one of
    the two cells that are compared, and come out too small: the right pairs are `strong_pair` and
    `privacy_loss.weak_pair`.

    Parameters
    ----------
    eps0, n, k
        As everywhere; ``gamma = k / (exp(eps0) + k - 1)``.
    adversary
        Which of the two.
    direction
        ``"forward"`` is P against Q as the paper names them, ``"backward"`` Q against P.
    """
    if adversary not in ("strong", "weak") or direction not in ("forward", "backward"):
        raise ValueError(
            'adversary must be "strong" or "weak" and direction "forward" or "backward" '
            f"(got {adversary!r}, {direction!r})"
        )
    q = other_report(eps0, n, k)
    if adversary == "strong":
        first, second, left_out = _printed_strong(q, n)
    else:
        first, second, left_out = _printed_weak(q, np.exp(eps0) * q, n, k)
    if direction == "backward":
        first, second = second, first
    endless = np.isneginf(second)
    used = ~endless & np.isfinite(first)
    return LossAtoms(
        losses=first[used] - second[used],
        masses=np.exp(first[used]),
        infinite=float(np.exp(first[endless]).sum()),
        left_out=left_out,
    )


def _printed_strong(q: float, n: int) -> tuple[Floats, Floats, float]:
    count = _window((n - 1) * q, (n - 1) * q * (1.0 - q), n)
    first, second = log_pmf(count - 1.0, n - 1, q), log_pmf(count, n - 1, q)
    left_out = np.exp(log_cdf(count[0] - 1.0, n - 1, q)) + np.exp(log_sf(count[-1], n - 1, q))
    return first, second, float(left_out)


def _printed_weak(q: float, p: float, n: int, k: int) -> tuple[Floats, Floats, float]:
    gamma = k * q
    blanket = _window((n - 1) * gamma, (n - 1) * gamma * (1.0 - gamma), n - 1)
    mean = blanket[-1] / k
    half = _WIDTH * np.sqrt(mean) + _MARGIN
    count = np.arange(max(np.floor(blanket[0] / k - half), 0.0), np.ceil(mean + half) + 1.0)
    b = blanket[:, None]
    log_b = log_pmf(b, n - 1, gamma)
    with np.errstate(divide="ignore"):
        there = log_b + log_pmf(count, b, 1.0 / k)
        before = log_b + log_pmf(count - 1.0, b, 1.0 / k)
    first = np.logaddexp(np.log(p) + before, np.log1p(-p) + there)
    second = np.logaddexp(np.log(q) + before, np.log1p(-q) + there)
    outside = np.exp(log_cdf(blanket[0] - 1.0, n - 1, gamma)) + np.exp(
        log_sf(blanket[-1] + 1.0, n - 1, gamma)
    )
    beside = np.exp(log_cdf(count[0] - 1.0, blanket, 1.0 / k)) + np.exp(
        log_sf(count[-1], blanket, 1.0 / k)
    )
    return first.ravel(), second.ravel(), float(outside + beside.max())
