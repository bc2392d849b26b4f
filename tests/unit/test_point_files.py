"""Points are read alike from every format, and hostile or useless files end in one clear line."""

import datetime
import json
import struct
import tempfile
from functools import partial
from pathlib import Path

import geopandas as gpd
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st
from pyproj import Transformer
from shuffledp.errors import InputError
from shuffledp.geography.checkins import CheckinError, crop_checkins, layout_from_config
from shuffledp.geography.regions import Box, Region
from shuffledp.pipeline.files import file_sha256, parts
from unit import layers

UTC = datetime.UTC
WORLD = Region("world", Box(south=-90, north=90, west=-180, east=180))
FORMATS = ("geojson", "gpkg", "shp", "zip", "parquet")
WHO = {"user": "who", "time": "when"}
POINTS = gpd.GeoDataFrame(
    {
        "who": ["anna", "bob", "anna"],
        "when": ["2024-01-01T10:00:00", "2024-01-02T11:30:00", "2024-01-03T12:00:01"],
    },
    geometry=shapely.points([2.33, 2.35, 2.36], [48.85, 48.86, 48.87]),
    crs=4326,
)


def layout(columns=None, **others):
    return layout_from_config({"format": "geo", "columns": columns or {}, **others})


written = partial(layers.written, name="points")


def read(path: Path, chosen=None, share=0.0):
    out = path.parent / "out.parquet"
    options = {"max_malformed_share": share, "metadata": {}}
    tally = crop_checkins(path, chosen or layout(), WORLD, out, **options)
    return pq.read_table(out), tally


def refusal(path: Path, chosen=None, share=0.0) -> str:
    """Return the rest of the one-line error that begins with the path."""
    (path.parent / "out.parquet").unlink(missing_ok=True)
    with pytest.raises(CheckinError) as refused:
        read(path, chosen, share)
    message = str(refused.value)
    assert not (path.parent / "out.parquet").exists()
    assert message.startswith(str(path)) and message.isprintable() and len(message) < 1000
    return message.removeprefix(str(path))


def features(*geometries, **properties):
    return json.dumps(
        {
            "type": "FeatureCollection",
            "features": [
                {"type": "Feature", "properties": properties, "geometry": geometry}
                for geometry in geometries
            ],
        }
    )


def point(*coordinates):
    return {"type": "Point", "coordinates": coordinates}


@pytest.mark.parametrize("suffix", FORMATS)
def test_points_users_and_times_are_those_that_were_written(tmp_path, suffix):
    table, tally = read(written(tmp_path, POINTS, suffix), layout(WHO))
    assert table["latitude"].to_pylist() == [48.85, 48.86, 48.87]
    assert table["longitude"].to_pylist() == [2.33, 2.35, 2.36]
    first, second, third = table["user"].to_pylist()
    assert first == third != second
    times = [datetime.datetime.fromisoformat(text).replace(tzinfo=UTC) for text in POINTS["when"]]
    assert table["time"].to_pylist() == times
    assert (tally.read, tally.kept) == (3, 3)


@pytest.mark.parametrize("suffix", FORMATS)
def test_users_are_the_same_as_in_text(tmp_path, suffix):
    numbers = POINTS.assign(who=[7, 2**40, 7], half=[1.5, np.nan, 2.0])
    path = written(tmp_path, numbers, suffix)
    assert read(path, layout({"user": "who"}))[0]["user"].to_pylist() == [7, 2**40, 7]
    users = read(path, layout({"user": "half"}))[0]["user"].to_pylist()
    text = tmp_path / "points.csv"
    text.write_text("half,lat,lon\n1.5,1,2\n,1,2\n2.0,1,2\n")
    columns = {"user": "half", "latitude": "lat", "longitude": "lon"}
    assert read(text, layout_from_config({"columns": columns}))[0]["user"].to_pylist() == users


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_declared_reference_system_is_converted(tmp_path, suffix):
    table, _ = read(written(tmp_path, POINTS.to_crs(2154), suffix))
    assert np.allclose(table["latitude"], POINTS.geometry.y, rtol=0, atol=1e-8)
    assert np.allclose(table["longitude"], POINTS.geometry.x, rtol=0, atol=1e-8)


