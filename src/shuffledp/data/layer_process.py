"""Read an untrusted geographic file in a process of its own; `layers` runs this file as a script.

GDAL reads the list of drivers to leave out only when it is loaded: in a process that has loaded it
already, every driver may try a file, and some follow addresses and file names inside.
"""

import json
import sys
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

ENCODINGS = ("WKB", "point", "polygon", "multipolygon")


def main(job: Mapping[str, Any]) -> None:
    """Write the features of a file as ``result.arrow``.

    Its column ``geometry`` has WKB, and ``property NAME`` the wanted properties; its metadata have
    the names of all properties and the reference system. Raises `SystemExit` if the file cannot be
    read; the message, which follows the path, gives the reason.
    """
    read = _parquet if not job["driver"] else _by_gdal
    geometries, table, names, crs = read(job)
    import shapely

    geometries = shapely.force_2d(geometries)
    found = [geometry.geom_type if geometry is not None else "" for geometry in geometries]
    for number, kind in enumerate(found, start=1):
        if kind and kind not in job["types"]:
            accepted = " or ".join(job["types"])
            sys.exit(
                f": feature {number} is a {kind}, not a {accepted}: remove it, or choose another "
                "file"
            )
    columns = {"geometry": pa.array(shapely.to_wkb(geometries), pa.binary())}
    columns |= {f"property {name}": table[name] for name in job["wanted"] if name in names}
    result = pa.table(columns).replace_schema_metadata(
        {"layer": json.dumps({"names": names, "crs": crs})}
    )
    with pa.OSFile("result.arrow", "wb") as sink, pa.ipc.new_file(sink, result.schema) as writer:
        writer.write_table(result)


def _by_gdal(job: Mapping[str, Any]) -> tuple[Any, Any, list[str], str]:
    import pyogrio
    from pyogrio.errors import DataLayerError, DataSourceError

    if set(pyogrio.list_drivers()) != {job["driver"]}:
        sys.exit(f"cannot be read: GDAL must have the driver {job['driver']} only")
    try:
        layers = pyogrio.list_layers(job["source"]).tolist()
        accepted = {*job["types"], "Unknown", "GeometryCollection"}
        chosen = [name for name, kind in layers if str(kind).split(" ")[0] in accepted]
        if len(layers) == 1:
            chosen = [layers[0][0]]
        if len(chosen) != 1:
            named = ", ".join(repr(name) for name, _ in layers[:20]) or "none"
            sys.exit(
                f"must have exactly one layer of type {' or '.join(job['types'])}, got {named}: "
                "save the layer to use as a file"
            )
        info = pyogrio.read_info(job["source"], layer=chosen[0])
        _check_count(info["features"], job)
        fields, key = info["fields"].tolist(), info["fid_column"]
        meta, table = pyogrio.read_arrow(
            job["source"],
            layer=chosen[0],
            columns=[name for name in job["wanted"] if name in fields],
            return_fids=key in job["wanted"],
        )
        table.validate(full=True)
    except (DataLayerError, DataSourceError) as error:
        sys.exit(f"cannot be read ({error})")
    except pa.ArrowInvalid as error:
        sys.exit(f"cannot be read: its texts are not in the encoding that it declares ({error})")
    blobs = table[meta["geometry_name"] or "wkb_geometry"].combine_chunks()
    return _decoded(_plain(blobs)), table, fields + ([key] if key else []), meta["crs"] or ""


