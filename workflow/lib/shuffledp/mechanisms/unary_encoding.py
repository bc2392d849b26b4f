"""Shuffled optimised unary encoding (OUE): a report is a bit for each cell."""

from shuffledp.mechanisms.local import ShuffledRandomiser
from shuffledp.randomisers.unary_encoding import UnaryEncoding, optimised


class ShuffledUnaryEncoding(ShuffledRandomiser):
    """The own bit is 1 with probability 1/2. See `Mechanism`."""

    name = "unary-encoding"
    label = "unary encoding"

    def __init__(self) -> None:
        super().__init__("#56B4E9", "p")

    def randomiser(self, k: int, eps0: float) -> UnaryEncoding:
        """OUE of k cells."""
        return optimised(k, eps0)
