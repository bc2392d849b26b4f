"""Shuffled basic RAPPOR: symmetric unary encoding, every bit flipped with the same chance."""

from shuffledp.mechanisms.local import LocalParameters, ShuffledOne
from shuffledp.randomisers.unary_encoding import UnaryEncoding, symmetric


class ShuffledRappor(ShuffledOne):
    """All bits are flipped alike. See `Mechanism`."""

    name = "rappor"
    label = "RAPPOR"

    def __init__(self) -> None:
        super().__init__("#8C510A", "<")

    def randomiser(self, k: int, parameters: LocalParameters) -> UnaryEncoding:
        """Symmetric encoding of k cells."""
        return symmetric(k, parameters.eps0)
