"""Ball-arithmetic oracles for shuffled k-randomised response, for n up to about 1e5.

Results are `flint.arb` balls that rigorously contain the true value, with a radius that leaves at
least 42 right digits of delta; a working precision too low for that is raised until it is enough.
Parameters are strings, floats or fractions, taken at their exact value: "0.1" is one tenth, 0.1 is
the double nearest to it. The sums are those whose formulae `exact.py` proves on the mechanism
itself. Nothing is imported from the package.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, exp, floor, log, sqrt

from flint import arb, ctx, fmpq, fmpz
from scipy.optimize import brentq

Number = str | float | Fraction

ACCURACY_BITS = 142  # 42.7 decimal digits
PRECISIONS = (256, 512, 1024, 2048, 4096, 8192)
ZERO = arb(0)


def ball(value: Number | arb) -> arb:
    """Return the ball, at the current precision, of a number given exactly."""
    if isinstance(value, arb):
        return value
    exact = Fraction(value)
    return arb(fmpq(exact.numerator, exact.denominator))


def rational_exp(value: Number) -> Fraction:
    """Return exp(value) to about 90 digits, as a fraction."""
    with ctx.workprec(300):
        ratio = ball(value).exp().mid().fmpq()
    return Fraction(int(ratio.p), int(ratio.q))


def _certified(value: Callable[[], arb]) -> arb:
    """Evaluate at increasing precision until the relative accuracy is enough."""
    for precision in PRECISIONS:
        with ctx.workprec(precision):
            result = value()
            if result.is_zero() or result.rel_accuracy_bits() >= ACCURACY_BITS:
                return result
    raise ArithmeticError(f"no 42 digits even with {PRECISIONS[-1]} bits, got {result}")


def _log(delta: arb) -> arb:
    with ctx.workprec(max(PRECISIONS[0], ctx.prec)):
        return arb("-inf") if delta.is_zero() else delta.log()


def relative_error(delta: Number, log_delta: arb) -> float:
    """Return |delta / exp(log_delta) - 1|, rounded up, for an oracle's log_delta."""
    with ctx.workprec(512):
        return float(abs(ball(delta) / log_delta.exp() - 1).upper())


# --- sums of n i.i.d. variables with four atoms -----------------------------------------------


@dataclass(frozen=True)
class Atoms:
    """Atoms of G: probabilities `w` and values `g`, with g[0] > 0 > g[1] and g[2] <= g[3]."""

    w: tuple[arb, arb, arb, arb]
    g: tuple[arb, arb, arb, arb]

    def tilted(self) -> tuple[arb, arb, list[arb]]:
        """Return (lambda, M = E exp(lambda G), probabilities w exp(lambda g)/M).

        Any lambda gives a rigorous bound; one near the minimiser of M makes it sharp.
        """
        tilt = arb(_minimiser([float(w) for w in self.w], [float(g) for g in self.g]))
        weights = [w * (tilt * g).exp() for w, g in zip(self.w, self.g, strict=True)]
        moment = weights[0] + weights[1] + weights[2] + weights[3]
        return tilt, moment, [w / moment for w in weights]


def _minimiser(w: Sequence[float], g: Sequence[float]) -> float:
    """Return about the lambda >= 0 minimising sum w exp(lambda g), the root of its slope."""

    def slope(tilt: float) -> float:
        top = tilt * max(g)
        return sum(a * b * exp(tilt * b - top) for a, b in zip(w, g, strict=True))

    high = 1e-9
    while slope(high) <= 0:
        high *= 2
    return float(brentq(slope, 0.0, high)) if slope(0.0) < 0 else 0.0


def _chernoff(n: int, j: int, p: arb) -> arb:
    """Return exp(-n KL(j/n, p)), a bound of either tail of Bin(n, p) beyond j."""
    share = arb(fmpq(j, n))
    exponent = ZERO
    if j > 0:
        exponent += share * (share / p).log()
    if j < n:
        exponent += (1 - share) * ((1 - share) / (1 - p)).log()
    return (-n * exponent).exp()


@dataclass(frozen=True)
class Window:
    """The integers low..high, and a bound of a binomial's probability of all others."""

    low: int
    high: int
    outside: arb


def _window(n: int, p: arb, tail_bits: int) -> Window:
    if not p > 0:
        return Window(0, 0, ZERO)
    if not p < 1:
        return Window(n, n, ZERO)
    reach = tail_bits * log(2)
    mean = n * float(p)
    # Bernstein: both tails at `width` from the mean are below exp(-reach).
    width = reach / 3 + sqrt(reach * reach / 9 + 2 * reach * mean * (1 - float(p))) + 1
    low, high = max(0, floor(mean - width)), min(n, ceil(mean + width))
    outside = ZERO
    if low > 0:
        outside += _chernoff(n, low - 1, p)
    if high < n:
        outside += _chernoff(n, high + 1, p)
    return Window(low, high, outside)


