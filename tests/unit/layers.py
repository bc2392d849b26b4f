"""Write geographic files with the libraries that others write with."""

import zipfile
from pathlib import Path

import geopandas as gpd


def written(
    folder: Path, table: gpd.GeoDataFrame, suffix: str, *, name: str = "cells", **options: object
) -> Path:
    path = folder / f"{name}.{suffix}"
    if suffix == "geojson":
        text = table.to_json(to_wgs84=False, **options)  # all digits, unlike GDAL
        path.write_text(text, encoding="utf-8")
    elif suffix == "parquet":
        table.to_parquet(path, index=False, **options)
    elif suffix == "zip":
        written(folder, table, "shp", name=name, **options)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for part in sorted(folder.glob(f"{name}.*")):
                if part != path:
                    archive.write(part, f"data/{part.name}")
    else:
        table.to_file(path, **options)
    return path
