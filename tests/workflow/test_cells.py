"""Overlays with districts, hexagons and months count the check-ins as others do."""

import json
import shutil

import geopandas as gpd
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import waiting
from real_data import GOWALLA, needs_gowalla

from workflow.conftest import ROOT, copy, documented_example, run_overlay

pytestmark = [pytest.mark.workflow, pytest.mark.slow]


def run(clone, overlay, source, *targets):
    """Run an overlay on a file of check-ins."""
    mine = {
        "source": "mine",
        "sources": {"mine": {"kind": "file", "path": str(source), "layout": "snap"}},
        "regions": {"san_francisco": None},
    }
    run_overlay(clone, f"config/{overlay}.yaml", mine, *targets)


def points_of(path):
    names = ["user", "time", "latitude", "longitude", "location"]
    rows = pd.read_csv(path, sep="\t", names=names)
    geometry = gpd.points_from_xy(rows["longitude"], rows["latitude"])
    return gpd.GeoDataFrame(rows, geometry=geometry, crs="EPSG:4326")


def districts_of(points):
    shapes = gpd.read_file(ROOT / "resources" / "districts" / "paris.geojson")
    joined = gpd.sjoin(points, shapes[["name", "geometry"]], predicate="intersects")
    return joined[~joined.index.duplicated()]


@needs_gowalla
def test_real_check_ins_are_counted_by_arrondissement_and_month(clone):
    source = GOWALLA / "paris_checkins.txt.gz"
    place = "paris.arrondissements"
    grid = f"results/months/grids/{place}.parquet"
    figure = f"results/months/figures/series.{place}.png"
    run(clone, "months", source, grid, figure)
    table = pd.read_parquet(clone.path / grid)
    joined = districts_of(points_of(source))
    local = pd.to_datetime(joined["time"], utc=True).dt.tz_convert("Europe/Paris")
    month = local.dt.strftime("%Y-%m")
    kept = joined[month.isin(set(table["window"])).to_numpy()]
    expected = kept.groupby([month, "name"]).size().to_dict()
    counted = table[table["count"] > 0].set_index(["window", "name"])["count"].to_dict()
    assert counted == expected
    assert table["window"].nunique() == 12


def test_the_documented_example_works_in_an_empty_folder(clone, tmp_path):
    folder = tmp_path / "of my own"
    _, command = documented_example(clone, folder, "data.md", "town")
    shutil.copy(ROOT / "resources" / "districts" / "paris.geojson", folder / "districts.geojson")
    rng = np.random.default_rng(4)
    rows = pd.DataFrame({"card": rng.integers(0, 700, 3000)})
    seconds = pd.to_timedelta(rng.integers(0, 35 * 86_400, 3000), unit="s")
    rows["time"] = pd.Timestamp("2024-03-01", tz="UTC") + seconds
    rows["lat"] = rng.uniform(48.80, 48.91, 3000)
    rows["lon"] = rng.uniform(2.24, 2.43, 3000)
    rows.to_csv(folder / "taps.csv", index=False)
    planned = waiting.run([*command[:3], "--dry-run", *command[3:]], 300, cwd=folder)
    assert planned.returncode == 0, planned.stdout + planned.stderr
    # The whole region would take minutes.
    grid, *figures = (
        folder / "results" / "town" / file
        for file in (
            "grids/town.districts.parquet",
            "figures/series.town.districts.png",
            "figures/recommended.town.districts.png",
            "figures/checkins.town.hexagons.png",
        )
    )
    files = [str(file.relative_to(folder)) for file in (grid, *figures)]
    result = waiting.run([*command[:-1], *files], 900, cwd=folder)
    assert result.returncode == 0, result.stdout + result.stderr
    points = gpd.GeoDataFrame(
        rows, geometry=gpd.points_from_xy(rows["lon"], rows["lat"]), crs="EPSG:4326"
    )
    week = (points["time"].dt.tz_convert("Europe/Paris").dt.tz_localize(None) - MONDAY).dt.days // 7
    joined = districts_of(points[week.between(0, 3)])
    expected = joined.groupby([week.loc[joined.index], "name"]).size()
    table = pd.read_parquet(grid)
    assert table["window"].unique().tolist() == [
        "2024-03-04", "2024-03-11", "2024-03-18", "2024-03-25",
    ]  # fmt: skip
    table["week"] = table["cell"] // 20
    counted = table[table["count"] > 0].set_index(["week", "name"])["count"]
    assert counted.to_dict() == expected.to_dict()
    districts = folder / "districts.geojson"
    districts.write_text(districts.read_text() + " ")
    again = waiting.run([*command[:3], "--dry-run", *command[3:-1], files[0]], 300, cwd=folder)
    assert {"crop_checkins", "grid_checkins"} <= set(again.stdout.split())
    assert all(figure.stat().st_size > 1000 for figure in figures)


MONDAY = pd.Timestamp("2024-03-04")


def test_maps_have_every_mechanism_and_are_marked_as_true_data(whole, tmp_path):
    clone = copy(whole, tmp_path / "copy")
    clone.run("--", "maps")
    grid, *_ = clone.config["regions"]["town"]["grids"]
    parquet = clone.path / f"results/maps/town.{grid}.parquet"
    table = gpd.read_parquet(parquet)
    cells = gpd.read_parquet(clone.path / f"results/grids/town.{grid}.parquet")
    assert {"id", "name", "count", "gaussian", "krr", "user-dummies"} < set(table.columns)
    assert table["id"].tolist() == cells["id"].tolist()
    assert table["count"].tolist() == cells["count"].tolist()
    errors = table["gaussian"] - table["count"]
    assert 0 < errors.std() < table["count"].sum()
    metadata = pq.read_schema(parquet).metadata
    document = json.loads(parquet.with_suffix(".geojson").read_text())
    assert metadata[b"contents"] == b"true data" and document["contents"] == "true data"
    assert [each["properties"]["krr"] for each in document["features"]] == table["krr"].tolist()
