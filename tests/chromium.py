"""A real browser for tests: one that is installed, as Playwright would else download its own."""

import shutil

import pytest
from needs import needs

NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser():
    """Debian's chromium, driven by Playwright; without one the test is skipped.

    One for all tests of a process: Playwright starts a second time only where the first has ended.
    """
    from playwright import sync_api as api  # a third of a second, of no use to most tests

    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(needs("browser", f"none of {', '.join(NAMES)} is installed"))
    with api.sync_playwright() as started:
        try:
            opened = started.chromium.launch(executable_path=found, chromium_sandbox=True)
        except api.Error:  # as root, or where users may not have name spaces
            opened = started.chromium.launch(executable_path=found, chromium_sandbox=False)
        yield opened
        opened.close()