def _parquet(job: Mapping[str, Any]) -> tuple[Any, Any, list[str], str]:
    import pyarrow.parquet as pq

    try:
        # A small file may repeat a long value in many rows. A dictionary holds it once.
        schema = pq.read_schema(job["source"])
        names = schema.names
        texts = [each.name for each in schema if each.type in (pa.string(), pa.binary())]
        with pq.ParquetFile(
            job["source"], read_dictionary=texts, page_checksum_verification=True
        ) as file:
            _check_count(file.metadata.num_rows, job)
            column, encoding, crs = _geometry_column(file)
            names = [each for each in names if each != column]
            wanted = [column, *(each for each in job["wanted"] if each in names)]
            batches = list(_limited(file.iter_batches(4096, columns=wanted), job))
            empty = file.schema_arrow.empty_table().select(wanted)
        table = pa.Table.from_batches(batches, empty.schema).unify_dictionaries()
        geometry = _plain(table[column].combine_chunks())
    except (pa.ArrowException, LookupError, TypeError, ValueError, OSError) as error:
        sys.exit(f"cannot be read as GeoParquet ({error})")
    geometries = _decoded(geometry) if encoding == "WKB" else _native(geometry, encoding)
    return geometries, table, names, crs


def _geometry_column(file: Any) -> tuple[str, str, str]:
    """Return the column of the geometries, its encoding and its reference system."""
    metadata = file.metadata.metadata or {}
    if b"geo" not in metadata:
        sys.exit(
            "is Parquet, but not GeoParquet: it has no metadata 'geo'; write it with geopandas or "
            "a GIS, or name the columns of its coordinates"
        )
    geo = json.loads(metadata[b"geo"])
    name = geo["primary_column"]
    column = geo["columns"][name]
    crs = column.get("crs", "OGC:CRS84")
    if isinstance(crs, dict):
        # The rest of the definition may name grids, and PROJ must not see it.
        authority = crs.get("id") or {}
        crs = f"{authority.get('authority')}:{authority.get('code')}" if authority else ""
    if name not in file.schema_arrow.names:
        sys.exit(f"has no column {name!r}, which its GeoParquet metadata names")
    if column["encoding"] not in ENCODINGS:
        sys.exit(
            f"encodes geometries as {column['encoding']!r:.100}: write it again with encoding WKB"
        )
    if column.get("edges", "planar") != "planar":
        sys.exit(
            f"has {column['edges']!r:.100} edges, and only planar ones are read: densify them and "
            "write it again with planar edges"
        )
    return name, column["encoding"], crs if isinstance(crs, str) else ""


def _check_count(rows: int, job: Mapping[str, Any]) -> None:
    if rows > job["max_features"]:
        sys.exit(f"has {rows:,} features, more than the {job['max_features']:,} that are read")


def _limited(batches: Any, job: Mapping[str, Any]) -> Any:
    """Yield batches; end the process once they are too large in total."""
    size = 0
    for batch in batches:
        size += sum(map(_size, batch.columns))
        if size > job["max_bytes"]:
            sys.exit(f"has more than the {job['max_bytes']:,} bytes that are read: simplify it")
        yield batch


def _size(column: Any) -> int:
    """Return the bytes of a column without dictionary."""
    import pyarrow.compute as pc

    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    lengths = pc.binary_length(column.dictionary).take(column.indices)
    return pc.sum(pc.cast(lengths, pa.int64())).as_py() or 0


def _plain(column: Any) -> Any:
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _native(column: Any, encoding: str) -> Any:
    """Decode the native encodings of GeoParquet 1.1."""
    import geopandas as gpd

    field = pa.field("g", column.type, metadata={"ARROW:extension:name": f"geoarrow.{encoding}"})
    return gpd.GeoDataFrame.from_arrow(
        pa.table([column], schema=pa.schema([field]))
    ).geometry.values


def _decoded(column: Any) -> Any:
    import numpy as np
    import shapely

    blobs = column.to_numpy(zero_copy_only=False)
    with np.errstate(invalid="ignore"):  # a coordinate that is not a number is refused later
        geometries = shapely.from_wkb(blobs, on_invalid="ignore")
    for index in np.flatnonzero(shapely.is_missing(geometries)).tolist():
        if blobs[index] is not None:
            sys.exit(f": the geometry of feature {index + 1} is damaged: export the file again")
    return geometries


if __name__ == "__main__":
    main(json.load(sys.stdin))
