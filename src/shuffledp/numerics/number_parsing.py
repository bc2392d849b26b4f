"""Parsing of numbers with the standard library alone, so that ``--help`` is quick."""

import re
from decimal import Decimal
from typing import Final

# Numbers as in JSON and CSV, without underscores (1_000) or digits of other scripts. Callers refuse
# infinite values and NaN, because they know the name of the parameter.
_NUMBER: Final = re.compile(
    r"[ \t]*[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,5})?|inf|infinity|nan)[ \t]*",
    re.IGNORECASE | re.ASCII,
)
_MAX_CHARACTERS: Final = 5_000


def exact(text: str) -> Decimal:
    """Return the exact value of a number; raise `ValueError` if the text is not a number."""
    if len(text) > _MAX_CHARACTERS or not _NUMBER.fullmatch(text):
        raise ValueError("this is not a number")
    return Decimal(text.strip())


def number(text: str) -> float:
    """Return the float nearest to a number; raise `ValueError` like `exact`."""
    return float(exact(text))


def whole(text: str) -> int:
    """Return an integer below 1e18, possibly written as 1e6; raise `ValueError` for other text."""
    value = exact(text)
    if not (value.is_finite() and abs(value) < 10**18 and value == value.to_integral_value()):
        raise ValueError("this is not a whole number")
    return int(value)
