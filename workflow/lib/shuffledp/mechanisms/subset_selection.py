"""Shuffled subset selection: a report names two cells."""

from shuffledp.mechanisms.local import ShuffledRandomiser
from shuffledp.randomisers.subset_selection import SubsetSelection

_SIZE = 2


class ShuffledSubsets(ShuffledRandomiser):
    """Sets of two cells: of more, the variance grows; of one, it is k-RR. See `Mechanism`."""

    name = "subset-selection"
    label = "subset selection"

    def __init__(self) -> None:
        super().__init__("#CC79A7", "v")

    def randomiser(self, k: int, eps0: float) -> SubsetSelection:
        """Sets of two of k cells; k must be at least 3."""
        return SubsetSelection(k, eps0, _SIZE)
