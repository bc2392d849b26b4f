"""What is released: users, cells, local budget, rounds. The only place that checks them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shuffledp import krr
from shuffledp.arrays import Integers
from shuffledp.errors import InputError

LARGEST_N = 10_000_000_000
LARGEST_K = 1_000_000
# exp(eps + eps0) must be a float wherever eps < eps0.
LARGEST_EPS0 = 350.0


def _check_whole(name: str, value: float, low: int, high: float, what: str) -> None:
    if not (low <= value <= high and value == int(value)):
        most = "" if np.isinf(high) else f" and at most {high:,}"
        raise InputError(
            f"{name} must be a whole number of {what}, at least {low}{most} (got {name}={value})"
        )


@dataclass(frozen=True)
class Setting:
    """n users, one report each in one of k cells, local budget eps0; optionally repeated.

    Attributes
    ----------
    n
        Number of users, at least 1.
    k
        Number of cells, at least 2.
    eps0
        Local budget of k-RR, positive and at most 350.
    rounds
        How often the same users report, each time with budget eps0.
    count
        How many of the other users hold the target's cell; None for the worst number.

    Raises
    ------
    InputError
        If one of them is out of range.
    """

    n: int
    k: int
    eps0: float
    rounds: int = 1
    count: int | None = None

    def __post_init__(self) -> None:
        if self.eps0 > LARGEST_EPS0:
            raise InputError(f"eps0 must be at most {LARGEST_EPS0:g} (got eps0={self.eps0})")
        krr.probabilities(self.eps0, self.k)
        _check_whole("k", self.k, 2, LARGEST_K, "cells")
        _check_whole("n", self.n, 1, LARGEST_N, "users")
        _check_whole("rounds", self.rounds, 1, np.inf, "rounds")
        if self.count is not None:
            self.checked_counts(self.count)

    @property
    def budget(self) -> float:
        """Eps from which on delta is 0: that of releasing every report unshuffled."""
        return self.rounds * self.eps0

    def require_one_round(self) -> None:
        """Refuse several rounds: a bound on one says nothing of them.

        Raises
        ------
        InputError
            If there is more than one.
        """
        if self.rounds > 1:
            raise InputError(f"this bound covers one round only (got rounds={self.rounds})")

    def checked_counts(self, counts: ArrayLike) -> Integers:
        """Numbers of other users in the target's cell, any shape, each in ``0..n-1``.

        Raises
        ------
        InputError
            If one is out of range.
        """
        checked = np.asarray(counts, dtype=np.int64)
        if checked.size and (checked.min() < 0 or checked.max() > self.n - 1):
            raise InputError(
                f"count must lie in 0..n-1 = 0..{self.n - 1}, the other users in the target's "
                f"cell (got {checked[(checked < 0) | (checked >= self.n)].flat[0]})"
            )
        return checked
