"""Polygons are read alike from four formats, and hostile or useless files end in one clear line."""

import json
import os
import shutil
import sqlite3
import struct
import sys
import tempfile
import zipfile
from contextlib import closing
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import geopandas as gpd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pyproj
import pytest
import shapely
import shuffledp
from hypothesis import given, settings
from hypothesis import strategies as st
from shuffledp.errors import InputError
from shuffledp.geography import layer_files
from shuffledp.geography.cells import cell_count, cropping_region, make_cells
from shuffledp.geography.layer_files import MAX_BYTES, MAX_FEATURES
from shuffledp.geography.polygons import read_polygons
from shuffledp.geography.regions import region_from_config
from unit.layers import written
from waiting import run

BASEMAPS = Path(__file__).parents[2] / "resources" / "basemaps"
FORMATS = ("geojson", "parquet", "gpkg", "shp")
SQUARE = shapely.box(2, 48, 3, 49)
BOW_TIE = shapely.Polygon([(2, 48), (3, 49), (3, 48), (2, 49)])


def table(*geometries, crs=4326, **columns):
    return gpd.GeoDataFrame(columns, geometry=list(geometries), crs=crs)


def refusal(path: Path, **options) -> str:
    """Return the rest of the one-line error that begins with the path."""
    with pytest.raises(InputError) as refused:
        read_polygons(path, **options)
    message = str(refused.value)
    assert message.startswith(str(path))
    assert message.isprintable()
    return message.removeprefix(str(path))


def same_shapes(left, right) -> bool:
    """Return whether all vertices agree, whatever the order and direction of rings."""
    left, right = (
        shapely.normalize([shapely.multipolygons(shapely.get_parts(shape)) for shape in shapes])
        for shapes in (left, right)
    )
    return bool(shapely.equals_exact(left, right).all())


def read_by_geopandas(path: Path) -> gpd.GeoDataFrame:
    """Read a file that `written` made; a zip is read from the shapefile that it was packed from."""
    if path.suffix == ".parquet":
        return gpd.read_parquet(path)
    return gpd.read_file(path.with_suffix(".shp") if path.suffix == ".zip" else path)


def districts(name: str) -> gpd.GeoDataFrame:
    shapes = gpd.read_file(BASEMAPS / f"{name}.geojson")
    areas = shapes[shapes.geom_type.isin(["Polygon", "MultiPolygon"])]
    areas = areas[~areas.kind.isin(["water", "park"])]
    return areas[["name", "geometry"]].reset_index(drop=True)


@pytest.mark.parametrize("suffix", [*FORMATS, "zip"])
@pytest.mark.parametrize("city", ["paris", "san_francisco"])
def test_districts_are_those_that_geopandas_reads(tmp_path, city, suffix):
    cells = districts(city)
    path = written(tmp_path, cells, suffix)
    read = read_polygons(path)
    oracle = read_by_geopandas(path)
    assert read.columns.tolist() == ["id", "name", "geometry"]
    assert read.crs == "EPSG:4326"
    assert read.id.tolist() == [str(number) for number in range(1, len(cells) + 1)]
    assert read.name.tolist() == oracle.name.tolist()
    assert shapely.equals_exact(read.geometry.values, oracle.geometry.values).all()


@st.composite
def tessellations(draw):
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    sites = random.uniform(0, 1, (draw(st.integers(1, 12)), 2))
    frame = shapely.box(0, 0, 1, 1)
    parts = shapely.voronoi_polygons(shapely.multipoints(sites), extend_to=frame)
    parts = shapely.intersection(shapely.get_parts(parts), frame) if len(sites) > 1 else [frame]
    cells = []
    for part in parts:
        if draw(st.booleans()):
            # A disc in the middle is a cell of its own.
            middle = shapely.centroid(part)
            disc = middle.buffer(0.3 * part.exterior.distance(middle), quad_segs=3)
            cells += [disc, part.difference(disc)]
        else:
            cells.append(part)
    if len(cells) > 2 and draw(st.booleans()):
        cells[:2] = [shapely.multipolygons(shapely.get_parts(shapely.union_all(cells[:2])))]
    count = len(cells)
    ids = draw(st.permutations(range(count)))
    letters = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S")), max_size=9)
    names = draw(st.lists(letters, min_size=count, max_size=count))
    moved = shapely.transform(cells, lambda place: place * [8, 5] + [2, 44])
    return table(*moved, code=[f"c{own}" for own in ids], label=names)


