"""What every job of the pipeline does around its one library call: log, and fail readably."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from shuffledp.errors import DEFECT, InputError

_FORMAT: Final = "%(levelname)s: %(message)s"


@contextmanager
def job(log: str) -> Iterator[None]:
    """Log to a file and to standard error; end on bad input with its message, not a traceback.

    Anything but bad input (`InputError`), the operating system's refusals (`OSError`) and want of
    memory is a defect of ours and keeps its traceback.
    """
    logging.basicConfig(level=logging.WARNING, format=_FORMAT, force=True)
    logging.getLogger("shuffledp").setLevel(logging.INFO)
    logging.captureWarnings(capture=True)
    # On a full disk the log is the next thing that cannot be written: standard error is enough.
    logging.raiseExceptions = False
    try:
        file = logging.FileHandler(log, mode="w", encoding="utf-8")
        file.setFormatter(logging.Formatter(_FORMAT))
        logging.getLogger().addHandler(file)
        yield
    except (InputError, OSError) as error:
        logging.getLogger(__name__).error("%s", error)
        sys.exit(1)
    except MemoryError as error:
        logging.getLogger(__name__).error(
            "out of memory (%s): lower repetitions, n or the number of cells", error
        )
        sys.exit(1)
    except Exception:
        logging.getLogger(__name__).exception(DEFECT)
        sys.exit(1)
