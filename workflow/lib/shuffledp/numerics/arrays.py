"""Array types of the package, and small numerical tools: directed rounding, sums of logarithms."""

from collections.abc import Iterable
from fractions import Fraction
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]
UNIT = 2.0**-53  # relative error of rounding to the nearest float


def plain(values: ArrayLike) -> Any:
    """Return a float for a single number, and an array for an array."""
    array = np.asarray(values, np.float64)
    return array if array.ndim else array.item()


def sum_up(terms: Iterable[tuple[int, float]]) -> float:
    """Return the smallest float that is at least ``sum(count * value)``, computed exactly.

    Parameters
    ----------
    terms
        Pairs ``(count, value)``, values at least 0; the result is inf if one of them is.
    """
    terms = list(terms)
    if not all(isfinite(value) for _, value in terms):
        return float("inf")
    total = sum((count * Fraction(value) for count, value in terms), Fraction(0))
    nearest = float(total)
    return float(np.nextafter(nearest, np.inf)) if Fraction(nearest) < total else nearest


def quotient_down(value: float, count: int) -> float:
    """Return the largest float whose product with ``count`` is exactly at most ``value``."""
    nearest = value / count
    if isfinite(nearest) and Fraction(nearest) * count > Fraction(value):
        return float(np.nextafter(nearest, -np.inf))
    return nearest


def log_sum_exp(values: Floats, axis: int | None = None) -> Floats:
    """Return ``log sum exp(values)`` over all values or along an axis; infinite values are allowed.

    SciPy's function takes ten times as long for few values, which are the usual case here. The sum
    is NumPy's, pairwise along the last axis.
    """
    top = values.max(axis=axis, keepdims=True, initial=-np.inf)
    top[~np.isfinite(top)] = 0.0
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.exp(values - top).sum(axis=axis)) + top.squeeze(axis))
