"""Brent's method visits the same points as SciPy's."""

import math

import numpy as np
import pytest
from scipy import optimize
from shuffledp.numerics.roots import brentq

FUNCTIONS = [
    lambda x: x**3 - 2.0,
    lambda x: math.exp(-x) - 0.5,
    lambda x: math.atan(x - 1.0) * 1e-200,
    lambda x: -1.0 if x < 0.3 else 1.0,
    lambda x: (x - 0.7) ** 3 + 1e-3 * (x - 0.7),
    lambda x: max(-745.0 * x, -1e300) + 300.0,
    lambda x: math.cos(x) - x,
]


def visited(solve, f, low, high, **tolerances):
    points = []

    def recorded(x):
        points.append(x)
        return f(x)

    return solve(recorded, low, high, **tolerances), points


@pytest.mark.parametrize("f", FUNCTIONS)
@pytest.mark.parametrize("tolerances", [{}, {"xtol": 1e-6}, {"xtol": 1e-13}, {"rtol": 1e-4}])
def test_iterates_equal_those_of_scipy(f, tolerances):
    rng = np.random.default_rng(0)
    for _ in range(50):
        low, high = rng.uniform(-3.0, 0.2), rng.uniform(1.3, 9.0)
        assert (f(low) < 0.0) != (f(high) < 0.0)
        ours = visited(brentq, f, low, high, **tolerances)
        assert ours == visited(optimize.brentq, f, low, high, **tolerances)


def test_an_end_that_is_the_root():
    assert brentq(lambda x: x, 0.0, 1.0) == 0.0
    assert brentq(lambda x: x - 1.0, 0.0, 1.0) == 1.0


@pytest.mark.parametrize(
    ("f", "message"), [(lambda x: 1.0, "same sign"), (lambda x: math.nan, "NaN")]
)
def test_no_bracket_is_an_error(f, message):
    with pytest.raises(ValueError, match=message):
        brentq(f, 0.0, 1.0)


def test_no_convergence_is_an_error():
    with pytest.raises(RuntimeError, match="100 iterations"):
        brentq(lambda x: (x - 0.7) ** 9, -1.0, 3.0)
