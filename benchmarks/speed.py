"""Measure the speed of the accountant and of ``publish``, beside others: ``make bench``.

Each row of the first table is one piece of work, done here and by another: an earlier version of
this package, taken from the history of the repository, or another program. Each measurement has its
own process and is the CPU time (user and system) of the work without imports, the median of three
if it is short, and the peak memory of the process. Quote ratios, since seconds depend on the
machine.

Then come the cost over n, k and rounds beside other accountants (drawn in docs/figures/speed.png),
queries that are difficult, the width of certified intervals, paper C's claim of time, and reading:
a file like SNAP's loc-gowalla (make_checkins.py), as text packed with gzip and as Parquet, is
cropped to a city with users, times and locations by this package, DuckDB and Polars in turn.
"""

import argparse
import io
import json
import os
import resource
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from make_checkins import NAMES
from make_checkins import ROWS as CHECKINS

ROOT = Path(__file__).resolve().parents[1]
EARLIER = "c8bb060f"  # its package is in workflow/lib
LOG_TARGET = float(np.log(1e-6))
SHORT = 2.0  # work that takes fewer seconds is repeated
REPEATS = 5  # runs of each reader of check-ins

Call = Callable[[], object]


def usages() -> list[resource.struct_rusage]:
    return [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]


def cpu_seconds(call: Call) -> float:
    """Return the CPU time of one call, because a second one may find its answer in a cache."""

    def used() -> float:
        return sum(each.ru_utime + each.ru_stime for each in usages())

    before = used()
    call()
    return used() - before


# --- Work ----------------------------------------------------------------------------------------
# Each function prepares a call, which is measured, and runs with the earlier version, too. What
# takes milliseconds is called once before, with other numbers, because imports are delayed.
# dp_accounting gets the pairs of benchmarks/peers.py.


def weeks() -> Call:
    from shuffledp import Setting, epsilon

    people = np.linspace(40_000, 60_000, 52).astype(int).tolist()
    return lambda: epsilon(1e-6, [Setting(n, 200, eps0=4.0) for n in people])


def thirty_five() -> Call:
    from shuffledp import Setting, epsilon, mechanism

    noise = mechanism("user-dummies", dummies=0.8, chances=1)
    krr = Setting(100, 16, eps0=1.0, rounds=30)
    epsilon(1e-6, [Setting(10, 16, eps0=1.0), Setting(11, 16, eps0=1.0)])
    return lambda: epsilon(1e-6, [krr, Setting(10**4, 192, mechanism=noise, rounds=5)])


def thirty_five_elsewhere() -> Call:
    from peers import composed, dummies, enumerated

    composed((enumerated(10, 16, 1.0), 2)).get_epsilon_for_delta(1e-6)
    return lambda: composed(
        (enumerated(100, 16, 1.0), 30), (dummies(10**4, 192, 0.8), 5)
    ).get_epsilon_for_delta(1e-6)


def million() -> Call:
    from shuffledp import Setting, delta

    delta(0.02, Setting(10**4, 408, eps0=4.0))
    return lambda: delta(0.02, Setting(10**6, 408, eps0=4.0))


def few_elsewhere() -> Call:
    from peers import composed, enumerated

    composed((enumerated(10, 408, 4.0), 1)).get_delta_for_epsilon(0.02)
    return lambda: composed((enumerated(150, 408, 4.0), 1)).get_delta_for_epsilon(0.02)


def curve() -> Call:
    from shuffledp import Setting, delta

    return lambda: delta(np.linspace(0.001, 0.2, 4000).tolist(), Setting(10**5, 408, eps0=4.0))


def all_mechanisms() -> Call:
    from shuffledp import Setting, compare

    return lambda: compare(0.5, 1e-6, Setting(100_000, 408, rounds=52))


def billion() -> Call:
    from shuffledp.studies.privacy import privacy_table

    shares = 1.0 / np.arange(1, 10**5 + 1)
    counts = np.random.default_rng(1).multinomial(10**9, shares / shares.sum())
    bounds = ["upper", "lower", "single-bin", "single-bin-as-printed"]
    return lambda: privacy_table({10**9: counts}, 4.0, [0.01, 0.1], bounds)