@settings(max_examples=settings.default.max_examples // 5)
@given(cells=tessellations())
def test_a_tessellation_is_the_same_in_every_format(cells):
    assert shapely.is_valid(cells.geometry.values).all()
    for suffix in FORMATS:
        with tempfile.TemporaryDirectory() as folder:
            path = written(Path(folder), cells, suffix)
            read = read_polygons(path, name="label", identifier="code")
        assert read.id.tolist() == cells.code.tolist()
        named = zip(cells.label, cells.code, strict=True)
        assert read.name.tolist() == [label or code for label, code in named]
        assert same_shapes(read.geometry.values, cells.geometry.values)


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize(
    ("code", "west", "south"), [(2154, 2, 48), (27700, -1, 51), (4269, -75, 40)]
)
def test_other_reference_systems_are_converted_as_geopandas_does(
    tmp_path, code, west, south, suffix
):
    x, y = np.meshgrid(west + 0.01 * np.arange(5), south + 0.01 * np.arange(4))
    cells = table(*shapely.box(x, y, x + 0.01, y + 0.01).ravel())
    path = written(tmp_path, cells.to_crs(code), suffix)
    read = read_polygons(path)
    file = read_by_geopandas(path)
    assert file.crs.to_epsg() == code
    assert shapely.equals_exact(read.geometry.values, file.to_crs(4326).geometry.values).all()
    assert shapely.hausdorff_distance(read.geometry, cells.geometry).max() < 1e-7


def geojson_in(folder: Path, name: str, cells: gpd.GeoDataFrame) -> Path:
    """Write cells as GeoJSON that declares a reference system by this name."""
    document = json.loads(cells.to_json(to_wgs84=False))
    document["crs"] = {"type": "name", "properties": {"name": name}}
    path = folder / "cells.geojson"
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize(
    "name",
    [
        *("EPSG:2154", "urn:ogc:def:crs:EPSG::2154", "urn:ogc:def:crs:EPSG:9.8.6:2154"),
        "http://www.opengis.net/def/crs/EPSG/0/2154",
    ],
)
def test_the_system_of_geojson_is_accepted_in_every_spelling(tmp_path, name):
    path = geojson_in(tmp_path, name, table(SQUARE).to_crs(2154))
    assert shapely.equals_exact(read_polygons(path).geometry[0], SQUARE, tolerance=1e-9)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("+proj=longlat +nadgrids=/etc/passwd", "must declare a reference system by an EPSG code"),
        ("+init=/tmp/file:1", "must declare a reference system by an EPSG code"),
        ("EPSG:999999", "declares EPSG:999999, which cannot be converted to WGS 84"),
        ("EPSG:4978", "which is neither geographic nor projected"),
        ("EPSG:5773", "which is neither geographic nor projected"),
        ("\x1b[2J", "must declare a reference system by an EPSG code"),
    ],
)
def test_other_names_of_systems_are_refused(tmp_path, name, message):
    assert message in refusal(geojson_in(tmp_path, name, table(SQUARE)))


def test_geojson_without_a_system_is_in_wgs84_by_its_standard(tmp_path):
    document = json.loads(table(SQUARE).to_json())
    document.pop("crs", None)
    path = tmp_path / "cells.geojson"
    path.write_text("\ufeff" + json.dumps(document))
    assert read_polygons(path).geometry[0].equals(SQUARE)


def test_coordinates_out_of_range_are_refused(tmp_path):
    metres = table(SQUARE, name=["Paris"]).to_crs(2154).set_crs(4326, allow_override=True)
    message = refusal(written(tmp_path, metres, "geojson"))
    assert message.startswith(": polygon 'Paris' must be within longitude -180 to 180")
    assert "declare the reference system" in message


# Shapefiles and zips


def test_a_shapefile_without_its_other_files_is_refused(tmp_path):
    for suffix in (".shx", ".dbf", ".prj"):
        path = written(tmp_path, table(SQUARE, name=["a"]), "shp")
        path.with_suffix(suffix).unlink()
        assert refusal(path).startswith(f" has no {suffix}")


def test_suffixes_of_a_shapefile_may_be_in_capitals(tmp_path):
    path = written(tmp_path, table(SQUARE, name=["é"]), "shp")
    for part in list(tmp_path.iterdir()):
        part.rename(part.with_suffix(part.suffix.upper()))
    assert read_polygons(path.with_suffix(".SHP")).name.tolist() == ["é"]


@pytest.mark.parametrize("encoding", ["cp1252", "UTF-8", "cp437"])
def test_texts_in_other_encodings_are_read(tmp_path, encoding):
    path = written(tmp_path, table(SQUARE, name=["Forêt Noël"]), "shp", encoding=encoding)
    assert "Forêt Noël".encode(encoding) in path.with_suffix(".dbf").read_bytes()
    assert read_polygons(path).name.tolist() == ["Forêt Noël"]


LAMBERT_93 = (
    'PROJCS["RGF_1993_Lambert_93",GEOGCS["GCS_RGF_1993",DATUM["D_RGF_1993",'
    'SPHEROID["GRS_1980",6378137.0,298.257222101]],PRIMEM["Greenwich",0.0],'
    'UNIT["Degree",0.0174532925199433]],PROJECTION["Lambert_Conformal_Conic"],'
    'PARAMETER["False_Easting",700000.0],PARAMETER["False_Northing",6600000.0],'
    'PARAMETER["Central_Meridian",3.0],PARAMETER["Standard_Parallel_1",49.0],'
    'PARAMETER["Standard_Parallel_2",44.0],PARAMETER["Latitude_Of_Origin",46.5],UNIT["Meter",1.0]]'
)


def test_a_definition_in_a_prj_is_matched_with_a_code(tmp_path):
    path = written(tmp_path, table(SQUARE).to_crs(2154), "shp")
    path.with_suffix(".prj").write_text(LAMBERT_93)
    assert shapely.hausdorff_distance(read_polygons(path).geometry[0], SQUARE) < 1e-9


