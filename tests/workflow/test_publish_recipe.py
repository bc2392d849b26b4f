"""The rule of docs/publish.md that publishes a map, in a workflow of its own."""

import os
import re
import stat
import sys
from pathlib import Path

import geopandas as gpd
import pytest
import shapely
from unit.layers import written
from waiting import run

from shuffledp.publishing.ledger import read_ledger
from workflow.conftest import ROOT, nothing_to_do

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

LEDGER = "riders.jsonl"
# A rule that asks for the same map in another folder, which is refused.
SECOND = {"publish_map": "publish_second", "results/map": "results/second"}


def rule():
    page = (ROOT / "docs" / "publish.md").read_text(encoding="utf-8")
    (text,) = re.findall(
        r"^```python no-test: [^\n]*\n(rule .*?)^```$", page, re.DOTALL | re.MULTILINE
    )
    return text


def snakemake(folder, *arguments):
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    command = [sys.executable, "-m", "snakemake", "--cores", "1", *arguments]
    return run(command, 600, cwd=folder, env={**os.environ, "PATH": path})


def charges(folder):
    return len(read_ledger(folder / LEDGER).charges)


@pytest.fixture(scope="module")
def workflow(tmp_path_factory):
    """An empty folder with the recipe and its two inputs, in which the map was published."""
    folder = tmp_path_factory.mktemp("recipe")
    rows = [f"u{i % 60},0.5,{i % 4 + 0.5}" for i in range(600)]
    (folder / "taps.csv").write_text("\n".join(["card,lat,lon", *rows]) + "\n")
    squares = [shapely.box(i, 0, i + 1, 1) for i in range(4)]
    names = {"name": [f"District {i}" for i in range(4)]}
    districts = gpd.GeoDataFrame(names, geometry=squares, crs=4326)
    written(folder, districts, "geojson", name="districts")
    second = rule()
    for old, new in SECOND.items():
        second = second.replace(old, new)
    (folder / "Snakefile").write_text(f"{rule()}\n\n{second}")
    ran = snakemake(folder, "results/map")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return folder


def test_the_recipe_publishes_a_map_that_is_read_only(workflow):
    published = workflow / "results" / "map"
    assert "is published" in (workflow / "logs" / "publish_map.log").read_text()
    assert charges(workflow) == 1
    names = {path.name for path in published.iterdir()}
    assert {"map.csv", "map.html", "statement.md"} <= names
    writable = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH
    for path in [published, *published.iterdir()]:
        assert not path.stat().st_mode & writable


def test_another_run_charges_nothing_even_if_the_records_have_changed(workflow):
    before = (workflow / LEDGER).read_bytes()
    with (workflow / "taps.csv").open("a") as records:
        records.write("u999,0.5,0.5\n")
    ran = snakemake(workflow, "results/map")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert nothing_to_do(ran)
    assert (workflow / LEDGER).read_bytes() == before


@pytest.mark.slow
def test_the_command_knows_the_map_that_snakemake_keeps(workflow):
    words = re.findall(r'"([^"]*)"', rule().partition("shell:")[2])
    command = "".join(words).partition(" 2>&1")[0]
    for name, value in {
        "input.records": "taps.csv", "input.districts": "districts.geojson",
        "params.ledger": LEDGER, "output": "results/map",
    }.items():  # fmt: skip
        command = command.replace(f"{{{name}}}", value)
    before = (workflow / LEDGER).read_bytes()
    ran = run([sys.executable, "-m", *command.split()], 600, cwd=workflow)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert (workflow / LEDGER).read_bytes() == before


@pytest.mark.slow
def test_a_failed_run_is_not_repeated(workflow):
    ran = snakemake(workflow, "--retries", "2", "results/second")
    printed = ran.stdout + ran.stderr
    assert ran.returncode != 0
    assert printed.count("this map was charged on") == 1
    assert "restart" not in printed.lower()
    assert charges(workflow) == 1
    assert not (workflow / "results" / "second").exists()