def published() -> Call:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from shuffledp.cli import main

    random, folder = np.random.default_rng(1), Path(tempfile.mkdtemp())
    columns = {"latitude": 37.7, "longitude": -122.5}
    writer = pq.ParquetWriter(
        folder / "records.parquet", pa.schema([(name, pa.float64()) for name in columns])
    )
    with writer:
        for _ in range(100):
            part = {name: first + 0.1 * random.beta(2, 3, 10**6) for name, first in columns.items()}
            writer.write_table(pa.table(part))
    words = "--latitude latitude --longitude longitude --box 37.7 37.8 -122.5 -122.4 --unit record"
    words += f" --cells shape:1000x1000 --eps 1 --output {folder / 'map'}"
    words += f" --ledger {folder / 'ledger.jsonl'}"
    return lambda: main(["publish", f"{folder / 'records.parquet'}", *words.split()])


def snakemake(folder: Path, *words: str) -> str:
    command = [sys.executable, "-m", "snakemake", "--cores", "2", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def unpacked(commit: str, folder: Path, *paths: str) -> bool:
    """Unpack a commit of the repository; return False if it is not there."""
    command = ["git", "archive", commit, *paths]
    archive = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if not archive.returncode:
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
            files.extractall(folder, filter="data")
    return not archive.returncode


def default_run() -> Call:
    import shuffledp

    folder = Path(tempfile.mkdtemp())
    ours = Path(shuffledp.__file__).is_relative_to(ROOT)
    unpacked("HEAD" if ours else EARLIER, folder)
    return lambda: snakemake(folder, "--quiet", "all")


def planning() -> Call:
    folder = Path(tempfile.mkdtemp())
    unpacked("HEAD", folder)
    return lambda: snakemake(folder, "-n", "--quiet", "all")


def trivial_planning() -> Call:
    folder = Path(tempfile.mkdtemp())
    unpacked("HEAD", folder)
    jobs = int(snakemake(folder, "-n", "--quiet", "rules").split("total")[1].split()[0])
    (folder / "Snakefile").write_text(
        f"rule all:\n    input: expand('{{i}}', i=range({jobs - 1}))\n"
        "rule one:\n    output: '{i}'\n    shell: 'touch {output}'\n"
    )
    return lambda: snakemake(folder, "-n", "--quiet", "all")


# What is done, by us and by the other (None: by the earlier version), and the ratio to reach.
ROWS: tuple[tuple[str, Callable[[], Call], tuple[str, Callable[[], Call]] | None, float], ...] = (
    ("eps of 52 rounds with different n", weeks, None, 1 / 12),
    ("delta at 4,000 eps, n = 1e5, k = 408", curve, None, 1 / 3),
    ("all mechanisms for 52 rounds", all_mechanisms, None, 1 / 4),
    ("bounds of a histogram, n = 1e9, k = 1e5", billion, None, 8 / 26.6),
    ("map of 1e8 records, 1e6 cells", published, None, 30 / 38),
    ("the default run", default_run, None, 110 / 326),
    (
        "planning the default run",
        planning,
        ("a trivial Snakefile with as many jobs", trivial_planning),
        1.2,
    ),
    ("eps of 35 rounds: k-RR, dummies", thirty_five, ("dp_accounting", thirty_five_elsewhere), 0.5),
    ("delta, n = 1e6", million, ("dp_accounting, n = 150", few_elsewhere), 1 / 30),
)


def measured(work: Callable[..., Call], *words: str, **environment: str) -> list[float]:
    """Return CPU seconds, peak memory (MB) and clock seconds of work in a process of its own."""
    command = [sys.executable, __file__, "--measure", work.__name__, *words]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **environment}, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    numbers: list[float] = json.loads(done.stdout.splitlines()[-1])
    return numbers


def typical(work: Callable[[], Call], **environment: str) -> list[float]:
    """Return the measures of long work, or the median of three runs if it is short."""
    first = measured(work, **environment)
    if first[0] > SHORT:
        return first
    return sorted([first, *(measured(work, **environment) for _ in range(2))])[1]


def print_measures(name: str, *words: str) -> None:
    """Print the numbers of `measured` for work that this process prepares and does."""
    call, clock = globals()[name](*words), -time.perf_counter()
    seconds = cpu_seconds(call)
    clock += time.perf_counter()
    print(json.dumps([seconds, max(each.ru_maxrss for each in usages()) / 1024, clock]))


