#!/bin/bash
# pyarrow 26.0.1: the type of a hive key is inferred from all folders. One key beyond 32 bits makes
# all of them texts, so that adding a folder changes the type of a column, and 7 is then "7".
# Seen: int32 for user=7; string for user=7 beside user=3000000000.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv v && v/bin/pip -q install pyarrow==26.0.1
v/bin/python - <<'P'
import os
import pyarrow as pa, pyarrow.dataset as ds, pyarrow.parquet as pq
types = []
for user in (7, 3_000_000_000):
    os.makedirs(f"d/user={user}")
    pq.write_table(pa.table({"x": [1]}), f"d/user={user}/p.parquet")
    types.append(str(ds.dataset("d", partitioning="hive").schema.field("user").type))
print(*types)
assert types == ["int32", "string"], "the behaviour has changed"
P
