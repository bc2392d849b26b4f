"""A real browser for tests, installed by the system: Playwright would download its own."""

import shutil

import pytest
from needs import needs

NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser():
    """Return an installed chromium, driven by Playwright; skip the test without one.

    All tests of a process share it, because Playwright cannot be started twice at once.
    """
    from playwright import (
        sync_api as api,
    )  # importing takes a third of a second, and most tests do not need it

    executable = next(filter(None, map(shutil.which, NAMES)), None)
    if executable is None:
        pytest.skip(needs("browser", f"none of {', '.join(NAMES)} is installed"))
    with api.sync_playwright() as started:
        try:
            opened = started.chromium.launch(executable_path=executable, chromium_sandbox=True)
        except api.Error:  # as root, or where users may not have name spaces
            opened = started.chromium.launch(executable_path=executable, chromium_sandbox=False)
        yield opened
        opened.close()