def targets(folder: Path) -> None:
    has_earlier = unpacked(EARLIER, folder, "workflow/lib")
    if not has_earlier:
        print(f"commit {EARLIER} is not in this clone: only others are compared")
    print("| work | ours, CPU s | MB | other | theirs, CPU s | MB | ratio | target |")
    print("|---|---|---|---|---|---|---|---|")
    for name, ours, other, target in ROWS:
        if other is None and not has_earlier:
            continue
        label, theirs = other or (EARLIER, ours)
        earlier = {} if other else {"PYTHONPATH": f"{folder / 'workflow/lib'}"}
        seconds, memory, _ = typical(ours, TMPDIR=f"{folder}")
        reference, its_memory, _ = typical(theirs, TMPDIR=f"{folder}", **earlier)
        print(
            f"| {name} | {seconds:.3g} | {memory:.0f} | {label} | {reference:.3g} | "
            f"{its_memory:.0f} | {seconds / reference:.2g} | "
            f"{target:.2g} {'met' if seconds <= target * reference else 'missed'} |",
            flush=True,
        )


# --- Cost over n, k and rounds -------------------------------------------------------------------


def ours_eps(n: int, k: int, rounds: int) -> object:
    from shuffledp import Setting, epsilon

    return epsilon(1e-6, Setting(n, k, eps0=1.0, rounds=rounds))


def dp_accounting_eps(n: int, k: int, rounds: int) -> object:
    from peers import composed, enumerated

    return composed((enumerated(n, k, 1.0), rounds)).get_epsilon_for_delta(1e-6)


def blanket_eps(n: int, k: int, rounds: int) -> object:
    from peers import blanket_by_fft
    from scipy.optimize import brentq

    assert rounds == 1
    return brentq(lambda eps: blanket_by_fft(eps, n, k, 1.0) - 1e-6, 1e-4, 1.0 - 1e-9, xtol=1e-6)


ACCOUNTANTS: dict[str, tuple[Callable[[int, int, int], object], int, bool]] = {
    # the function, the largest n, and whether it composes rounds
    "ours, both certified ends": (ours_eps, 10**9, True),
    "dp_accounting, all outcomes": (dp_accounting_eps, 200, True),
    "privacy blanket by FFT, 1,200 steps": (blanket_eps, 1000, False),
}
AXES: dict[str, list[tuple[int, int, int]]] = {
    "n": [(n, 16, 1) for n in (50, 100, 200, 1000, 10**4, 10**5, 10**6, 10**9)],
    "k": [(200, k, 1) for k in (4, 16, 100, 1000, 10**5)],
    "rounds": [(100, 16, rounds) for rounds in (1, 10, 100, 1000)],
}


