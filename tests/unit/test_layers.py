"""Files of every format are read alike, and hostile or useless ones end in one clear line."""

import datetime
import gzip
import json
import os
import sqlite3
import struct
import subprocess
import sys
import tempfile
import zipfile
from functools import partial
from pathlib import Path

import geopandas as gpd
import numpy as np
import pyarrow.parquet as pq
import pyproj
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st
from unit.layers import refused, table, written

from shuffledp.data import layers
from shuffledp.data.checkins import crop_checkins
from shuffledp.data.layers import MAX_FEATURES, POINTS, POLYGONS, point_coordinates, read_layer
from shuffledp.data.polygons import read_polygons
from shuffledp.data.regions import Box, Region
from shuffledp.data.sources import layout_from_config
from shuffledp.errors import InputError
from shuffledp.pipeline.files import parts

BINARY = ("parquet", "gpkg", "shp", "fgb")
FORMATS = ("geojson", "geojson.gz", "geojsons", "geojsonl", *BINARY, "native.parquet", "zip")
SQUARE = shapely.box(2, 48, 3, 49)
ONE = table(SQUARE, name=["a"])
refusal = partial(refused, read_polygons)


def names(path: Path) -> list[str]:
    values = read_layer(path, POLYGONS, ["name"]).properties["name"].to_pylist()
    return [value.decode() if isinstance(value, bytes) else value for value in values]


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_tessellation_is_the_same_in_every_format(tmp_path, suffix):
    sites, frame = np.random.default_rng(4).uniform(0, 1, (12, 2)), shapely.box(0, 0, 1, 1)
    cells = shapely.voronoi_polygons(shapely.multipoints(sites), extend_to=frame)
    cells = list(shapely.intersection(shapely.get_parts(cells), frame))
    disc = shapely.centroid(cells[0]).buffer(0.01)
    cells[:5] = [disc, cells[0].difference(disc), shapely.multipolygons([cells[1], cells[4]])]
    cells = shapely.transform(cells, lambda place: place * [8, 5] + [2, 44])
    labels = [f"Île {number}; <北京>" for number in range(len(cells))]
    rows = table(*cells, name=labels).to_crs(2154)
    path = written(tmp_path, rows.set_geometry(shapely.force_3d(rows.geometry.values, 35)), suffix)
    if suffix != "shp":  # the name of a file does not matter
        path = path.rename(tmp_path / "50% #1?mode=rw.dat")
    layer, order = read_layer(path, POLYGONS, []), np.argsort(names(path))
    assert layer.crs == "EPSG:2154" and sorted(names(path)) == sorted(rows.name)
    assert not shapely.has_z(layer.geometries).any()
    left, right = (
        shapely.normalize([shapely.multipolygons(shapely.get_parts(each)) for each in shapes])
        for shapes in (layer.geometries[order], rows.geometry[np.argsort(rows.name)])
    )
    assert shapely.equals_exact(left, right).all()


@pytest.mark.parametrize(("text", "expected"), [
    ("9007199254740991.0", "9007199254740991"), ("9007199254740993", "9007199254740993"),
    ("1e2", "100"), ("0.1", "0.1"), ("-1e16", "a number of 2**53 or more"),
    ("true", "must be a text or number, got True"), ('"\\ud800"', "contains control characters"),
])  # fmt: skip
def test_numbers_in_json_are_texts_without_loss(tmp_path, text, expected):
    path = written(tmp_path, ONE.assign(name="?"), "geojson")
    path.write_text(path.read_text().replace('"?"', text))
    assert expected in refusal(path) if " " in expected else names(path) == [expected]


