"""Parts of the tests of pages: cells, a base map, a watched browser and the check by axe."""

import json
from contextlib import contextmanager
from pathlib import Path

AXE = Path(__file__).parents[3] / "tests" / "browser" / "vendor" / "axe.min.js"
PHONE = {"width": 360, "height": 740}
LAPTOP = {"width": 1200, "height": 800}
SEA = "Sea: </script><i>nobody's</i>"


def square(west, south, east, north):
    return [[[west, south], [east, south], [east, north], [west, north], [west, south]]]


def geojson(features):
    """Return the text of features given as type, coordinates and properties."""
    shapes = [
        {"type": "Feature", "properties": known, "geometry": {"type": kind, "coordinates": points}}
        for kind, points, known in features
    ]
    return json.dumps({"type": "FeatureCollection", "features": shapes})


def cells(rows, columns, name):
    """Return cells from the south-west, the first of which has a name."""
    return geojson(
        ("Polygon", square(c, 50 + r, c + 1, 51 + r), {"name": name} if r + c == 0 else {})
        for r in range(rows)
        for c in range(columns)
    )


def basemap(rows, columns):
    """Return a base map with a sea, a district over two columns, and a river across all."""
    return geojson(
        [
            ("Polygon", square(-9, 40, 9, 60), {"kind": "water", "attribution": SEA}),
            ("Polygon", square(0, 50, 2, 50 + rows), {"name": "<b>West</b> End"}),
            ("LineString", [[0, 50.2], [columns, 49.8 + rows]], {"name": "Flow"}),
        ]
    )


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


def check_access(page, *passed):
    """Fail if the page is wider than the screen, or axe finds a fault or did not apply a rule."""
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
    page.evaluate(AXE.read_text(encoding="utf-8"))
    rules = {"target-size": {"enabled": True}}
    result = page.evaluate("rules => axe.run(document, { rules })", rules)
    assert set(passed) <= {rule["id"] for rule in result["passes"]}
    faults = [
        (rule["id"], rule["help"], [node["html"][:120] for node in rule["nodes"][:3]])
        for rule in result["violations"]
    ]
    assert not faults, json.dumps(faults, indent=1)
