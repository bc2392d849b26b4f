"""The Mills ratio against ball arithmetic."""

import math
from functools import cache

import numpy as np
import pytest
from effort import long
from flint import arb, ctx

from oracle.high_precision import ball
from shuffledp.accounting.laws import mills
from shuffledp.accounting.laws.mills import mills_ratio
from shuffledp.numerics.arrays import Floats

BITS = 160
# With more terms than this the oracle integrates.
SUMMED = 3000
NODES = 60


def oracle_sum(x: int, n: int, odds: arb) -> arb | None:
    """Return the sum of ratios, its tail bounded by a geometric series, or None if it is long."""
    total, term = arb(0), arb(1)
    for j in range(SUMMED):
        total += term
        ratio = odds * (n - x - j) / (x + 1 + j)
        term *= ratio
        if term == 0:
            return total
        if ratio < 0.99 and term < total * arb(2) ** -100:
            return total + (term / (1 - ratio)).union(arb(0))
    return None


@cache
def nodes() -> list[tuple[arb, arb]]:
    return [arb.legendre_p_root(NODES, i, weight=True) for i in range(NODES)]


def oracle_integral(x: int, n: int, odds: arb) -> arb:
    """Integrate ``x (1 - y)^(x - 1) (1 + odds y)^(n - x)`` by Gauss's rule on 2 and 3 panels.

    Their difference, some 1e-25, stands for the error of the second. `acb.integral`, which would
    prove it, needs seconds for large n.
    """
    a, b, r = x - 1, n - x, float(odds)

    def drop(y: float) -> float:
        return a * math.log1p(-y) + b * math.log1p(r * y)

    mode = max((b * r - a) / (r * (a + b)), 0.0)
    low, high = mode, 1.0 - 1e-12
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if drop(middle) < drop(mode) - 60.0 else (middle, high)
    end = arb(high)
    scale = a * (1 - arb(mode)).log() + b * (1 + odds * mode).log()

    def logs(y: arb) -> arb:
        return a * (1 - y).log() + b * (1 + odds * y).log() - scale

    def panels(count: int) -> arb:
        half = end / (2 * count)
        return half * sum(
            (
                weight * logs(half * (2 * i + 1 + node)).exp()
                for i in range(count)
                for node, weight in nodes()
            ),
            arb(0),
        )

    coarse, fine = panels(2), panels(3)
    slope = a / (1 - end) - b * odds / (1 + odds * end)
    assert slope > 0
    rest = logs(end).exp() / slope
    return x * scale.exp() * (fine + rest.union(arb(0)) + (fine - coarse).union(coarse - fine))


def truth(x: float, n: float, p: float, q: float) -> arb:
    odds = ball(p) / ball(q)
    summed = oracle_sum(int(x), int(n), odds)
    return oracle_integral(int(x), int(n), odds) if summed is None else summed


def true_errors(x: Floats, n: Floats, p: Floats, q: Floats, value: Floats) -> Floats:
    """Return upper bounds on the relative errors, accurate to 1e-19."""
    ctx.prec = BITS
    upper = np.empty_like(value)
    for i in range(value.size):
        relative = abs(ball(value[i]) / truth(x[i], n[i], p[i], q[i]) - 1)
        assert relative.rad() < 1e-19
        upper[i] = float(relative.upper())
    return upper


def settings(rng: np.random.Generator, count: int) -> tuple[Floats, Floats, Floats, Floats]:
    """Draw arguments from the whole domain, half of them near a change of method."""
    n = np.floor(10.0 ** rng.uniform(0.0, 10.0, count))
    p = np.where(
        rng.random(count) < 0.5, 10.0 ** rng.uniform(-12.0, -0.3, count), rng.random(count)
    )
    near = rng.random(count) < 0.4
    n = np.where(near, np.floor(400.0 * 10.0 ** rng.uniform(-0.3, 1.0, count) / p), n).clip(1, 1e10)
    q = 1.0 - p
    swapped = rng.random(count) < 0.5
    p, q = np.where(swapped, q, p), np.where(swapped, p, q)
    kind = rng.integers(0, 8, count)
    z = np.select([kind == 0, kind == 1], [-7.0, 0.0], rng.uniform(-7.0, 12.0, count))
    mean, deviation = n * p, np.sqrt(n * p * q)
    x = np.ceil(mean + z * deviation - np.where(kind == 0, 20.0, rng.uniform(0.0, 2.0, count)))
    deep = np.ceil(mean + (n - mean) * 10.0 ** rng.uniform(-6.0, 0.0, count))
    x = np.select([kind == 2, kind == 3], [deep, n - np.floor(rng.exponential(20.0, count))], x)
    return x.clip(1.0, n), n, p, q


