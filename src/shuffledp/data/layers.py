"""Read polygons or points from untrusted files of geographic formats.

Content decides the format of a file, never its name: GeoJSON (also packed, one feature a line, or
as a text sequence), GeoParquet, GeoPackage, FlatGeobuf, or a shapefile, plain or zipped. What a
file says is data: no file name, address or definition of a reference system in it is followed.

- GeoJSON is parsed as JSON.
- All other formats are read by a process of its own (`layer_process`), whose GDAL has no driver but
  the one for the format, and which sees copies under fixed names in an empty folder. So no name of
  the input reaches GDAL or the file system, and a file that crashes a library ends only that
  process. It returns points and polygons without nesting.
- A GeoPackage is an SQLite database, whose views and generated columns GDAL would run. One that has
  any is refused.
- Definitions of reference systems can name grids and other files, which PROJ would open. Systems
  are therefore looked up by their codes; a shapefile's definition may contain nothing but words for
  ellipsoid and projection.
"""

import gzip
import json
import os
import re
import shutil
import sqlite3
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import pyarrow as pa
import shapely
from numpy.typing import NDArray
from shapely.errors import ShapelyError
from shapely.geometry import shape

from shuffledp.data.systems import epsg_code
from shuffledp.errors import InputError, is_out_of_memory, one_line, shortened
from shuffledp.numerics.arrays import Floats
from shuffledp.pipeline.files import SHAPEFILE_SUFFIXES, parts

MAX_FEATURES: Final = 1_000_000
MAX_BYTES: Final = 1 << 29  # of a file or of all files of a shapefile, unpacked
POLYGONS: Final = ("Polygon", "MultiPolygon")
POINTS: Final = ("Point",)

_MAX_PROCESS_SECONDS: Final = 600
_MAX_LISTED: Final = 20  # names in a message
_DRIVERS: Final = {".gpkg": "GPKG", ".fgb": "FlatGeobuf", ".shp": "ESRI Shapefile"}
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
_GRIDS: Final = re.compile(rb"nadgrids\s*=|(EXTENSION|BOUNDCRS|PARAMETERFILE)\s*\[", re.IGNORECASE)
_RTREE: Final = re.compile(
    r'\s*CREATE\s+VIRTUAL\s+TABLE\s+("(?:[^"]|"")*"|\w+)\s+USING\s+rtree\s*\(', re.IGNORECASE
)


@dataclass(frozen=True)
class Layer:
    """Features of a file in its order.

    ``geometries`` are shapely's, in two dimensions and not checked for validity; None if a feature
    has none. ``names`` are those of all properties of the file; ``properties`` has the values of
    those that were asked for, as Arrow arrays. ``crs`` is the reference system that the file
    declares, such as ``EPSG:2154``, None for WGS 84.
    """

    geometries: NDArray[np.object_]
    names: list[str]
    properties: Mapping[str, Any]
    crs: str | None


def point_coordinates(points: NDArray[np.object_]) -> Floats:
    """Return x and y of each point, shape ``(points, 2)``; NaN if it is missing or empty."""
    known = ~(shapely.is_missing(points) | shapely.is_empty(points))
    coordinates = np.full((len(points), 2), np.nan)
    coordinates[known] = shapely.get_coordinates(points[known])
    return coordinates


def read_layer(path: Path, types: tuple[str, ...], wanted: Sequence[str]) -> Layer:
    """Read the features of a file, which must be of the given types, and the wanted properties.

    A shapefile is named by its .shp, beside which are .shx, .dbf, .prj and perhaps .cpg, or is the
    only one in a zip. A GeoPackage has one layer of these types. The id of a GeoJSON feature is its
    property ``id`` unless it has another. Raises `InputError` if the file is missing, damaged, of
    another format, larger than `MAX_BYTES`, has more than `MAX_FEATURES` features or one of another
    type, or does not declare its system by an EPSG code or OGC:CRS84. The message begins with the
    path.
    """
    try:
        if not path.is_file():
            what = "not a regular file" if path.exists() else "missing"
            if path.is_dir():
                what = "a folder; name the file in it, such as the .shp of a shapefile"
            raise InputError(f"{path} cannot be read: it is {what}")
        _check_size(path, sum(part.stat().st_size for part in parts(path)))
        with path.open("rb") as stream:
            start = stream.read(64)
        if start.startswith((b"\x1f\x8b", b"{", b"[", b"\x1e", b"\xef\xbb\xbf", b" ", b"\n")):
            return _geojson_layer(path, types, wanted)
        with TemporaryDirectory() as name:
            copy = _copied(path, start, Path(name))
            return _layer_by_process(path, copy, types, wanted)
    except OSError as error:
        if is_out_of_memory(error):
            raise
        raise InputError(f"{path} cannot be read ({error.strerror or error})") from error