def costs(picture: Path) -> None:
    """Print and draw the CPU seconds of one eps at delta = 1e-6, eps0 = 1."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 3, figsize=(10, 3.4), sharey=True, layout="constrained")
    print("| accountant | n | k | rounds | CPU s |\n|---|---|---|---|---|")
    for eps, _, _ in ACCOUNTANTS.values():
        eps(20, 16, 1)  # delayed imports
    for position, (axis, settings) in enumerate(AXES.items()):
        for (name, (eps, largest, composes)), marker in zip(
            ACCOUNTANTS.items(), "o^s", strict=True
        ):
            used = [s for s in settings if s[0] <= largest and (composes or s[2] == 1)]
            seconds = [cpu_seconds(partial(eps, *setting)) for setting in used]
            for (n, k, rounds), cost in zip(used, seconds, strict=True):
                print(f"| {name} | {n:,} | {k:,} | {rounds:,} | {cost:.3g} |", flush=True)
            x = [setting[position] for setting in used]
            panels[position].loglog(x, seconds, f"{marker}-", label=name)
        fixed = dict(zip(AXES, settings[0], strict=True))
        title = ", ".join(f"{key} = {value}" for key, value in fixed.items() if key != axis)
        panels[position].set(xlabel=axis, title=title)
        panels[position].grid(alpha=0.3)
    panels[0].set_ylabel("CPU time of one eps, s")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.savefig(picture, dpi=150)


# --- Difficult queries, widths, paper C ----------------------------------------------------------
# Each query runs in its own process, and its time includes the start-up.
HARD_ROUND = (
    "calibrate --n 1e6 --k 3 --eps .1 --delta 1e-6",
    "calibrate --n 1e9 --k 10 --eps .1 --delta 1e-300",
    "delta --n 1e10 --k 2 --eps0 1 --eps 1e-4",
    "delta --n 1e9 --k 16 --eps0 .5 --eps .35",
    "delta --n 1000001 --k 3 --eps0 .05 --eps .045",
)
HARD_ROUNDS = (
    "epsilon --n 1e7 --k 16 --eps0 4 --rounds 10000 --delta 1e-30",
    "epsilon --n 2 --k 16 --eps0 .001 --rounds 10000 --delta 1e-6",
    "epsilon --n 1e9 --k 3 --eps0 .05 --rounds 2 --delta 1e-9",
    "epsilon --n 1e7 --k 3 --eps0 8 --rounds 1000 --delta 1e-15",
    "epsilon --n 1e5 --k 16 --eps0 4 --rounds 10 --delta 1e-18",
    "delta --n 1e6 --k 100 --eps0 1 --eps .1 --rounds 2 --sampling-rate .001",
)


def hard_queries() -> None:
    for queries, limit in ((HARD_ROUND, 2.0), (HARD_ROUNDS, 10.0)):
        for query in queries:
            command = [sys.executable, "-m", "shuffledp", *query.split()]
            start = time.perf_counter()
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            seconds = time.perf_counter() - start
            memory = usage.ru_maxrss / 1024
            good = status == 0 and seconds < limit and memory < 500
            print(f"  {query:<72}{seconds:6.1f} s {memory:5.0f} MB  {'ok' if good else 'OVER'}")


def widths() -> None:
    from shuffledp.accounting.bound_registry import BOUNDS
    from shuffledp.accounting.setting import Setting

    for n, limit in [(10**3, 1e-3), (10**4, 1e-4), (10**6, None), (10**9, 2e-4)]:
        worst, where = 0.0, (0, 0.0)
        for k in (2, 3, 4, 10, 100):
            for eps0 in (0.1, 0.5, 1.0, 1.15, 2.0, 3.0, 4.0):
                setting = Setting(n, k, eps0)
                low, high = (
                    BOUNDS[b].curve(setting).epsilon(LOG_TARGET).only for b in ("lower", "upper")
                )
                if high > 0 and (high - low) / high > worst:
                    worst, where = (high - low) / high, (k, eps0)
        note = "" if limit is None else f"  (limit {limit:.0e})"
        print(
            f"  n=1e{len(str(n)) - 1}: widest {worst:.2e}, at k={where[0]}, eps0={where[1]}{note}"
        )


def paper_c() -> None:
    """Compare paper C's Fourier accountant (section 6.3) with the numeric clones bound, n = 1e6."""
    from shuffledp.accounting import pairs
    from shuffledp.accounting.bound_registry import BOUNDS
    from shuffledp.accounting.setting import Setting
    from shuffledp.papers.literature.fourier import fourier_bounds

    setting = Setting(10**6, 2, 9.0)
    pair = pairs.clones(setting)

    def fourier(rounds: int) -> Call:
        return lambda: fourier_bounds(pair, rounds).log_delta(0.5)

    numeric = cpu_seconds(lambda: BOUNDS["clones"].curve(setting).epsilon(LOG_TARGET).only)
    one, four = (cpu_seconds(fourier(rounds)) for rounds in (1, 4))
    print(f"  numeric clones, one eps, n=1e6, eps0=9{numeric:12.3g} s")
    print(f"  Fourier accountant on the same pair, m=1e7{one:8.3g} s")
    print(f"  ratio (paper C: about 4, with other code) {one / numeric:.1f} x")
    print(f"  four rounds over one (paper C: little more) {four / one:.2f} x")


# --- Reading check-ins ---------------------------------------------------------------------------

BOX = {"south": 37.7228, "north": 37.7946, "west": -122.5153, "east": -122.3789}
READING_LIMITS = {"text": 1.0, "Parquet": 1.3}  # of DuckDB's CPU time


def crop_checkins(source: str, destination: str) -> Call:
    from shuffledp.data import checkins
    from shuffledp.data.regions import Box, Region
    from shuffledp.data.sources import SNAP, Layout

    is_parquet = source.endswith(".parquet")
    layout = Layout("parquet", {name: name for name in NAMES}) if is_parquet else SNAP
    paths = Path(source), layout, Region("city", Box(**BOX)), Path(destination)
    return lambda: checkins.crop_checkins(*paths, max_malformed_share=0, metadata={})