@pytest.mark.parametrize("code", [2263, 25832, 31370, 28992, 2056, 3857, 5514, 2193])
def test_the_definitions_of_many_countries_are_matched_with_their_codes(tmp_path, code):
    system = pyproj.CRS.from_epsg(code)
    west, south, east, north = system.area_of_use.bounds
    x, y = (west + east) / 2, (south + north) / 2
    cell = table(shapely.box(x, y, x + 0.01, y + 0.01))
    path = written(tmp_path, cell.to_crs(code), "shp")
    assert "EPSG" not in path.with_suffix(".prj").read_text()
    # Files of a few systems have transformations between datums that differ by decimetres.
    assert shapely.hausdorff_distance(read_polygons(path).geometry[0], cell.geometry[0]) < 1e-5


OTHER_NUMBERS = {
    '"Central_Meridian",3.0': '"Central_Meridian",3.1',
    "700000.0": "700001.0",
    "298.257222101": "299.1528128",
    '"Greenwich",0.0': '"Paris",2.33722917',
    '"Meter",1.0': '"Foot",0.3048',
}
MAY_NAME_FILES = [
    # GDAL opens the files that the first three name.
    LAMBERT_93[:-1] + ',EXTENSION["PROJ4","+proj=lcc +nadgrids=/etc/passwd"]]',
    LAMBERT_93[:-1] + ',EXTENSION["PROJ4","+init=/etc/passwd:1"]]',
    LAMBERT_93.replace("298.257222101]", '298.257222101],EXTENSION["PROJ4_GRIDS","/tmp/x"]'),
    LAMBERT_93.replace("RGF_1993_Lambert_93", "/vsicurl/http://127.0.0.1:1/x"),
    LAMBERT_93.replace("RGF_1993_Lambert_93", "+nadgrids=x"),
    "+proj=longlat",
    "+init=/tmp/file:1",
    '{"type": "GeographicCRS"}',
    '<gml:CRS xmlns:gml="http://127.0.0.1:1/gml"/>',
    "EPSG:4326",
    "",
    "1" * 9_999 + "x",
    LAMBERT_93 + " " * 10_000,
]
NO_ENCODING = ["/etc/passwd", "../../module", "", "UTF-8\nx=1", "x" * 99_999]


@pytest.mark.parametrize(
    ("suffix", "contents", "message"),
    [
        (
            ".prj",
            [LAMBERT_93.replace(old, new) for old, new in OTHER_NUMBERS.items()],
            "must declare a reference system by an EPSG code",
        ),
        (".prj", MAY_NAME_FILES, ": its .prj must be WKT of an ellipsoid and a projection"),
        (".cpg", NO_ENCODING, ": its .cpg must be the name of an encoding"),
        (".cpg", ["UTF-8"], "its texts are not in the encoding that its .cpg names"),
    ],
    ids=["numbers of another system", "a .prj that names files", "no encoding", "wrong encoding"],
)
def test_a_shapefile_with_another_prj_or_cpg_is_refused(tmp_path, suffix, contents, message):
    cells = table(SQUARE, name=["Forêt"]).to_crs(2154)
    path = written(tmp_path, cells, "shp", encoding="cp1252")
    for content in contents:
        assert content != LAMBERT_93
        path.with_suffix(suffix).write_text(content)
        assert message in refusal(path)


def test_a_shapefile_of_lines_or_points_is_refused(tmp_path):
    lines = written(tmp_path, table(shapely.LineString([(2, 48), (3, 49)]), name=["a"]), "shp")
    assert refusal(lines).startswith(" contains lines, not polygons")
    points = written(tmp_path, table(SQUARE.centroid, name=["a"]), "shp")
    assert refusal(points).startswith(" contains points, not polygons")


def test_an_index_that_repeats_shapes_is_refused(tmp_path):
    path = written(tmp_path, table(SQUARE, name=["a"]), "shp")
    index = path.with_suffix(".shx")
    content = index.read_bytes()
    index.write_bytes(content[:100] + content[100:] * 1000)
    assert refusal(path).startswith(" has a damaged index")
    index.write_bytes(content[:100] + content[100:] * (MAX_FEATURES + 1))
    assert refusal(path).startswith(f" has {MAX_FEATURES + 1:,} polygons or more")


def test_gdal_reads_nothing_with_another_driver_than_that_of_shapefiles(tmp_path):
    path = written(tmp_path, table(SQUARE, name=["a"]), "shp")
    script = Path(shuffledp.__file__).parent / "geography" / "shapefile_process.py"
    environment = {name: value for name, value in os.environ.items() if "GDAL" not in name}
    command = [sys.executable, "-P", script, path, tmp_path / "layer.arrow"]
    process = run(command, 300, env=environment)
    assert process.returncode != 0
    assert "must have only the driver of shapefiles, got " in process.stderr
    assert "OGR_VRT" in process.stderr
    assert not (tmp_path / "layer.arrow").exists()


def vrt(path: Path) -> bytes:
    """Return a virtual layer with the polygons of another file, which GDAL would open."""
    return (
        f'<OGRVRTDataSource><OGRVRTLayer name="cells"><SrcDataSource>{path}</SrcDataSource>'
        "</OGRVRTLayer></OGRVRTDataSource>"
    ).encode()


@pytest.mark.parametrize("suffix", ["gpkg", "shp", "geojson", "parquet", "zip", "vrt"])
def test_a_virtual_layer_is_refused_under_any_name(tmp_path, suffix):
    secret = written(tmp_path, table(SQUARE, name=["secret"]), "geojson")
    path = tmp_path / f"virtual.{suffix}"
    path.write_bytes(vrt(secret))
    assert gpd.read_file(path.rename(tmp_path / "followed.vrt")).name.tolist() == ["secret"]
    path.write_bytes(vrt(secret))
    assert refusal(path).startswith(" is not GeoJSON, GeoParquet, a GeoPackage, a shapefile")


