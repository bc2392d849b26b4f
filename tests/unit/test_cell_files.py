"""Cells with counts and estimates are written so that GIS and pandas read them back."""

import json

import geopandas as gpd
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import shapely

from shuffledp.data.grid import (
    cell_map,
    estimate_columns,
    write_geojson,
    write_geoparquet,
)
from shuffledp.pipeline.columns import CONTENTS, TRUE

MARKUP = '<b>"Île" & co</b>'


@pytest.fixture
def table():
    cells = gpd.GeoDataFrame(
        {"cell": [0, 1, 2], "id": ["a", "b", "c"], "name": ["one", MARKUP, "three"],
         "count": [9, 9, 9]},
        geometry=[shapely.box(west, 48, west + 1, 49) for west in range(3)], crs=4326,
    )  # fmt: skip
    releases = pd.DataFrame(
        {
            "mechanism": ["krr"] * 3 + ["gaussian"] * 3,
            "cell": [2, 0, 1, 0, 1, 2],
            "estimate": [0.5, 0.1, 0.4, 0.25, 0.25, -0.125],
        }
    )
    return cell_map(cells, np.array([5, 3, 0]), releases)


def test_estimates_are_records_beside_their_cells(table):
    assert table.columns.tolist() == ["cell", "id", "name", "count", "krr", "gaussian", "geometry"]
    assert table["count"].tolist() == [5, 3, 0]
    assert table["krr"].tolist() == pytest.approx([0.8, 3.2, 4.0])
    assert table["gaussian"].tolist() == pytest.approx([2, 2, -1])


def test_files_have_names_ids_and_the_mark_of_true_data(table, tmp_path):
    parquet, geojson = tmp_path / "maps" / "m.parquet", tmp_path / "maps" / "m.geojson"
    write_geoparquet(table, parquet, {CONTENTS: TRUE}, estimate_columns(["krr", "gaussian"]))
    write_geojson(table, geojson, {CONTENTS: TRUE, "n": 8})
    for read in (gpd.read_parquet(parquet), gpd.read_file(geojson)):
        pd.testing.assert_frame_equal(
            pd.DataFrame(read.drop(columns="geometry")),
            pd.DataFrame(table.drop(columns="geometry")),
            check_dtype=False,
        )
        assert read.crs.to_epsg() == 4326
        assert read.geometry.geom_equals(table.geometry).all()
    schema = pq.read_schema(parquet)
    assert schema.metadata[b"contents"] == b"true data"
    assert schema.field("krr").metadata[b"unit"] == b"records"
    assert schema.field("krr").metadata[b"description"].endswith(b" by mechanism krr")
    document = json.loads(geojson.read_text())
    assert list(document) == ["type", "contents", "n", "features"]
    assert (document["contents"], document["type"]) == ("true data", "FeatureCollection")
