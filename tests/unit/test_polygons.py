"""Polygons have unique ids and names and do not overlap, and points count in the file's system."""

import tempfile
from itertools import combinations
from pathlib import Path

import geopandas as gpd
import numpy as np
import pyproj
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st
from unit.layers import refused, table, written

from shuffledp.data.cells import make_cells
from shuffledp.data.polygons import read_polygons
from shuffledp.data.regions import Box, Region

SQUARE, EAST, FAR = (shapely.box(west, 48, west + 1, 49) for west in (2, 3, 5))
SLOW = [pytest.param(suffix, marks=pytest.mark.slow) for suffix in ("parquet", "gpkg", "shp")]


def refusal(folder: Path, cells, suffix="geojson", **options) -> str:
    return refused(read_polygons, written(folder, cells, suffix), **options)


def read(folder: Path, cells, suffix="geojson", **options) -> list[list[str]]:
    result = read_polygons(written(folder, cells, suffix), **options)
    return result.table[["id", "name"]].values.tolist()


def reaching(code: int, degrees: list[tuple[float, float]]) -> shapely.Polygon:
    """Return a polygon in a reference system with vertices in degrees."""
    convert = pyproj.Transformer.from_crs(4326, code, always_xy=True).transform
    return shapely.Polygon([convert(*place) for place in degrees])


@pytest.mark.parametrize("suffix", ["geojson", *SLOW])
def test_ids_and_names_are_texts_without_markup_or_line_breaks(tmp_path, suffix):
    markup = "<script>alert('1')</script> & \"=1+1\" ﷽ 北京"
    cells = table(SQUARE, EAST, FAR, name=[markup, "two\r\n\tlines ", None], code=[75101.0, 2, 3.5])
    expected = [["75101", markup], ["2", "two lines"], ["3.5", "3.5"]]
    assert read(tmp_path, cells, suffix, identifier="code") == expected
    assert refusal(tmp_path, cells, suffix, identifier="name").startswith(": feature 3 has no 'na")
    assert "no property 'nam'; did you mean name?" in refusal(tmp_path, cells, suffix, name="nam")


@pytest.mark.parametrize(("ids", "names"), [
    ([7, "007", "7.0"], ["a", "a", "a"]), (["7", "7", "7"], [None, None, None]),
    (["x", " x", "x "], ["a", None, None]), (["x", "x", "x"], [None, "a", None]),
], ids=["numbers", "no names", "one name", "bug_name_of_a_later_part"])  # fmt: skip
def test_features_with_equal_ids_and_names_are_one_polygon(tmp_path, ids, names):
    shapes = [SQUARE, FAR, EAST, SQUARE.centroid.buffer(0.1)]
    cells = table(*shapes, code=[*ids, "y"], name=[*names, "b"])
    name = "a" if "a" in names else ids[0]
    message = refusal(tmp_path, cells, identifier="code")
    assert f"polygons {name!r} and 'b' overlap by 100 %" in message
    result = read_polygons(written(tmp_path, cells[:3], "geojson"), identifier="code")
    assert result.table[["id", "name"]].values.tolist() == [[str(ids[0]), name]]
    assert result.shapes[0].equals(shapely.union_all(shapes[:3]))


def test_equal_ids_of_different_names_are_refused(tmp_path):
    for ids in (["7", "7.0"], ["75 101", "75  101"]):
        cells = table(SQUARE, EAST, code=ids, name=["a", "b"])
        message = refusal(tmp_path, cells, identifier="code")
        assert message.startswith(": 'code' must be unique") and "for 'a' and 'b'" in message
    assert len(read(tmp_path, cells.assign(code=["7e0", "7"]), identifier="code")) == 2