def _pmf(n: int, j: int, p: arb) -> arb:
    return arb(fmpz.bin_uiui(n, j)) * p**j * (1 - p) ** (n - j)


def _prefix_sums(n: int, p: arb, low: int, high: int) -> tuple[list[arb], list[arb]]:
    """Return sums of pmf(i) and of i pmf(i) of Bin(n, p) over low..j, for j in low..high."""
    if not p > 0:
        return [arb(1)], [ZERO]
    odds = p / (1 - p)
    term, mass, mean = _pmf(n, low, p), ZERO, ZERO
    masses, means = [], []
    for i in range(low, high + 1):
        mass += term
        mean += i * term
        masses.append(mass)
        means.append(mean)
        term *= odds * (n - i) / (i + 1)
    return masses, means


@dataclass(frozen=True)
class _Sum:
    """Return (1/n) E[(G_1+...+G_n)_+] by summing over n1+n2, n1 and n3."""

    n: int
    atoms: Atoms
    tail_bits: int

    def value(self) -> arb:
        n, w, g = self.n, self.atoms.w, self.atoms.g
        _, moment, tilted = self.atoms.tilted()
        pairs = _window(n, tilted[0] + tilted[1], self.tail_bits)
        first = _window(n, tilted[0], self.tail_bits)
        third = _window(n, tilted[2], self.tail_bits)
        both = w[0] + w[1]
        weight = _pmf(n, pairs.low, both)
        total = ZERO
        for s in range(pairs.low, pairs.high + 1):
            total += weight * self._given_pairs(s, first, third)
            weight *= both * (n - s) / ((1 - both) * (s + 1)) if s < n else 1
        # (x)_+/n <= g_max 1{x > 0} <= g_max exp(lambda x), whose mean over an event is g_max M^n
        # times the event's tilted probability.
        largest = g[0] if g[3] <= 0 else g[0].max(g[3])
        left_out = largest * moment**n * (pairs.outside + first.outside + third.outside)
        return total / n + left_out.upper().union(ZERO)

    def _given_pairs(self, s: int, first: Window, third: Window) -> arb:
        """Return E[(G_1+...+G_n)_+ | n1 + n2 = s] within the windows."""
        n, w, g = self.n, self.atoms.w, self.atoms.g
        top, bottom = min(s, first.high), first.low
        if top < bottom:
            return ZERO
        share = w[0] / (w[0] + w[1])
        step = g[0] - g[1]
        offset = s * g[1] + (n - s) * g[3]
        slope = g[3] - g[2]
        highest = min(third.high, n - s)
        last = self._last_positive(offset + top * step, slope, highest)
        if last < third.low:
            return ZERO
        rest = w[2] / (w[2] + w[3]) if w[2] > 0 else ZERO
        masses, means = _prefix_sums(n - s, rest, third.low, last)
        chance, total, odds = _pmf(s, top, share), ZERO, (1 - share) / share
        for n1 in range(top, bottom - 1, -1):
            excess = offset + n1 * step
            j = self._last_positive(excess, slope, highest) - third.low
            if j < 0:
                break
            total += chance * (excess * masses[j] - slope * means[j])
            chance *= odds * n1 / (s - n1 + 1)
        return total

    @staticmethod
    def _last_positive(excess: arb, slope: arb, highest: int) -> int:
        """Return the largest n3 <= highest with excess - slope n3 not certainly negative, or -1.

        A term whose sign the ball leaves open contains 0, so including it is rigorous.
        """
        if excess < 0:
            return -1
        if not slope > 0:
            return highest
        ratio = (excess / slope).upper()
        if ratio >= highest:
            return highest
        integer = ratio.floor().unique_fmpz()
        if integer is None:
            raise ArithmeticError(f"the precision leaves the floor of {ratio} open")
        return int(integer)


def _k_rr(k: int, eps0: Number, eps: Number) -> tuple[arb, arb, arb]:
    E, e = ball(eps0).exp(), ball(eps).exp()
    return E, e, 1 / (E + k - 1)


def _upper_atoms(k: int, eps0: Number, eps: Number) -> Atoms:
    E, e, q = _k_rr(k, eps0, eps)
    return Atoms((q, q, (k - 2) * q, (E - 1) * q), (E - e, 1 - e * E, 1 - e, ZERO))


def _lower_atoms(k: int, eps0: Number, eps: Number, dataset: str) -> Atoms:
    E, e, q = _k_rr(k, eps0, eps)
    match dataset:
        case "same":
            return Atoms((E * q, q, ZERO, (k - 2) * q), (1 - e / E, 1 - e * E, 1 - e, 1 - e))
        case "other":
            return Atoms((q, E * q, ZERO, (k - 2) * q), (E - e, 1 / E - e, 1 - e, 1 - e))
        case "third" if k >= 3:
            values = (E - e, 1 - e * E, 1 - e, (1 - e) / E)
            return Atoms((q, q, (k - 3) * q, E * q), values)
    raise ValueError(f"dataset must be same, other or, for k >= 3, third, got {dataset!r}, k={k}")


