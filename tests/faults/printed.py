"""Search for what must not be among a run's messages."""

import re


def has_our_traceback(printed: str) -> bool:
    """Whether a traceback goes through the package; its files as a rule's inputs do not count."""
    return re.search(r'File "[^"]*shuffledp/', printed) is not None
