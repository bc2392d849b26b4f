"""Certified ends of the mean excess ``(1/n) E[(G_1 + ... + G_n)_+]`` of independent copies of G.

G is a random variable with finitely many values, its atoms (`blanket.atoms`).

Let lam > 0. Under the law tilted by ``exp(lam S)``, where S is the sum and E' denotes the mean,
``E[S_+] = E[exp(lam S)] E'[K(S)]`` with ``K(x) = x_+ exp(-lam x)``. Both ends bound E'[K(S)], so
that all errors are relative to Chernoff's bound on the result, however small it is.

Upper end: every atom is split onto two neighbouring grid points such that its mean is kept. The
law increases in the convex order, and so does the mean of every convex function, by an amount
proportional to the square of the step. One FFT gives the law of S.

Lower end: neighbouring atoms are pooled into their mean, which decreases the law in the convex
order. No grid is needed. The Fourier transform of K is ``1 / (lam + i t)^2``, so E'[K(S)] is an
integral over t of a power of a characteristic function. The trapezoidal rule with step ``2 pi / T``
gives the sum of E'[K(S + m T)] over all integers m, in which the terms with m != 0 are errors and
are bounded. Beyond the last t the integrand is at most ``1 / t^2``.
"""

import math

import numpy as np

from shuffledp.accounting.blanket.atoms import Atoms, add_exclusive_delta, reach, tilt
from shuffledp.accounting.rounds.convolution import LOG_TAIL, convolve, power, transform_error
from shuffledp.numerics.arrays import UNIT, Floats, log_sum_exp

# Usual number of points of the FFT, approximately, and the largest number, for very small deltas.
TRANSFORM_POINTS, MAX_TRANSFORM_POINTS = 2**18, 2**22
# The grid is chosen such that splitting the atoms increases the log of the upper end by about this.
SPLITTING_LOG_TOLERANCE = 2e-5
# Number of steps that are compared to find a grid that fits the atoms.
MAX_CANDIDATE_STEPS = 512
# Number of frequencies t of the integral, in total and in a block.
FREQUENCIES = 2**20
FREQUENCIES_AT_ONCE = 2**14
# Where log |phi(t)^n| is below this, the power counts as 0, and its bound is added to the error.
LOG_NEGLIGIBLE_INTEGRAND = -50.0
# Largest number of atoms in the integral; more atoms are pooled.
MAX_POOLED_ATOMS = 24
# Over a period, K decays to about exp(-KERNEL_DECAY).
KERNEL_DECAY = 60.0


def _scaled(atoms: Atoms, sign: float) -> tuple[Floats, Floats, float]:
    """Return values divided by their maximum, the masses, and the maximum's log.

    The values are shifted up (sign = 1) or down (-1) by their errors. If none is positive, they are
    not divided and the log is -inf.
    """
    law = atoms.shifted_outwards(sign)
    top = float(law.values.max(initial=0.0))
    if top <= 0.0:
        return law.values, law.masses, -np.inf
    return law.values / top, law.masses, float(np.log(top))


def _split(values: Floats, masses: Floats, step: float) -> tuple[int, Floats]:
    """Split atoms onto the grid ``step * index``; return its first index and its masses."""
    position = values / step
    below = np.floor(position)
    upper_share = position - below
    start = int(below.min())
    index = (below - start).astype(np.int64)
    grid = np.zeros(int(index.max()) + 2)
    np.add.at(grid, index, masses * (1.0 - upper_share))
    np.add.at(grid, index + 1, masses * upper_share)
    return start, grid