def by_duckdb(source: str, destination: str) -> Call:
    import duckdb

    types = ["BIGINT", "TIMESTAMP", "DOUBLE", "DOUBLE", "BIGINT"]
    columns = dict(zip(NAMES, types, strict=True))
    table = f"read_csv('{source}', delim='\t', header=false, columns={columns})"
    if source.endswith(".parquet"):
        table = f"read_parquet('{source}')"
    return lambda: duckdb.sql(
        f"COPY (SELECT * FROM {table}"
        f" WHERE latitude BETWEEN {BOX['south']} AND {BOX['north']}"
        f" AND longitude BETWEEN {BOX['west']} AND {BOX['east']})"
        f" TO '{destination}' (FORMAT parquet, COMPRESSION zstd)"
    )


def by_polars(source: str, destination: str) -> Call:
    import polars as pl

    if source.endswith(".parquet"):
        rows, time_column = pl.scan_parquet(source), pl.col("time")
    else:
        types = [pl.Int64, pl.String, pl.Float64, pl.Float64, pl.Int64]
        schema = dict(zip(NAMES, types, strict=True))
        rows = pl.scan_csv(source, separator="\t", has_header=False, schema=schema)
        time_column = pl.col("time").str.to_datetime(time_unit="us", time_zone="UTC")
    inside = pl.col("latitude").is_between(BOX["south"], BOX["north"])
    inside &= pl.col("longitude").is_between(BOX["west"], BOX["east"])
    return lambda: rows.filter(inside).with_columns(time_column).sink_parquet(destination)


READERS = {"crop_checkins": crop_checkins, "DuckDB": by_duckdb, "Polars": by_polars}


def reading(folder: Path, rows: int) -> None:
    """Print the CPU seconds of each reader, their ratio to DuckDB's, and the clock seconds."""
    import pyarrow.csv
    import pyarrow.parquet as pq

    text, parquet = folder / "checkins.txt.gz", folder / "checkins.parquet"
    maker = ROOT / "benchmarks/make_checkins.py"
    subprocess.run([sys.executable, maker, text, "--rows", str(rows)], check=True)
    table = pyarrow.csv.read_csv(
        text,
        pyarrow.csv.ReadOptions(column_names=NAMES),
        pyarrow.csv.ParseOptions(delimiter="\t"),
        pyarrow.csv.ConvertOptions(column_types={"time": pyarrow.timestamp("us", "UTC")}),
    )
    pq.write_table(table, parquet)
    for form, source in (("text", text), ("Parquet", parquet)):
        files = {name: f"{folder / name}.parquet" for name in READERS}
        runs = [
            {name: measured(read, f"{source}", files[name]) for name, read in READERS.items()}
            for _ in range(REPEATS)
        ]
        kept = {pq.read_metadata(file).num_rows for file in files.values()}
        if len(kept) > 1:
            raise RuntimeError(f"readers of {source.name} kept different numbers of rows: {kept}")
        print(f"  {form + f', {kept.pop():,} rows kept':<32}  CPU s  of DuckDB's  clock s")
        for name in READERS:
            seconds, clock = (statistics.median(run[name][i] for run in runs) for i in (0, 2))
            ratio = statistics.median(run[name][0] / run["DuckDB"][0] for run in runs)
            limit, verdict = READING_LIMITS[form], ""
            if name == "crop_checkins":
                verdict = f"  (limit {limit}: {'ok' if ratio <= limit else 'OVER'})"
            print(f"  {name:<32}{seconds:7.2f}{ratio:13.2f}{clock:9.2f}{verdict}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--measure", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument(
        "--rows", type=int, default=CHECKINS, help=f"check-ins (default {CHECKINS})"
    )
    options = parser.parse_args()
    if options.measure:
        print_measures(*options.measure)
        return
    with tempfile.TemporaryDirectory() as folder:
        targets(Path(folder))
    print("\nHard queries (limits: one round 2 s, rounds 10 s, 500 MB)")
    hard_queries()
    print("\nOne eps at delta = 1e-6, eps0 = 1")
    costs(ROOT / "docs/figures/speed.png")
    print("\nWidth of the certified interval, relative in eps, delta = 1e-6")
    widths()
    print("\nPaper C's claim of time")
    paper_c()
    print(f"\nCheck-ins of a city among {options.rows:,}: medians of {REPEATS} runs")
    with tempfile.TemporaryDirectory() as folder:
        reading(Path(folder), options.rows)


if __name__ == "__main__":
    main()
