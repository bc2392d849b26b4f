"""Read polygons or points from untrusted GeoJSON, GeoParquet, GeoPackage and shapefiles.

The first bytes of a file decide its format, never its name. What a file says is data: no file name,
address, SQL or definition of a reference system inside it is followed.

- GeoJSON is parsed as JSON, and GeoParquet by Arrow.
- A GeoPackage is an SQLite database. SQLite opens it read-only and may only read columns of real
  tables: no function, view, virtual table or trigger of the file runs. GDAL would run its views,
  with functions that read other files.
- GDAL reads shapefiles, and nothing else: no other library finds their holes, encodings and
  reference systems as reliably, and the format refers to no other file. It runs in a process of its
  own (`shapefile_process`), which checks that all other drivers were removed before GDAL loaded.
  It sees copies of five files under fixed names in an empty folder. So no name of the input, nor of
  a member of a zip, reaches GDAL or the file system, and GDAL's virtual file systems, which are
  prefixes of names, cannot be addressed.
- Nested WKB would exhaust the stack of GEOS; only points, polygons and multipolygons of polygons
  are passed to it.
- Reference systems are looked up by EPSG code, because a definition can name grids and other files,
  which PROJ opens even to compare it. A shapefile has a definition in its .prj instead of a code.
  It is accepted only if it contains nothing but words for ellipsoid and projection: no `EXTENSION`,
  no `=` and no path. GDAL, in its own process, then finds its code.
"""

import json
import lzma
import os
import re
import shutil
import sqlite3
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import IO, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import shapely
from numpy.typing import NDArray

from shuffledp.errors import InputError, is_out_of_memory, one_line, shortened
from shuffledp.geography.geojson import WGS84, read_features
from shuffledp.pipeline.files import SHAPEFILE_SUFFIXES, parts
from shuffledp.pipeline.tables import CHECKED

MAX_FEATURES: Final = 1_000_000
MAX_BYTES: Final = 1 << 29  # of a file or of all files of a shapefile, unpacked

_SHAPEFILE_KINDS: Final = {1: "points", 3: "lines", 5: "polygons", 8: "multipoints", 31: "surfaces"}
_SHAPEFILE_HEADER: Final = 100  # bytes
_MAX_GDAL_SECONDS: Final = 600
# WKT of an ellipsoid and a projection. Names have a slash only between spaces, as in "NAD83 / UTM
# zone 10N", so that none is a path. Nothing is matched twice (++, *+), which bounds the time.
_PRJ: Final = re.compile(
    r"""(?:\s*+(?:"(?:[\w .,:;()&'+*°-]|(?<= )/(?= ))*+"|[+-]?\d[\d.e+-]*+|[\[\](),]"""
    r"""|(?:PROJCS|GEOGCS|DATUM|SPHEROID|PRIMEM|UNIT|PROJECTION|PARAMETER|TOWGS84|AUTHORITY|AXIS"""
    r"""|EAST|WEST|NORTH|SOUTH)\b))++\s*+""",
    re.IGNORECASE,
)
_CPG: Final = re.compile(r"(?:LDID/)?[\w .:-]+\s*", re.ASCII)
_MAX_TEXT_BYTES: Final = 10_000
_WKB_KINDS: Final = (
    *("", "Point", "LineString", "Polygon", "MultiPoint", "MultiLineString", "MultiPolygon"),
    *("GeometryCollection", "CircularString", "CompoundCurve", "CurvePolygon", "MultiCurve"),
    *("MultiSurface", "Curve", "Surface", "PolyhedralSurface", "TIN"),
)
_WKB_POLYGON, _WKB_MULTIPOLYGON = 3, 6
_CRS_CODE: Final = re.compile(
    r"(?:urn:ogc:def:crs:|https?://www\.opengis\.net/def/crs/)?"
    r"(?:(EPSG)[:/](?:[\d.]*[:/])?(\d{4,6})|OGC[:/](?:[\d.]*[:/])?CRS84)",
    re.ASCII | re.IGNORECASE,
)
_GEOPACKAGE_ENVELOPES: Final = (0, 32, 48, 48, 64)  # bytes, by the flag in the header
_MAX_LISTED: Final = 20  # names in a message

