"""Shuffled k-RR and clones when users have budgets of their own (paper D).

User i runs a randomiser with budget eps_i and reports once; a report does not say whose it is, nor
which budget made it. Neighbours differ in the record of one user, the target, who has budget
``eps_t``: ``E = exp(eps_t)``, ``e = exp(eps)``.

k-RR tells the truth except with probability ``gamma_i = k/(exp(eps_i)+k-1)``, when it reports a
uniform cell. Reveal which of the *other* users did so, and what the rest reported. With m-1 of
them the uniform reports and the target's form a histogram h of m reports, whose law is
``Mult(h; m, 1/k) (k/m) sum_c R(c) h_c``, R being the target's channel. Hence, with
``q = 1/(E+k-1)`` and the Poisson-binomial law of the m-1,

    delta = sum_m Pr[m-1] (k q / m) E[((E-1)(n1 - e n2) - (e-1) m)_+ | m].

For equal budgets ``Pr[m-1] k q / m = Bin(n, gamma)(m) / n``: `upper_log_delta`.

The target with the largest budget is the worst. Compare targets with budgets A < B, every other
user alike, of whom m are uniform with probability pi_m. Let ``N_m`` be the signed measure (law of
the histogram given the target's truth x0, minus e times given x1) and ``U_m`` the law of m uniform
reports. Of the target B the histograms of size m are seen with ``x N_m - (e-1) y U_m``, where
``x = (1-gB) ((1-gA) pi_{m-1} + gA pi_{m-2})`` and ``y = gB ((1-gA) pi_{m-1} + gA pi_{m-2})``; for
the target A exchange gA and gB. As gA >= gB, x is larger and y smaller for B, and the mass of
``(x N - (e-1) y U)_+`` grows with x and falls with y. By the same token delta falls as another
user's budget falls.
"""

from dataclasses import dataclass
from itertools import zip_longest

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import expit, logsumexp

from shuffledp.accounting.binomial import Floats, log_cdf, log_excess, log_pmf, log_sf
from shuffledp.accounting.multinomial import ZERO, LogInterval

# Half-width of every window in tilted standard deviations: leaves out about 1e-20.
_WIDTH = 9.3
_MARGIN = 20.0  # for the Poisson-like tails of small counts
_TRIM = 1e-26  # mass cut from each end of each partial sum of Bernoulli variables; accounted for
_BLOCK = 64
# Relative error of the floating-point evaluation; sums of positive terms, longest 1e4.
_ROUNDING = 2e-10
_CHUNK = 400_000


@dataclass(frozen=True)
class BudgetGroups:
    """Users in groups of equal budget.

    Attributes
    ----------
    values
        Budget of each group, at least 0 (0: a user whose report carries nothing).
    counts
        Users in each group, at least 1.
    """

    values: Floats
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, budgets: "ArrayLike | BudgetGroups") -> "BudgetGroups":
        """Group a list of budgets, one per user; groups are returned as they are.

        Raises
        ------
        ValueError
            If there is no user, a budget is negative or not finite, or a count is not positive.
        """
        if isinstance(budgets, cls):
            groups = cls(np.asarray(budgets.values, np.float64), np.asarray(budgets.counts))
        else:
            groups = cls(*np.unique(np.asarray(budgets, np.float64), return_counts=True))
        wrong = groups.values[~((groups.values >= 0.0) & np.isfinite(groups.values))]
        if wrong.size:
            raise ValueError(f"budgets must be at least 0 and finite (got {wrong[0]})")
        if groups.values.size == 0 or groups.values.shape != groups.counts.shape:
            raise ValueError(
                f"budgets must name at least one user, and a count per group (got "
                f"{groups.values.size} values, {groups.counts.size} counts)"
            )
        if groups.counts.min() < 1:
            raise ValueError(f"counts must be at least 1 (got {groups.counts.min()})")
        return groups

    def without(self, group: int) -> "BudgetGroups":
        """Return the others of one user of the given group."""
        counts = self.counts.copy()
        counts[group] -= 1
        return BudgetGroups(self.values[counts > 0], counts[counts > 0])


# --- The number of uniform reports ----------------------------------------------------------------


@dataclass(frozen=True)
class _Window:
    """Probabilities from ``start`` on, each at most the true one; ``missing`` is left out."""

    start: int
    mass: Floats
    missing: float


def _trimmed(start: int, mass: Floats, missing: float) -> _Window:
    first = int(np.searchsorted(np.cumsum(mass), _TRIM))
    last = mass.size - int(np.searchsorted(np.cumsum(mass[::-1]), _TRIM))
    cut = float(mass[:first].sum() + mass[last:].sum())
    return _Window(start + first, mass[first:last], missing + cut)


