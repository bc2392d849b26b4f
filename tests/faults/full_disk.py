"""Writes results onto file systems that are too small, and prints what became of each as JSON.

Run by test_disks.py in a mount namespace of its own, so that the mounts end with this process.
Arguments: a folder to mount on, and one with the inputs.
"""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

from shuffledp.geography.checkins import SNAP, crop_checkins
from shuffledp.geography.download import fetch_cached
from shuffledp.geography.embedded import lay_checkins
from shuffledp.geography.grid import grid_checkins
from shuffledp.geography.regions import Box, Region
from shuffledp.pipeline.jobs import job
from shuffledp.pipeline.tables import PRIVACY, read_tables, write_table

REGION = Region("world", Box(-90, 90, -180, 180))


def tasks(inputs: Path, url: str):
    """One writing of each kind, with the sizes of disk in KiB to try it on."""
    cropped, table = inputs / "cropped.parquet", inputs / "table.parquet"

    def crop(out):
        crop_checkins(
            inputs / "in.txt", SNAP, REGION, out, max_malformed_share=0, metadata={"a": "b"}
        )

    return {
        "crop": crop,
        "grid": lambda out: grid_checkins(cropped, REGION, {"shape": [40, 40]}, out, {}),
        "table": lambda out: write_table(read_tables([table]), PRIVACY, out, {}),
        "lay": lambda out: lay_checkins(inputs / "counts.csv", out, seed=1),
        "fetch": lambda out: fetch_cached(url, out, cache=out.parent / "cache", checksum=None),
    }


def attempt(task, place: Path) -> dict:
    """Run a task as a job does; tell how it ended and what it left."""
    code = 0
    try:
        with job(str(place / "log")):
            task(place / "disk" / "out")
    except SystemExit as end:
        code = int(end.code or 0)
    out = place / "disk" / "out"
    left = sorted(path.name for path in (place / "disk").rglob("*") if path.is_file())
    return {
        "code": code,
        "log": (place / "log").read_text(),
        "left": left,
        "sha256": hashlib.sha256(out.read_bytes()).hexdigest() if out.exists() else None,
    }


def main(place: Path, inputs: Path, url: str) -> None:
    outcomes = []
    (place / "disk").mkdir()
    for name, task in tasks(inputs, url).items():
        for kilobytes in (4, 8, 16, 32, 48, 64, 96, 128, 192, 256, 100_000):
            options = f"size={kilobytes}k"
            disk = str(place / "disk")
            subprocess.run(
                ["mount", "-t", "tmpfs", "-o", options, "tmpfs", disk], check=True, timeout=300
            )
            outcomes.append({"task": name, "kilobytes": kilobytes, **attempt(task, place)})
            subprocess.run(["umount", disk], check=True, timeout=300)
    json.dump(outcomes, sys.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