def _check_size(path: Path, size: int) -> None:
    if size > MAX_BYTES:
        raise InputError(
            f"{path} has {size:,} bytes unpacked, more than the {MAX_BYTES:,} that are read: "
            "simplify it, split it, or write points as Parquet with columns of coordinates"
        )


def _check_count(path: Path, count: int) -> None:
    if count > MAX_FEATURES:
        raise InputError(
            f"{path} has {count:,} features, more than the {MAX_FEATURES:,} that are read: merge "
            "polygons, or write points as Parquet with columns of coordinates"
        )


def _declared(path: Path, crs: str) -> str | None:
    try:
        code = epsg_code(crs)
    except InputError as error:
        declared = f"declares {shortened(repr(crs))}" if crs else "does not declare its system"
        raise InputError(
            f"{path} {declared}, but must declare a reference system by an EPSG code or be in "
            "OGC:CRS84: convert it, for example by ogr2ogr -t_srs EPSG:4326 converted.gpkg "
            f"{path.name}"
        ) from error
    return None if code is None else f"EPSG:{code}"


# --- GeoJSON --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shape:
    """A two-dimensional shapely geometry, None if missing, with the properties of its feature."""

    geometry: Any
    properties: Mapping[str, Any]


def _geojson_layer(path: Path, types: tuple[str, ...], wanted: Sequence[str]) -> Layer:
    features, crs = read_features(path, str(path))
    _check_count(path, len(features))
    for number, feature in enumerate(features, start=1):
        if feature.geometry is not None and feature.geometry.geom_type not in types:
            raise InputError(
                f"{path}: feature {number} is a {feature.geometry.geom_type}, not a "
                f"{' or '.join(types)}: remove it, or choose another file"
            )
    names = list(dict.fromkeys(name for feature in features for name in feature.properties))
    properties = {
        name: pa.array(
            [_text(path, name, number, each) for number, each in enumerate(features, start=1)],
            pa.binary(),
        )
        for name in dict.fromkeys(wanted)
        if name in names
    }
    geometries = np.array([feature.geometry for feature in features], dtype=object)
    return Layer(geometries, names, properties, _declared(path, crs))


def _text(path: Path, name: str, number: int, feature: Shape) -> bytes | None:
    """Return a property as it would be written in a text file."""
    value = feature.properties.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        raise InputError(
            f"{path}: {name!r} of feature {number} must be a text or number, got "
            f"{shortened(repr(value))}"
        )
    if isinstance(value, float):
        if abs(value) >= 2.0**53:
            raise InputError(
                f"{path}: {name!r} of feature {number} is a number of 2**53 or more with a decimal "
                "point or exponent, of which different ones may be the same: write it as a text"
            )
        if value.is_integer():
            value = int(value)  # programs for tables write integers as 75101.0
    return str(value).encode(errors="surrogatepass")  # JSON may have half of a surrogate pair


def read_features(path: Path, where: str) -> tuple[list[Shape], str]:
    """Read all features of a GeoJSON file, in their order, and the name of its reference system.

    The file has a geometry, a feature, a collection, or several of them, one after the other, and
    may be packed with gzip. Coordinates are as in the file. The name of the system is as in the
    file, on one line, or ``OGC:CRS84`` if the file has none. Error messages begin with `where`,
    which names the file. Raises `InputError` if the file is missing or not GeoJSON.
    """
    try:
        content = path.read_bytes()
        if content.startswith(b"\x1f\x8b"):
            with gzip.open(path) as stream:
                content = stream.read(MAX_BYTES + 1)
        _check_size(path, len(content))
        documents = list(_documents(content.decode("utf-8-sig")))
    except InputError:
        raise
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{where} cannot be read ({reason})") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where} is not GeoJSON ({error})") from error
    if not all(isinstance(each, dict) and "type" in each for each in documents) or not documents:
        raise InputError(f"{where} is not GeoJSON: it has no type")
    try:
        systems = {_crs(each) for each in documents}
        features = [feature for each in documents for feature in _features(each)]
    except (
        *(LookupError, TypeError, AttributeError, ValueError, ShapelyError),
        *(OverflowError, RecursionError),
    ) as error:
        raise InputError(f"{where} is not GeoJSON: it is malformed ({error!r:.200})") from error
    if len(systems) > 1:
        raise InputError(f"{where} declares several reference systems: {listed(systems)}")
    return features, systems.pop()