@pytest.mark.parametrize("suffix", ["geojson", *SLOW])
def test_unusable_polygons_are_refused_by_name(tmp_path, suffix):
    bow_tie = shapely.Polygon([(2, 48), (3, 49), (3, 48), (2, 49)])
    for other, name, message in [
        (bow_tie, "Bow", ": polygon 'Bow' is invalid (Self-intersection[2.5 48.5]"),
        (None, "Gone", ": polygon 'Gone' is empty: draw it, or remove it"),
        (shapely.Polygon(), "Gone", ": polygon 'Gone' is empty: draw it, or remove it"),
        (SQUARE, "a\a\x1b[2J", ": 'name' of feature 2 contains control characters, got 'a\\x07"),
        (shapely.box(5.998, 48, 7, 49), "E", ": polygons 'Far' and 'E' overlap by 0.2 % of the s"),
    ]:
        assert message in refusal(tmp_path, table(FAR, other, name=["Far", name]), suffix)
    assert len(read(tmp_path, table(FAR, shapely.box(5.9995, 48, 7, 49)), suffix)) == 2  # a sliver


def test_coordinates_out_of_range_and_no_polygons_are_refused(tmp_path):
    metres = table(SQUARE, name=["Paris"]).to_crs(2154).set_crs(4326, allow_override=True)
    message = refusal(tmp_path, metres)
    assert message.startswith(": polygon 'Paris' must be within longitude -180 to 180")
    infinite = table(shapely.Polygon([(0, 0), (np.inf, 0), (1, 1)]))
    assert ": polygon '1' is invalid (Invalid Coordinate" in refusal(tmp_path, infinite, "parquet")
    assert refusal(tmp_path, metres[:0]) == " contains no polygons"
    path = written(tmp_path, table(SQUARE, crs=2154), "geojson")
    text = path.read_text()
    for code in ("999999", "4978", "5773"):
        path.write_text(text.replace("EPSG::2154", f"EPSG::{code}"))
        assert "convert the positions to EPSG:4326" in refused(read_polygons, path)


@given(st.lists(st.tuples(*[st.integers(0, 40)] * 4), min_size=1, max_size=8))
def test_rectangles_are_refused_if_and_only_if_two_overlap(corners):
    boxes = [(min(a, b), min(c, d), max(a, b) + 1, max(c, d) + 1) for a, b, c, d in corners]
    overlapping = False
    for pair in combinations(np.array(boxes), 2):
        width, height = np.minimum(*pair)[2:] - np.maximum(*pair)[:2]
        smaller = min(np.prod(box[2:] - box[:2]) for box in pair)
        overlapping |= 1000 * max(width, 0) * max(height, 0) > smaller
    cells = table(*(shapely.box(*box) for box in boxes))
    with tempfile.TemporaryDirectory() as folder:
        if overlapping:
            assert "of the smaller one" in refusal(Path(folder), cells)
        else:
            assert len(read(Path(folder), cells)) == len(boxes)


FIJI = [(177, -19), (182, -19), (182, -16), (177, -16)]
WRAPPED = [((x + 180) % 360 - 180, y) for x, y in FIJI]
ANTARCTICA = [(-180, -90), (-180, -75), (0, -68), (90, -66), (180, -75), (180, -90)]


@pytest.mark.parametrize(("code", "shape"), [
    (4326, shapely.Polygon(WRAPPED)), pytest.param(4490, shapely.Polygon(WRAPPED), id="bug_4490"),
    (4326, shapely.MultiPolygon([SQUARE, shapely.Polygon(WRAPPED)])),
    (4326, shapely.Polygon(shapely.box(-180, -30, 180, 0).exterior.coords, [WRAPPED])),
    (3832, reaching(3832, FIJI)), (32760, reaching(32760, FIJI)),
    (3832, shapely.MultiPolygon([reaching(3832, [(9, 0), (9, 1), (8, 0)]), reaching(3832, FIJI)])),
    (3031, shapely.box(-1e6, -1e6, 1e6, 1e6)),
])  # fmt: skip
def test_polygons_across_the_180th_meridian_are_refused(tmp_path, code, shape):
    message = refusal(tmp_path, table(EAST, shape, name=["a", "Fiji"], crs=code).iloc[1:])
    assert message.startswith(": polygon 'Fiji' lies across the 180th meridian: cut it there")


