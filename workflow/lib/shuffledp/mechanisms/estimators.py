"""The two estimates that every mechanism has: the unbiased one, and that on the simplex."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from shuffledp.arrays import Floats
from shuffledp.estimation import project_simplex
from shuffledp.mechanisms.protocol import Estimator, Look

P = TypeVar("P")


def noisy_shares(noisy: Floats, n: int, parameters: Any) -> Floats:
    """Shares by counts with noise of mean 0, shape ``(repetitions, k)``."""
    del parameters
    return np.asarray(noisy / n)


def raw_and_projected(
    label: str, colour: str, marker: str, unbiased: Callable[[Floats, int, P], Floats]
) -> tuple[Estimator[P], Estimator[P]]:
    """Estimators ``raw`` and ``projected``, each compared with its like.

    Parameters
    ----------
    label
        Of the mechanism, in figures.
    colour, marker
        Of both; the projected one is not filled.
    unbiased
        The raw estimate, as `Estimator.estimate`.
    """

    def projected(observed: Floats, n: int, parameters: P) -> Floats:
        return project_simplex(unbiased(observed, n, parameters))

    return (
        Estimator("raw", f"{label}, raw", Look(colour, marker), unbiased, "raw"),
        Estimator(
            "projected",
            f"{label}, projected",
            Look(colour, marker, filled=False),
            projected,
            "projected",
        ),
    )
