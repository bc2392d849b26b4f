"""Numbers as they may be written, messages of one line, and what an answer is about."""

import argparse
import re
from dataclasses import MISSING, fields
from decimal import Decimal
from typing import Any, Final

from shuffledp.errors import InputError

# As JSON and csv have them: no 1_000, no digits of other scripts. What is not finite is refused
# where it is used, by name.
_NUMBER: Final = re.compile(
    r"[ \t]*[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,5})?|inf|infinity|nan)[ \t]*",
    re.IGNORECASE | re.ASCII,
)
_LONGEST_NUMBER: Final = 5_000
# Beside every number of privacy: of which data sets it compares, and what of them differs.
NEIGHBOURS: Final = "replacement, the same n"
# Of a message: its longest word, and its length. A list of all mechanisms or bounds fits in.
_WORD, _LINE = 120, 1_000


def exact(text: str) -> Decimal:
    """The number that is written.

    Raises
    ------
    ValueError
        If it is none.
    """
    if len(text) > _LONGEST_NUMBER or not _NUMBER.fullmatch(text):
        raise ValueError("this is not a number")
    return Decimal(text.strip())


def number(text: str) -> float:
    """The nearest float; errors as `exact`."""
    return float(exact(text))


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
        value = exact(text)
    except ValueError:
        value = Decimal("nan")
    if value.is_finite() and abs(value) < 10**18 and value == value.to_integral_value():
        return int(value)
    raise argparse.ArgumentTypeError(f"{shortened(text)} is not a whole number")


def real(text: str) -> float:
    """Of an option: the nearest float."""
    try:
        return number(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{shortened(text)} is not a number") from None


def decimal(text: str) -> Decimal:
    """Of an option: the number with all its digits."""
    try:
        return exact(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{shortened(text)} is not a number") from None


def parameters_of(mechanism: str, form: type[Any], words: str) -> Any:
    """A mechanism's parameters, as `compare` prints them: ``eps=1.0, nu=25``.

    Parameters
    ----------
    mechanism
        Its name.
    form
        Class of the parameters.
    words
        What is written.

    Raises
    ------
    InputError
        If one is missing, unknown, or out of range.
    """
    numbers = [each for each in fields(form) if each.type in (int, float)]
    known = {each.name: each.type for each in numbers}
    given = dict[str, float]()
    for part in words.split(","):
        name, _, text = (piece.strip() for piece in part.partition("="))
        if name not in known or name in given:
            raise InputError(
                f"--parameters of {mechanism} are {', '.join(known)}, each once, as in "
                f"{next(iter(known))}=1 (got {part.strip()})"
            )
        try:
            given[name] = number(text) if known[name] is float else whole(text)
        except (ValueError, argparse.ArgumentTypeError):
            raise InputError(f"{name} of {mechanism} is no such number (got {text})") from None
    needed = [each.name for each in numbers if each.default is MISSING]
    if missing := [name for name in needed if name not in given]:
        raise InputError(f"--parameters of {mechanism} lack {', '.join(missing)}")
    return form(**given)