@pytest.mark.parametrize(("name", "accepted"), [
    ("epsg:2154", True), ("urn:ogc:def:crs:EPSG:9.8.6:2154", True), ("+init=/x:1\x1b[2J", False),
    ("http://www.opengis.net/def/crs/EPSG/0/2154", True), ("+proj=longlat +nadgrids=/x", False),
])  # fmt: skip
def test_only_the_names_of_codes_are_accepted(tmp_path, name, accepted):
    path = written(tmp_path, table(SQUARE, crs=2154), "geojson")
    path.write_text(path.read_text().replace('"urn:ogc:def:crs:EPSG::2154"', json.dumps(name)))
    definition = GRID | {"id": {"authority": "EPSG", "code": 2154}}  # only the code is used
    crs = definition if name == "epsg:2154" else name
    for each in (path, rewritten(written(tmp_path, ONE, "parquet"), crs=crs)):
        if accepted:
            assert read_layer(each, POLYGONS, []).crs == "EPSG:2154"
        else:
            assert "must declare a reference system by an EPSG code" in refusal(each)


PRJ = pyproj.CRS(2154).to_wkt("WKT1_ESRI")
MAY_NAME_FILES = [  # GDAL opens the files that the first two name
    PRJ[:-1] + ',EXTENSION["PROJ4","+proj=lcc +nadgrids=/etc/passwd"]]',
    PRJ.replace("222101]", '222101],EXTENSION["PROJ4_GRIDS","/tmp/x"]'),
    PRJ.replace("RGF_1993_Lambert_93", "/vsicurl/http://127.0.0.1:1/x"),
    *("+init=/tmp/file:1", "EPSG:4326", PRJ + " " * 10_000, "1" * 9_999 + "x"),
]


@pytest.mark.parametrize(("suffix", "contents", "message"), [
    (".prj", [PRJ.replace("n\",3.0", "n\",3.1")], "must declare a reference system by an EPSG"),
    (".prj", MAY_NAME_FILES, ": its .prj must be WKT of an ellipsoid and a projection"),
    (".cpg", ["/etc/passwd", "UTF-8\nx=1", "x" * 99_999], ": its .cpg must be the name of an enco"),
    (".cpg", ["UTF-8"], "its texts are not in the encoding that it declares"),
], ids=["numbers", "files", "no encoding", "wrong encoding"])  # fmt: skip
def test_a_shapefile_with_another_prj_or_cpg_is_refused(tmp_path, suffix, contents, message):
    path = written(tmp_path, table(SQUARE, name=["é"]).to_crs(2154), "shp", encoding="cp1252")
    for content in contents:
        path.with_suffix(suffix).write_text(content)
        assert message in refusal(path)


@pytest.mark.parametrize(("suffix", "message"), [
    ("fgb", "a reference system that names other files"), ("gpkg", "by an EPSG code"),
])  # fmt: skip
def test_a_system_without_a_code_or_with_grids_is_refused(tmp_path, suffix, message):
    grids = table(SQUARE, crs="+proj=longlat +ellps=GRS80 +nadgrids=/etc/passwd")
    assert message in refusal(written(tmp_path, grids, suffix))
    with pytest.warns(UserWarning, match="'crs' was not provided"):
        path = written(tmp_path, table(SQUARE, crs=None), suffix, name="none")
    assert "does not declare its system, but must declare" in refusal(path)


def packed(folder: Path, changes=None, prefix="cells", more=()) -> Path:
    """Pack a shapefile of one square with changed files, by their suffixes, and more members."""
    members = {part.suffix: part.read_bytes() for part in parts(written(folder, ONE, "shp"))}
    members |= changes or {}
    path = folder / "packed.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in [*more, *((prefix + each, members[each]) for each in members)]:
            archive.writestr(name, content)
    return path


def test_a_virtual_layer_is_refused_under_any_name_and_in_a_zip(tmp_path):
    secret = written(tmp_path, table(SQUARE, name=["secret"]), "geojson", name="secret")
    virtual = (
        f'<OGRVRTDataSource><OGRVRTLayer name="secret"><SrcDataSource>{secret}</SrcDataSource>'
        "</OGRVRTLayer></OGRVRTDataSource>"
    ).encode()
    for suffix in (*FORMATS, "vrt"):
        path = tmp_path / f"virtual.{suffix}"
        path.write_bytes(virtual)
        assert refusal(path).startswith(" is not GeoJSON, GeoParquet, GeoPackage, FlatGeobuf, a s")
    assert gpd.read_file(path).name.tolist() == ["secret"]  # GDAL follows it
    for start in (b"", struct.pack(">I24xI", 9994, 50) + struct.pack("<II", 1000, 5)):
        refusal(packed(tmp_path, {".shp": start + virtual, ".vrt": virtual}))


