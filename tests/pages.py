"""Parts of the tests of pages: shapes on their maps, a watched browser and the check by axe."""

import json
from contextlib import contextmanager
from pathlib import Path

AXE = Path(__file__).parent / "browser" / "vendor" / "axe.min.js"
LAPTOP = {"width": 1400, "height": 900}


def square(west, south, east, north):
    return [[[west, south], [east, south], [east, north], [west, north], [west, south]]]


def geojson(features):
    """Return the text of features given as type, coordinates and properties."""
    shapes = [
        {"type": "Feature", "properties": known, "geometry": {"type": kind, "coordinates": points}}
        for kind, points, known in features
    ]
    return json.dumps({"type": "FeatureCollection", "features": shapes})


@contextmanager
def watched(browser, link, **options):
    """Yield a page in a browser of its own, its complaints so far and its requests."""
    context = browser.new_context(**{"viewport": LAPTOP} | options)
    page, complaints, requests = context.new_page(), [], []
    page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: requests.append(request))  # noqa: PLW0108
    page.goto(link)
    yield page, complaints, requests
    context.close()


@contextmanager
def opened(browser, path, fragment="", **options):
    """Yield the page of a file, which must complain of nothing and ask for nothing else."""
    link = path.as_uri()
    with watched(browser, link + fragment, **options) as (page, complaints, requests):
        yield page
    assert complaints == []
    asked = [request.url.partition("#")[0] for request in requests]
    assert [url for url in asked if not url.startswith(("data:", "blob:"))] == [link]


def check_access(page, *passed):
    """Fail if the page is wider than the screen, or axe finds a fault or did not apply a rule."""
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
    # axe cannot determine the contrast of text on the shading at the sides of what scrolls.
    page.locator(".scroll").evaluate_all(
        "all => all.forEach((one) => { one.style.background = 'none'; })"
    )
    page.evaluate(AXE.read_text(encoding="utf-8"))
    # The rule about the size of touch targets is off by default.
    rules = {"target-size": {"enabled": True}}
    result = page.evaluate("rules => axe.run(document, { rules })", rules)
    assert set(passed) <= {rule["id"] for rule in result["passes"]}
    faults = [
        (rule["id"], rule["help"], [node["html"][:120] for node in rule["nodes"][:3]])
        for rule in result["violations"]
    ]
    assert not faults, json.dumps(faults, indent=1)
