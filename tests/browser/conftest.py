"""A browser that opens a page offline and watches it."""

from contextlib import contextmanager
from functools import partial

import pytest

LAPTOP = {"width": 1400, "height": 900}


@contextmanager
def opened(browser, path, **options):
    """Yield the page of a file, which must complain of nothing and ask for nothing else.

    Snakemake's report has a style sheet that warns of itself.
    """
    context = browser.new_context(**{"viewport": LAPTOP, "offline": True} | options)
    page, complaints, asked = context.new_page(), [], []
    page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: asked.append(request.url.partition("#")[0]))
    page.goto(path.as_uri())
    yield page
    context.close()
    assert [one for one in complaints if not one.startswith("warning: cdn.tailwindcss.com")] == []
    assert [url for url in asked if not url.startswith(("data:", "blob:"))] == [path.as_uri()]


@pytest.fixture(scope="session")
def open_page(browser):
    return partial(opened, browser)
