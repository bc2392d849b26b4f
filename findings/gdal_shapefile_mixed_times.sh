#!/bin/bash
# geopandas 1.2.0 with pyogrio 0.13.0: a column of times becomes a column of texts in a shapefile,
# and rows with a fraction of a second have another form than those without. A parser that takes the
# form of the first row drops the others. Seen: 2024/03/01 10:00:00.123 and 2024/03/02 10:00:00.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv v && v/bin/pip -q install geopandas==1.2.0 pyogrio==0.13.0 pandas==3.1.1
v/bin/python -W ignore - <<'P'
import geopandas as gpd, pandas as pd
from shapely import Point
times = [pd.Timestamp("2024-03-01T10:00:00.123"), pd.Timestamp("2024-03-02T10:00:00")]
table = gpd.GeoDataFrame({"time": times}, geometry=[Point(2, 48), Point(3, 48)], crs=4326)
table.to_file("t.shp")
read = gpd.read_file("t.shp")["time"].tolist()
print(read)
assert read == ["2024/03/01 10:00:00.123", "2024/03/02 10:00:00"], "the behaviour has changed"
P
