"""Conventions of the accounting: the direction of rounding, and broadcasting over eps.

Public functions take eps (or a log of delta) of any shape and one `Setting`, and return an array of
that shape.
"""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, Literal, ParamSpec

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Floats, floats

# The direction of rounding: never above the true number, or never below it.
Side = Literal["lower", "upper"]

_Rest = ParamSpec("_Rest")


def eps_values(eps: ArrayLike) -> Floats:
    """Return central budgets as an array.

    Raises
    ------
    InputError
        If one is negative or NaN.
    """
    values = floats("eps", eps)
    wrong = values[~(values >= 0.0)]
    if wrong.size:
        raise InputError(f"eps must be at least 0, got eps={wrong[0]}")
    return values


def log_delta_values(log_delta: ArrayLike) -> Floats:
    """Return natural logs of delta as an array.

    Raises
    ------
    InputError
        If one is above 0 or NaN.
    """
    values = np.asarray(log_delta, np.float64)
    wrong = values[~(values <= 0.0)]
    if wrong.size:
        raise InputError(f"delta must lie in [0, 1], got log delta={wrong[0]}")
    return values


def _elementwise(
    values_of: Callable[[ArrayLike], Floats], function: Callable[Concatenate[float, _Rest], float]
) -> Callable[Concatenate[ArrayLike, _Rest], Floats]:
    @wraps(function)
    def of_any_shape(first: ArrayLike, /, *args: _Rest.args, **kwargs: _Rest.kwargs) -> Floats:
        values = values_of(first)
        results = [float(function(float(one), *args, **kwargs)) for one in values.ravel()]
        return np.array(results, np.float64).reshape(values.shape)

    return of_any_shape


def over_eps(
    function: Callable[Concatenate[float, _Rest], float],
) -> Callable[Concatenate[ArrayLike, _Rest], Floats]:
    """Extend a function of one eps to eps of any shape, checked by `eps_values`."""
    return _elementwise(eps_values, function)


def over_eps_of_one_round(
    function: Callable[Concatenate[float, Setting, _Rest], float],
) -> Callable[Concatenate[ArrayLike, Setting, _Rest], Floats]:
    """Extend a function of one eps and a setting of one round to eps of any shape."""

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
    """Extend a function of one log of delta to any shape, checked by `log_delta_values`."""
    return _elementwise(log_delta_values, function)
