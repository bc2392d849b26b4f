"""Distinguish bad input, which the user can correct, from defects of this package."""

import errno
from collections.abc import Iterable
from importlib import import_module
from typing import Any, Final

DEFECT: Final = "this is a defect; please report it"


class InputError(ValueError):
    """A file, a configuration value or an argument is invalid.

    The message states what is accepted and, where it helps, what was received.
    """


# In characters; messages that list all mechanisms or all bounds are shorter than the second.
MAX_WORD_LENGTH, MAX_MESSAGE_LENGTH = 120, 1_000


def shortened(text: str, max_length: int = MAX_WORD_LENGTH) -> str:
    """Return a text, with an ellipsis in place of its middle if it is too long."""
    half = (max_length - 3) // 2
    return text if len(text) <= max_length else f"{text[:half]}...{text[-half:]}"


def one_line(message: str) -> str:
    """Return a message as one line of limited length, with unprintable characters escaped."""
    words = (shortened(word) for word in message.split())
    line = shortened(" ".join(words), MAX_MESSAGE_LENGTH)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


# Parts of the messages of the dynamic loader, threads and C++, which do not raise MemoryError.
_MEMORY_MESSAGES: Final = (
    "failed to map segment",
    "cannot allocate memory",
    "new thread",
    "bad_alloc",
)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error, or an error that caused it, means that memory is exhausted.

    NumPy and Arrow raise a `MemoryError`. If loading a library or starting a thread fails for lack
    of memory, only the message of the error says so.
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


def import_optional(module: str, caller: str) -> Any:
    """Import a module; if it is not installed, say which package the calling function needs."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = (error.name or module).partition(".")[0].replace("_", "-")
        raise ModuleNotFoundError(
            f"{caller}() needs {package}, which is not installed: pip install {package}"
        ) from error


def did_you_mean(word: str, accepted: Iterable[str]) -> str:
    """Return a clause that suggests the accepted word most similar to a wrong one, if any."""
    import difflib

    close = difflib.get_close_matches(word, list(accepted), n=1)
    return f"; did you mean {close[0]}?" if close else ""
