"""Every mechanism under its name."""

from collections.abc import Sequence
from typing import Any

from shuffledp.errors import InputError
from shuffledp.mechanisms.discrete_laplace import DiscreteLaplace
from shuffledp.mechanisms.gaussian import CentralGaussian
from shuffledp.mechanisms.hadamard import ShuffledHadamard
from shuffledp.mechanisms.krr import KRandomisedResponse
from shuffledp.mechanisms.local_hashing import ShuffledHashing
from shuffledp.mechanisms.oue import ShuffledOUE
from shuffledp.mechanisms.protocol import Estimator, Mechanism
from shuffledp.mechanisms.rappor import ShuffledRappor
from shuffledp.mechanisms.shuffler_dummies import ShufflerDummies
from shuffledp.mechanisms.subset_selection import ShuffledSubsets
from shuffledp.mechanisms.unary_encoding import ShuffledUnaryEncoding
from shuffledp.mechanisms.user_dummies import UserDummies

_MECHANISMS: tuple[Mechanism[Any], ...] = (
    CentralGaussian(),
    KRandomisedResponse(),
    DiscreteLaplace(),
    UserDummies(),
    ShufflerDummies(),
    ShuffledSubsets(),
    ShuffledUnaryEncoding(),
    ShuffledOUE(),
    ShuffledRappor(),
    ShuffledHashing(),
    ShuffledHadamard(),
)

MECHANISMS: dict[str, Mechanism[Any]] = {mechanism.name: mechanism for mechanism in _MECHANISMS}


def get_mechanisms(names: Sequence[str]) -> list[Mechanism[Any]]:
    """Look up mechanisms by their names.

    Raises
    ------
    InputError
        If one does not exist; the message lists those that do.
    """
    for name in names:
        if name not in MECHANISMS:
            raise InputError(
                f"there is no mechanism {name!r} (mechanisms: {', '.join(MECHANISMS)})"
            )
    return [MECHANISMS[name] for name in names]


def get_estimator(mechanism: str, estimator: str) -> Estimator[Any]:
    """Look up an estimator by the two names that tables have for a series.

    Raises
    ------
    KeyError
        If there is none.
    """
    return MECHANISMS[mechanism].estimator(estimator)


def own_calibrations(names: Sequence[str]) -> dict[str, str]:
    """Calibrations that are not at equal privacy, of any of the named mechanisms, and their words.

    Raises
    ------
    InputError
        As `get_mechanisms`.
    """
    return {
        calibration: words
        for mechanism in get_mechanisms(names)
        for calibration, words in mechanism.own_calibrations.items()
    }
