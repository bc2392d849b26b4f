"""Whose fault an error is: an `InputError` is the user's to mend, all else is a defect of ours."""

from typing import Final

DEFECT: Final = "this is a defect; please report it"


class InputError(ValueError):
    """Bad input: a file, a configuration value or an argument.

    The message says what was given and what would be right.
    """
