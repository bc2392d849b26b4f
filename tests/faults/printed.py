"""Search a run's messages for what must not be there."""

import re


def has_our_traceback(printed: str) -> bool:
    """Return whether a traceback goes through the package; files listed as inputs do not count."""
    return re.search(r'File "[^"]*shuffledp/', printed) is not None
