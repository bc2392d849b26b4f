"""Shuffled optimised unary encoding (OUE): a report is a bit for each cell."""

from shuffledp.mechanisms.local import LocalParameters, ShuffledOne
from shuffledp.randomisers.unary_encoding import UnaryEncoding, optimised


class ShuffledOUE(ShuffledOne):
    """The own bit is 1 with probability 1/2: best for an empty cell at a local budget.

    Optimised local hashing has the same error. See `Mechanism`.
    """

    name = "oue"
    label = "OUE"

    def __init__(self) -> None:
        super().__init__("#44AA99", "d")

    def randomiser(self, k: int, parameters: LocalParameters) -> UnaryEncoding:
        """OUE of k cells."""
        return optimised(k, parameters.eps0)
