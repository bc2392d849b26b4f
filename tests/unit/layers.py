"""Write geographic files with the libraries that others write with, and check errors."""

import gzip
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import geopandas as gpd
import pytest

from shuffledp.errors import InputError


def table(*geometries: object, crs: object = 4326, **columns: object) -> gpd.GeoDataFrame:
    return gpd.GeoDataFrame(columns, geometry=list(geometries), crs=crs)


def written(
    folder: Path, table: gpd.GeoDataFrame, suffix: str, *, name: str = "cells", **options: object
) -> Path:
    path = folder / f"{name}.{suffix}"
    if suffix.startswith("geojson"):
        text = table.to_json(to_wgs84=False, **options)  # all digits, unlike GDAL
        if suffix in ("geojsons", "geojsonl"):  # sequences as in RFC 8142, and one feature a line
            document = json.loads(text)
            features = [each | {"crs": document.get("crs")} for each in document["features"]]
            start = "\x1e" if suffix == "geojsons" else ""
            text = "".join(f"{start}{json.dumps(each)}\n" for each in features)
        content = text.encode()
        path.write_bytes(gzip.compress(content) if suffix == "geojson.gz" else content)
    elif suffix.endswith("parquet"):
        encoding = "geoarrow" if suffix == "native.parquet" else "WKB"
        table.to_parquet(path, index=False, geometry_encoding=encoding, **options)
    elif suffix == "zip":
        written(folder, table, "shp", name=name, **options)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for part in sorted(folder.glob(f"{name}.*")):
                if part != path:
                    archive.write(part, f"data/{part.name}")
    else:
        table.to_file(path, **options)
    return path


def refused(read: Callable[..., object], path: Path, *arguments: object, **options: object) -> str:
    """Return the rest of the one-line error that begins with the path."""
    with pytest.raises(InputError) as error:
        read(path, *arguments, **options)
    message = str(error.value)
    assert message.startswith(str(path)) and message.isprintable() and len(message) < 1000
    return message.removeprefix(str(path))
