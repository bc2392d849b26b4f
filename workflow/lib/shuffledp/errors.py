"""Whose fault an error is: an `InputError` is the user's to mend, all else is a defect of ours."""

from collections.abc import Iterable
from typing import Final

DEFECT: Final = "this is a defect; please report it"


class InputError(ValueError):
    """Bad input: a file, a configuration value or an argument.

    The message says what was given and what would be right.
    """


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """End of a message about an unknown word: the known one that is nearest, if any is near."""
    import difflib

    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""
