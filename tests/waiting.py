"""Waits with a time limit, whose errors say what did not happen.

The limits are long, so that a slow machine is not mistaken for a hang.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

TAIL = 4000  # characters of a run's output in a message


def wait_until(condition: Callable[[], object], what: str, seconds: float = 180.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"no {what} within {seconds:g} s"
        time.sleep(0.05)


def session(leader: int) -> dict[int, str]:
    """Return the processes of a session, with their command lines from /proc."""
    processes = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(state[3]) == leader and state[0] != "Z":
                processes[int(folder.name)] = (folder / "cmdline").read_bytes().decode()
        except OSError:
            continue  # it has ended meanwhile
    return processes


def kill_session(process: subprocess.Popen) -> None:
    """Kill a session's leader and all that it started, and wait for their end."""

    def gone() -> bool:
        left = session(process.pid)
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue  # it has ended meanwhile
        return not left

    wait_until(gone, f"end of the session of {process.args}")
    process.wait(timeout=60)


def run(command: list[str], seconds: float, **options: object) -> subprocess.CompletedProcess:
    """Return a command's output and status; past the limit kill all that it started."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **options,
    )
    try:
        stdout, stderr = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        kill_session(process)
        tail = "".join(process.communicate(timeout=60))[-TAIL:]
        raise AssertionError(f"no end of {command} within {seconds:g} s: {tail}") from None
    except BaseException:  # an interrupted test leaves nothing behind
        kill_session(process)
        raise
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


def run_python(
    *arguments: object, seconds: float = 300.0, env: Mapping[str, str] | None = None, **options
) -> subprocess.CompletedProcess:
    """Run Python with the paths of this process and return its output and status."""
    path = {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, *map(str, arguments)]
    return run(command, seconds, env={**os.environ, **path, **(env or {})}, **options)


def finished(process: subprocess.Popen, seconds: float, printed: Callable[[], str]) -> int:
    """Return the exit status of a session's leader; past the limit kill the session."""
    try:
        return process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        kill_session(process)
        tail = printed()[-TAIL:]
        raise AssertionError(f"no end of {process.args} within {seconds:g} s: {tail}") from None
