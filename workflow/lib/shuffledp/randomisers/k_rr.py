"""k-randomised response: the support of a report is the one cell it names."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shuffledp import krr
from shuffledp.arrays import Floats
from shuffledp.randomisers.protocol import Pattern, SupportRandomiser, check_budget, check_cells


@dataclass(frozen=True)
class KRR(SupportRandomiser):
    """k-RR of k cells with local budget eps0; raises `InputError` if one is out of range."""

    k: int
    eps0: float
    interchangeable = True

    def __post_init__(self) -> None:
        check_cells(self.k)
        check_budget(self.eps0)

    @property
    def share(self) -> float:
        return 1.0 / self.k

    @property
    def patterns(self) -> Mapping[Pattern, float]:
        one = 1.0 / self.k
        if self.k == 2:
            return {(1, 0, 0): one, (0, 1, 0): one}
        none = (self.k - 3) / self.k
        return {(1, 0, 0): one, (0, 1, 0): one, (0, 0, 1): one, (0, 0, 0): none}

    def observe(self, counts: ArrayLike, rng: np.random.Generator) -> Floats:
        return np.asarray(krr.randomise(counts, self.eps0, rng)[0], np.float64)