def zipped(folder: Path, members) -> Path:
    path = folder / "packed.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


def zipped_shapefile(folder: Path, changes=None, prefix="cells", more=()) -> Path:
    """Pack a shapefile of one square with changed files, by their suffixes, and more members."""
    path = written(folder, table(SQUARE, name=["a"]), "shp")
    suffixes = (".shp", ".shx", ".dbf", ".prj", ".cpg")
    parts = {suffix: path.with_suffix(suffix).read_bytes() for suffix in suffixes}
    parts |= changes or {}
    return zipped(folder, [*more, *((prefix + suffix, parts[suffix]) for suffix in parts)])


def test_a_virtual_layer_in_a_zip_is_refused(tmp_path):
    secret = written(tmp_path, table(SQUARE, name=["secret"]), "geojson")
    path = zipped(tmp_path, [("cells.vrt", vrt(secret))])
    assert refusal(path).startswith(" must contain exactly one shapefile (.shp), got none")
    path = zipped_shapefile(tmp_path, {".shp": vrt(secret)})
    assert refusal(path).startswith(" is not a shapefile: its .shp has no valid header")
    # A virtual layer behind the first bytes of a shapefile is a shapefile without shapes.
    start = struct.pack(">I24xI", 9994, 50) + struct.pack("<II", 1000, 5)
    refusal(zipped_shapefile(tmp_path, {".shp": start + vrt(secret)}))


def test_only_the_files_of_the_shapefile_leave_a_zip(tmp_path):
    mac = [("__MACOSX/a/._cells.shp", b"x"), ("a/._cells.shp", b"x"), ("a/README.txt", b"y")]
    path = zipped_shapefile(tmp_path, prefix="a/cells", more=mac)
    assert read_polygons(path).name.tolist() == ["a"]


def test_a_zip_with_two_shapefiles_is_refused(tmp_path):
    path = zipped_shapefile(tmp_path, prefix="two", more=[("one.shp", b"")])
    message = " must contain exactly one shapefile (.shp), got 'one.shp', 'two.shp'"
    assert refusal(path).startswith(message)


@pytest.mark.parametrize("folder", ["/tmp/", "../../", "a/../../", "C:\\", "..\\"])
def test_a_zip_with_names_outside_its_folder_is_refused(tmp_path, folder):
    path = zipped_shapefile(tmp_path, prefix=f"{folder}cells")
    assert refusal(path).startswith(" has a member outside its own folder")


@pytest.mark.parametrize("suffix", [".shp", ".dbf"])
def test_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(layer_files, "MAX_BYTES", 10_000_000)
    path = zipped_shapefile(tmp_path, {suffix: bytes(10_000_001)})
    assert path.stat().st_size < 100_000
    assert "more than the 10,000,000 that are read" in refusal(path)


def test_a_zip_that_hides_its_size_is_refused(tmp_path):
    path = zipped_shapefile(tmp_path, {".dbf": bytes(10_000_000)})
    content = path.read_bytes()
    size = struct.pack("<I", 10_000_000)
    assert content.count(size) == 2
    path.write_bytes(content.replace(size, struct.pack("<I", 1000)))
    assert "cannot be read as a zip" in refusal(path)


def test_an_encrypted_zip_is_refused(tmp_path):
    path = zipped_shapefile(tmp_path)
    content = bytearray(path.read_bytes())
    content[content.rindex(b"PK\1\2") + 8] |= 1  # in the directory, for one of the members
    path.write_bytes(content)
    assert refusal(path) == " is encrypted: unpack it"


def test_members_of_a_zip_without_a_name_are_ignored(tmp_path):
    nameless = [("@@@@", b""), (".", b""), (".shp", b""), ("d/", b"")]
    path = zipped_shapefile(tmp_path, more=nameless)
    path.write_bytes(path.read_bytes().replace(b"@@@@", bytes(4)))
    assert len(read_polygons(path)) == 1


# GeoPackage


def changed(path: Path, *statements: str, values=()) -> Path:
    with closing(sqlite3.connect(path)) as database:
        for name in ("ST_IsEmpty", "ST_MinX", "ST_MaxX", "ST_MinY", "ST_MaxY"):
            database.create_function(name, 1, lambda _: 0)  # triggers of the file call them
        for statement in statements:
            database.execute(statement, values)
        database.commit()
    return path


@pytest.mark.parametrize("layer", ["cells", "rtree_cells_geom"])
def test_a_layer_that_is_a_view_or_a_virtual_table_is_refused(tmp_path, layer):
    path = written(tmp_path, table(SQUARE, name=["a"]), "gpkg")
    changed(path, "ALTER TABLE cells RENAME TO hidden", "CREATE VIEW cells AS SELECT * FROM hidden")
    for name in ("gpkg_contents", "gpkg_geometry_columns"):
        changed(path, f"UPDATE {name} SET table_name = '{layer}'")
    assert refusal(path).startswith(f" has the layer '{layer}', which is a view or is missing")


