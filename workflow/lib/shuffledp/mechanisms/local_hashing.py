"""Shuffled optimised local hashing (OLH): a report is a function and k-RR of its value."""

from shuffledp.mechanisms.local import ShuffledRandomiser
from shuffledp.randomisers.local_hashing import LocalHashing, optimised


class ShuffledHashing(ShuffledRandomiser):
    """Functions into about exp(eps0) + 1 values. See `Mechanism`."""

    name = "local-hashing"
    label = "local hashing"

    def __init__(self) -> None:
        super().__init__("#F0E442", ">")

    def randomiser(self, k: int, eps0: float) -> LocalHashing:
        """OLH of k cells."""
        return optimised(k, eps0)
