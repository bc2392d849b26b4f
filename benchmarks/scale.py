"""Measure how the workflow's cost grows with cells, users, cities and repetitions.

    python benchmarks/scale.py [--help]

``make scale`` runs it. Snakemake runs in a temporary copy of the workflow, one core per job, on
synthetic cities. The kernel's counters give every job's CPU time and peak memory, because
Snakemake's own benchmark files only sample, after a while every 30 s.

A file of a billion check-ins is too large for a laptop. The cities are cropped and gridded from a
small file; then the counts in each grid file are replaced by those of n users, whose cell of rank r
has a share proportional to 1/r, and the later stages run on them as on any grid file.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

ROOT = Path(__file__).resolve().parents[1]
EPS0 = 4
# At n = 1e9 a larger eps has a delta that nobody asks for, at much greater cost (docs/hpc.md).
EPS = [0.01, 0.1]
MORE = 10  # factor by which repetitions are multiplied, to measure their cost

# Every Python process of a run imports this module; Snakemake and its jobs write a line at exit.
RECORDER = """
import atexit, json, os, re, sys

def record():
    job = getattr(sys.modules["__main__"], "snakemake", None)
    if job is None and "snakemake" not in sys.argv[0]:
        return
    # Not getrusage: its peak begins with that of the process that this one was forked from.
    peak = re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())
    line = {
        "rule": job.rule if job else None,
        "grid": job.wildcards.get("grid") if job else None,
        "cpu": sum(os.times()[:2]),
        "mb": int(peak[1]) / 1024,
    }
    with open(os.environ["JOBS_FILE"], "a") as file:
        file.write(json.dumps(line) + chr(10))