def test_computed_columns_are_not_read(tmp_path):
    path = written(tmp_path, table(SQUARE, code=["a"]), "gpkg")
    changed(path, "ALTER TABLE cells ADD COLUMN name TEXT AS (hex(zeroblob(100000000)))")
    assert read_polygons(path).name.tolist() == ["1"]
    assert refusal(path, name="name").startswith(" has no property 'name'")


def test_triggers_and_other_tables_are_ignored(tmp_path):
    path = written(tmp_path, table(SQUARE, name=["a"]), "gpkg")
    table(SQUARE.centroid, name=["p"]).to_file(path, layer="points")
    changed(
        path,
        "CREATE TABLE styles (id INTEGER PRIMARY KEY, style TEXT)",
        "CREATE TRIGGER t AFTER INSERT ON cells BEGIN DELETE FROM cells; END",
        "CREATE VIEW v AS SELECT load_extension('x') FROM cells",
    )
    before = path.read_bytes()
    assert read_polygons(path).name.tolist() == ["a"]
    assert path.read_bytes() == before
    assert not list(tmp_path.glob("cells.gpkg-*"))


def test_a_geopackage_with_two_layers_of_polygons_is_refused(tmp_path):
    path = written(tmp_path, table(SQUARE, name=["a"]), "gpkg")
    table(SQUARE, name=["b"]).to_file(path, layer="wards")
    assert "must have exactly one layer of polygons, got 'cells', 'wards'" in refusal(path)


def test_a_geopackage_without_a_system_is_refused(tmp_path):
    with pytest.warns(UserWarning, match="'crs' was not provided"):
        path = written(tmp_path, table(SQUARE, name=["a"], crs=None), "gpkg")
    assert "must declare a reference system by an EPSG code" in refusal(path)


def test_a_geopackage_that_is_being_written_is_refused(tmp_path):
    path = written(tmp_path, table(SQUARE, name=["a"]), "gpkg")
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("PRAGMA journal_mode=WAL")
        writer.execute("CREATE TABLE later (x)")
        writer.commit()
        assert refusal(path).startswith(" is being written (cells.gpkg-wal is not empty)")
    assert len(read_polygons(path)) == 1


def test_a_database_that_is_no_geopackage_is_refused(tmp_path):
    path = changed(tmp_path / "cells.gpkg", "CREATE TABLE cells (geom BLOB)")
    assert refusal(path).startswith(" is SQLite, but not a GeoPackage: it has no table gpkg_cont")


def test_a_geopackage_of_zeros_is_refused(tmp_path):
    path = tmp_path / "cells.gpkg"
    path.write_bytes(b"SQLite format 3\0" + bytes(5000))
    assert "cannot be read as a GeoPackage" in refusal(path)


def nested(kind: int, depth: int = 1_000_000) -> bytes:
    """Return WKB of geometries inside each other, which exhausts the stack of GEOS."""
    return struct.pack("<BII", 1, kind, 1) * depth + SQUARE.wkb


HEADER = b"GP\0\1" + bytes(4)
DAMAGED = [
    *(HEADER + nested(6), HEADER + SQUARE.wkb[:-1], HEADER + b"\7" + SQUARE.wkb[1:]),
    *(b"GP\0\x0f" + bytes(4) + SQUARE.wkb, b"GP\0\1", SQUARE.wkb, b"", "text", 5),
]


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (DAMAGED, "the geometry of feature 1 is damaged"),
        ([HEADER + nested(7)], "feature 1 is a GeometryCollection"),
        ([None], "polygon 'a' is empty"),
    ],
    ids=["damaged", "nested", "empty"],
)
def test_malformed_geometries_in_a_geopackage_are_refused(tmp_path, contents, message):
    path = written(tmp_path, table(SQUARE, name=["a"]), "gpkg")
    for content in contents:
        changed(path, "UPDATE cells SET geom = ?", values=(content,))
        assert message in refusal(path)


# GeoParquet


def rewritten(path: Path, **changes) -> Path:
    """Change the metadata of the geometry column; None removes an entry."""
    rows = pq.read_table(path)
    geo = json.loads(rows.schema.metadata[b"geo"])
    geo["columns"]["geometry"] |= changes
    pq.write_table(rows.replace_schema_metadata({"geo": json.dumps(geo)}), path)
    return path


GRID_IN_PROJJSON = {
    "type": "BoundCRS",
    "source_crs": {"type": "GeographicCRS", "name": "x", "id": {"authority": "EPSG", "code": 4326}},
    "transformation": {"parameters": [{"name": "grid", "value": "/etc/passwd"}]},
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"crs": None}, "does not declare its system, but must declare"),
        ({"crs": "+proj=longlat +nadgrids=/etc/passwd"}, "must declare a reference system"),
        ({"crs": GRID_IN_PROJJSON}, "does not declare its system, but must declare"),
        ({"crs": {"id": {"authority": "EPSG", "code": "../x"}}}, "must declare a reference system"),
        ({"crs": {"id": {"authority": "/tmp/x", "code": 4326}}}, "must declare a reference system"),
        ({"crs": {"id": 5}}, "has malformed GeoParquet metadata"),
        ({"encoding": "polygon"}, "encodes geometries as 'polygon'"),
        ({"edges": "spherical"}, "has 'spherical' edges"),
    ],
)
def test_geoparquet_with_other_metadata_is_refused(tmp_path, changes, message):
    path = rewritten(written(tmp_path, table(SQUARE, name=["a"]), "parquet"), **changes)
    assert message in refusal(path)


