"""Whose fault an error is: an `InputError` is the user's to mend, all else is a defect of ours."""

import errno
from collections.abc import Iterable
from typing import Final

DEFECT: Final = "this is a defect; please report it"


class InputError(ValueError):
    """Bad input: a file, a configuration value or an argument.

    The message says what was given and what would be right.
    """


# Words of the loader, of threads and of C++ for want of memory, which raise other exceptions.
_SHORT: Final = ("failed to map segment", "cannot allocate memory", "new thread", "bad_alloc")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error is want of memory, or came while one was dealt with.

    NumPy's and Arrow's are a `MemoryError`. A library that is loaded late, or a thread, may be the
    first that finds no room, and says it in words of its own.
    """
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, MemoryError):
            return True
        if isinstance(found, OSError) and found.errno == errno.ENOMEM:
            return True
        words = str(found).lower()
        if isinstance(found, ImportError | OSError | RuntimeError) and any(
            s in words for s in _SHORT
        ):
            return True
        found = found.__cause__ or found.__context__
    return False


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """End of a message about an unknown word: the known one that is nearest, if any is near."""
    import difflib

    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""