def _aligned_step(values: Floats, weights: Floats, step: float) -> float:
    """Return a slightly smaller step, for which splitting increases the tilted variance least.

    The grid contains the largest value, 1.
    """
    cells = np.ceil(1.0 / step)
    steps = 1.0 / (cells + np.arange(min(cells // 16.0 + 1.0, MAX_CANDIDATE_STEPS)))
    position = np.abs(values[:, None]) / steps
    upper_share = position - np.floor(position)
    return float(steps[np.argmin((weights @ (upper_share * (1.0 - upper_share))) * steps**2)])


def log_mean_excess_high(atoms: Atoms, n: int, tolerance: float = SPLITTING_LOG_TOLERANCE) -> float:
    """Return an upper bound on ``log(mean excess + atoms.exclusive_delta)``.

    If no value is positive, it is ``log(atoms.exclusive_delta)``, up to rounding; -inf for 0. It
    includes the errors of the grid, truncation and rounding. For n above a million the rounding of
    the FFT dominates. ``tolerance`` is the target for the relative increase by the grid, which may
    be exceeded, mainly where meeting it would take too many points. The computing time is
    proportional to ``tolerance**-0.5``.
    """
    values, masses, log_top = _scaled(atoms, 1.0)
    if log_top == -np.inf:
        return add_exclusive_delta(-np.inf, atoms.exclusive_delta)
    start, grid, step = _grid(values, masses, n, tolerance)
    used = grid > 0.0
    points, masses = np.asarray(step * (start + np.flatnonzero(used)), np.float64), grid[used]
    tilted = tilt(points, masses, n)
    mass = np.zeros_like(grid)
    mass[used] = np.exp(tilted.log_weights(points, masses))
    # Subnormal numbers would invalidate the error bound of the FFT. The mass set to 0, below 1e-93
    # in total, is far below the slack of that bound, also for n = 1, where no transform is
    # computed.
    mass[mass < 1e-100] = 0.0
    offset, summed = convolve([(mass, n)])
    sums = step * (n * start + offset + np.arange(summed.size, dtype=np.float64))
    positive = sums > 0.0
    kernel = sums[positive] * np.exp(-tilted.lam * sums[positive])
    # `convolve` folds the masses onto the points of the FFT. The norm grows by at most this factor.
    norm = _norm(mass) * np.sqrt(np.ceil(mass.size / summed.size))
    error = _norm(kernel) * transform_error(summed.size, n, norm)
    # Sums outside the FFT's truncation window are counted with the kernel's maximum, 1 / (e lam).
    error += 2.0 * float(np.exp(LOG_TAIL)) / (np.e * tilted.lam) * float(n > 1)
    value = max(float(np.sum(kernel * summed[positive])), 0.0) + error
    end = float(np.log(value)) + tilted.log_scale(n) + log_top
    units = n * (atoms.units + masses.size + tilted.units(points, masses)) + 8.0 * (abs(end) + 8.0)
    end = add_exclusive_delta(end + units * UNIT, atoms.exclusive_delta)
    return end + 8.0 * (abs(end) + 8.0) * UNIT if atoms.exclusive_delta else end


def _norm(values: Floats) -> float:
    """Return the Euclidean norm without BLAS.

    At these lengths the threads of BLAS cost more than they save.
    """
    return float(np.sqrt(np.sum(values * values)))


def _grid(values: Floats, masses: Floats, n: int, tolerance: float) -> tuple[int, Floats, float]:
    """Return the first index, the masses and the step of a grid that the atoms are split onto."""
    first_tilt = tilt(values, masses, n)
    low, high = reach(values, first_tilt.log_weights(values, masses), n)
    # A sum of n copies is rarely above `high`, so values below `-max(high, KERNEL_DECAY / lam)`
    # hardly matter. They are raised to it, which saves points and can only increase the result.
    values = np.maximum(values, -max(high, KERNEL_DECAY / first_tilt.lam))
    span = float(values.max() - values.min())
    # For a constant law any positive width is suitable.
    width = max(high - low, span / 16.0) or 1.0
    weights = np.exp(first_tilt.log_weights(values, masses))
    step = width / (TRANSFORM_POINTS * float(np.sqrt(SPLITTING_LOG_TOLERANCE / tolerance)))
    step = _aligned_step(values, weights, step)
    start, grid = _split(values, masses, step)
    # Growth of the sum's log moment by splitting, which is proportional to the square of the step.
    used = np.flatnonzero(grid)
    points = np.asarray(step * (start + used), np.float64)
    moment = float(log_sum_exp(first_tilt.lam * points + np.log(grid[used])))
    growth = n * max(moment - first_tilt.log_moment, 0.0)
    if growth > tolerance:
        step = max(
            step * float(np.sqrt(tolerance / growth)), max(width, span) / MAX_TRANSFORM_POINTS
        )
        step = _aligned_step(values, weights, step)
        start, grid = _split(values, masses, step)
    return start, grid, step


def _pooled(values: Floats, masses: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Pool neighbouring atoms into their means, more finely where ``weights`` are larger.

    The resulting law is smaller in the convex order.
    """
    if values.size <= MAX_POOLED_ATOMS:
        return values, masses
    # Bins have equal widths in the average of two coordinates, relative position and cumulative
    # weight, so that none is wide in either.
    share = (values - values.min()) / np.ptp(values)
    order = np.argsort(values, kind="stable")
    rank = np.empty_like(values)
    rank[order] = np.cumsum(weights[order]) - 0.5 * weights[order]
    half = MAX_POOLED_ATOMS // 2
    bins = np.floor(0.5 * (share + rank / weights.sum()) * (2 * half - 1)).astype(np.int64)
    bins = np.clip(bins, 0, 2 * half - 1)
    mass = np.bincount(bins, masses)
    total = np.bincount(bins, masses * values)
    kept = mass > 0.0
    return total[kept] / mass[kept], np.asarray(mass[kept], np.float64)


def log_mean_excess_low(atoms: Atoms, n: int) -> float:
    """Return a lower bound on the log of the mean excess plus `Atoms.exclusive_delta`.

    For a few atoms it is about 5e-5 too small, or 2e-3 if the result is 1e-300. A mean excess below
    its errors counts as 0.
    """
    end = add_exclusive_delta(_low(atoms, n), atoms.exclusive_delta)
    return end - 8.0 * (abs(end) + 8.0) * UNIT if atoms.exclusive_delta else end


def _low(atoms: Atoms, n: int) -> float:
    values, masses, log_top = _scaled(atoms, -1.0)
    if log_top == -np.inf:
        return -np.inf
    first = tilt(values, masses, n)
    values, masses = _pooled(values, masses, np.exp(first.log_weights(values, masses)))
    if values.max() <= 0.0:
        return -np.inf
    tilted = tilt(values, masses, n)
    log_weights, lam = tilted.log_weights(values, masses), tilted.lam
    weights = np.exp(log_weights)
    low, high = reach(values, log_weights, n)
    period = max(high, KERNEL_DECAY / lam - low)
    value, rounding = _trapezoidal(values, weights, n, lam, period)
    nearest = period + low
    # Errors due to E[K(S + m T)] for m != 0, to sums outside their window, and to omitted terms.
    alias_error = 2.0 * nearest * np.exp(-lam * nearest)
    window_error = 2.0 * np.exp(LOG_TAIL) * (1.0 / (np.e * lam) + 1.0 / (lam**2 * period))
    truncation_error = period / (2.0 * np.pi**2 * (FREQUENCIES - 1))
    certified = value - rounding - alias_error - window_error - truncation_error
    if certified <= 0.0:
        return -np.inf
    end = float(np.log(certified)) + tilted.log_scale(n) + log_top
    units = n * (atoms.units + atoms.masses.size + tilted.units(values, masses)) + 8.0 * (
        abs(end) + 8.0
    )
    return end - units * UNIT


def _trapezoidal(
    values: Floats, weights: Floats, n: int, lam: float, period: float
) -> tuple[float, float]:
    """Return ``(1/T) sum_j phi(t_j)^n / (lam + i t_j)^2`` over all frequencies, and its error.

    Frequencies are processed `FREQUENCIES_AT_ONCE` at a time, so that the arrays stay small.
    """
    step = 2.0 * np.pi / period
    block = np.arange(FREQUENCIES_AT_ONCE, dtype=np.float64)
    # The terms of a later block are those of the first block times one factor for each atom.
    rotations = np.exp(1j * step * values[:, None] * block)
    spread = float(weights @ np.abs(values))
    totals, errors = list[float](), list[float]()
    for start in range(0, FREQUENCIES, FREQUENCIES_AT_ONCE):
        # einsum avoids BLAS, as in `_norm`.
        phi = np.einsum("a,at->t", weights * np.exp(1j * step * start * values), rotations)
        t = step * (start + block)
        phi_error = UNIT * (weights.size + 32.0 + 8.0 * t * spread)
        modulus = np.maximum(np.abs(phi), 1e-300)
        denominator = lam**2 + t**2
        kernel_modulus = np.where(t == 0.0, 1.0, 2.0) / denominator  # |1 / (lam + i t)^2|, t and -t
        log_max = np.log(modulus + phi_error)
        relevant = n * log_max > LOG_NEGLIGIBLE_INTEGRAND
        if not relevant.all():
            errors.append(
                float(np.exp(LOG_NEGLIGIBLE_INTEGRAND)) * float(kernel_modulus[~relevant].sum())
            )
            t, phi, phi_error, modulus, denominator, kernel_modulus, log_max = (
                each[relevant]
                for each in (t, phi, phi_error, modulus, denominator, kernel_modulus, log_max)
            )
        power_n = power(phi, n)
        terms = (
            kernel_modulus
            / denominator
            * (power_n.real * (lam**2 - t**2) + 2.0 * lam * t * power_n.imag)
        )
        totals.append(float(terms.sum()))
        # A complex product has an error of 2.3 units; 64 units cover the other steps and the sum.
        growth = np.exp((n - 1) * np.minimum(log_max, 1.0))
        error = growth * (n * phi_error + (8.0 * n + 64.0) * UNIT * modulus)
        errors.append(float((kernel_modulus * error).sum()))
    return math.fsum(totals) / period, math.fsum(errors) / period