def test_gdal_reads_nothing_with_another_driver_than_that_of_the_format(tmp_path):
    job = {"source": str(written(tmp_path, ONE, "gpkg")), "driver": "GPKG", "types": POLYGONS}
    process = subprocess.run(
        [sys.executable, "-P", Path(layers.__file__).with_name("layer_process.py")],
        env={name: value for name, value in os.environ.items() if "GDAL" not in name},
        input=json.dumps(job), cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert process.returncode and "GDAL must have the driver GPKG only" in process.stderr


@pytest.mark.parametrize("folder", ["a/", "/tmp/", "../../", "..\\"])
def test_only_one_shapefile_leaves_a_zip_and_under_fixed_names(tmp_path, folder):
    others = ("__MACOSX/a/._cells.shp", "a/._cells.shp", ".shp", "d/", "@@@@")
    path = packed(tmp_path, prefix=f"{folder}cells", more=[(name, b"") for name in others])
    path.write_bytes(path.read_bytes().replace(b"@@@@", bytes(4)))
    assert names(path) == ["a"]
    content = bytearray(path.read_bytes())
    content[content.rindex(b"PK\1\2") + 8] |= 1  # in the directory, for one of the members
    path.write_bytes(content)
    assert refusal(path) == " is encrypted: unpack it"
    two = packed(tmp_path, prefix="two", more=[("one.shp", b"")])
    assert refusal(two).startswith(" must contain exactly one shapefile (.shp), got 'one.shp', 't")


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    path = packed(tmp_path, {".dbf": bytes(10_000_001)})
    content, size = path.read_bytes(), struct.pack("<I", 10_000_001)
    path.write_bytes(content.replace(size, struct.pack("<I", 1000)))  # it hides its size
    assert content.count(size) == 2 and "cannot be read as a zip" in refusal(path)
    monkeypatch.setattr(layers, "MAX_BYTES", 10_000_000)
    for bomb in (content, gzip.compress(b" " * 10_000_001)):
        path.write_bytes(bomb)
        assert "more than the 10,000,000 that are read" in refusal(path)


def test_a_shapefile_is_all_its_files(tmp_path):
    path = written(tmp_path, table(SQUARE, name=["Noël"]), "shp", encoding="cp437", name="capital")
    for part in parts(path):
        part.rename(part.with_suffix(part.suffix.upper()))
    assert names(path.with_suffix(".SHP")) == ["Noël"]
    path = written(tmp_path, ONE, "shp")
    content = path.with_suffix(".shx").read_bytes()
    for count, message in ((1000, " has a damaged index"), (MAX_FEATURES + 1, " has 1,000,001 fe")):
        path.with_suffix(".shx").write_bytes(content[:100] + content[100:] * count)
        assert refusal(path).startswith(message)
    for suffix in (".shx", ".dbf", ".prj"):
        written(tmp_path, ONE, "shp").with_suffix(suffix).unlink()
        assert refusal(path).startswith(f" has no {suffix}")


def changed(path: Path, *statements: str, values=()) -> Path:
    database = sqlite3.connect(path, isolation_level=None)
    for name in ("ST_IsEmpty", "ST_MinX", "ST_MaxX", "ST_MinY", "ST_MaxY"):
        database.create_function(name, 1, lambda _: 0)  # triggers of the file call them
    for statement in statements:
        database.execute(statement, values)
    database.close()
    return path


COMPUTED = "ALTER TABLE cells ADD COLUMN name TEXT AS {}(hex(zeroblob(3)))"
QUOTE = "ALTER TABLE cells ADD COLUMN {} TEXT DEFAULT '\"'"


@pytest.mark.parametrize("statements", [
    ["CREATE VIEW v AS SELECT load_extension('x')"], ["CREATE VIRTUAL TABLE v USING fts5(a)"],
    [COMPUTED.format("")], ['CREATE VIRTUAL TABLE "using rtree(" USING fts5(a)'],
    [COMPUTED.format("/**/")], [QUOTE.format("a"), COMPUTED.format(""), QUOTE.format("b")],
], ids=["view", "virtual", "computed", "bug_name", "bug_comment", "bug_quote"])  # fmt: skip
def test_a_geopackage_whose_code_would_run_is_refused(tmp_path, statements):
    path = changed(written(tmp_path, table(SQUARE), "gpkg"), *statements)
    assert "whose code would run: save the layer as a file" in refusal(path)


def test_other_tables_are_ignored_and_the_file_does_not_change(tmp_path):
    path = written(tmp_path, ONE, "gpkg")
    table(SQUARE.centroid, name=["p"]).to_file(path, layer="points")
    changed(path, "CREATE TRIGGER t AFTER INSERT ON cells BEGIN DELETE FROM cells; END")
    before = path.read_bytes()
    assert names(path) == ["a"]
    assert point_coordinates(read_layer(path, POINTS, []).geometries).tolist() == [[2.5, 48.5]]
    assert path.read_bytes() == before and not list(tmp_path.glob("cells.gpkg-*"))
    ONE.to_file(path, layer="wards")
    assert "must have exactly one layer of type Polygon" in refusal(path)
    path.with_name("cells.gpkg-wal").write_bytes(b"x")
    assert refusal(path).startswith(" is being written (cells.gpkg-wal is not empty)")


NESTED = [struct.pack("<BII", 1, kind, 1) * 1_000_000 + SQUARE.wkb for kind in (6, 7)]


@pytest.mark.parametrize("wkb", [*NESTED, SQUARE.wkb[:-1], b"\7", b""], ids=range(5))
def test_damaged_geometries_are_refused(tmp_path, wkb):
    content = (b"GP\0\1" + bytes(4) + wkb,)
    path = changed(written(tmp_path, ONE, "gpkg"), "UPDATE cells SET geom = ?", values=content)
    refusal(path)
    rows = pq.read_table(path := written(tmp_path, ONE, "parquet"))
    pq.write_table(rows.set_column(1, rows.schema.field("geometry"), [[wkb]]), path)
    refused(read_layer, path, POINTS, [])  # it would be a feature without a point


def rewritten(path: Path, **changes) -> Path:
    """Change the metadata of the geometry column."""
    rows = pq.read_table(path)
    geo = json.loads(rows.schema.metadata[b"geo"])
    geo["columns"]["geometry"] |= changes
    pq.write_table(rows.replace_schema_metadata({"geo": json.dumps(geo)}), path)
    return path


GRID = {"type": "BoundCRS", "transformation": {"parameters": [{"value": "/etc/passwd"}]}}


@pytest.mark.parametrize(("changes", "message"), [
    ({"crs": None}, "does not declare its system, but must declare"),
    ({"crs": GRID}, "does not declare its system, but must declare"),
    ({"crs": {"id": {"authority": "EPSG", "code": "../x"}}}, "must declare a reference system"),
    ({"crs": {"id": 5}}, ""), ({"edges": "spherical"}, "has 'spherical' edges"),
    ({"encoding": "multipoint"}, "encodes geometries as 'multipoint'"), ({"encoding": "point"}, ""),
])  # fmt: skip
def test_geoparquet_with_other_metadata_is_refused(tmp_path, changes, message):
    assert message in refusal(rewritten(written(tmp_path, ONE, "parquet"), **changes))


@pytest.mark.parametrize("suffix", [*BINARY, "zip", "geojson.gz"])
def test_a_truncated_file_is_refused(tmp_path, suffix):
    places = shapely.points(np.random.default_rng(0).uniform(0, 80, (500, 2)))
    path = written(tmp_path, table(*shapely.buffer(places, 1, quad_segs=2)), suffix)
    content = path.read_bytes()
    for keep in (0.3, 0.9):
        path.write_bytes(content[: int(keep * len(content))])
        refusal(path)


@pytest.mark.parametrize("content", [
    b"", b"{", b"[]", b'{"type": "Topology"}', b'{"type": 5}', b"<gml>", b"\xff" * 99,
    b'{"a":' * 100_000, b'{"type": "Feature"}', b"PK\3\4", bytes(100), b"PAR1", b"\x1f\x8b",
    b"SQLite format 3\0" + bytes(5000), b"fgb\3fgb\0" + b"\xff" * 300, b"a,b\n1,2\n",
])  # fmt: skip
def test_other_content_is_refused(tmp_path, content):
    path = tmp_path / "cells.geojson"
    path.write_bytes(content)
    refusal(path)


@pytest.mark.parametrize("suffix", [
    "geojsons", *(pytest.param(each, marks=pytest.mark.slow) for each in FORMATS),
])  # fmt: skip
@given(st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), min_size=1, max_size=9))
def test_a_file_with_changed_bytes_is_read_or_refused_in_one_line(suffix, changes):
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder), ONE, suffix)
        content = bytearray(path.read_bytes())
        for position, value in changes:
            content[position % len(content)] = value
        path.write_bytes(content)
        try:
            assert len(read_polygons(path).shapes) == 1
        except InputError as error:
            assert str(error).startswith(str(path)) and str(error).isprintable()


