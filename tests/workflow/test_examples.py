"""The example regions, each run on check-ins laid for it and counted again in plain Python."""

import json

import numpy as np
import pandas as pd
import pytest
import yaml
from matplotlib.path import Path

from workflow.conftest import ROOT, run_overlay

pytestmark = pytest.mark.workflow
EXAMPLES = sorted((ROOT / "config" / "examples").glob("*.yaml"))


def region_of(path):
    """Return the name and the settings of the one region of an overlay."""
    overlay = yaml.safe_load(path.read_text())
    assert list(overlay) == ["regions"]
    ((name, spec),) = overlay["regions"].items()
    return name, spec


def polygons_of(spec):
    """Return a region as lists of rings of (longitude, latitude)."""
    if "box" in spec:
        south, north, west, east = (spec["box"][key] for key in ("south", "north", "west", "east"))
        return [[[(west, south), (east, south), (east, north), (west, north), (west, south)]]]
    return json.loads((ROOT / spec["outline"]).read_text())["geometry"]["coordinates"]


def inside(polygons, points):
    """Return whether each point lies in an odd number of rings."""
    rings = [Path(ring) for polygon in polygons for ring in polygon]
    return np.logical_xor.reduce([ring.contains_points(points) for ring in rings])


def lay_points(polygons, rows=9000):
    """Return points in the region and its neighbourhood, and some across the world."""
    rng = np.random.default_rng(5)
    corners = np.array([point for polygon in polygons for ring in polygon for point in ring])
    low, high = corners.min(axis=0), corners.max(axis=0)
    margin = 0.1 * (high - low)
    near = rng.triangular(low - margin, (low + high) / 2, high + margin, (rows, 2))
    far = rng.uniform([-180, -90], [180, 90], (rows, 2))
    return np.where(rng.random((rows, 1)) < 0.9, near, far).round(7)


def run(clone, example, *targets):
    """Run an example on a file of check-ins, and return how many of them are inside."""
    name, spec = region_of(example)
    polygons = polygons_of(spec)
    points = lay_points(polygons)
    lines = [f"{i % 83}\t2010-05-06T07:08:09Z\t{y}\t{x}\t{i}" for i, (x, y) in enumerate(points)]
    (clone.path / "laid.txt").write_text("\n".join(lines) + "\n")
    mine = {
        "sources": {"mine": {"kind": "file", "path": "laid.txt", "layout": "snap"}},
        "regions": {name: {"source": "mine"}},
    }
    run_overlay(clone, str(example.relative_to(ROOT)), mine, *targets)
    return int(inside(polygons, points).sum())


# The examples are a box, an outline and cells in metres, of which the third is the slowest.
@pytest.mark.slow
@pytest.mark.parametrize(
    "example",
    [
        pytest.param(path, id=path.stem, marks=[pytest.mark.faults] * (path.stem == "stockholm"))
        for path in EXAMPLES
    ],
)
def test_every_check_in_of_an_example_is_counted_once(clone, example):
    name, spec = region_of(example)
    tables = {grid: f"results/grids/{name}.{grid}.parquet" for grid in spec["grids"]}
    figures = [
        f"results/figures/estimates.{name}.shape.eps0-4.matched.{kind}"
        for kind in ("png", "pdf", "svg")
        if "outline" in spec
    ]
    expected = run(clone, example, *tables.values(), *figures)
    assert expected > 1000
    counted = {
        grid: int(pd.read_parquet(clone.path / table)["count"].sum())
        for grid, table in tables.items()
    }
    assert counted == dict.fromkeys(tables, expected)
    assert all((clone.path / figure).stat().st_size > 1000 for figure in figures)
