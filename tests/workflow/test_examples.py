"""The example regions, each run on check-ins laid for it and counted again in plain Python."""

import itertools
import json
import random
import re
import shlex
import shutil
import sys

import pandas as pd
import pytest
import waiting
import yaml

from workflow.conftest import ROOT

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


def inside(polygons, x, y):
    """Return whether a ray to the east crosses the rings an odd number of times."""
    crossings = 0
    for polygon in polygons:
        for ring in polygon:
            for (x1, y1), (x2, y2) in itertools.pairwise(ring):
                if (y1 > y) != (y2 > y) and x < x1 + (y - y1) / (y2 - y1) * (x2 - x1):
                    crossings += 1
    return crossings % 2 == 1


def lay_points(polygons, rows=9000):
    """Return points in the region and its neighbourhood, and some across the world."""
    rng = random.Random(5)
    corners = [point for polygon in polygons for ring in polygon for point in ring]
    xs, ys = zip(*corners, strict=True)
    points = []
    for number in range(rows):
        if number % 10:
            x = rng.triangular(min(xs), 1.1 * max(xs) - 0.1 * min(xs))
            y = rng.triangular(1.1 * min(ys) - 0.1 * max(ys), max(ys))
        else:
            x, y = rng.uniform(-180, 180), rng.uniform(-90, 90)
        points.append((round(x, 7), round(y, 7)))
    return points


def run(clone, example, *targets):
    """Run an example on a file of check-ins, and return how many of them are inside."""
    name, spec = region_of(example)
    polygons = polygons_of(spec)
    points = lay_points(polygons)
    lines = [f"{i % 83}\t2010-05-06T07:08:09Z\t{y}\t{x}\t{i}" for i, (x, y) in enumerate(points)]
    (clone.path / "laid.txt").write_text("\n".join(lines) + "\n")
    clone.config = yaml.safe_load((ROOT / "config" / "config.yaml").read_text())
    mine = {
        "sources": {"mine": {"kind": "file", "path": "laid.txt", "layout": "snap"}},
        "regions": {name: {"source": "mine"}},
    }
    (clone.path / "mine.yaml").write_text(yaml.safe_dump(mine))
    overlay = str(example.relative_to(ROOT))
    clone.run("--configfile", "config/config.yaml", overlay, "mine.yaml", "--", *targets)
    return sum(inside(polygons, x, y) for x, y in points)


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


@pytest.mark.slow
def test_the_documented_example_works_in_the_users_own_folder(clone, tmp_path):
    page = (ROOT / "docs" / "data.md").read_text()
    (example,) = re.findall(r"```yaml\n(sources:\n.*?)```", page, re.DOTALL)
    (command,) = re.findall(r"^\$ (snakemake .* lyon\.yaml -- lyon)$", page, re.MULTILINE)
    folder = tmp_path / "of my own"
    folder.mkdir()
    (folder / "lyon.yaml").write_text(example)
    box = yaml.safe_load(example)["regions"]["lyon"]["box"]
    rng = random.Random(6)
    rows = [
        f"{rng.uniform(box['south'], box['north'])},{rng.uniform(box['west'], box['east'])}\n"
        for _ in range(1500)
    ]
    (folder / "checkins.csv").write_text("lat,lon\n" + "".join(rows))
    shutil.copy(ROOT / "config" / "config.yaml", clone.path / "config" / "config.yaml")
    words = [word.replace("~/shuffledp", str(clone.path)) for word in shlex.split(command)]
    snakemake = [sys.executable, "-m", words[0]]

    planned = waiting.run([*snakemake, "--dry-run", *words[1:]], 300, cwd=folder)
    assert planned.returncode == 0, planned.stdout + planned.stderr
    # The whole region would take minutes.
    grids = ["results/grids/lyon.coarse.parquet", "results/grids/lyon.fine.parquet"]
    result = waiting.run([*snakemake, *words[1:-1], *grids], 900, cwd=folder)
    assert result.returncode == 0, result.stdout + result.stderr
    for grid in grids:
        assert pd.read_parquet(folder / grid)["count"].sum() == 1500
