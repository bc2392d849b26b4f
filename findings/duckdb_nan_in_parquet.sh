#!/bin/bash
# duckdb 2.0.1 on Parquet by pyarrow 26.0.1: statistics of a row group leave NaN out, but `>` puts
# NaN above all numbers. So a row with NaN passes the filter only if another row of its group does,
# and isnan() finds no NaN. Seen: "filter 1 0", "isnan 0 of 1".
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv v && v/bin/pip -q install duckdb==2.0.1 pyarrow==26.0.1
v/bin/python - <<'P'
import math
import duckdb, pyarrow as pa, pyarrow.parquet as pq
counts = []
for other in (50.0, 40.0):  # latitude of the other row of the row group
    pq.write_table(pa.table({"id": [1, 2], "lat": [other, math.nan]}), "t.parquet")
    query = "SELECT count(*) FROM 't.parquet' WHERE lat > 48 AND id = 2"
    counts.append(duckdb.sql(query).fetchall()[0][0])
print("filter", *counts)
found = duckdb.sql("SELECT count(*) FROM 't.parquet' WHERE isnan(lat)").fetchall()[0][0]
print("isnan", found, "of 1")
assert counts == [1, 0] and found == 0, "the behaviour has changed"
P