def test_points_far_outside_their_system_do_not_wrap_around(tmp_path):
    east, north = Transformer.from_crs(4326, 32631, always_xy=True).transform(3.0, 48.0)
    far = gpd.GeoDataFrame(geometry=shapely.points([east, 4e7], [north, north]), crs=32631)
    message = refusal(written(tmp_path, far, "gpkg"))
    assert "1 of 2 rows are malformed" in message and "feature 2: " in message
    assert "is not a coordinate of EPSG:32631" in message


@pytest.mark.parametrize("suffix", ["gpkg", "shp", "parquet"])
def test_dates_and_times_of_the_format_are_read(tmp_path, suffix):
    days = POINTS.assign(when=pd.to_datetime(POINTS["when"]).dt.floor("D"))
    if suffix == "shp":
        days = days.assign(when=days["when"].dt.date)
    table, _ = read(written(tmp_path, days, suffix), layout(WHO))
    assert [time.day for time in table["time"].to_pylist()] == [1, 2, 3]
    assert {time.hour for time in table["time"].to_pylist()} == {0}


@pytest.mark.parametrize("suffix", FORMATS)
def test_unix_seconds_and_formats_of_time_are_read(tmp_path, suffix):
    seconds = POINTS.assign(when=[1_735_689_599, 0, 1], text=["31.12.2024 23:59"] * 3)
    path = written(tmp_path, seconds, suffix)
    end = datetime.datetime(2024, 12, 31, 23, 59, tzinfo=UTC)
    table, _ = read(path, layout(WHO, time_format="unix"))
    assert table["time"].to_pylist()[0] == end.replace(second=59)
    chosen = layout({"time": "text"}, time_format="%d.%m.%Y %H:%M")
    assert read(path, chosen)[0]["time"].to_pylist() == [end] * 3
    wrong = refusal(path, layout({"time": "text"}, time_format="%d.%m.%Y"))
    assert "feature 1: time is not in the time_format '%d.%m.%Y'" in wrong


def test_a_shapefile_is_all_its_files(tmp_path):
    path = written(tmp_path, POINTS, "shp")
    assert {part.suffix for part in parts(path)} == {".shp", ".shx", ".dbf", ".prj", ".cpg"}
    before = file_sha256(path)
    (tmp_path / "points.dbf").write_bytes((tmp_path / "points.dbf").read_bytes() + b" ")
    assert file_sha256(path) != before


def test_a_folder_is_refused(tmp_path):
    (tmp_path / "points.gdb").mkdir()
    assert refusal(tmp_path / "points.gdb").startswith(" is a folder")


def test_malformed_features_are_counted_and_named(tmp_path):
    path = tmp_path / "points.geojson"
    path.write_text(features(point(2, 48), None, point(), point(2, 91), point(2, 1e308 * 10)))
    path.write_text(path.read_text().replace("Infinity", "1e999"))
    table, tally = read(path, share=0.8)
    assert table["latitude"].to_pylist() == [48.0]
    assert (tally.read, tally.malformed, tally.kept) == (5, 4, 1)
    assert "the first is feature 2: it has no point" in refusal(path)


# --- Hostile and useless files: test_polygons.py tests what all geometries have in common -------


@pytest.mark.parametrize("suffix", FORMATS)
def test_lines_and_polygons_are_refused(tmp_path, suffix):
    areas = POINTS.set_geometry(shapely.buffer(POINTS.geometry.values, 0.01))
    message = refusal(written(tmp_path, areas, suffix))
    assert (
        "polygons, not points" in message
        or "layer of points" in message
        or ("feature 1 is a Polygon, not a Point" in message)
    )


@pytest.mark.parametrize("kind", ["MultiPoint", "LineString"])
def test_several_points_of_one_feature_are_refused(tmp_path, kind):
    path = tmp_path / "points.geojson"
    path.write_text(features(point(2, 48), {"type": kind, "coordinates": [[2, 48], [3, 49]]}))
    assert refusal(path).startswith(f": feature 2 is a {kind}, not a Point: remove it")


@pytest.mark.parametrize("code", ["EPSG:5773", "EPSG:999999"])
def test_a_reference_system_without_positions_on_a_map_is_refused(tmp_path, code):
    document = json.loads(features(point(2, 48)))
    document["crs"] = {"type": "name", "properties": {"name": code}}
    path = tmp_path / "points.geojson"
    path.write_text(json.dumps(document))
    assert refusal(path).startswith(f" declares {code}: crs must be the EPSG code")


