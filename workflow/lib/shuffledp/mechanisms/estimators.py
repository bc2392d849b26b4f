"""The two estimates that every mechanism has: the unbiased one, and that on the simplex."""

from typing import Any

import numpy as np

from shuffledp.mechanisms.catalogue import DISTRIBUTION, UNBIASED
from shuffledp.mechanisms.estimation import project_simplex
from shuffledp.mechanisms.protocol import Estimate, P
from shuffledp.numerics.arrays import Floats


def noisy_shares(noisy: Floats, n: int, parameters: Any) -> Floats:
    """Shares by counts with noise of mean 0.

    Parameters
    ----------
    noisy
        Counts, shape ``(repetitions, k)``.
    n
        Number of users, at least 1.
    parameters
        Of the mechanism; not looked at.

    Returns
    -------
    Shares, shape ``(repetitions, k)``.
    """
    del parameters
    return np.asarray(noisy / n)


def raw_and_projected(unbiased: Estimate[P]) -> dict[str, Estimate[P]]:
    """Both estimates under their names, given the unbiased one."""

    def projected(observed: Floats, n: int, parameters: P) -> Floats:
        return project_simplex(unbiased(observed, n, parameters))

    return {UNBIASED: unbiased, DISTRIBUTION: projected}
