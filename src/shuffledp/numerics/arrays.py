"""Array types, checks of numbers, and arithmetic with directed rounding."""

from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from math import isfinite
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffledp.errors import InputError, shortened

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]
UNIT = 2.0**-53  # unit of rounding: largest relative error of rounding to the nearest float


def floats(name: str, values: object) -> Floats:
    """Return numbers of any shape as an array; ``name`` is the parameter in error messages.

    Raises `InputError` if the values are text, None or other objects.
    """
    try:
        array = np.asarray(values)
    except ValueError:  # lists of different lengths
        array = np.asarray(None)
    numbers = array.dtype.kind in "biuf" or (
        array.dtype.kind == "O" and all(isinstance(one, Real | Decimal) for one in array.flat)
    )
    if not numbers:
        raise InputError(f"{name} must be numbers, got {name}={shortened(repr(values))}")
    return np.asarray(array, np.float64)


def scalar(name: str, value: object) -> float:
    """Return one number as a float; raise `InputError` for a list, text, None or other objects."""
    if not isinstance(value, Real):
        raise InputError(f"{name} must be a number, got {name}={shortened(repr(value))}")
    return float(value)


def plain(values: ArrayLike) -> Any:
    """Return an array of dimension 0 as a float, and other arrays unchanged."""
    array = np.asarray(values, np.float64)
    return array if array.ndim else array.item()


def sum_up(terms: Iterable[tuple[int, float]]) -> float:
    """Return the smallest float that is at least ``sum(count * value)``, for values >= 0.

    The sum is computed exactly. The result is inf if a value is, or if the sum overflows.
    """
    terms = list(terms)
    if not all(isfinite(value) for _, value in terms):
        return float("inf")
    total = sum((count * Fraction(value) for count, value in terms), Fraction(0))
    try:
        nearest = float(total)
    except OverflowError:
        return float("inf")
    return float(np.nextafter(nearest, np.inf)) if Fraction(nearest) < total else nearest


def quotient_down(value: float, count: int) -> float:
    """Return the largest float whose exact product with ``count`` is at most ``value``."""
    nearest = value / count
    if isfinite(nearest) and Fraction(nearest) * count > Fraction(value):
        return float(np.nextafter(nearest, -np.inf))
    return nearest


def log_sum_exp(values: Floats, axis: int | None = None) -> Floats:
    """Return ``log sum exp(values)`` over all values or along an axis; infinite values are allowed.

    SciPy's function takes ten times as long for few values, the usual case here. Summation is
    pairwise along the last axis, as in NumPy.
    """
    top = values.max(axis=axis, keepdims=True, initial=-np.inf)
    top[~np.isfinite(top)] = 0.0
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.exp(values - top).sum(axis=axis)) + top.squeeze(axis))
