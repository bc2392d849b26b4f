"""How many examples hypothesis tries: few by default, all of them under `make test-slow`."""

import os

from faults.summary import pytest_terminal_summary  # noqa: F401 - a hook; xdist looks here only
from hypothesis import settings

# The light tests are the same in every run; the slow ones explore, but in continuous integration.
settings.register_profile(
    "light", max_examples=20, derandomize=True, deadline=None, print_blob=True
)
settings.register_profile(
    "slow", max_examples=100, derandomize="CI" in os.environ, deadline=None, print_blob=True
)
settings.load_profile("light")