# Takes the names of a file's properties and returns those to read.
Selection = Callable[[Sequence[str]], Sequence[str]]


@dataclass(frozen=True)
class Layer:
    """Features of a file in its order.

    Geometries are shapely's, in two dimensions and not checked for validity; None if a feature has
    no geometry. Each selected property has its values as Python objects, None if missing.
    """

    geometries: NDArray[np.object_]
    properties: Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class _Kind:
    """A kind of geometry, with its names in the formats."""

    plural: str
    types: tuple[str, ...]
    shapefile: tuple[int, ...]  # codes without z and m, with z, and with m
    remedy: str  # if there are too many features

    @property
    def geopackage(self) -> tuple[str, ...]:
        return (*(name.upper() for name in self.types), "GEOMETRY")


_POLYGONS: Final = _Kind(
    "polygons",
    ("Polygon", "MultiPolygon"),
    (5, 15, 25),
    "merge some, or split the file",
)
_POINTS: Final = _Kind(
    "points",
    ("Point",),
    (1, 11, 21),
    "write them as Parquet or CSV with columns of latitude and longitude",
)


def is_layer(path: Path) -> bool:
    """Return whether a file begins like one that `read_points` reads, except GeoParquet."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as stream:
            start = stream.read(64)
    except OSError:  # the reader says why
        return False
    return not start.startswith(b"PAR1") and _reader_of(path, start) is not None


def read_points(path: Path, select: Selection) -> tuple[Layer, str | None]:
    """Read points and the code of their reference system, such as ``EPSG:2154``; None is WGS 84.

    Points may be None, empty, or have coordinates that are not finite. Parameters and errors are
    those of `read_polygon_layer`, but all features must be points.
    """
    layer, declared = _read(path, _POINTS, select)
    code = _epsg_code(path, declared)
    return layer, None if code is None else f"EPSG:{code}"


def read_polygon_layer(path: Path, select: Selection) -> Layer:
    """Read the polygons of a file, with x = longitude and y = latitude in degrees (WGS 84).

    The file is GeoJSON, GeoParquet with WKB, GeoPackage with one layer of polygons, a shapefile
    (the file .shp; .shx, .dbf, .prj and .cpg are beside it) or a zip with exactly one shapefile.
    `select` is called once. Raises `InputError` if the file is missing, damaged, of another format,
    larger than `MAX_BYTES`, has more than `MAX_FEATURES` features or one that is not a polygon, or
    is in a reference system that it does not declare by an EPSG code or OGC:CRS84. The message
    begins with the path.
    """
    layer, crs = _read(path, _POLYGONS, select)
    return Layer(_to_wgs84(path, layer.geometries, crs), layer.properties)


def _read(path: Path, kind: _Kind, select: Selection) -> tuple[Layer, str]:
    """Return the features of a file, and the reference system that it declares."""
    try:
        if not path.is_file():
            raise InputError(f"{path} cannot be read: it is {_not_a_file(path)}")
        _check_size(path, path.stat().st_size)
        with path.open("rb") as stream:
            start = stream.read(64)
        reader = _reader_of(path, start)
        if reader is None:
            raise InputError(
                f"{path} is not GeoJSON, GeoParquet, a GeoPackage, a shapefile (.shp) or a zip "
                f"with a shapefile (it begins with {shortened(repr(start[:16]))}): convert it to "
                "one of these"
            )
        return reader(path, kind, select)
    except OSError as error:
        if is_out_of_memory(error):
            raise
        raise InputError(f"{path} cannot be read ({error.strerror or error})") from error


def _not_a_file(path: Path) -> str:
    if path.is_dir():
        return "a folder; name the file in it, such as the .shp of a shapefile"
    return "not a regular file" if path.exists() else "missing"


def _check_size(path: Path, size: int) -> None:
    if size > MAX_BYTES:
        raise InputError(
            f"{path} has {size:,} bytes unpacked, more than the {MAX_BYTES:,} that are read: "
            "simplify it, or split it"
        )


def _check_count(path: Path, kind: _Kind, count: int) -> None:
    if count > MAX_FEATURES:
        raise InputError(
            f"{path} has {count:,} {kind.plural} or more, more than the {MAX_FEATURES:,} that are "
            f"read: {kind.remedy}"
        )


def _reader_of(
    path: Path, start: bytes
) -> Callable[[Path, _Kind, Selection], tuple[Layer, str]] | None:
    """Return the reader of a file's format, None if it has another."""
    if start.startswith(b"PAR1"):
        return _read_geoparquet
    if start.startswith(b"SQLite format 3\0"):
        return _read_geopackage
    if start.startswith(b"PK\3\4"):
        return _read_zipped_shapefile
    if start.startswith(struct.pack(">I", 9994)) and path.suffix.lower() == ".shp":
        return _read_shapefile
    if start.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{"):
        return _read_geojson
    return None


def _read_geojson(path: Path, kind: _Kind, select: Selection) -> tuple[Layer, str]:
    features, crs = read_features(path, str(path))
    _check_count(path, kind, len(features))
    geometries = np.array([feature.geometry for feature in features], dtype=object)
    for number, geometry in enumerate(geometries, start=1):
        if geometry is not None and geometry.geom_type not in kind.types:
            raise _wrong_type(path, kind, number, geometry.geom_type)
    names = list(dict.fromkeys(name for feature in features for name in feature.properties))
    properties = {
        name: [feature.properties.get(name) for feature in features] for name in select(names)
    }
    return Layer(geometries, properties), crs


def _read_geoparquet(path: Path, kind: _Kind, select: Selection) -> tuple[Layer, str]:
    try:
        with pq.ParquetFile(path, **CHECKED) as file:
            metadata, schema = file.metadata, file.schema
            flat = {schema.column(index).path for index in range(len(schema))}
            # Lists and records are neither ids nor names.
            names = [name for name in file.schema_arrow.names if name in flat]
            geometry, crs = _geoparquet_column(path, metadata.metadata or {}, names)
        selected = list(select([name for name in names if name != geometry]))
        # A small file may repeat a long value in many rows. A dictionary holds it once.
        columns = [geometry, *selected]
        with pq.ParquetFile(path, read_dictionary=columns, **CHECKED) as file:
            _check_count(path, kind, metadata.num_rows)
            _check_size(path, _uncompressed_size(metadata, set(columns)))
            rows = list(
                _limited(
                    path,
                    kind,
                    (
                        tuple(value.as_py() for value in row)
                        for batch in file.iter_batches(1 << 14, columns=columns)
                        for row in zip(*(batch[column] for column in columns), strict=True)
                    ),
                )
            )
    except InputError:
        raise
    except (pa.ArrowException, LookupError, ValueError, OverflowError, OSError) as error:
        if is_out_of_memory(error):
            raise
        raise InputError(f"{path} cannot be read as GeoParquet ({one_line(str(error))})") from error
    return _layer_of_rows(path, kind, rows, selected), crs


def _geoparquet_column(
    path: Path, metadata: Mapping[bytes, bytes], names: Sequence[str]
) -> tuple[str, str]:
    """Return the column of the geometries and their reference system."""
    if b"geo" not in metadata:
        raise InputError(
            f"{path} is Parquet, but not GeoParquet: it has no metadata 'geo'; write it with "
            "geopandas or a GIS"
        )
    try:
        geo = json.loads(metadata[b"geo"])
        name = geo["primary_column"]
        column = geo["columns"][name]
        encoding, edges = column["encoding"], column.get("edges", "planar")
        crs = column.get("crs", "OGC:CRS84")
        if isinstance(crs, dict):
            # The rest of the definition may name grids, and PROJ must not see it.
            authority = crs.get("id") or {}
            crs = f"{authority.get('authority')}:{authority.get('code')}" if authority else ""
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise InputError(f"{path} has malformed GeoParquet metadata ({error!r:.200})") from error
    if name not in names:
        raise InputError(f"{path} has no column {name!r}, which its GeoParquet metadata names")
    if encoding != "WKB":
        raise InputError(
            f"{path} encodes geometries as {encoding!r:.100}: write it again with encoding WKB"
        )
    if edges != "planar":
        raise InputError(
            f"{path} has {edges!r:.100} edges, and only planar ones are read: densify them and "
            "write it again with planar edges"
        )
    return name, crs if isinstance(crs, str) else ""


def _uncompressed_size(metadata: Any, columns: set[str]) -> int:
    groups = (metadata.row_group(index) for index in range(metadata.num_row_groups))
    chunks = (group.column(index) for group in groups for index in range(group.num_columns))
    return sum(chunk.total_uncompressed_size for chunk in chunks if chunk.path_in_schema in columns)


def _limited(path: Path, kind: _Kind, rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Yield rows; raise an error once they are too many, or too large in total."""
    size = 0
    for count, row in enumerate(rows, start=1):
        _check_count(path, kind, count)
        size += sum(len(value) for value in row if isinstance(value, bytes | str))
        _check_size(path, size)
        yield row


def _read_geopackage(path: Path, kind: _Kind, select: Selection) -> tuple[Layer, str]:
    for suffix in ("-wal", "-journal"):
        beside = path.with_name(path.name + suffix)
        if beside.is_file() and beside.stat().st_size:
            raise InputError(
                f"{path} is being written ({beside.name} is not empty): close the program that "
                "uses it"
            )
    # SQLite must not look for files beside the database, not even for those two.
    address = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(address, uri=True)) as database:
            database.execute("PRAGMA trusted_schema=OFF")
            database.execute("PRAGMA cell_size_check=ON")
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_BYTES)
            database.set_authorizer(_may_only_read)
            return _geopackage_layer(path, kind, database, select)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise InputError(
            f"{path} cannot be read as a GeoPackage ({one_line(str(error))})"
        ) from error


def _may_only_read(action: int, name: str | None, *_: object) -> int:
    allowed = action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ) or (
        action == sqlite3.SQLITE_PRAGMA and name in ("table_list", "table_xinfo")
    )
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def _geopackage_layer(
    path: Path, kind: _Kind, database: sqlite3.Connection, select: Selection
) -> tuple[Layer, str]:
    tables = {row[1] for row in database.execute("PRAGMA table_list") if row[2] == "table"}
    for name in ("gpkg_contents", "gpkg_geometry_columns", "gpkg_spatial_ref_sys"):
        if name not in tables:
            raise InputError(f"{path} is SQLite, but not a GeoPackage: it has no table {name}")
    layers = database.execute(
        "SELECT c.table_name, g.column_name, g.geometry_type_name, s.organization,"
        " s.organization_coordsys_id FROM gpkg_contents c"
        " JOIN gpkg_geometry_columns g ON g.table_name = c.table_name"
        " LEFT JOIN gpkg_spatial_ref_sys s ON s.srs_id = g.srs_id"
        " WHERE c.data_type = 'features'"
    ).fetchmany(_MAX_LISTED)
    suitable = [layer for layer in layers if str(layer[2]).upper() in kind.geopackage]
    if len(suitable) != 1:
        raise InputError(
            f"{path} must have exactly one layer of {kind.plural}, got "
            f"{listed(str(layer[0]) for layer in layers)}: save the layer to use as a file"
        )
    table, geometry, _, organization, code = suitable[0]
    if table not in tables:
        raise InputError(
            f"{path} has the layer {shortened(repr(table))}, which is a view or is missing, and "
            "only tables are read: save the layer as a file"
        )
    columns = {
        row[1]: row[6] == 0 for row in database.execute(f"PRAGMA table_xinfo({_quoted(table)})")
    }
    if not columns.get(geometry):
        raise InputError(
            f"{path} has no stored column {shortened(repr(geometry))}, which should have the "
            f"geometries of {shortened(repr(table))}"
        )
    names = [name for name, stored in columns.items() if stored and name != geometry]
    selected = list(select(names))
    rows = database.execute(
        f"SELECT {', '.join(map(_quoted, [geometry, *selected]))} FROM {_quoted(table)}"
        " ORDER BY rowid"
    )
    read = [
        (_wkb_of_geopackage(path, number, row[0]), *row[1:])
        for number, row in enumerate(_limited(path, kind, rows), start=1)
    ]
    return _layer_of_rows(path, kind, read, selected), f"{organization}:{code}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _wkb_of_geopackage(path: Path, number: int, blob: object) -> bytes | None:
    """Remove the header of GeoPackage from a geometry."""
    if blob is None:
        return None
    if isinstance(blob, bytes) and len(blob) >= 8 and blob.startswith(b"GP\0"):
        envelope = blob[3] >> 1 & 7
        if envelope < len(_GEOPACKAGE_ENVELOPES):
            return blob[8 + _GEOPACKAGE_ENVELOPES[envelope] :]
    raise _damaged(path, number)


def _read_shapefile(path: Path, kind: _Kind, select: Selection) -> tuple[Layer, str]:
    members = {member.suffix.lower(): member for member in parts(path)}
    members[".shp"] = path
    _check_size(path, sum(member.stat().st_size for member in members.values()))
    openers = {suffix: member.open for suffix, member in members.items()}
    return _read_members(path, kind, openers, select)


def _read_zipped_shapefile(path: Path, kind: _Kind, select: Selection) -> tuple[Layer, str]:
    try:
        with zipfile.ZipFile(path) as archive:
            members = _zip_members(path, archive.infolist())
            _check_size(path, sum(member.file_size for member in members.values()))
            if any(member.flag_bits & 1 for member in members.values()):
                raise InputError(f"{path} is encrypted: unpack it")
            openers = {
                suffix: lambda mode, member=member: archive.open(member, mode[0])
                for suffix, member in members.items()
            }
            return _read_members(path, kind, openers, select)
    except (
        *(zipfile.BadZipFile, NotImplementedError, EOFError),
        *(zlib.error, lzma.LZMAError),
    ) as error:
        raise InputError(f"{path} cannot be read as a zip ({one_line(str(error))})") from error


def _zip_members(path: Path, infos: Iterable[zipfile.ZipInfo]) -> dict[str, zipfile.ZipInfo]:
    """Return the members of the only shapefile in a zip by their lower-case suffixes."""
    named = [(PurePosixPath(info.filename.replace("\\", "/")), info) for info in infos]
    for name, _ in named:
        if name.is_absolute() or ".." in name.parts or ":" in str(name).partition("/")[0]:
            raise InputError(
                f"{path} has a member outside its own folder, {shortened(repr(str(name)))}: "
                "pack it again"
            )
    # macOS adds a hidden file of its own for each file.
    visible = [
        (name, info)
        for name, info in named
        if name.suffix and not name.name.startswith(".") and "__MACOSX" not in name.parts
    ]
    shapefiles = [name for name, _ in visible if name.suffix.lower() == ".shp"]
    if len(shapefiles) != 1:
        raise InputError(
            f"{path} must contain exactly one shapefile (.shp), got "
            f"{listed(str(name) for name in shapefiles)}: pack one with its .shx, .dbf and .prj"
        )
    stem = shapefiles[0].with_suffix("")
    return {
        name.suffix.lower(): info
        for name, info in visible
        if name.with_suffix("") == stem and name.suffix.lower() in SHAPEFILE_SUFFIXES
    }


def _read_members(
    path: Path, kind: _Kind, members: Mapping[str, Callable[[Any], IO[bytes]]], select: Selection
) -> tuple[Layer, str]:
    """Read a shapefile from copies of its files."""
    for suffix in (".shx", ".dbf", ".prj"):
        if suffix not in members:
            use = ", which declares its reference system" if suffix == ".prj" else ""
            raise InputError(f"{path} has no {suffix}{use}: put it beside the .shp")
    with TemporaryDirectory() as name:
        folder = Path(name)
        for suffix, opened in members.items():
            with opened("rb") as source, (folder / f"layer{suffix}").open("wb") as copy:
                shutil.copyfileobj(source, copy)
        _check_shapefile(path, kind, folder / "layer.shp", folder / "layer.shx")
        _check_text(path, folder / "layer.prj", _PRJ, "WKT of an ellipsoid and a projection")
        if ".cpg" in members:
            _check_text(path, folder / "layer.cpg", _CPG, "the name of an encoding")
        table = _table_of_shapefile(path, folder / "layer.shp", folder / "layer.arrow")
    selected = list(select([name for name in table.column_names if name != "geometry"]))
    columns = [table[name].to_pylist() for name in ("geometry", *selected)]
    crs = table.schema.metadata[b"crs"].decode()
    return _layer_of_rows(path, kind, list(zip(*columns, strict=True)), selected), crs


def _check_shapefile(path: Path, kind: _Kind, shapes: Path, index: Path) -> None:
    """Check what GDAL does not: the type, and that no shape is in the index many times."""
    with shapes.open("rb") as stream:
        header = stream.read(_SHAPEFILE_HEADER)
    if len(header) < _SHAPEFILE_HEADER or not header.startswith(struct.pack(">I", 9994)):
        raise InputError(f"{path} is not a shapefile: its .shp has no valid header")
    (code,) = struct.unpack_from("<i", header, 32)
    if code not in kind.shapefile:
        name = _SHAPEFILE_KINDS.get(code % 10 if code < 31 else code, f"shapes of type {code}")
        raise InputError(
            f"{path} contains {name}, not {kind.plural}: choose a file of {kind.plural}"
        )
    records = np.fromfile(index, dtype=">i4", offset=_SHAPEFILE_HEADER)
    _check_count(path, kind, len(records) // 2)
    if 2 * records[1::2].sum(dtype=np.int64) > shapes.stat().st_size or np.any(records < 0):
        raise InputError(
            f"{path} has a damaged index: its .shx describes more than is in its .shp; export "
            "it again"
        )


def _check_text(path: Path, member: Path, accepted: re.Pattern[str], meaning: str) -> None:
    """Check a text before it reaches a library that may open files named in it."""
    content = member.read_bytes()[: _MAX_TEXT_BYTES + 1]
    text = content.decode("utf-8-sig", errors="replace")
    if len(content) > _MAX_TEXT_BYTES or not accepted.fullmatch(text):
        raise InputError(
            f"{path}: its {member.suffix} must be {meaning} in at most {_MAX_TEXT_BYTES:,} bytes, "
            f"got {shortened(repr(text))}: export it again in WGS 84 (EPSG:4326) and UTF-8"
        )


def _table_of_shapefile(path: Path, source: Path, destination: Path) -> Any:
    import pyogrio

    other_drivers = ",".join(name for name in pyogrio.list_drivers() if name != "ESRI Shapefile")
    script = Path(__file__).with_name("shapefile_process.py")
    try:
        process = subprocess.run(
            [sys.executable, "-P", str(script), str(source), str(destination)],
            cwd=source.parent,
            env={
                **os.environ,
                "GDAL_SKIP": other_drivers,
                "GDAL_DRIVER_PATH": "disable",
                "PROJ_NETWORK": "OFF",
            },
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_MAX_GDAL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise InputError(
            f"{path} cannot be read as a shapefile within {_MAX_GDAL_SECONDS} seconds: export it "
            "again, or simplify it"
        ) from error
    if process.returncode:
        lines = process.stderr.strip().splitlines() or [f"GDAL ended with {process.returncode}"]
        raise InputError(f"{path} cannot be read as a shapefile ({one_line(lines[-1])})")
    with pa.OSFile(str(destination)) as stream:
        return pa.ipc.open_file(stream).read_all()


def _layer_of_rows(
    path: Path, kind: _Kind, rows: Sequence[tuple[Any, ...]], selected: Sequence[str]
) -> Layer:
    """Return a layer from rows of WKB and the values of the selected properties."""
    columns: Sequence[Sequence[Any]] = list(zip(*rows, strict=True)) or [[]] * (1 + len(selected))
    return Layer(_decoded(path, kind, columns[0]), dict(zip(selected, columns[1:], strict=True)))


def _decoded(path: Path, kind: _Kind, blobs: Sequence[object]) -> NDArray[np.object_]:
    """Decode geometries from WKB; a missing one stays None."""
    for number, blob in enumerate(blobs, start=1):
        if blob is None:
            continue
        try:
            name = _type_of_wkb(blob)
        except (struct.error, IndexError, TypeError, ValueError):
            raise _damaged(path, number) from None
        if name not in kind.types:
            raise _wrong_type(path, kind, number, name)
    with np.errstate(invalid="ignore"):  # a coordinate that is not a number is refused later
        geometries = shapely.from_wkb(np.array(blobs, dtype=object), on_invalid="ignore")
    for index in np.flatnonzero(shapely.is_missing(geometries)).tolist():
        if blobs[index] is not None:
            raise _damaged(path, index + 1)
    flat: NDArray[np.object_] = shapely.force_2d(geometries)
    return flat


def _damaged(path: Path, number: int) -> InputError:
    return InputError(f"{path}: the geometry of feature {number} is damaged: export the file again")


def _wrong_type(path: Path, kind: _Kind, number: int, name: str) -> InputError:
    return InputError(
        f"{path}: feature {number} is a {name}, not a {' or '.join(kind.types)}: remove it, or "
        f"choose a file of {kind.plural}"
    )


def _type_of_wkb(blob: Any) -> str:
    """Return the type of a geometry in WKB; check that a multipolygon has only polygons.

    Raises `struct.error`, `IndexError`, `TypeError` or `ValueError` if the bytes end too early, are
    not WKB or not bytes, or nest geometries in a multipolygon.
    """
    order, kind, _, position = _wkb_header(blob, 0)
    if kind == _WKB_MULTIPOLYGON:
        (polygons,) = struct.unpack_from(order + "I", blob, position)
        position += 4
        for _ in range(polygons):
            order, part, dimensions, position = _wkb_header(blob, position)
            if part != _WKB_POLYGON:
                raise ValueError(f"a multipolygon contains a geometry of type {part}")
            (rings,) = struct.unpack_from(order + "I", blob, position)
            position += 4
            for _ in range(rings):
                (points,) = struct.unpack_from(order + "I", blob, position)
                position += 4 + 8 * dimensions * points
    return _WKB_KINDS[kind] if 0 < kind < len(_WKB_KINDS) else f"geometry of type {kind}"


def _wkb_header(blob: Any, position: int) -> tuple[str, int, int, int]:
    """Return byte order, type, dimensions and the position after the header, as GEOS reads it."""
    order = {0: ">", 1: "<"}.get(blob[position])
    if order is None:
        raise ValueError("the byte order is neither 0 nor 1")
    (code,) = struct.unpack_from(order + "I", blob, position + 1)
    thousands, kind = divmod(code & 0xFFFF, 1000)
    has_z = bool(code & 0x80000000) or thousands in (1, 3)
    has_m = bool(code & 0x40000000) or thousands in (2, 3)
    has_srid = bool(code & 0x20000000)
    return order, kind, 2 + has_z + has_m, position + 5 + 4 * has_srid


def _epsg_code(path: Path, crs: str) -> int | None:
    """Return the EPSG code that a file declares, None for WGS 84."""
    match = _CRS_CODE.fullmatch(crs)
    if not match:
        declared = f"declares {shortened(repr(crs))}" if crs else "does not declare its system"
        raise InputError(
            f"{path} {declared}, but must declare a reference system by an EPSG code or be in "
            "OGC:CRS84: convert it to longitude and latitude in WGS 84 (EPSG:4326)"
        )
    code = None if match[2] is None else int(match[2])
    return None if code == int(WGS84.removeprefix("EPSG:")) else code


def _to_wgs84(path: Path, geometries: NDArray[np.object_], crs: str) -> NDArray[np.object_]:
    code = _epsg_code(path, crs)
    if code is None:
        return geometries
    from pyproj import CRS, Transformer, network
    from pyproj.exceptions import ProjError

    online = network.is_network_enabled()
    network.set_network_enabled(False)
    try:
        system = CRS.from_authority("EPSG", code)
        if not (system.is_geographic or system.is_projected):
            raise InputError(
                f"{path} declares EPSG:{code} ({system.name}), which is neither geographic nor "
                "projected: convert it to longitude and latitude in WGS 84 (EPSG:4326)"
            )
        transformer = Transformer.from_crs(system, WGS84, always_xy=True, allow_ballpark=False)
        converted: NDArray[np.object_] = shapely.transform(
            geometries, transformer.transform, interleaved=False
        )
    except ProjError as error:
        raise InputError(
            f"{path} declares EPSG:{code}, which cannot be converted to WGS 84 "
            f"({one_line(str(error))}): convert it in a GIS"
        ) from error
    finally:
        network.set_network_enabled(online)
    return converted


def listed(names: Iterable[str]) -> str:
    """Return up to twenty names as text for a message, or ``none`` if there are none."""
    shown = [shortened(repr(name)) for name in names]
    return ", ".join([*shown[:_MAX_LISTED], *["..."] * (len(shown) > _MAX_LISTED)]) or "none"
