"""Stop a process just before a file event that a test has chosen; see `background.Stop`.

Python imports this at its start where the folder is on PYTHONPATH. Snakemake and its jobs inherit
that, under Slurm as well. An event reads `job os.rename results/grids/town.parquet`: who is about
to do what to which file. Opening counts only for writing, and only when Python itself opens.
"""

import os
import re
import signal
import sys
from pathlib import Path

EVENTS = {"open", "os.mkdir", "os.remove", "os.rename"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def described(event: str, arguments: tuple) -> str | None:
    """Describe the event, or return None if it changes no file."""
    if event not in EVENTS or (event == "open" and not arguments[2] & WRITING):
        return None
    path = arguments[1] if event == "os.rename" else arguments[0]
    if isinstance(path, int):
        return None
    who = "job" if any(".snakemake/scripts/" in word for word in sys.orig_argv) else "snakemake"
    return f"{who} {event} {os.fsdecode(path)}"


def stop_at(pattern: str, number: int, folder: Path) -> None:
    """Stop the process that comes to the `number`-th event of all processes that matches."""
    wanted = re.compile(pattern)
    # All processes share a count: each event appends a byte, whose offset is the event's number.
    tally = os.open(folder / "tally", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def hook(event: str, arguments: tuple) -> None:
        words = described(event, arguments)
        if words is None or not wanted.search(words):
            return
        os.write(tally, b".")
        if os.lseek(tally, 0, os.SEEK_CUR) == number:
            (folder / "stopped").symlink_to(str(os.getpid()))
            signal.raise_signal(signal.SIGSTOP)

    sys.addaudithook(hook)


if "SHUFFLEDP_STOP_AT" in os.environ:
    stop_at(
        os.environ["SHUFFLEDP_STOP_AT"],
        int(os.environ["SHUFFLEDP_STOP_NUMBER"]),
        Path(os.environ["SHUFFLEDP_STOP_FOLDER"]),
    )