@pytest.mark.parametrize(("code", "shape"), [
    (4326, shapely.Polygon(ANTARCTICA)), (4326, shapely.box(-180, -60, 180, 60)),
    (4326, shapely.MultiPolygon([shapely.box(177, -9, 180, -6), shapely.box(-180, -9, -178, -6)])),
    (3031, shapely.box(1, 1, 9e5, 9e5)), (3832, reaching(3832, [(177, 0), (180, 0), (180, 1)])),
    (3832, reaching(3832, [(-177, 0), (180, 0), (180, 1)])),
    (3338, reaching(3338, [(177, 50), (180, 50), (180, 51)])),
], ids=["Antarctica", "belt", "cut", "polar", "to it", "bug_3832", "bug_3338"])  # fmt: skip
def test_polygons_up_to_the_180th_meridian_are_accepted(tmp_path, code, shape):
    assert len(read(tmp_path, table(shape, crs=code))) == 1


def located(folder: Path, cells, x, y) -> np.ndarray:
    """Return the cells of points in the reference system of the cells."""
    path = written(folder, cells, "geojson")
    convert = pyproj.Transformer.from_crs(cells.crs, 4326, always_xy=True).transform
    longitude, latitude = convert(x, y)
    world = Region("world", Box(-90, 90, -180, 180))
    return make_cells(world, {"cells": {"path": str(path)}}).locate(latitude, longitude)


def test_districts_that_tile_the_plane_in_metres_count_every_point_once(tmp_path):
    random = np.random.default_rng(1)
    boxes = [(640_000.0, 6_800_000.0, 740_000.0, 6_900_000.0)]
    for _ in range(60):  # splitting one rectangle leaves its corner on the edge of a neighbour
        west, south, east, north = boxes.pop(random.integers(len(boxes)))
        x, y = random.uniform((west, south), (east, north))
        if random.random() < 0.5:
            boxes += [(west, south, x, north), (x, south, east, north)]
        else:
            boxes += [(west, south, east, y), (west, y, east, north)]
    x, y = random.uniform((630_000, 6_790_000), (750_000, 6_910_000), (30_000, 2)).T
    x[::3] = random.choice(np.array(boxes)[:, 0], 10_000) + random.uniform(-1, 1, 10_000)
    west, south, east, north = np.array(boxes).T[:, :, None]
    inside = (west <= x) & (x <= east) & (south <= y) & (y <= north)
    expected = np.where(inside.any(axis=0), inside.argmax(axis=0), -1)
    assert (expected >= 0).sum() > 20_000
    cells = table(*(shapely.box(*box) for box in boxes), crs=2154)
    np.testing.assert_array_equal(located(tmp_path, cells, x, y), expected)


@pytest.mark.parametrize(("code", "boxes"), [
    (3035, [(3e6, 2e6, 6e6, 3.5e6), (3e6, 3.5e6, 6e6, 5e6)]),
    (3031, [(1e5, -1e6, 1e6, 1e6), (1e6, -1e6, 2e6, 1e6)]),
])  # fmt: skip
def test_points_beyond_the_latitudes_of_the_vertices_count(tmp_path, code, boxes):
    x, y = np.random.default_rng(2).uniform(boxes[0][:2], boxes[1][2:], (20_000, 2)).T
    cells = table(*(shapely.box(*box) for box in boxes), crs=code)
    expected = ~((x <= boxes[0][2]) & (y <= boxes[0][3]))
    np.testing.assert_array_equal(located(tmp_path, cells, x, y), expected)


@pytest.mark.parametrize(("code", "west", "south"), [
    (2154, 2, 48), (27700, -1, 51), (4490, 116, 40), (32161, -66, 18), (2263, -74, 40),
])  # fmt: skip
def test_reference_systems_are_converted_as_geopandas_does(tmp_path, code, west, south):
    x, y = np.meshgrid(west + 0.01 * np.arange(5), south + 0.01 * np.arange(4))
    cells = table(*shapely.box(x, y, x + 0.01, y + 0.01).ravel()).to_crs(code)
    path = written(tmp_path, cells, "shp")
    assert "EPSG" not in path.with_suffix(".prj").read_text()
    result, oracle = read_polygons(path), gpd.read_file(path)
    assert (result.epsg, result.table.crs) == (code, "EPSG:4326")
    assert shapely.equals_exact(result.shapes, oracle.geometry.values).all()
    degrees = oracle.to_crs(4326).geometry.values
    assert shapely.equals_exact(result.table.geometry.values, degrees).all()