def test_only_the_code_of_a_definition_in_geoparquet_is_used(tmp_path):
    metres = written(tmp_path, table(SQUARE, name=["a"]).to_crs(2154), "parquet")
    crs = GRID_IN_PROJJSON | {"id": {"authority": "EPSG", "code": 2154}}
    read = read_polygons(rewritten(metres, crs=crs))
    assert shapely.equals_exact(read.geometry[0], SQUARE, tolerance=1e-9)


def test_parquet_without_geometries_is_refused(tmp_path):
    path = tmp_path / "cells.parquet"
    pd.DataFrame({"name": ["a"]}).to_parquet(path)
    assert refusal(path).startswith(" is Parquet, but not GeoParquet: it has no metadata 'geo'")
    geo = json.dumps({"primary_column": "g", "columns": {"g": {"encoding": "WKB"}}})
    pq.write_table(pa.table({"name": ["a"]}).replace_schema_metadata({"geo": geo}), path)
    assert refusal(path).startswith(" has no column 'g', which its GeoParquet metadata names")
    pq.write_table(pa.table({"g": [5]}).replace_schema_metadata({"geo": geo}), path)
    assert "the geometry of feature 1 is damaged" in refusal(path)


def test_odd_columns_of_geoparquet_are_refused(tmp_path):
    path = written(tmp_path, table(SQUARE, name=["a"]), "parquet")
    rows = pq.read_table(path)
    pq.write_table(rows.append_column("name", pa.array(["b"])), path)
    assert "cannot be read as GeoParquet" in refusal(path)
    beyond = pa.array([2**30], pa.int32()).cast(pa.date32())  # after the year 9999
    pq.write_table(rows.set_column(0, "name", beyond), path)
    assert "cannot be read as GeoParquet" in refusal(path)
    pq.write_table(rows.set_column(0, "name", pa.array([["a"]])), path)
    assert read_polygons(path).name.tolist() == ["1"]
    assert refusal(path, name="name") == " has no property 'name'; its properties are none"


def test_a_small_parquet_file_of_large_values_is_refused(tmp_path):
    path = written(tmp_path, table(SQUARE, name=["a"]), "parquet")
    rows = pq.read_table(path)
    long = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1000, np.int32)), ["x" * 1_000_000])
    geometry = pa.array([SQUARE.wkb] * 1000, pa.binary())
    rows = pa.table({"name": long, "geometry": geometry}).replace_schema_metadata(
        {b"geo": rows.schema.metadata[b"geo"]}
    )
    pq.write_table(rows, path, dictionary_pagesize_limit=1 << 24)
    assert path.stat().st_size < 2_000_000
    assert f"more than the {MAX_BYTES:,} that are read" in refusal(path)


def test_more_than_a_million_polygons_are_refused(tmp_path):
    path = written(tmp_path, table(SQUARE), "parquet")
    geo = {b"geo": pq.read_table(path).schema.metadata[b"geo"]}
    geometry = pa.nulls(MAX_FEATURES + 1, pa.binary())
    pq.write_table(pa.table({"geometry": geometry}).replace_schema_metadata(geo), path)
    assert refusal(path).startswith(f" has {MAX_FEATURES + 1:,} polygons or more")


# All formats


@pytest.mark.parametrize(
    ("suffix", "keep", "message"),
    [
        *(("zip", keep, "cannot be read as a zip") for keep in (0.3, 0.9)),
        *(("parquet", keep, "cannot be read as GeoParquet") for keep in (0.2, 0.9)),
        ("gpkg", 0.5, "cannot be read as a GeoPackage"),
        ("shp", 0.5, " has a damaged index"),
        ("shp", 1e-4, " is not a shapefile: its .shp has no valid header"),
    ],
)
def test_a_truncated_file_is_refused(tmp_path, suffix, keep, message):
    path = written(tmp_path, districts("paris"), suffix)
    content = path.read_bytes()
    path.write_bytes(content[: max(40, int(keep * len(content)))])
    assert message in refusal(path)


EAST = shapely.box(5, 48, 6, 49)
UNUSABLE = {
    "a self-intersection": (
        table(EAST, BOW_TIE, name=["fine", "Bow"]),
        ": polygon 'Bow' is invalid (Self-intersection[2.5 48.5]",
    ),
    "no polygon": (
        table(SQUARE, None, name=["fine", "Gone"]),
        ": polygon 'Gone' is empty: draw it, or remove it",
    ),
    "an empty polygon": (
        table(SQUARE, shapely.Polygon(), name=["fine", "Gone"]),
        ": polygon 'Gone' is empty: draw it, or remove it",
    ),
    "a repeated id": (
        table(SQUARE, EAST, code=["75 101", "75  101"]),
        ": 'code' must be unique to be the id, got '75 101' for features 1 ",
    ),
    "control characters": (
        table(SQUARE, name=["bell\a\x1b[2J"]),
        ": 'name' of feature 1 contains control characters, got 'bell\\x07",
    ),
    "an overlap": (
        table(SQUARE, shapely.box(2.998, 48, 4, 49), name=["West", "East"]),
        ": polygons 'West' and 'East' overlap by 0.2 % of the smaller one",
    ),
}


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("fault", UNUSABLE)
def test_unusable_polygons_are_refused_by_name(tmp_path, suffix, fault):
    cells, message = UNUSABLE[fault]
    path = written(tmp_path, cells, suffix)
    options = {"identifier": "code"} if "code" in cells else {}
    assert refusal(path, **options).startswith(message)


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_property_that_does_not_exist_is_refused(tmp_path, suffix):
    path = written(tmp_path, table(SQUARE, nom=["a"], code=["b"]), suffix)
    message = refusal(path, name="non")
    assert message.startswith(" has no property 'non'; did you mean nom?; its properties are ")
    assert "'code'" in message
    assert refusal(path, identifier="zzz").startswith(" has no property 'zzz'; its properties")


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_missing_name_is_the_id_and_a_missing_id_is_refused(tmp_path, suffix):
    cells = table(SQUARE, shapely.box(5, 48, 6, 49), code=["x", "y"], name=["a", None])
    path = written(tmp_path, cells, suffix)
    read = read_polygons(path, identifier="code")
    assert read[["id", "name"]].values.tolist() == [["x", "a"], ["y", "y"]]
    assert refusal(path, identifier="name").startswith(": feature 2 has no 'name'")