atexit.register(record)
"""


@dataclass(frozen=True)
class Usage:
    """Hold one run of Snakemake: seconds, CPU seconds of it and its jobs, its output, and the jobs.

    The jobs are a table of rule, grid, CPU seconds and peak megabytes; Snakemake is one without a
    rule.
    """

    wall: float
    cpu: float
    output: str
    jobs: pd.DataFrame


def box(number: int) -> dict[str, float]:
    """Cities lie side by side, 60 to a row."""
    row, column = divmod(number, 60)
    south, west = -60.0 + row, -170.0 + 2.0 * column
    return {"south": south, "north": south + 0.2, "west": west, "east": west + 0.2}


def shape(cells: int) -> list[int]:
    """Return the most nearly square numbers of rows and columns with this product."""
    rows = max(d for d in range(1, int(cells**0.5) + 1) if cells % d == 0)
    return [rows, cells // rows]


def configuration(cities: int, cells: Sequence[int], repetitions: int) -> dict[str, object]:
    grids = {f"k{k}": {"shape": shape(k)} for k in cells}
    regions = {
        f"city_{i}": {"title": f"City {i}", "box": box(i), "grids": grids, "n": ["all"]}
        for i in range(cities)
    }
    columns = {"latitude": "latitude", "longitude": "longitude"}
    layout = {"format": "parquet", "columns": columns}
    return {
        "seed": 1,
        "source": "synthetic",
        "sources": {"synthetic": {"kind": "file", "path": "check-ins.parquet", "layout": layout}},
        "regions": regions,
        "eps0": [EPS0],
        "eps": EPS,
        "target_delta": 1e-6,
        "repetitions": repetitions,
        "max_malformed_share": 0.0,
    }


class Workflow:
    """Hold a copy of the workflow in a separate folder, with check-ins of synthetic cities."""

    def __init__(self, path: Path, cities: int, rows: int, cores: int) -> None:
        self.path, self.cores = path, cores
        path.mkdir()
        for name in ("Snakefile", "environment.yml", "pyproject.toml"):
            shutil.copy(ROOT / name, path)
        ignore = shutil.ignore_patterns("__pycache__", "automatic", "*.egg-info")
        for name in ("profiles", "workflow", "resources"):
            shutil.copytree(ROOT / name, path / name, ignore=ignore)
        for name in ("config", "recorder"):
            (path / name).mkdir()
        (path / "recorder" / "sitecustomize.py").write_text(RECORDER)
        self._write_checkins(cities, rows)

    def _write_checkins(self, cities: int, rows: int) -> None:
        rng = np.random.default_rng(1)
        corners = [box(int(city)) for city in rng.integers(cities, size=rows)]
        spread = rng.beta(2, 5, (2, rows)) * 0.2
        columns = {
            name: [corner[edge] + d for corner, d in zip(corners, distances, strict=True)]
            for name, edge, distances in zip(
                ("latitude", "longitude"), ("south", "west"), spread, strict=True
            )
        }
        pq.write_table(pa.table(columns), self.path / "check-ins.parquet")

    def run(self, config: dict[str, object], *arguments: str) -> Usage:
        """Run Snakemake with a configuration; its output is shown if it fails."""
        (self.path / "config" / "config.yaml").write_text(yaml.safe_dump(config))
        start = time.perf_counter()
        command = [sys.executable, "-m", "snakemake", "--cores", str(self.cores), *arguments]
        environment = {
            "JOBS_FILE": str(self.path / "jobs.jsonl"),
            "PYTHONPATH": str(self.path / "recorder"),
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        # The kernel reports the CPU time of a child and of all processes that the child waited for.
        with tempfile.TemporaryFile("w+") as output:
            child = subprocess.Popen(
                command,
                cwd=self.path,
                env={**os.environ, **environment},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            _, status, used = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            output.seek(0)
            text = output.read()
        if child.returncode:
            raise SystemExit(f"{text}\nsnakemake ended with {child.returncode}")
        wall = time.perf_counter() - start
        return Usage(wall, used.ru_utime + used.ru_stime, text, self._jobs())

    def _jobs(self) -> pd.DataFrame:
        file = self.path / "jobs.jsonl"
        jobs = pd.DataFrame([json.loads(line) for line in file.read_text().splitlines()])
        file.unlink()
        return jobs

    def populate(self, n: int) -> None:
        """Give every grid file the counts of n users, heavy-tailed over its cells."""
        for number, path in enumerate(sorted((self.path / "results" / "grids").glob("*.parquet"))):
            rng = np.random.default_rng([n, number])
            table = pq.read_table(path)
            shares = rng.permutation(1.0 / np.arange(1, len(table) + 1))
            counts = pa.array(rng.multinomial(n, shares / shares.sum()))
            column = table.schema.get_field_index("count")
            pq.write_table(table.set_column(column, table.schema.field(column), counts), path)


GRIDS = ["grids/{}.parquet"]
TABLES = ["privacy/{}.parquet", "utility/{}.parquet"]
MAPS = [f"figures/estimates.{{}}.eps0-{EPS0}.matched.png"]  # the figures whose cost grows with k


def results(patterns: Sequence[str], cities: int, cells: Sequence[int]) -> list[str]:
    places = [f"city_{city}.k{k}" for city in range(cities) for k in cells]
    return [f"results/{pattern.format(place)}" for pattern in patterns for place in places]


def stages(options: argparse.Namespace, folder: Path) -> Iterator[pd.DataFrame]:
    """Run the stages for every number of cities and of users; yield each run's jobs."""
    few = options.repetitions
    for cities in options.cities:
        workflow = Workflow(folder / f"{cities}", cities, options.rows, options.cores)
        config = configuration(cities, options.cells, few)
        usage = workflow.run(config, *results(GRIDS, cities, options.cells))
        yield report(workflow, usage, cities, options.rows, few)
        if cities != options.cities[0]:
            # More cities mean only more of the same jobs, so one size suffices.
            workflow.populate(options.users[0])
            usage = workflow.run(config, *results(TABLES, cities, options.cells))
            yield report(workflow, usage, cities, options.users[0], few)
            continue
        for n in options.users:
            workflow.populate(n)
            kinds = [*TABLES, *(MAPS if n == options.users[0] else [])]
            usage = workflow.run(config, *results(kinds, cities, options.cells))
            yield report(workflow, usage, cities, n, few)
        config = configuration(cities, options.cells, MORE * few)
        usage = workflow.run(config, *results(TABLES[1:], 1, options.cells[-2:][:1]))
        yield report(workflow, usage, 1, options.users[-1], MORE * few)