def _documents(text: str) -> Iterator[Any]:
    """Yield the JSON documents of a text, which may begin with the character RS."""
    decoder = json.JSONDecoder(parse_constant=_refuse)
    position = 0
    while match := re.compile(r"[\s\x1e]*(?=[^\s\x1e])").match(text, position):
        document, position = decoder.raw_decode(text, match.end())
        yield document


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a JSON number")


def _crs(document: Mapping[str, Any]) -> str:
    crs = document.get("crs")
    name = "OGC:CRS84" if crs is None else str(crs.get("properties", {}).get("name", crs))
    return " ".join(name.split())


def _features(node: Mapping[str, Any]) -> Iterator[Shape]:
    kind = node["type"]
    if kind == "FeatureCollection":
        for child in node["features"]:
            yield from _features(child)
    elif kind == "Feature":
        geometry = node["geometry"]
        identifier = {"id": node["id"]} if "id" in node else {}
        yield Shape(
            None if geometry is None else shapely.force_2d(shape(geometry)),
            identifier | dict(node.get("properties") or {}),
        )
    else:
        yield Shape(shapely.force_2d(shape(node)), {})


# --- Other formats --------------------------------------------------------------------------


def _copied(path: Path, start: bytes, folder: Path) -> Path:
    """Copy a file, or those of a shapefile, under fixed names, having checked what GDAL does not.

    The suffix of the result tells the format.
    """
    if start.startswith(b"PK\3\4"):
        _unzip_shapefile(path, folder)
        return _checked_shapefile(path, folder / "layer.shp")
    if start.startswith(struct.pack(">I", 9994)):
        for part in parts(path):
            shutil.copyfile(part, folder / f"layer{part.suffix.lower()}")
        return _checked_shapefile(path, folder / "layer.shp")
    for magic, suffix in (
        (b"PAR1", ".parquet"),
        (b"SQLite format 3\0", ".gpkg"),
        (b"fgb\3", ".fgb"),
    ):
        if start.startswith(magic):
            if suffix == ".gpkg":
                _check_geopackage(path)
            copy = folder / f"layer{suffix}"
            shutil.copyfile(path, copy)
            if suffix == ".fgb":
                _check_flatgeobuf(path, copy)
            return copy
    raise InputError(
        f"{path} is not GeoJSON, GeoParquet, GeoPackage, FlatGeobuf, a shapefile (.shp) or a zip "
        f"with a shapefile (it begins with {shortened(repr(start[:16]))}): convert it, for example "
        f"by ogr2ogr converted.gpkg {path.name}"
    )


def _check_geopackage(path: Path) -> None:
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
            tables = database.execute("PRAGMA table_list").fetchall()
            definitions = dict(database.execute("SELECT name, sql FROM sqlite_master"))
            coded = [
                name
                for _, name, kind, *_ in tables
                if kind == "view"
                or (kind == "virtual" and not _RTREE.match(str(definitions.get(name))))
                or any(
                    hidden in (2, 3)
                    for *_, hidden in database.execute(f"PRAGMA table_xinfo({_quoted(name)})")
                )
            ]
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise InputError(
            f"{path} cannot be read as a GeoPackage ({one_line(str(error))})"
        ) from error
    if coded:
        raise InputError(
            f"{path} has {shortened(repr(coded[0]))}, a view, a virtual table or a table with "
            "computed columns, whose code would run: save the layer as a file of its own"
        )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _check_flatgeobuf(path: Path, copy: Path) -> None:
    with copy.open("rb") as stream:
        stream.seek(8)
        (size,) = struct.unpack("<I", stream.read(4).ljust(4, b"\0"))
        header = stream.read(min(size, MAX_BYTES))
    if _GRIDS.search(header):
        raise InputError(
            f"{path} has a reference system that names other files: convert it, for example by "
            f"ogr2ogr -t_srs EPSG:4326 converted.gpkg {path.name}"
        )


def _unzip_shapefile(path: Path, folder: Path) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            members = _zip_members(path, archive.infolist())
            _check_size(path, sum(member.file_size for member in members.values()))
            if any(member.flag_bits & 1 for member in members.values()):
                raise InputError(f"{path} is encrypted: unpack it")
            for suffix, member in members.items():
                with archive.open(member) as source, (folder / f"layer{suffix}").open("wb") as copy:
                    shutil.copyfileobj(source, copy)
    except (zipfile.BadZipFile, NotImplementedError, EOFError, zlib.error, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} cannot be read as a zip ({one_line(str(error))})") from error


