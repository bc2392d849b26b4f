"""Numbers as they may be written; the standard library alone, so that --help is quick."""

import re
from decimal import Decimal
from typing import Final

# Numbers as in JSON and CSV, without 1_000 or digits of other scripts. Infinite values are refused
# where it is used, by name.
_NUMBER: Final = re.compile(
    r"[ \t]*[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,5})?|inf|infinity|nan)[ \t]*",
    re.IGNORECASE | re.ASCII,
)
_LONGEST: Final = 5_000


def exact(text: str) -> Decimal:
    """The number that is written.

    Raises
    ------
    ValueError
        If it is none.
    """
    if len(text) > _LONGEST or not _NUMBER.fullmatch(text):
        raise ValueError("this is not a number")
    return Decimal(text.strip())


def number(text: str) -> float:
    """The nearest float; errors as `exact`."""
    return float(exact(text))


def whole(text: str) -> int:
    """An integer below 1e18 that may be written 1e6; errors as `exact`."""
    value = exact(text)
    if not (value.is_finite() and abs(value) < 10**18 and value == value.to_integral_value()):
        raise ValueError("this is not a whole number")
    return int(value)
