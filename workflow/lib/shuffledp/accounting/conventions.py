"""What all of the accounting agrees on: the direction of rounding, and how arguments broadcast.

Every public function takes eps (or a log of delta) of any shape and one `Setting`, and returns an
array of that shape.
"""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, Literal, ParamSpec

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Floats

# Which way a number is rounded: never above the true one, or never below it.
Side = Literal["lower", "upper"]

_Rest = ParamSpec("_Rest")


def eps_values(eps: ArrayLike) -> Floats:
    """Central budgets as an array.

    Raises
    ------
    InputError
        If one is negative or no number.
    """
    values = np.asarray(eps, np.float64)
    wrong = values[~(values >= 0.0)]
    if wrong.size:
        raise InputError(f"eps must be at least 0 (got eps={wrong[0]})")
    return values


def log_delta_values(log_delta: ArrayLike) -> Floats:
    """Natural logs of delta as an array.

    Raises
    ------
    InputError
        If one is above 0 or no number.
    """
    values = np.asarray(log_delta, np.float64)
    wrong = values[~(values <= 0.0)]
    if wrong.size:
        raise InputError(f"delta must lie in [0, 1] (got log delta={wrong[0]})")
    return values


def _over(
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
    """Make a function of one eps a function of eps of any shape, checked by `eps_values`."""
    return _over(eps_values, function)


def of_one_round(
    function: Callable[Concatenate[float, Setting, _Rest], float],
) -> Callable[Concatenate[ArrayLike, Setting, _Rest], Floats]:
    """As `over_eps`, for a function of eps and a setting that must be one round."""

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
    """Make a function of one log of delta one of any shape, checked by `log_delta_values`."""
    return _over(log_delta_values, function)
