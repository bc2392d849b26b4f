"""Fixtures of the page's tests: a small run of the pipeline, and a browser that opens its page."""

import json
import re
import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from pages import geojson, opened, square
from workflow.conftest import make_clone

MECHANISMS = ["gaussian", "krr", "discrete-laplace"]
SEA = "Sea: nobody's"


def _basemap():
    """Return a base map with a sea, two districts of the town and a river."""
    return geojson(
        [
            ("Polygon", square(1.9, 47.9, 2.2, 48.2), {"kind": "water", "attribution": SEA}),
            ("Polygon", square(2.0, 48.0, 2.04, 48.06), {"name": "West End"}),
            ("Polygon", square(2.04, 48.0, 2.08, 48.06), {"name": "East End"}),
            ("LineString", [[2.0, 48.02], [2.08, 48.05]], {"name": "Brook"}),
        ]
    )


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
    return partial(opened, browser)


@pytest.fixture(scope="session")
def visit(run, open_page):
    """Return a context manager that opens the page of the run, like `open_page`."""

    def visited(path=run.page, fragment="", **options):
        return open_page(path, fragment, **options)

    return visited


@pytest.fixture
def page(visit):
    with visit() as page:
        yield page