@pytest.mark.parametrize("suffix", FORMATS)
def test_integers_are_ids_also_if_a_program_wrote_them_as_decimals(tmp_path, suffix):
    cells = table(SQUARE, shapely.box(5, 48, 6, 49), code=[75101, 75102], real=[75101.0, 75102.5])
    path = written(tmp_path, cells, suffix)
    assert read_polygons(path, identifier="code").id.tolist() == ["75101", "75102"]
    assert read_polygons(path, identifier="real").id.tolist() == ["75101", "75102.5"]


@pytest.mark.parametrize("suffix", FORMATS)
def test_markup_in_names_is_text_and_line_breaks_are_spaces(tmp_path, suffix):
    markup = "<script>alert('1')</script> & \"=1+1\" ﷽ 北京"
    path = written(tmp_path, table(SQUARE, EAST, name=[markup, "two\r\n\tlines "]), suffix)
    assert read_polygons(path).name.tolist() == [markup, "two lines"]


@pytest.mark.parametrize("suffix", ["geojson", "parquet", "gpkg"])
def test_features_that_are_not_polygons_are_refused(tmp_path, suffix):
    line = shapely.LineString([(2, 48), (3, 49)])
    for other in (SQUARE.centroid, line, shapely.GeometryCollection([SQUARE])):
        path = written(tmp_path, table(SQUARE, other, name=["a", "b"]), suffix)
        assert f": feature 2 is a {other.geom_type}, not a Polygon" in refusal(path)
        path.unlink()


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_file_without_features_is_refused(tmp_path, suffix):
    cells = table(SQUARE, name=["a"])[:0]
    options = {"geometry_type": "Polygon"} if suffix in ("shp", "zip", "gpkg") else {}
    assert refusal(written(tmp_path, cells, suffix, **options)) == " contains no polygons"


@pytest.mark.parametrize("suffix", FORMATS)
def test_heights_are_dropped(tmp_path, suffix):
    cells = table(shapely.force_3d(SQUARE, 35.0), name=["a"])
    assert cells.has_z.all()
    read = read_polygons(written(tmp_path, cells, suffix))
    assert not read.has_z.any()
    assert read.geometry[0].equals(SQUARE)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1], "must be a text or number, got [1]"),
        ({"a": 1}, "must be a text or number, got {'a': 1}"),
        (True, "must be a text or number, got True"),
        ("\ud800", "contains control characters"),
    ],
)
def test_a_name_that_is_no_text_is_refused(tmp_path, value, message):
    document = json.loads(table(SQUARE, name=["a"]).to_json())
    document["features"][0]["properties"]["name"] = value
    path = tmp_path / "cells.geojson"
    path.write_text(json.dumps(document))
    assert f": 'name' of feature 1 {message}" in refusal(path)


@pytest.mark.parametrize(
    ("properties", "names"),
    [
        ({"NAME": "b", "Name": "c", "name": "a"}, ["a"]),
        ({"Name": "c", "NAME": "b"}, ["b"]),
        ({"Name": "c", "nom": "d"}, ["c"]),
        ({"nom": "d"}, ["1"]),
    ],
)
def test_a_property_called_name_is_the_name(tmp_path, properties, names):
    columns = {key: [value] for key, value in properties.items()}
    path = written(tmp_path, table(SQUARE, **columns), "geojson")
    assert read_polygons(path).name.tolist() == names


# Overlaps


def test_slivers_are_accepted(tmp_path):
    sliver = table(SQUARE, shapely.box(2.9995, 48, 4, 49), name=["West", "East"])
    assert len(read_polygons(written(tmp_path, sliver, "geojson"))) == 2


def test_a_polygon_inside_another_and_a_repeated_one_are_refused(tmp_path):
    inner = shapely.box(2.4, 48.4, 2.401, 48.401)
    path = written(tmp_path, table(SQUARE, inner, name=["Outer", "Inner"]), "geojson")
    assert "'Outer' and 'Inner' overlap by 100 %" in refusal(path)
    path = written(tmp_path, table(SQUARE, SQUARE, name=["One", "Again"]), "geojson")
    assert "'One' and 'Again' overlap by 100 %" in refusal(path)


edges = st.integers(0, 40)


