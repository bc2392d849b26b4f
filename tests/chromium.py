"""A real browser for tests: one that is installed, as Playwright would else download its own."""

import shutil

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser():
    """Debian's chromium, driven by Playwright; where one of them is missing the test is skipped.

    One for all tests of a process: Playwright starts a second time only where the first has ended.
    """
    api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(f"no browser is installed: none of {', '.join(NAMES)}")
    with api.sync_playwright() as started:
        try:
            opened = started.chromium.launch(executable_path=found, chromium_sandbox=True)
        except api.Error:  # as root, or where users may not have name spaces
            opened = started.chromium.launch(executable_path=found, chromium_sandbox=False)
        yield opened
        opened.close()