def _log_delta(value: Callable[[], arb], eps0: Number, eps: Number) -> arb:
    """Return the log of a delta that is 0 when eps >= eps0, at sufficient precision."""
    if Fraction(eps) < 0:
        raise ValueError(f"eps must be at least 0, got {eps}")
    if Fraction(eps) >= Fraction(eps0):
        return arb("-inf")
    return _log(_certified(value))


def upper_ball(n: int, k: int, eps0: Number, eps: Number, tail_bits: int) -> arb:
    """Return a ball of delta for the weak adversary, with windows leaving out 2^-tail_bits."""
    return _Sum(n, _upper_atoms(k, eps0, eps), tail_bits).value()


def lower_ball(n: int, k: int, eps0: Number, eps: Number, dataset: str, tail_bits: int) -> arb:
    """Return a ball of delta for a named data set, with windows leaving out 2^-tail_bits."""
    return _Sum(n, _lower_atoms(k, eps0, eps, dataset), tail_bits).value()


def upper_log_delta(n: int, k: int, eps0: Number, eps: Number) -> arb:
    """Return the log of delta for the weak adversary; -inf when eps >= eps0."""
    return _log_delta(lambda: upper_ball(n, k, eps0, eps, ctx.prec - 32), eps0, eps)


def lower_log_delta(n: int, k: int, eps0: Number, eps: Number, dataset: str) -> arb:
    """Return the log of delta when all others hold a "third" cell, the "same", or the "other"."""
    return _log_delta(lambda: lower_ball(n, k, eps0, eps, dataset, ctx.prec - 32), eps0, eps)


# --- the count of one bin ---------------------------------------------------------------------


def _convolve(a: Sequence[arb], b: Sequence[arb]) -> list[arb]:
    """Return the convolution; of non-negative terms, so relative accuracy is kept throughout."""
    result = [ZERO] * (len(a) + len(b) - 1)
    for i, x in enumerate(a):
        for j, y in enumerate(b, start=i):
            result[j] += x * y
    return result


def _all_pmf(n: int, p: arb) -> list[arb]:
    return [_pmf(n, j, p) for j in range(n + 1)]


def _single_bin(n: int, k: int, m: int, eps0: Number, eps: Number, direction: str) -> arb:
    E, e, q = _k_rr(k, eps0, eps)
    p = E * q
    backward = {"forward": False, "backward": True}[direction]
    if backward and e >= (1 - q) / (1 - p):
        return ZERO
    others = _convolve(_all_pmf(m, p), _all_pmf(n - 1 - m, q))
    total = ZERO
    for before, at in zip([ZERO, *others], [*others, ZERO], strict=True):
        P, Q = (r * before + (1 - r) * at for r in (p, q))
        total += (Q - e * P if backward else P - e * Q).max(ZERO)
    return total


def single_bin_log_delta(n: int, k: int, m: int, eps0: Number, eps: Number, direction: str) -> arb:
    """Return the log of the hockey-stick of the count of bin x0, m of the others holding x0.

    `direction` is "forward" (the target holds x0 under the first law) or "backward".
    """
    return _log_delta(lambda: _single_bin(n, k, m, eps0, eps, direction), eps0, eps)


# --- the analytic Gaussian mechanism (Balle and Wang, Theorem 8) --------------------------------


def _normal_cdf(x: arb) -> arb:
    return (-x / arb(2).sqrt()).erfc() / 2


def _gaussian_delta(eps: Number, sigma: Number | arb, sensitivity: Number | arb) -> arb:
    ratio = ball(sensitivity) / ball(sigma)
    return _normal_cdf(ratio / 2 - ball(eps) / ratio) - ball(eps).exp() * _normal_cdf(
        -ratio / 2 - ball(eps) / ratio
    )


def gaussian_log_delta(eps: Number, sigma: Number | arb, sensitivity: Number | arb = 1) -> arb:
    """Return the log of the Gaussian mechanism's exact delta; a ball for sigma must be exact."""
    return _log(_certified(lambda: _gaussian_delta(eps, sigma, sensitivity)))


def gaussian_sigma(eps: Number, delta: Number, sensitivity: Number = 1) -> arb:
    """Return the smallest sigma for which the Gaussian mechanism is (eps, delta)-DP."""
    if not 0 < Fraction(delta) < 1:
        raise ValueError(f"delta must lie strictly between 0 and 1, got {delta}")
    with ctx.workprec(4 * PRECISIONS[0]):
        low = high = ball(sensitivity).mid()
        while _gaussian_delta(eps, low, sensitivity) < ball(delta):
            low /= 2
        while not _gaussian_delta(eps, high, sensitivity) < ball(delta):
            high *= 2
        while (high - low) > low * arb(2) ** -(ACCURACY_BITS + 8):
            middle = ((low + high) / 2).mid()
            if _gaussian_delta(eps, middle, sensitivity) < ball(delta):
                high = middle
            else:
                low = middle
        return low.union(high)