@given(st.lists(st.tuples(edges, edges, edges, edges), min_size=1, max_size=8))
def test_rectangles_are_refused_if_and_only_if_two_overlap(corners):
    boxes = [(min(a, b), max(a, b) + 1, min(c, d), max(c, d) + 1) for a, b, c, d in corners]

    def overlap(one, other):
        width = min(one[1], other[1]) - max(one[0], other[0])
        height = min(one[3], other[3]) - max(one[2], other[2])
        areas = [(box[1] - box[0]) * (box[3] - box[2]) for box in (one, other)]
        return Fraction(max(width, 0) * max(height, 0), min(areas))

    overlapping = any(overlap(*pair) > Fraction(1, 1000) for pair in combinations(boxes, 2))
    cells = table(*(shapely.box(west, south, east, north) for west, east, south, north in boxes))
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder), cells, "geojson")
        if overlapping:
            assert "of the smaller one" in refusal(path)
        else:
            assert len(read_polygons(path)) == len(boxes)


# Size and other files


@pytest.mark.parametrize(
    "suffix",
    [
        "parquet",
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("geojson", "gpkg", "shp", "zip")),
    ],
)
def test_a_polygon_of_many_vertices_is_read(tmp_path, suffix):
    angle = np.linspace(0, 2 * np.pi, 300_000, endpoint=False)
    radius = 1 + 0.1 * np.sin(50 * angle)
    coast = shapely.Polygon(np.column_stack((radius * np.cos(angle), radius * np.sin(angle))))
    read = read_polygons(written(tmp_path, table(coast, name=["coast"]), suffix))
    assert shapely.get_num_coordinates(read.geometry[0]) == 300_001
    assert same_shapes(read.geometry.values, [coast])


@pytest.fixture
def reads(monkeypatch):
    """Return a list to which the arguments of each reading of a file are appended."""
    reads = []

    def counting(*arguments):
        reads.append(arguments)
        return layer_files.read_polygon_layer(*arguments)

    monkeypatch.setattr("shuffledp.geography.polygons.read_polygon_layer", counting)
    return reads


@pytest.mark.parametrize("suffix", ["geojson", "shp"])
def test_a_file_is_read_again_only_if_its_content_changed(tmp_path, reads, suffix):
    path = written(tmp_path, table(SQUARE, name=["a"]), suffix)
    first = read_polygons(path)
    first.loc[0, "name"] = "changed by the caller"
    assert read_polygons(path).name.tolist() == ["a"]
    assert len(reads) == 1
    written(tmp_path, table(SQUARE, name=["b"]), suffix)  # the same size and, of the .shp, bytes
    assert read_polygons(path).name.tolist() == ["b"]
    assert len(reads) == 2
    assert read_polygons(path, identifier="name").id.tolist() == ["b"]


def test_planning_reads_a_file_of_polygons_once(tmp_path, reads):
    cells = table(SQUARE, shapely.box(3, 48, 4, 49), code=["a", "b"])
    path = str(written(tmp_path, cells, "geojson"))
    spec = {"grids": {"areas": {"cells": {"path": path, "id": "code"}}}}
    region = region_from_config("town", spec)
    assert cell_count(region, spec["grids"]["areas"]) == 2
    assert len(make_cells(region, spec["grids"]["areas"])) == 2
    cropping_region("town", spec)
    assert len(reads) == 1


def test_a_file_that_is_too_large_is_refused(tmp_path):
    path = tmp_path / "cells.geojson"
    with path.open("wb") as stream:
        stream.write(b"{")
        stream.truncate(MAX_BYTES + 1)
    assert f"more than the {MAX_BYTES:,} that are read" in refusal(path)


def test_what_is_not_a_file_is_refused(tmp_path):
    assert refusal(tmp_path / "none.geojson") == " cannot be read: it is missing"
    assert refusal(tmp_path).startswith(" cannot be read: it is a folder")
    os.mkfifo(tmp_path / "pipe.geojson")
    assert refusal(tmp_path / "pipe.geojson").endswith("it is not a regular file")
    assert "it is missing" in refusal(Path("/vsicurl/http://127.0.0.1:1/cells.gpkg"))


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b"[]", b'{"type": "Topology"}', b"<gml>", b"\xff" * 99, b"{" * 100_000),
        *(b"PK\3\4", bytes(100), b"SQLite format 3\0", b"PAR1", b"\x1f\x8b", b"a,b\n1,2\n"),
    ],
)
def test_other_content_is_refused(tmp_path, content):
    path = tmp_path / "cells.geojson"
    path.write_bytes(content)
    refusal(path)


def test_the_name_of_a_file_does_not_matter(tmp_path):
    for suffix in ("geojson", "parquet", "gpkg", "zip"):
        path = written(tmp_path, table(SQUARE, name=[suffix]), suffix)
        strange = shutil.copy(path, tmp_path / "50% #1?mode=rw.dat")
        assert read_polygons(strange).name.tolist() == [suffix]


@pytest.mark.parametrize("suffix", ["geojson", "parquet", "gpkg"])
@given(st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), min_size=1, max_size=9))
def test_a_file_with_changed_bytes_is_read_or_refused_in_one_line(suffix, changes):
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder), table(SQUARE, name=["a"]), suffix)
        content = bytearray(path.read_bytes())
        for position, value in changes:
            content[position % len(content)] = value
        path.write_bytes(content)
        try:
            assert len(read_polygons(path)) == 1
        except InputError as error:
            assert str(error).startswith(str(path))
            assert str(error).isprintable()