def _binomial(n: int, p: float) -> _Window:
    half = 1.2 * _WIDTH * np.sqrt(n * p * (1.0 - p)) + 2.0 * _MARGIN
    low, high = max(np.floor(n * p - half), 0.0), min(np.ceil(n * p + half), float(n))
    outside = np.exp(log_cdf(low - 1.0, n, p)) + np.exp(log_sf(high + 1.0, n, p))
    mass = np.exp(log_pmf(np.arange(low, high + 1.0), n, p))
    return _trimmed(int(low), mass, float(outside))


def _bernoulli_blocks(p: Floats) -> list[_Window]:
    """Laws of the sums of blocks of single users, all blocks at once."""
    padded = np.append(p, np.zeros(-p.size % _BLOCK)).reshape(-1, _BLOCK)
    law = np.zeros((padded.shape[0], _BLOCK + 1))
    law[:, 0] = 1.0
    for column in padded.T[:, :, None]:
        law[:, 1:] = law[:, 1:] * (1.0 - column) + law[:, :-1] * column
        law[:, :1] *= 1.0 - column
    return [_trimmed(0, row, 0.0) for row in law]


def _merge(x: _Window, y: _Window | None) -> _Window:
    if y is None:
        return x
    # Direct products of positive numbers keep every digit; a Fourier transform would not.
    mass = np.convolve(x.mass, y.mass)
    return _trimmed(x.start + y.start, mass, x.missing + y.missing)


def _poisson_binomial(p: Floats, counts: NDArray[np.int64]) -> _Window:
    """Law of a sum of independent Bernoulli variables, ``counts`` of them with probability p."""
    large = counts >= _BLOCK
    parts = [_binomial(int(n), float(x)) for n, x in zip(counts[large], p[large], strict=True)]
    if not large.all():
        parts += _bernoulli_blocks(np.repeat(p[~large], counts[~large]))
    while len(parts) > 1:
        parts.sort(key=lambda part: part.mass.size)
        parts = [_merge(x, y) for x, y in zip_longest(parts[::2], parts[1::2])]
    return parts[0] if parts else _Window(0, np.ones(1), 0.0)


# --- The divergence ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Mixture:
    """``sum_m Pr[m-1] (share / m) E[(a n1 - b n2 - c (m - n1 - n2))_+ | m]``.

    m-1 of the others are uniform over k cells, each with the probability whose log odds are given
    (``counts`` users each); (n1, n2) are the counts of two cells among m uniform reports.
    """

    k: int
    share: float
    a: float
    b: float
    c: float
    log_odds: Floats
    counts: NDArray[np.int64]


@dataclass(frozen=True)
class _Tilt:
    """Law of (m, n1 + n2) tilted by ``exp(lam A)``, A the excess, and Chernoff's bound."""

    lam: float
    log_total: float  # log E exp(lam A)
    log_pair: float  # log of the mean of exp(lam a) and exp(-lam b)
    rates: Floats
    rho: float


def _tilt(mixture: _Mixture) -> _Tilt:
    k = mixture.k
    weights = np.array([mixture.a, -mixture.b, -mixture.c])[: min(k, 3)]
    log_p = np.log(np.array([1.0, 1.0, k - 2.0])[: weights.size] / k)

    def tilted(lam: float) -> tuple[float, Floats, Floats]:
        exponents = log_p + lam * weights
        total = float(logsumexp(exponents))
        return total, np.exp(exponents - total), expit(mixture.log_odds + total)

    def slope(log_lam: float) -> float:
        lam = np.exp(log_lam)
        _, law, rates = tilted(lam)
        return float((1.0 + mixture.counts @ rates) * (law @ weights) - 1.0 / lam)

    low = -np.log(mixture.a * (1.0 + mixture.counts.sum())) - 1.0
    high = low + 3.0
    while slope(high) < 0.0 and high < low + 700.0:
        high += 3.0
    lam = float(np.exp(brentq(slope, low, high, xtol=1e-6)))
    total, law, rates = tilted(lam)
    # log(1 - r + r Psi) from the log odds of r
    others = np.logaddexp(0.0, mixture.log_odds + total) - np.logaddexp(0.0, mixture.log_odds)
    certain = np.isinf(mixture.log_odds)
    others = np.where(certain, total, others)
    return _Tilt(
        lam=lam,
        log_total=float(total + mixture.counts @ others),
        log_pair=float(np.logaddexp(lam * mixture.a, -lam * mixture.b) - np.log(2.0)),
        rates=rates,
        rho=float(min(law[0] + law[1], 1.0)) if k > 2 else 1.0,
    )


