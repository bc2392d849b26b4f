"""Conventions of the accounting: the direction of rounding, and evaluation at arrays of eps.

The decorators extend functions of one eps or one log delta to arrays of any shape; the result has
the same shape.
"""

from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from functools import wraps
from typing import Any, Concatenate, Final, Literal, ParamSpec

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Floats, floats, plain, scalar

# Direction of rounding: "lower" is never above the true value, "upper" never below it.
Side = Literal["lower", "upper"]

# Neighbouring data sets of a guarantee, unless stated otherwise, in words.
NEIGHBOURS: Final = "replacement, the same n"

# More digits than a float has; the context of the caller is not used.
_LOG_CONTEXT = Context(prec=30)

_Rest = ParamSpec("_Rest")


def eps_values(eps: ArrayLike) -> Floats:
    """Return central budgets eps as a float array; raise `InputError` if one is below 0 or NaN."""
    values = floats("eps", eps)
    invalid = values[~(values >= 0.0)]
    if invalid.size:
        raise InputError(f"eps must be at least 0, got eps={invalid[0]}")
    return values


def log_delta_values(log_delta: ArrayLike) -> Floats:
    """Return logs of delta as a float array; raise `InputError` if one is above 0 or NaN."""
    values = np.asarray(log_delta, np.float64)
    invalid = values[~(values <= 0.0)]
    if invalid.size:
        raise InputError(f"delta must lie in [0, 1], got log delta={invalid[0]}")
    return values


def _elementwise(
    values_of: Callable[[ArrayLike], Floats], function: Callable[Concatenate[float, _Rest], float]
) -> Callable[Concatenate[ArrayLike, _Rest], Floats]:
    @wraps(function)
    def of_any_shape(first: ArrayLike, /, *args: _Rest.args, **kwargs: _Rest.kwargs) -> Floats:
        values = values_of(first)
        results = [float(function(float(value), *args, **kwargs)) for value in values.ravel()]
        return np.array(results, np.float64).reshape(values.shape)

    return of_any_shape


def over_eps(
    function: Callable[Concatenate[float, _Rest], float],
) -> Callable[Concatenate[ArrayLike, _Rest], Floats]:
    """Extend a function of one eps to arrays of eps, which `eps_values` checks."""
    return _elementwise(eps_values, function)


def over_eps_of_one_round(
    function: Callable[Concatenate[float, Setting, _Rest], float],
) -> Callable[Concatenate[ArrayLike, Setting, _Rest], Floats]:
    """Like `over_eps`, for a function that also takes a setting and requires one round."""

    @wraps(function)
    def checked(
        eps: float, setting: Setting, /, *args: _Rest.args, **kwargs: _Rest.kwargs
    ) -> float:
        setting.require_one_round()
        return function(eps, setting, *args, **kwargs)

    return over_eps(checked)


def over_log_delta(
    function: Callable[Concatenate[float, _Rest], float],
) -> Callable[Concatenate[ArrayLike, _Rest], Floats]:
    """Extend a function of one log delta to arrays, which `log_delta_values` checks."""
    return _elementwise(log_delta_values, function)


def log_of_delta(delta: float | Decimal) -> float:
    """Return the natural log of a delta in ``(0, 1]``, rounded down.

    A `Decimal` may be smaller than the smallest float.
    """
    exact = delta if isinstance(delta, Decimal) else Decimal(scalar("delta", delta))
    if not (exact.is_finite() and 0 < exact <= 1):
        raise InputError(f"delta must lie in (0, 1], got delta={delta}")
    log = exact.ln(_LOG_CONTEXT)
    nearest = float(log)
    return nearest if Decimal(nearest) <= log else float(np.nextafter(nearest, -np.inf))


def logs_of_deltas(deltas: ArrayLike | Decimal | Sequence[Decimal]) -> Any:
    """Return `log_of_delta` of deltas of any shape; a float for a single one."""
    values = np.asarray(deltas, object)
    return plain(np.array([log_of_delta(delta) for delta in values.ravel()]).reshape(values.shape))
