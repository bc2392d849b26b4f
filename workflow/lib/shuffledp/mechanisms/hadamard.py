"""Shuffled Hadamard response: a report is a column of a Hadamard matrix."""

from shuffledp.mechanisms.local import LocalParameters, ShuffledOne
from shuffledp.randomisers.hadamard import HadamardResponse


class ShuffledHadamard(ShuffledOne):
    """One of some 2k reports. See `Mechanism`."""

    name = "hadamard"
    label = "Hadamard response"

    def __init__(self) -> None:
        super().__init__("#000000", "h")

    def randomiser(self, k: int, parameters: LocalParameters) -> HadamardResponse:
        """Hadamard response of k cells."""
        return HadamardResponse(k, parameters.eps0)
