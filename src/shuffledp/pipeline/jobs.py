"""Log each job of the workflow, and report its errors in one line where the user can act."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from shuffledp.errors import DEFECT, InputError, is_out_of_memory

_FORMAT: Final = "%(levelname)s: %(message)s"


@contextmanager
def job(log: str) -> Iterator[None]:
    """Log to a file and to standard error, and exit with status 1 after an exception in the block.

    Bad input (`InputError`), errors of the operating system (`OSError`) and lack of memory are
    logged in one line. Any other exception is a defect of this package, logged with its traceback.
    """
    logging.basicConfig(level=logging.WARNING, format=_FORMAT, force=True)
    logging.getLogger("shuffledp").setLevel(logging.INFO)
    logging.captureWarnings(capture=True)
    # On a full disk the log cannot be written either; standard error is enough.
    logging.raiseExceptions = False
    try:
        file = logging.FileHandler(log, mode="w", encoding="utf-8")
        file.setFormatter(logging.Formatter(_FORMAT))
        logging.getLogger().addHandler(file)
        yield
    except Exception as error:
        _report(logging.getLogger(__name__), error)
        sys.exit(1)


def _report(logger: logging.Logger, error: Exception) -> None:
    if is_out_of_memory(error):
        logger.error(
            "out of memory (%s): give the job more, or lower repetitions, n or the number of cells",
            " ".join(str(error).split()) or type(error).__name__,
        )
    elif isinstance(error, InputError | OSError):
        logger.error("%s", error)
    else:
        logger.error(DEFECT, exc_info=error)