@pytest.mark.parametrize("count", [200, long(4000)], ids=["some", "many"])
def test_errors_stay_below_their_bounds(count: int) -> None:
    arguments = x, n, p, q = settings(np.random.default_rng(20240), count)
    within = x >= n * p - 7.0 * np.sqrt(n * p * q) - 20.0
    arguments = tuple(v[within] for v in arguments)
    value, error = mills_ratio(*arguments)
    finite = np.isfinite(value)
    assert finite.sum() > 0.5 * count
    assert np.all(np.isinf(error[~finite]))
    assert np.all(error[finite] < 1e-12)
    upper = true_errors(*(v[finite] for v in arguments), value[finite])
    assert np.all(upper <= error[finite])


@pytest.mark.parametrize(
    ("x", "n", "p", "q"),
    [
        (1, 1, 0.3, 0.7),
        (1, 1, 1e-150, 1.0),
        (1, 1, 1.0, 1e-150),
        (1, 2, 1.0, 1e-150),
        (10**10, 10**10, 0.5, 0.5),
        (10**10, 10**10, 1e-150, 1.0),
        (10**10, 10**10, 1.0, 1e-150),
        (10**10 - 1, 10**10, 1.0, 1e-150),
        (10**10 - 2, 10**10, 1.0, 1e-150),
        (1, 10**10, 1e-150, 1.0),
        (1, 10**10, 1e-12, 1 - 1e-12),
        (1, 10**10, 1e-10, 1 - 1e-10),
        (1, 60, 0.5, 0.5),
        (20, 10**10, 3e-9, 1 - 3e-9),
        (9999999990, 10**10, 1 - 1e-9, 1e-9),
        (5 * 10**9, 10**10, 0.5, 0.5),
        (5 * 10**9 - 350_000, 10**10, 0.5, 0.5),
        (5 * 10**9 + 4 * 10**9, 10**10, 0.5, 0.5),
        (5 * 10**9, 10**10, 1e-7, 1 - 1e-7),
        (9 * 10**9, 10**10, 0.1, 0.9),
    ],
)
def test_corners(x: int, n: int, p: float, q: float) -> None:
    value, error = mills_ratio(x, n, p, q)
    upper = true_errors(*(np.atleast_1d(float(v)) for v in (x, n, p, q)), value.ravel())
    assert value.shape == error.shape == ()
    assert upper[0] <= error < 1e-12


def test_below_the_range_the_bound_still_holds() -> None:
    rng = np.random.default_rng(5)
    n = np.floor(10.0 ** rng.uniform(2.0, 5.0, 300))
    p = rng.uniform(0.01, 0.99, 300)
    q = 1.0 - p
    x = np.ceil(n * p - rng.uniform(7.0, 15.0, 300) * np.sqrt(n * p * q) - 20.0).clip(1.0, n)
    value, error = mills_ratio(x, n, p, q)
    known = np.isfinite(error)
    assert known.sum() > 50
    upper = true_errors(x[known], n[known], p[known], q[known], value[known])
    assert np.all(upper <= error[known])


@pytest.mark.parametrize(
    "constants",
    [
        {"GAUSS_NODES": 24},
        {"GAUSS_NODES": 32},
        {"MAX_CHEBYSHEV_DEGREE": 14},
        {"LOG_TRUNCATION": 12.0},
        {"LOG_TRUNCATION": 20.0},
    ],
    ids=str,
)
def test_the_truncated_part_is_bounded(
    constants: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rougher constants make the truncation visible, unlike in the other tests."""
    for name, constant in constants.items():
        monkeypatch.setattr(mills, name, constant)
    mills._tables.cache_clear()
    arguments = settings(np.random.default_rng(6), 500)
    value, error = mills_ratio(*arguments)
    mills._tables.cache_clear()
    rough = np.isfinite(error) & (error > 1e-12)
    upper = true_errors(*(v[rough] for v in arguments), value[rough])
    assert rough.sum() > 20
    assert np.all(upper <= error[rough])