def check_ins(path: Path, share=0.0, **columns):
    layout = layout_from_config({"format": "geo", "columns": columns})
    world, out = Region("world", Box(-90, 90, -180, 180)), path.parent / "out.parquet"
    tally = crop_checkins(path, layout, world, out, max_malformed_share=share, metadata={})
    return pq.read_table(out), tally


@pytest.mark.parametrize("suffix", FORMATS)
def test_points_users_and_times_are_those_that_were_written(tmp_path, suffix):
    times = [datetime.datetime(2024, 1, day, 10, day, tzinfo=datetime.UTC) for day in (1, 2, 3)]
    points = shapely.points([2.33, 2.34, 2.36], [48.85, 48.86, 48.87])
    rows = table(*points, who=[7, 2**40, 7], when=[time.isoformat() for time in times])
    path = written(tmp_path, rows.to_crs(2154), suffix)
    rows = check_ins(path, user="who", time="when")[0].sort_by("time").to_pydict()
    places = np.column_stack([rows["longitude"], rows["latitude"]])
    assert np.allclose(places, shapely.get_coordinates(points), rtol=0, atol=1e-8)
    assert rows["time"] == times and rows["user"][0] == rows["user"][2] != rows["user"][1]


def test_a_feature_without_a_point_is_unplaced_and_a_wrong_one_malformed(tmp_path):
    points = [*shapely.points([[2, 48], [np.nan, 1], [np.inf, 1], [2, 91]]), shapely.Point()]
    for suffix in ("gpkg", "parquet"):
        _, tally = check_ins(written(tmp_path, table(*points, None), suffix), share=0.4)
        assert (tally.read, tally.kept, tally.unplaced, tally.malformed) == (6, 1, 3, 2)
    path = written(tmp_path, table(points[0], None, points[3]), "geojson")
    assert "1 of 3 rows are malformed" in refused(check_ins, path)
    assert "hardly any record has" in refused(check_ins, written(tmp_path, table(None), "geojson"))
    far = table(*shapely.points([[5e5, 5e6], [4e7, 5e6]]), crs=32631)  # it would wrap around
    message = refused(check_ins, written(tmp_path, far, "geojson"))
    assert "feature 2: " in message and "is not a coordinate of EPSG:32631" in message
