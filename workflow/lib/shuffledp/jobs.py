"""What every job of the pipeline does around its one library call: log, and fail readably."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from shuffledp.errors import InputError


@contextmanager
def job(log: str) -> Iterator[None]:
    """Log to a file and to standard error; end on bad input with its message, not a traceback.

    Anything but bad input (`InputError`) and the operating system's refusals (`OSError`) is a
    defect of ours and keeps its traceback.
    """
    handlers: list[logging.Handler] = [
        logging.FileHandler(log, mode="w", encoding="utf-8"),
        logging.StreamHandler(),
    ]
    logging.basicConfig(
        level=logging.WARNING, format="%(levelname)s: %(message)s", handlers=handlers, force=True
    )
    logging.getLogger("shuffledp").setLevel(logging.INFO)
    logging.captureWarnings(capture=True)
    try:
        yield
    except (InputError, OSError) as error:
        logging.getLogger(__name__).error("%s", error)
        sys.exit(1)
    except Exception:
        logging.getLogger(__name__).exception("this is a defect; please report it")
        sys.exit(1)