def report(workflow: Workflow, usage: Usage, cities: int, n: int, repetitions: int) -> pd.DataFrame:
    jobs = usage.jobs.dropna(subset="rule").assign(n=n, repetitions=repetitions)
    cpu = jobs["cpu"].sum()
    disk = sum(f.stat().st_size for f in (workflow.path / "results" / "releases").glob("*"))
    print(
        f"| {cities} | {n:,} | {repetitions} | {len(jobs)} | {usage.wall:.0f} | {cpu:.0f} | "
        f"{(usage.cpu - cpu) / len(jobs):.2f} | {disk / 1e6:.1f} |",
        flush=True,
    )
    return jobs


def exponent(x: pd.Series, y: pd.Series) -> str:
    """Return the slope of log y over log x, the power with which y grows."""
    return f"{np.polyfit(np.log(x.astype(float)), np.log(y), 1)[0]:.2f}" if len(x) > 1 else "-"


def growth(jobs: pd.DataFrame, measure: str, number: str) -> None:
    """Print one measure of every rule against k, for each n, with the exponents in k."""
    index = ["rule", "n", "repetitions"]
    gridded = jobs.dropna(subset="grid")
    gridded = gridded.assign(k=gridded["grid"].str.removeprefix("k").astype(int))
    table = gridded.pivot_table(index=index, columns="k", values=measure, aggfunc="mean")
    heads = " | ".join(f"k = {k:,}" for k in table)
    print(f"\n| rule | n | repetitions | {heads} | exponent | over the last two |")
    print("|---" * (len(table.columns) + 5) + "|")
    for (rule, n, repetitions), row in table.iterrows():
        costs = row.dropna()
        x = pd.Series(costs.index)
        cells = " | ".join("-" if np.isnan(value) else format(value, number) for value in row)
        last = exponent(x[-2:], costs[-2:])
        print(f"| `{rule}` | {n:,} | {repetitions} | {cells} | {exponent(x, costs)} | {last} |")


def graphs(options: argparse.Namespace, folder: Path) -> None:
    """Print the time that Snakemake needs to plan the whole run of many regions."""
    print("\n| regions | jobs | CPU, s | wall, s | memory, MB |\n|---|---|---|---|---|")
    workflow = Workflow(folder / "graphs", 1, 100, options.cores)
    planned = []
    for regions in options.regions:
        config = configuration(regions, [400], options.repetitions)
        usage = workflow.run(config, "--dry-run", "--quiet", "rules")
        total = re.search(r"^total\s+(\d+)$", usage.output, re.MULTILINE)
        if not total:
            raise SystemExit(f"no number of jobs in:\n{usage.output}")
        planned.append((regions, int(total[1]), usage.cpu))
        print(
            f"| {regions:,} | {planned[-1][1]:,} | {usage.cpu:.1f} | {usage.wall:.0f} | "
            f"{usage.jobs['mb'].max():.0f} |",
            flush=True,
        )
    table = pd.DataFrame(planned, columns=["regions", "jobs", "cpu"])
    print(
        f"\nCPU grows with jobs to the power {exponent(table['jobs'], table['cpu'])}, over the "
        f"last two {exponent(table['jobs'][-2:], table['cpu'][-2:])}."
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cells", type=int, nargs="+", default=[100, 1000, 10_000, 100_000])
    parser.add_argument("--users", type=int, nargs="+", default=[10**5, 10**7, 10**9])
    parser.add_argument("--cities", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--regions", type=int, nargs="+", default=[1, 10, 100, 1000])
    parser.add_argument("--repetitions", type=int, default=2)
    parser.add_argument("--rows", type=int, default=200_000, help="check-ins of the file cropped")
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        print("| cities | users | repetitions | jobs | wall, s | CPU of jobs, s ", end="")
        print("| CPU of Snakemake for each, s | releases, MB |")
        print("|---" * 8 + "|")
        jobs = pd.concat(stages(options, Path(temporary)))
        print("\nCPU seconds of one job")
        growth(jobs, "cpu", ".1f")
        print("\nPeak memory of one job, MB")
        growth(jobs, "mb", ".0f")
        graphs(options, Path(temporary))


if __name__ == "__main__":
    main()
