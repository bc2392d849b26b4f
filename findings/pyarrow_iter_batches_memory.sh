#!/bin/bash
# pyarrow 26.0.1: ParquetFile.iter_batches keeps the bytes of every row group that it has read until
# the file is closed, so that reading in small batches needs as much memory as the file is long.
# With pre_buffer=False it does not. Seen: 97 MB by default, 0 MB without, for a file of 95 MB.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv v && v/bin/pip -q install pyarrow==26.0.1 numpy==2.4.6
v/bin/python - <<'P'
import os
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
table = pa.table({"x": np.random.default_rng(1).random(10_000_000)})
pq.write_table(table, "t.parquet", row_group_size=100_000)
del table
peaks = []
for options in ({}, {"pre_buffer": False}):
    before, peak = pa.total_allocated_bytes(), 0
    with pq.ParquetFile("t.parquet", **options) as file:
        for batch in file.iter_batches(10_000, use_threads=False):
            del batch
            peak = max(peak, pa.total_allocated_bytes() - before)
    peaks.append(peak >> 20)
size = os.path.getsize("t.parquet") >> 20
print(f"{peaks[0]} MB by default, {peaks[1]} MB without, for a file of {size} MB")
assert peaks[0] > 50 and peaks[1] < 10, "the behaviour has changed"
P
