"""Hypothesis explores on a developer's machine and repeats itself in continuous integration."""

import os

from faults.summary import pytest_terminal_summary  # noqa: F401 - a hook; xdist looks here only
from hypothesis import settings

settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("dev", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "dev")