def _binomial_rows(m: Floats, rho: float) -> tuple[Floats, Floats, Floats]:
    """For each m: values of s about its mean, log Pr[Bin(m, rho) = s], probability left out.

    The ratios of neighbours are multiplied up from the row's middle, ten times faster than a
    `log_pmf` per entry.
    """
    if rho == 1.0:
        return m[:, None], np.zeros((m.size, 1)), np.zeros(m.size)
    half = int(_WIDTH * np.sqrt(m[-1] * rho * (1.0 - rho)) + _MARGIN)
    middle = np.floor(m * rho)
    offset = np.arange(-half, half + 1.0)
    s = middle[:, None] + offset
    odds = rho / (1.0 - rho)
    up, down = s[:, half:-1], s[:, half:0:-1]
    rising = np.maximum(m[:, None] - up, 0.0) / np.maximum(up + 1.0, 1.0) * odds
    falling = np.maximum(down, 0.0) / (np.maximum(m[:, None] - down, 0.0) + 1.0) / odds
    with np.errstate(divide="ignore"):
        log_ratio = np.log(
            np.hstack(
                [
                    np.cumprod(falling, axis=1)[:, ::-1],
                    np.ones((m.size, 1)),
                    np.cumprod(rising, axis=1),
                ]
            )
        )
    outside = np.exp(log_cdf(s[:, 0] - 1.0, m, rho)) + np.exp(log_sf(s[:, -1] + 1.0, m, rho))
    return s, log_ratio + log_pmf(middle, m, rho)[:, None], outside


def _log_rows(mixture: _Mixture, tilt: _Tilt, m: Floats) -> tuple[Floats, Floats]:
    """Log of ``E[A_+ | m] / E[exp(lam A) | m]`` for each m, and the tilted probability left out.

    ``A = alpha n1 - alpha z`` given m and s; of ``E[(n1 - z)_+ | s]`` everything but a linear
    function of z changes with the integer part of z only, so that it comes from a small table.
    """
    a, b, c = mixture.a, mixture.b, mixture.c
    s, log_weight, outside = _binomial_rows(m, tilt.rho)
    clipped = np.clip(s, 0.0, m[:, None])
    alpha = a + b
    rest = m[:, None] - clipped
    first = np.floor((b * clipped + c * rest) / alpha) + 1.0
    # Which integer comes next is decided by the weights: b s + c (m - s) may have lost it.
    gap = (a * first - b * (clipped - first) - c * rest) / alpha
    shift = np.where(gap > 1.0, -1.0, np.where(gap <= 0.0, 1.0, 0.0))
    first, gap = first + shift, np.clip(gap + shift, 0.0, None)
    low_s, high_s = clipped.min(), clipped.max()
    values = np.arange(low_s, high_s + 1.0)
    row = (clipped - low_s).astype(np.int64)
    base = np.full(values.size, np.inf)
    np.minimum.at(base, row, first)
    column = (first - base[row]).astype(np.int64)
    points = base[:, None] + np.arange(column.max() + 1.0)
    scale = values[:, None] * (tilt.log_pair + tilt.lam * c)
    steps = log_sf(points, values[:, None], 0.5) - scale
    linear = log_excess(points, values[:, None], 0.5) - scale
    with np.errstate(divide="ignore"):
        excess = np.logaddexp(linear[row, column], np.log(gap) + steps[row, column])
    terms = np.where(clipped == s, log_weight + excess, -np.inf)
    return logsumexp(terms, axis=1) + np.log(alpha) + tilt.lam * c * m, outside


def _log_interval(mixture: _Mixture) -> LogInterval:
    tilt = _tilt(mixture)
    window = _poisson_binomial(tilt.rates, mixture.counts)
    m = window.start + 1.0 + np.arange(window.mass.size)
    width = 1 if tilt.rho == 1.0 else 2 * int(_WIDTH * np.sqrt(m[-1] * tilt.rho)) + 40
    rows = max(1, _CHUNK // width)
    parts = [_log_rows(mixture, tilt, m[i : i + rows]) for i in range(0, m.size, rows)]
    log_rows = np.concatenate([part[0] for part in parts])
    outside = np.concatenate([part[1] for part in parts])
    with np.errstate(divide="ignore"):
        low = float(logsumexp(np.log(window.mass) + log_rows - np.log(m)))
        # A_+ <= exp(lam A) / (e lam), and 1/m <= 1.
        left_out = np.log(window.missing + window.mass @ (outside / m)) - 1.0 - np.log(tilt.lam)
    common = np.log(mixture.share) + tilt.log_total
    high = float(np.logaddexp(low, left_out))
    slack = _ROUNDING * (1.0 + 1e-3 * abs(common + low))
    return LogInterval(float(common + low - slack), float(common + high + slack))
