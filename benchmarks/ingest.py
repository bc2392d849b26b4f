"""Measure how fast check-ins are cropped, compared with decompressing the file and with pandas.

    python benchmarks/ingest.py [--rows ROWS] [--file FILE]

First make_checkins.py makes a file like SNAP's loc-gowalla, with as many rows and packed as well.
Every task then runs three times in separate processes, in turn with the others. The table has the
shortest time of each without the start of Python, its ratio to decompression by zlib, and the peak
memory.
"""

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from make_checkins import NAMES, ROWS

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow" / "lib"))

REPEATS = 3
MOST_TIMES, MOST_MB = 1.5, 500
BOX = {"south": 37.7228, "north": 37.7946, "west": -122.5153, "east": -122.3789}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=ROWS, help=f"rows to make (default {ROWS})")
    parser.add_argument(
        "--file", type=Path, help="where to keep the file made, or one in SNAP's format to use"
    )
    parser.add_argument("--task", choices=TASKS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.task:
        run_task(TASKS[arguments.task], arguments.file)
    else:
        compare(arguments)


def compare(arguments: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = arguments.file or Path(directory) / "checkins.txt.gz"
        if not path.exists():
            # This needs a separate process: a child inherits the peak memory of its parent.
            maker = Path(__file__).with_name("make_checkins.py")
            command = [sys.executable, maker, path, "--rows", str(arguments.rows)]
            subprocess.run(command, check=True)
        print(f"{path.name}: {path.stat().st_size:,} bytes")
        report(path)


def inflate(path: Path) -> None:
    """Decompress with the standard library's zlib, one megabyte at a time."""
    decompressor = zlib.decompressobj(wbits=31)
    with path.open("rb") as stream:
        while piece := stream.read(1 << 20):
            decompressor.decompress(piece)


def inflate_arrow(path: Path) -> None:
    """Decompress with Arrow's zlib, as the pipeline does."""
    with pa.CompressedInputStream(pa.OSFile(str(path)), "gzip") as stream:
        while stream.read(4 << 20):
            pass


def gzip_command(path: Path) -> None:
    subprocess.run(["gzip", "-dc", path], stdout=subprocess.DEVNULL, check=True)


def crop(path: Path) -> None:
    from shuffledp.geography.checkins import SNAP, crop_checkins
    from shuffledp.geography.regions import Box, Region

    with tempfile.TemporaryDirectory() as directory:
        crop_checkins(
            path,
            SNAP,
            Region("city", Box(**BOX)),
            Path(directory) / "city.parquet",
            max_malformed_share=0,
            metadata={},
        )


def read_pandas(path: Path) -> None:
    import pandas as pd

    frame = pd.read_csv(path, sep="\t", names=NAMES, parse_dates=["time"])
    inside = frame["latitude"].between(BOX["south"], BOX["north"])
    inside &= frame["longitude"].between(BOX["west"], BOX["east"])
    if not inside.any():
        raise RuntimeError("pandas found no check-in in the box")


TASKS: dict[str, Callable[[Path], None]] = {
    "zlib": inflate,
    "arrow": inflate_arrow,
    "gzip": gzip_command,
    "crop": crop,
    "pandas": read_pandas,
}
LABELS = {
    "zlib": "decompress, Python's zlib",
    "arrow": "decompress, Arrow's zlib",
    "gzip": "decompress, gzip -dc",
    "crop": "crop_checkins",
    "pandas": "pandas.read_csv and filter",
}


def run_task(task: Callable[[Path], None], path: Path) -> None:
    if task is crop:
        import shuffledp.geography.checkins  # noqa: F401
    elif task is read_pandas:
        import pandas  # noqa: F401
    start = time.perf_counter()
    task(path)
    seconds = time.perf_counter() - start
    usage = resource.RUSAGE_CHILDREN if task is gzip_command else resource.RUSAGE_SELF
    unit = 1 if sys.platform == "darwin" else 1024
    print(json.dumps([seconds, resource.getrusage(usage).ru_maxrss * unit]))


def report(path: Path) -> None:
    tasks = [task for task in TASKS if task != "gzip" or shutil.which("gzip")]
    results: dict[str, list[tuple[float, int]]] = {task: [] for task in tasks}
    for _ in range(REPEATS):
        for task in tasks:
            command = [sys.executable, __file__, "--task", task, "--file", str(path)]
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
            results[task].append(tuple(json.loads(done.stdout)))
    reference = min(seconds for seconds, _ in results["zlib"])
    print(f"{'':28}{'seconds':>9}{'ratio':>8}{'peak MB':>9}")
    for task in tasks:
        seconds = min(seconds for seconds, _ in results[task])
        peak = max(peak for _, peak in results[task])
        print(f"{LABELS[task]:28}{seconds:9.2f}{seconds / reference:8.2f}{peak / 1e6:9.0f}")
    print(f"crop_checkins at full size: limit {MOST_TIMES} times zlib, {MOST_MB} MB")


if __name__ == "__main__":
    main()
