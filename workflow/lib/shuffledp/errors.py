"""Distinguish bad input, which the user can correct, from defects of this package."""

import errno
from collections.abc import Iterable
from typing import Final

DEFECT: Final = "this is a defect; please report it"


class InputError(ValueError):
    """A file, a configuration value or an argument is invalid.

    The message states the received value and what is accepted.
    """


# The longest word of a message, and the longest message: a list of all mechanisms or bounds fits.
MAX_WORD, MAX_MESSAGE = 120, 1_000


def shortened(text: str, most: int = MAX_WORD) -> str:
    """Return the beginning and the end of a long text."""
    half = (most - 3) // 2
    return text if len(text) <= most else f"{text[:half]}...{text[-half:]}"


def one_line(message: str) -> str:
    """Return a message of readable length without characters that move a terminal's cursor."""
    words = (shortened(word) for word in message.split())
    line = shortened(" ".join(words), MAX_MESSAGE)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


# Messages of the dynamic loader, of threads and of C++, which do not raise MemoryError.
_MEMORY_MESSAGES: Final = (
    "failed to map segment",
    "cannot allocate memory",
    "new thread",
    "bad_alloc",
)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error, or one that led to it, means that memory is exhausted.

    NumPy and Arrow raise a `MemoryError`. Loading a library or starting a thread may also fail for
    lack of memory; only the message of such an error reveals it.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError):
            return True
        if isinstance(cause, OSError) and cause.errno == errno.ENOMEM:
            return True
        message = str(cause).lower()
        if isinstance(cause, ImportError | OSError | RuntimeError) and any(
            part in message for part in _MEMORY_MESSAGES
        ):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of a message that suggests a known word similar to an unknown one, if any."""
    import difflib

    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""