@pytest.mark.parametrize("suffix", ["gpkg", "shp", "parquet"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
def test_coordinates_that_are_no_numbers_are_malformed(tmp_path, suffix, value):
    places = [shapely.Point(2, 48), shapely.Point(2, 48)]
    path = written(tmp_path, gpd.GeoDataFrame({"a": [1, 2]}, geometry=places, crs=4326), suffix)
    content = path.read_bytes()
    one = struct.pack("<dd", 2, 48)
    where = content.rindex(one)
    damaged = content[:where] + struct.pack("<dd", value, 48) + content[where + len(one) :]
    if suffix == "parquet":  # pages have checksums
        table = pq.read_table(path)
        blobs = table["geometry"].to_pylist()
        blobs[1] = blobs[1].replace(one, struct.pack("<dd", value, 48))
        column = table.schema.get_field_index("geometry")
        pq.write_table(table.set_column(column, table.schema.field(column), [blobs]), path)
    else:
        path.write_bytes(damaged)
    assert "1 of 2 rows are malformed" in refusal(path)
    assert read(path, share=0.5)[0]["latitude"].to_pylist() == [48.0]


def test_markup_and_control_characters_do_not_reach_the_terminal(tmp_path):
    path = tmp_path / "points.geojson"
    name = "<script>alert(1)</script>\x1b[31m\n"
    path.write_text(features(point(2, 48), point(2, 99), **{name: "<b>\x1b"}))
    message = refusal(path, layout({"user": "who"}))
    assert message.startswith(" has no column 'who' (columns.user); its columns are")
    message = refusal(path, layout({"time": name}))
    assert "feature 1: time is not an ISO 8601 time" in message
    assert len(read(path, layout({"user": name}), share=0.5)[0]) == 1


@pytest.mark.parametrize("value", [[1, 2], {"a": 1}, True])
def test_a_user_must_be_a_text_or_number(tmp_path, value):
    path = tmp_path / "points.geojson"
    path.write_text(features(point(2, 48), who=value))
    message = refusal(path, layout({"user": "who"}))
    assert message.startswith(": columns.user of feature 1 must be a text or number, got a value")


def test_half_a_surrogate_pair_is_a_user(tmp_path):
    path = tmp_path / "points.geojson"
    path.write_text(features(point(2, 48), who="\ud800"))
    assert read(path, layout({"user": "who"}))[0]["user"].null_count == 0


def test_files_without_points_are_refused(tmp_path):
    path = tmp_path / "points.geojson"
    path.write_text(features())
    assert refusal(path) == " contains no rows"
    for suffix in ("gpkg", "parquet"):
        assert refusal(written(tmp_path, POINTS.iloc[:0], suffix)) == " contains no rows"


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"columns": {"latitude": "y"}}, r"columns\.latitude must be the name of a property"),
        ({"columns": {"user": 0}}, r"columns\.user must be the name of a property"),
        ({"crs": "EPSG:2154"}, "crs has no meaning for format geo"),
        ({"separator": ";"}, "separator has no meaning for format geo"),
        ({"format": "shp"}, "format must be csv, parquet or geo"),
    ],
)
def test_a_layout_that_no_file_of_points_has_is_refused(spec, reason):
    with pytest.raises(InputError, match=reason):
        layout_from_config({"format": "geo", "columns": {}, **spec})


def test_text_readers_name_the_format(tmp_path):
    columns = {"latitude": "y", "longitude": "x"}
    for suffix in ("geojson", "gpkg", "zip"):
        path = written(tmp_path, POINTS, suffix)
        assert "set format: geo" in refusal(path, layout_from_config({"columns": columns}))


@pytest.mark.parametrize(
    "suffix", ["geojson", "parquet", "gpkg", pytest.param("zip", marks=pytest.mark.slow)]
)
@given(st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), min_size=1, max_size=9))
def test_a_file_with_changed_bytes_is_read_or_refused_in_one_line(suffix, changes):
    with tempfile.TemporaryDirectory() as name:
        path = written(Path(name), POINTS, suffix)
        content = bytearray(path.read_bytes())
        for position, value in changes:
            content[position % len(content)] = value
        path.write_bytes(content)
        try:
            table, _ = read(path, layout(WHO), share=1)
        except CheckinError as error:
            assert str(error).startswith(str(path)) and str(error).isprintable()
        else:
            assert 1 <= len(table) <= 3
