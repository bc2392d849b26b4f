"""The two kinds of arrays that the package passes around, how a float rounds, sums of logs."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]
UNIT = 2.0**-53  # relative error of rounding to the nearest float


def plain(values: ArrayLike) -> Any:
    """A float for a single number, an array for an array."""
    array = np.asarray(values, np.float64)
    return array if array.ndim else array.item()


def log_sum_exp(values: Floats, axis: int | None = None) -> Floats:
    """``log sum exp(values)``, over all of them or along an axis; -inf and inf may be among them.

    SciPy's function takes ten times as long where there are few, as in most of the accounting.
    The sum is NumPy's, pairwise along the last axis.
    """
    top = values.max(axis=axis, keepdims=True, initial=-np.inf)
    top[~np.isfinite(top)] = 0.0
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.exp(values - top).sum(axis=axis)) + top.squeeze(axis))