def _zip_members(path: Path, infos: Iterable[zipfile.ZipInfo]) -> dict[str, zipfile.ZipInfo]:
    """Return the members of the only shapefile in a zip by their lower-case suffixes."""
    named = [(PurePosixPath(info.filename.replace("\\", "/")), info) for info in infos]
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
            f"{listed(str(name) for name in shapefiles)}: unpack it, and name the file to use"
        )
    stem = shapefiles[0].with_suffix("")
    return {
        name.suffix.lower(): info
        for name, info in visible
        if name.with_suffix("") == stem and name.suffix.lower() in SHAPEFILE_SUFFIXES
    }


def _checked_shapefile(path: Path, shapes: Path) -> Path:
    for suffix in (".shp", ".shx", ".dbf", ".prj"):
        if not shapes.with_suffix(suffix).exists():
            use = ", which declares its reference system" if suffix == ".prj" else ""
            raise InputError(f"{path} has no {suffix}{use}: put it beside the .shp")
    # GDAL does not check that no shape is in the index many times.
    records = np.fromfile(shapes.with_suffix(".shx"), dtype=">i4", offset=100)
    _check_count(path, len(records) // 2)
    if 2 * records[1::2].sum(dtype=np.int64) > shapes.stat().st_size or np.any(records < 0):
        raise InputError(
            f"{path} has a damaged index: its .shx describes more than is in its .shp; export "
            "it again"
        )
    for suffix, accepted, meaning in (
        (".prj", _PRJ, "WKT of an ellipsoid and a projection"),
        (".cpg", _CPG, "the name of an encoding"),
    ):
        member = shapes.with_suffix(suffix)
        content = member.read_bytes()[: _MAX_TEXT_BYTES + 1] if member.exists() else b""
        text = content.decode("utf-8-sig", errors="replace")
        if content and not (len(content) <= _MAX_TEXT_BYTES and accepted.fullmatch(text)):
            raise InputError(
                f"{path}: its {suffix} must be {meaning} in at most {_MAX_TEXT_BYTES:,} bytes, got "
                f"{shortened(repr(text))}: export it again in WGS 84 (EPSG:4326) and UTF-8"
            )
    return shapes


def _layer_by_process(
    path: Path, copy: Path, types: tuple[str, ...], wanted: Sequence[str]
) -> Layer:
    import pyogrio

    driver = _DRIVERS.get(copy.suffix, "")
    skipped = ",".join(name for name in pyogrio.list_drivers() if name != driver)
    job = {
        "source": copy.name,
        "driver": driver,
        "types": types,
        "wanted": list(dict.fromkeys(wanted)),
        "max_features": MAX_FEATURES,
        "max_bytes": MAX_BYTES,
    }
    try:
        process = subprocess.run(
            [sys.executable, "-P", str(Path(__file__).with_name("layer_process.py"))],
            input=json.dumps(job),
            cwd=copy.parent,
            env={
                **os.environ,
                "GDAL_SKIP": skipped,
                "GDAL_DRIVER_PATH": "disable",
                "PROJ_NETWORK": "OFF",
            },
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_MAX_PROCESS_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise InputError(
            f"{path} cannot be read within {_MAX_PROCESS_SECONDS} seconds: export it again, or "
            "simplify it"
        ) from error
    if process.returncode:
        ended = f"cannot be read: its reader ended with {process.returncode}"
        reason = one_line((process.stderr.strip().splitlines() or [ended])[-1])
        raise InputError(f"{path}{'' if reason.startswith(':') else ' '}{reason}")
    with pa.OSFile(str(copy.with_name("result.arrow"))) as stream:
        table = pa.ipc.open_file(stream).read_all()
    told = json.loads(table.schema.metadata[b"layer"])
    geometries = shapely.from_wkb(table["geometry"].to_numpy())
    properties = {
        name: table[f"property {name}"].combine_chunks()
        for name in dict.fromkeys(wanted)
        if f"property {name}" in table.column_names
    }
    return Layer(geometries, told["names"], properties, _declared(path, told["crs"]))


def listed(names: Iterable[str]) -> str:
    """Return up to twenty names as text for a message, or ``none`` if there are none."""
    shown = [shortened(repr(name)) for name in names]
    return ", ".join([*shown[:_MAX_LISTED], *["..."] * (len(shown) > _MAX_LISTED)]) or "none"
