"""Fixtures of the page's tests: a small run of the pipeline, and a browser that opens its page."""

import json
import re
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest
from workflow.conftest import make_clone

MECHANISMS = ["gaussian", "krr", "discrete-laplace"]
SEA = "Sea: nobody's"


def _square(west, south, east, north):
    return [[[west, south], [east, south], [east, north], [west, north], [west, south]]]


def _basemap():
    """Return a base map with a sea, two districts of the town and a river."""
    shapes = [
        ("Polygon", _square(1.9, 47.9, 2.2, 48.2), {"kind": "water", "attribution": SEA}),
        ("Polygon", _square(2.0, 48.0, 2.04, 48.06), {"name": "West End"}),
        ("Polygon", _square(2.04, 48.0, 2.08, 48.06), {"name": "East End"}),
        ("LineString", [[2.0, 48.02], [2.08, 48.05]], {"name": "Brook"}),
    ]
    features = [
        {"type": "Feature", "properties": known, "geometry": {"type": kind, "coordinates": points}}
        for kind, points, known in shapes
    ]
    return json.dumps({"type": "FeatureCollection", "features": features})


@dataclass(frozen=True)
class Run:
    """Hold a finished run's page and the tables that the page is made from."""

    clone: object
    page: Path

    @property
    def data(self):
        """Return the data that the scripts of the page read."""
        match = re.search(r'id="data">(.*?)</script>', self.page.read_text(), re.DOTALL)
        return json.loads(match[1])

    def table(self, name):
        path = self.page.parent / name
        return pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path)


@pytest.fixture(scope="session")
def run(tmp_path_factory, browser):
    """Run the pipeline for two places. `browser` comes first: without one there is no run."""
    clone = make_clone(tmp_path_factory.mktemp("page") / "clone of é")
    (clone.path / "town.geojson").write_text(_basemap())
    town = clone.config["regions"]["town"]
    town |= {"basemap": "town.geojson", "mechanisms": MECHANISMS}
    village = {
        "box": {"south": 48.01, "north": 48.03, "west": 2.02, "east": 2.05},
        "grids": {"shape": {"shape": [2, 3]}},
        "n": ["all"],
        "eps0": [1],
        "mechanisms": ["gaussian", "krr"],
        "individual_every": 2,
    }
    clone.config["regions"] |= {"village": village}
    clone.config |= {"eps": [0.05], "repetitions": 2}
    # A delta other than the sweep's, so that statements about the two cannot be confused.
    clone.config["targets"] = {"eps": [1, 2], "delta": 1.0e-5}
    clone.run("--", "page")
    # One test makes another page in the same place, so the others use a copy.
    made = shutil.copytree(clone.path / "results", clone.path.parent / "made")
    return Run(clone, Path(made) / "report.html")


@pytest.fixture(scope="session")
def open_page(browser):
    """Return a context manager that opens a file and fails at complaints and network requests."""

    @contextmanager
    def opened(path, fragment="", **options):
        context = browser.new_context(**{"viewport": {"width": 1400, "height": 900}} | options)
        page = context.new_page()
        complaints, requests = [], []
        page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.as_uri() + fragment)
        yield page
        context.close()
        assert complaints == []
        assert [url.partition("#")[0] for url in requests if url.startswith("file:")] == [
            path.as_uri()
        ]
        assert all(url.startswith(("file:", "data:", "blob:")) for url in requests)

    return opened


@pytest.fixture(scope="session")
def visit(run, open_page):
    """Return a context manager that opens the page of the run, like `open_page`."""

    def opened(path=run.page, fragment="", **options):
        return open_page(path, fragment, **options)

    return opened


@pytest.fixture
def page(visit):
    with visit() as opened:
        yield opened
