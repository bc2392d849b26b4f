"""Local hashing: report a random hash function into g values, and k-RR of the hashed cell.

The source is Wang et al., "Locally differentially private protocols for frequency estimation"
(2017). The hash function is drawn uniformly from all functions of the cells, so the hash values of
the cells are independent. A report supports the cells whose hash value is the reported one.
"""

from dataclasses import dataclass

import numpy as np

from shuffledp.errors import InputError
from shuffledp.mechanisms.local import LocalParameters, ShuffledRandomiser
from shuffledp.mechanisms.randomiser import IndependentSupport, check_budget, check_cells


@dataclass(frozen=True)
class LocalHashing(IndependentSupport):
    """Local hashing of k cells into g = ``values`` values with local budget eps0.

    Raises `InputError` if g is below 2 or another parameter is out of range.
    """

    k: int
    eps0: float
    values: int

    def __post_init__(self) -> None:
        check_cells(self.k)
        check_budget(self.eps0)
        if not (self.values >= 2 and self.values == int(self.values)):
            raise InputError(
                f"g, the number of hash values, must be an integer >= 2, got g={self.values}"
            )

    @property
    def share(self) -> float:
        return 1.0 / self.values

    @property
    def report_bytes(self) -> int:
        """Length of a seed of 16 bytes, which stands for the hash function, and of a hash value."""
        return 16 + -(-int(self.values - 1).bit_length() // 8)


def optimised(k: int, eps0: float) -> LocalHashing:
    """Return OLH, which has the least variance for an empty cell: g is about ``exp(eps0) + 1``."""
    check_budget(eps0)
    return LocalHashing(k, eps0, round(float(np.exp(eps0))) + 1)


MAX_VALUES = 2**40  # largest g that `calibrate` tries


@dataclass(frozen=True)
class HashingParameters(LocalParameters):
    """Local budget, and number g of hash values."""

    g: int


class ShuffledHashing(ShuffledRandomiser[HashingParameters]):
    """Mechanism that shuffles reports of local hashing; `calibrate` chooses the best g."""

    name = "local-hashing"
    form = HashingParameters

    def shape_range(self, k: int) -> tuple[float, float]:
        """Return the range of shapes, which are values of log g."""
        del k
        return float(np.log(2.0)), float(np.log(MAX_VALUES))

    def member(self, eps0: float, shape: float) -> HashingParameters:
        """Return the parameters with the nearest integer g."""
        return HashingParameters(eps0, round(float(np.exp(shape))))

    def randomiser(self, k: int, parameters: HashingParameters) -> LocalHashing:
        """Return the randomiser for k cells."""
        return LocalHashing(k, parameters.eps0, parameters.g)
