"""Run Snakemake in the background and stop it at chosen file events."""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from waiting import TAIL, finished, kill_session, wait_until

STOPPING = Path(__file__).parent / "stopping"


@dataclass
class Stop:
    """Stop a run before the `number`-th file event that matches `pattern`.

    The process that reaches the event is halted by a signal that it cannot catch, until the test
    kills it or lets it continue. `stopping/sitecustomize.py` describes the events.
    """

    folder: Path
    pattern: str
    number: int = 1

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)

    def environment(self) -> dict[str, str]:
        path = [str(STOPPING), os.environ.get("PYTHONPATH", "")]
        return {
            "PYTHONPATH": os.pathsep.join(filter(None, path)),
            "SHUFFLEDP_STOP_AT": self.pattern,
            "SHUFFLEDP_STOP_NUMBER": str(self.number),
            "SHUFFLEDP_STOP_FOLDER": str(self.folder),
        }

    def events(self) -> int:
        """Return the number of matching events so far."""
        return (self.folder / "tally").stat().st_size

    def process(self) -> int | None:
        """Return the id of the stopped process, or None."""
        mark = self.folder / "stopped"
        return int(mark.readlink().name) if mark.is_symlink() else None

    def go_on(self) -> None:
        os.kill(self.process(), signal.SIGCONT)


class Background:
    """Snakemake in a session of its own, which is killed at the end of the `with` block."""

    def __init__(self, clone, *arguments: str, stop: Stop | None = None) -> None:
        clone.write_configuration()
        self.clone = clone
        self.stop = stop
        self.log = clone.path.parent / f"printed.{len(list(clone.path.parent.glob('printed.*')))}"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "snakemake", *arguments],
                cwd=clone.path,
                env={**os.environ, **clone.environment, **(stop.environment() if stop else {})},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def __enter__(self) -> "Background":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def printed(self) -> str:
        return self.log.read_text()

    def wait_for(self, condition, what: str, seconds: float = 600.0) -> None:
        def reached():
            if condition():
                return True
            assert self.process.poll() is None, f"ended before {what}: {self.printed()[-TAIL:]}"
            return False

        wait_until(reached, what, seconds)

    def wait_for_stop(self) -> int:
        """Wait for the chosen event and return the id of the stopped process."""
        self.wait_for(lambda: self.stop.process() is not None, self.stop.pattern)
        return self.stop.process()

    def finished(self, seconds: float = 900.0) -> int:
        """Wait for the end and return the exit status."""
        return finished(self.process, seconds, self.printed)

    def kill(self) -> None:
        """Send SIGKILL to Snakemake and to all its local jobs."""
        kill_session(self.process)
