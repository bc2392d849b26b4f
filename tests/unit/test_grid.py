"""Grids cover their region, and every check-in is counted in the cell that holds it."""

from pathlib import Path

import geopandas as gpd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pyproj
import pytest
import shapely
from numpy.testing import assert_allclose, assert_array_equal

from shuffledp.data.cells import cell_count, make_cells, make_lattice
from shuffledp.data.grid import GridTally, count_checkins, grid_checkins, windows_of
from shuffledp.data.regions import Box, Region
from shuffledp.data.windows import windows_from_config
from shuffledp.pipeline.tables import read_counts

PARIS = Region("paris", Box(south=48.8286, north=48.8798, west=2.2855, east=2.3909))
SAN_FRANCISCO = Region("sf", Box(south=37.7228, north=37.7946, west=-122.5153, east=-122.3789))
UNIT = Region("unit", Box(south=0, north=1, west=0, east=2))
TRIANGLE = Region("triangle", UNIT.box, shapely.Polygon([(0, 0), (2, 0), (0, 1)]))


def write_points(path, latitude, longitude) -> Path:
    pq.write_table(pa.table({"latitude": latitude, "longitude": longitude}), path)
    return path


def random_points(path, box, n=5000, seed=0) -> tuple[Path, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    latitude = random.uniform(box.south, box.north, n)
    longitude = random.uniform(box.west, box.east, n)
    return write_points(path, latitude, longitude), latitude, longitude


def test_cells_are_row_major_from_the_south_west():
    cells = make_cells(UNIT, {"shape": [2, 4]}).table
    assert list(cells.columns) == ["cell", "id", "name", "row", "column", "geometry"]
    assert cells.crs == "EPSG:4326"
    assert cells["cell"].tolist() == list(range(8))
    assert cells["row"].tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert cells["column"].tolist() == [0, 1, 2, 3] * 2
    assert cells.geometry[5].bounds == (0.5, 0.5, 1.0, 1.0)
    assert cells.geometry.is_valid.all()
    assert shapely.union_all(cells.geometry.array).equals(shapely.box(0, 0, 2, 1))


def test_an_edge_belongs_to_the_cell_north_or_east_of_it_or_else_to_the_last(tmp_path):
    path = write_points(
        tmp_path / "x", [0.0, 0.5, 1.0, 0.5, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0, 2.0, 2.0]
    )
    cells, tally = count_checkins(UNIT, {"shape": [2, 2]}, path)
    assert cells["count"].tolist() == [1, 1, 2, 2]
    assert tally == GridTally(kept=6, dropped=0)


def test_steps_drop_partial_strips(tmp_path):
    path = write_points(tmp_path / "x", [0.76, 0.75, 0.1, 0.1], [0.1, 0.1, 1.51, 1.5])
    cells, tally = count_checkins(UNIT, {"step": [0.375, 0.75]}, path)
    assert cells["count"].tolist() == [0, 1, 1, 0]
    assert tally == GridTally(kept=2, dropped=2)
    assert cells.total_bounds.tolist() == [0, 0, 1.5, 0.75]


@pytest.mark.parametrize("rows", [3, 7, 10, 49, 100])
def test_steps_that_divide_the_box_are_not_lost_by_rounding(rows, tmp_path):
    box = Box(south=37.1, north=37.1 + 0.7, west=-122.3, east=-122.3 + 0.9)
    lattice = make_lattice(Region("r", box), {"step": [0.7 / rows, 0.9 / rows]})
    assert lattice.shape == (rows, rows)
    corner = np.array([box.north]), np.array([box.east])
    assert lattice.locate(*corner).tolist() == [rows * rows - 1]


DISC = Region("disc", PARIS.box, shapely.Point(2.34, 48.855).buffer(0.02))


@pytest.mark.parametrize(
    ("region", "spec"),
    [
        (TRIANGLE, {"shape": [9, 12]}),
        (TRIANGLE, {"step": [0.09, 0.07]}),
        (DISC, {"metres": 400}),
        (PARIS, {"shape": [7, 30]}),
    ],
)
def test_counts_agree_with_a_spatial_join(tmp_path, region, spec):
    path, latitude, longitude = random_points(tmp_path / "x", region.box)
    cells, tally = count_checkins(region, spec, path)
    assert len(cells) == cell_count(region, spec)
    crs = cells.estimate_utm_crs() if "metres" in spec else cells.crs
    points = gpd.GeoDataFrame(geometry=gpd.points_from_xy(longitude, latitude), crs="EPSG:4326")
    inside = points[points.intersects(region.outline or shapely.box(-180, -90, 180, 90))]
    joined = gpd.sjoin(inside.to_crs(crs), cells.to_crs(crs), predicate="within")
    expected = joined.groupby("cell").size().reindex(cells["cell"], fill_value=0)
    assert_array_equal(cells["count"], expected)
    assert tally.dropped == len(points) - len(joined)
    assert (tally.dropped > 0) == (region != PARIS)


def test_an_outline_leaves_out_cells_and_numbers_the_rest_consecutively():
    cells = make_cells(TRIANGLE, {"shape": [4, 4]}).table
    assert cells["cell"].tolist() == list(range(len(cells)))
    # Cells below or on the diagonal stay, even (row 3, column 1), which touches it in one point.
    assert [(r, c) for r, c in zip(cells["row"], cells["column"], strict=True)] == [
        (r, c) for r in range(4) for c in range(4) if r + c <= 4
    ]


@pytest.mark.parametrize("region", [PARIS, SAN_FRANCISCO])
@pytest.mark.parametrize("size", [250.5, 3000])
def test_cells_in_metres_are_squares_that_cover_the_box(tmp_path, region, size):
    cells = make_cells(region, {"metres": size}).table
    assert cells.crs == "EPSG:4326"
    utm = cells.to_crs(cells.estimate_utm_crs())
    # The round trip through degrees is good to a micrometre.
    assert_allclose(utm.area, size**2, rtol=1e-6)
    assert_allclose(utm.length, 4 * size, rtol=1e-6)
    path, _, _ = random_points(tmp_path / "x", region.box, 2000)
    _, tally = count_checkins(region, {"metres": size}, path)
    assert tally == GridTally(kept=2000, dropped=0)


LONDON = Region("london", Box(south=51.45, north=51.55, west=-0.25, east=0.02))
WIDE = Region("wide", Box(south=55, north=62, west=20, east=32))
SOUTH = Region("south", Box(south=-45.2, north=-44.9, west=168.0, east=170.9))


@pytest.mark.parametrize(("region", "size"), [(LONDON, 1000), (WIDE, 40_000), (SOUTH, 5_000)])
def test_cells_in_metres_are_those_that_hold_a_point_of_the_box(tmp_path, region, size):
    """Compare with points of every square that are projected back to degrees."""
    lattice = make_lattice(region, {"metres": size})
    rows, columns = lattice.shape
    back = pyproj.Transformer.from_crs(lattice.crs, "EPSG:4326", always_xy=True)

    def holding(margin):
        inner = np.linspace(-margin, 1 + margin, 41) * size
        cells_in_box = set()
        for row, column in np.ndindex(rows, columns):
            x, y = np.meshgrid(lattice.x_edges[column] + inner, lattice.y_edges[row] + inner)
            longitude, latitude = back.transform(x.ravel(), y.ravel())
            if region.box.contains(latitude, longitude).any():
                cells_in_box.add((row, column))
        return cells_in_box

    cells = make_cells(region, {"metres": size}).table
    kept = set(zip(cells["row"].tolist(), cells["column"].tolist(), strict=True))
    assert cells["cell"].tolist() == list(range(len(kept)))
    # Points 3 % of a side apart may miss a corner of the box, but the same margin covers it.
    assert holding(0) <= kept <= holding(0.03)
    assert len(kept) < rows * columns
    # Every point of the box's border counts, also where it bulges out of the lattice.
    border = shapely.segmentize(shapely.box(*region.box.bounds), 1e-8 * size)
    longitude, latitude = shapely.get_coordinates(border).T
    path = write_points(tmp_path / "x", latitude, longitude)
    assert count_checkins(region, {"metres": size}, path)[1].dropped == 0


SPECK = Region("speck", UNIT.box, shapely.box(0.1, 0.1, 0.2, 0.2))
BROAD = Region("wide", Box(0, 1, 0, 40))
POLE = Region("pole", Box(86, 87, 0, 1))


@pytest.mark.parametrize(
    ("region", "spec", "message"),
    [
        (UNIT, {"shape": [2, 2], "metres": 5}, r"exactly one of shape.*, got shape, metres"),
        (UNIT, {"cells": [2, 2]}, r"cells must be .path: file, name: property.*, got \[2, 2\]"),
        (UNIT, {"shape": [2, 0]}, "shape must be"),
        (UNIT, {"shape": "24"}, "shape must be"),
        (UNIT, {"step": [0.1, -0.1]}, "step must be .dlat, dlon., positive numbers of degrees"),
        (UNIT, {"step": [0.1, float("nan")]}, "step must be"),
        (UNIT, {"metres": 0}, "metres must be a positive number"),
        (UNIT, {"shape": [1, 1]}, r"from 2 to 1,000,000 cells, got 1 x 1 by shape: \[1, 1\]"),
        (UNIT, {"metres": 0.001}, "from 2 to 1,000,000 cells"),
        (BROAD, {"metres": 9e4}, r"at most 12 degrees of .*, got 40"),
        (POLE, {"metres": 1e3}, "in a UTM zone, latitude -80 to 84"),
        (SPECK, {"shape": [2, 2]}, "at least 2 cells, but 1 meet the outline of speck"),
    ],
)
def test_wrong_grids(region, spec, message):
    with pytest.raises(ValueError, match=message):
        make_cells(region, spec)


def test_a_grid_without_a_check_in_is_not_written(tmp_path):
    path = write_points(tmp_path / "x.parquet", [0.95], [1.95])
    with pytest.raises(ValueError, match=r"none of the 1 check-ins of .* is in a cell"):
        grid_checkins(path, UNIT, {"step": [0.3, 0.6]}, tmp_path / "new" / "grid.parquet", {})
    assert not (tmp_path / "new").exists()


def test_written_file(tmp_path):
    points, _, _ = random_points(tmp_path / "x.parquet", PARIS.box)
    written = tmp_path / "new" / "grid.parquet"
    metadata = {"source": "abc", "spec": "def"}
    tally = grid_checkins(points, PARIS, {"metres": 500}, written, metadata)
    assert [path.name for path in written.parent.iterdir()] == ["grid.parquet"]
    expected, _ = count_checkins(PARIS, {"metres": 500}, points)
    frame = gpd.read_parquet(written)
    assert list(frame.columns) == ["cell", "id", "name", "row", "column", "geometry", "count"]
    assert frame.crs == "EPSG:4326"
    assert frame.geometry.geom_equals(expected.geometry).all()
    counts = read_counts(written)
    assert_array_equal(counts, expected["count"])
    assert counts.sum() == tally.kept == 5000
    assert pq.ParquetFile(written).metadata.metadata[b"source"] == b"abc"
    again = tmp_path / "again.parquet"
    grid_checkins(points, PARIS, {"metres": 500}, again, dict(reversed(metadata.items())))
    assert again.read_bytes() == written.read_bytes()


def test_check_ins_are_counted_in_each_window_of_time(tmp_path):
    path, latitude, longitude = random_points(tmp_path / "x.parquet", UNIT.box, 5000)
    days = np.random.default_rng(2).integers(0, 100, 5000)
    times = pd.Timestamp("2010-01-01", tz="UTC") + pd.to_timedelta(days, unit="D")
    times = times.where(np.arange(5000) % 50 > 0)  # some are missing
    columns = {"latitude": latitude, "longitude": longitude}
    pq.write_table(pa.table({**columns, "time": pa.array(times, pa.timestamp("us", "UTC"))}), path)
    spec = {"period": {"from": "2010-01-01", "to": "2010-03-31"}, "every": "month"}
    cells, tally = count_checkins(UNIT, {"shape": [2, 4]}, path, windows_from_config(spec))
    lattice = make_lattice(UNIT, {"shape": [2, 4]}).locate(latitude, longitude)
    month = pd.Series(times).dt.strftime("%Y-%m")
    expected = pd.crosstab(month, lattice).loc["2010-01":"2010-03"]
    assert cells["window"].tolist() == np.repeat(expected.index, 8).tolist()
    assert_array_equal(cells["count"], expected.to_numpy().ravel())
    assert cells["cell"].tolist() == list(range(24))
    assert tally.kept == expected.to_numpy().sum()
    cells.to_parquet(tmp_path / "cells.parquet")
    assert windows_of(tmp_path / "cells.parquet") == ["2010-01", "2010-02", "2010-03"]


def test_cells_times_windows_are_limited(tmp_path):
    path, *_ = random_points(tmp_path / "x.parquet", UNIT.box, 10)
    spec = {"period": {"from": "2010-01-01", "to": "2010-12-31"}, "every": "day"}
    with pytest.raises(ValueError, match=r"at most 1,000,000 cells, got 10,000 cells x 365 windo"):
        count_checkins(UNIT, {"shape": [100, 100]}, path, windows_from_config(spec))
