"""Numbers of options, messages of one line, and what an answer is about."""

import argparse
from decimal import Decimal
from typing import Final

from shuffledp.numerics import number_parsing

# Beside every number of privacy: of which data sets it compares, and what of them differs.
NEIGHBOURS: Final = "replacement, the same n"
# Of a message: its longest word, and its length. A list of all mechanisms or bounds fits in.
_WORD, _LINE = 120, 1_000


def shortened(text: str, most: int = _WORD) -> str:
    """Beginning and end of a text that is long."""
    half = (most - 3) // 2
    return text if len(text) <= most else f"{text[:half]}...{text[-half:]}"


def one_line(message: str) -> str:
    """A message without what moves a terminal's cursor, and not longer than one can read."""
    words = (shortened(word) for word in message.split())
    line = shortened(" ".join(words), _LINE)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


def unit(rounds: int = 1) -> str:
    """What differs between neighbours: all that one user reports."""
    return "one record of one user" if rounds == 1 else f"all {rounds} records of one user"


def whole(text: str) -> int:
    """Of an option: an integer that may be written 1e6."""
    try:
        return number_parsing.whole(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{shortened(text)} is not a whole number") from None


def real(text: str) -> float:
    """Of an option: the nearest float."""
    try:
        return number_parsing.number(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{shortened(text)} is not a number") from None


def decimal(text: str) -> Decimal:
    """Of an option: the number with all its digits."""
    try:
        return number_parsing.exact(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{shortened(text)} is not a number") from None
