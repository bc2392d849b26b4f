"""Measure how fast the check-ins of a city are read, compared with DuckDB and Polars.

``make bench`` runs it. First make_checkins.py makes a file like SNAP's loc-gowalla (text packed
with gzip), which is also written as Parquet. Every reader crops both to the same city, with users,
times and locations, and writes the rows that remain as Parquet. Each run is a separate process on
all cores, in turn with the others. Its seconds are processor time (user and system) without
imports. Quote ratios, since seconds depend on the machine.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from make_checkins import NAMES, ROWS

BOX = {"south": 37.7228, "north": 37.7946, "west": -122.5153, "east": -122.3789}
KINDS = [pa.int64(), pa.timestamp("us", "UTC"), pa.float64(), pa.float64(), pa.int64()]
LIMITS = {"text": 1.0, "Parquet": 1.3}  # of DuckDB's processor time


def prepare_pipeline(source: Path, destination: Path) -> Callable[[], object]:
    from shuffledp.data.checkins import crop_checkins
    from shuffledp.data.regions import Box, Region
    from shuffledp.data.sources import SNAP, Layout

    is_parquet = source.suffix == ".parquet"
    layout = Layout("parquet", {name: name for name in NAMES}) if is_parquet else SNAP
    city = Region("city", Box(**BOX))
    return lambda: crop_checkins(
        source, layout, city, destination, max_malformed_share=0, metadata={}
    )


def prepare_duckdb(source: Path, destination: Path) -> Callable[[], object]:
    import duckdb

    types = ["BIGINT", "TIMESTAMP", "DOUBLE", "DOUBLE", "BIGINT"]
    columns = dict(zip(NAMES, types, strict=True))
    table = f"read_csv('{source}', delim='\t', header=false, columns={columns})"
    if source.suffix == ".parquet":
        table = f"read_parquet('{source}')"
    return lambda: duckdb.sql(
        f"COPY (SELECT * FROM {table}"
        f" WHERE latitude BETWEEN {BOX['south']} AND {BOX['north']}"
        f" AND longitude BETWEEN {BOX['west']} AND {BOX['east']})"
        f" TO '{destination}' (FORMAT parquet, COMPRESSION zstd)"
    )


def prepare_polars(source: Path, destination: Path) -> Callable[[], object]:
    import polars as pl

    if source.suffix == ".parquet":
        rows, time_column = pl.scan_parquet(source), pl.col("time")
    else:
        types = [pl.Int64, pl.String, pl.Float64, pl.Float64, pl.Int64]
        schema = dict(zip(NAMES, types, strict=True))
        rows = pl.scan_csv(source, separator="\t", has_header=False, schema=schema)
        time_column = pl.col("time").str.to_datetime(time_unit="us", time_zone="UTC")
    inside = pl.col("latitude").is_between(BOX["south"], BOX["north"])
    inside &= pl.col("longitude").is_between(BOX["west"], BOX["east"])
    return lambda: rows.filter(inside).with_columns(time_column).sink_parquet(destination)


READERS = {
    "crop_checkins": prepare_pipeline,
    "DuckDB": prepare_duckdb,
    "Polars": prepare_polars,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=ROWS, help=f"rows to make (default {ROWS})")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each (default 5)")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        reader, source, destination = arguments.measure
        measure(READERS[reader](Path(source), Path(destination)))
        return
    with tempfile.TemporaryDirectory() as folder:
        text, parquet = Path(folder) / "checkins.txt.gz", Path(folder) / "checkins.parquet"
        maker = Path(__file__).with_name("make_checkins.py")
        subprocess.run([sys.executable, maker, text, "--rows", str(arguments.rows)], check=True)
        pq.write_table(read_text(text), parquet)
        print(f"Check-ins of a city among {arguments.rows:,}: medians of {arguments.repeats} runs")
        for form, source in (("text", text), ("Parquet", parquet)):
            report(form, source, arguments.repeats)


def read_text(path: Path) -> pa.Table:
    return pyarrow.csv.read_csv(
        path,
        read_options=pyarrow.csv.ReadOptions(column_names=NAMES),
        parse_options=pyarrow.csv.ParseOptions(delimiter="\t"),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict(zip(NAMES, KINDS, strict=True))
        ),
    )


def measure(read: Callable[[], object]) -> None:
    """Print the processor seconds and the clock seconds of a call."""
    before, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    read()
    clock, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps([seconds, clock]))


def report(form: str, source: Path, repeats: int) -> None:
    runs: dict[str, list[list[float]]] = {reader: [] for reader in READERS}
    files = {reader: source.with_name(f"{reader}.parquet") for reader in READERS}
    for _ in range(repeats):
        for reader, destination in files.items():
            destination.unlink(missing_ok=True)
            words = ["--measure", reader, str(source), str(destination)]
            done = subprocess.run(
                [sys.executable, __file__, *words], stdout=subprocess.PIPE, check=True
            )
            runs[reader].append(json.loads(done.stdout))
    rows = {pq.read_metadata(destination).num_rows for destination in files.values()}
    if len(rows) > 1:
        raise RuntimeError(f"readers of {source.name} kept different numbers of rows: {rows}")
    print(f"  {form + f', {rows.pop():,} rows kept':<32}  CPU s  of DuckDB's  clock s")
    for reader, numbers in runs.items():
        seconds, clock = (statistics.median(column) for column in zip(*numbers, strict=True))
        ratio = statistics.median(
            own[0] / other[0] for own, other in zip(numbers, runs["DuckDB"], strict=True)
        )
        verdict = ""
        if reader == "crop_checkins":
            verdict = f"  (limit {LIMITS[form]}: {'ok' if ratio <= LIMITS[form] else 'OVER'})"
        print(f"  {reader:<32}{seconds:7.2f}{ratio:13.2f}{clock:9.2f}{verdict}", flush=True)


if __name__ == "__main__":
    main()
