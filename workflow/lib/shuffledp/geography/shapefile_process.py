"""Convert a shapefile to Arrow in a process whose GDAL has no other driver.

`layer_files` runs this file as a script. GDAL reads the list of drivers to leave out only when it
is loaded: in a process that has loaded it already, every driver may try a file, and some follow
addresses and file names inside. A file that crashes GDAL ends only this process.
"""

import sys


def main(source: str, destination: str) -> None:
    """Write the features of a .shp as an Arrow file; its metadata `crs` is empty if unknown.

    The column `geometry` has WKB; the other columns are the properties. Raises `SystemExit` if GDAL
    has another driver, or cannot read the file; the message gives the reason.
    """
    # pyogrio imports these if it can, which takes longer than reading most files.
    for module in ("geopandas", "pandas", "pyproj", "shapely"):
        sys.modules[module] = None  # type: ignore[assignment]
    import pyarrow as pa
    import pyogrio
    from pyogrio.errors import DataLayerError, DataSourceError

    drivers = set(pyogrio.list_drivers())
    if drivers != {"ESRI Shapefile"}:
        sys.exit(f"GDAL must have only the driver of shapefiles, got {', '.join(sorted(drivers))}")
    try:
        meta, table = pyogrio.read_arrow(source)
        table.validate(full=True)
    except (DataLayerError, DataSourceError) as error:
        sys.exit(str(error))
    except pa.ArrowInvalid as error:
        sys.exit(f"its texts are not in the encoding that its .cpg names; {error}")
    position = table.schema.get_field_index(meta["geometry_name"] or "wkb_geometry")
    table = table.append_column("geometry", table[position].cast(pa.binary()))
    table = table.remove_column(position).replace_schema_metadata({"crs": meta["crs"] or ""})
    with pa.OSFile(destination, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
