"""Call every command with odd arguments: none may show a traceback, hang or take 2 GB.

    python tests/faults/fuzz.py --calls 3000 --seed 7

A process with limits makes the calls; every fiftieth call has a process of its own, as for users.
A call that cannot be answered must end with status 2 and one line.
"""

import argparse
import contextlib
import io
import multiprocessing
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import numpy as np
from shuffledp.cli import main as shuffledp
from shuffledp.cli import parser

sys.path.insert(0, str(Path(__file__).parents[1]))  # for make fuzz

from faults import odd_files

MEMORY, SECONDS = 2 * 2**30, 30
ALONE = 50  # one call in this many has a process of its own
LONGEST_LINE = 1_500

USERS = ("1", "2", "7", "100", "1e3", "54321", "1e6", "1e10", "1e11", "0", "-1")
CELLS = ("2", "3", "4", "16", "408", "1e6", "1e7", "1", "0")
BUDGETS = ("1", "0.1", "4", "8", "1e-3", "300", "301", "5e-324", "1e-200", "20", "0")
EPS = ("0.5", "0.1", "0", "1e-9", "5e-324", "3", "349.9", "1e300")
DELTAS = ("1e-6", "1e-8", "0.5", "1", "1e-400", "1e-99999", "0", "2")
# Odd values for any option.
ODD = (
    *("nan", "inf", "-inf", "1_0", "٣", "0x64", "", " ", "1e999999999", "9" * 6000, "x" * 5000),
    *("1e", ".", "-", "é\x1b[2J", "a\nb"),
)
OF = {
    "--n": USERS, "--k": CELLS, "--eps0": BUDGETS, "--eps": EPS, "--delta": DELTAS,
    "--rounds": ("1", "2", "10", "365", "1e6", "1e7", "1e17", "0"),
    "--sampling-rate": ("1", "0.5", "0.01", "1e-300", "0", "2"),
    "--response-rate": ("1", "0.9", "0.3", "0", "2"),
    "--colluding": ("0", "1", "10", "1e9"),
    "--dummies": ("0", "0.5", "3", "1e5", "1e12", "-1"),
    "--chances": ("1", "4", "1e9"),
    "--count": ("0", "1", "50", "1e12"),
    "--alpha": ("0.1", "0", "1", "2", "1e-300"),
    "--order": ("2", "4", "1.5", "1e6", "1e7", "1"),
    "--format": ("json", "csv", "table", "xml"),
    "--bound": ("certified", "clones", "renyi", "upper", "lower", "single-bin", "blanket-bennett",
                "exact-2rr", "none"),
    "--slots": ("2", "71", "1e5", "0"),
    "--mechanism": ("gaussian", "krr", "binary", "laplace", "user-dummies", "hadamard", "oue"),
}  # fmt: skip
FILES = ("file", "files", "--budgets", "--histogram")
Call = list[str]


def calls(random: np.random.Generator, files: Sequence[Path], folder: Path) -> Iterator[Call]:
    """Yield endless calls, most of them right except for one or two words."""

    def value(option: str) -> str:
        if option in FILES:
            return str(files[int(random.integers(len(files)))])
        if option == "--output":
            return str(folder / "out.json")
        known = OF.get(option, ("bash",))
        if random.random() < 0.03:
            return ODD[int(random.integers(len(ODD)))]
        # The first values are most often valid.
        return known[min(int(random.exponential(len(known) / 3.0)), len(known) - 1)]

    names = sorted(parser._COMMANDS)
    while True:
        command = names[int(random.integers(len(names)))]
        words = [command]
        for option, details in parser._COMMANDS[command][1].items():
            needed = details.get("required", False) or not option.startswith("--")
            if random.random() > (0.97 if needed else 0.25 if option in OF else 0.5):
                continue
            words += [option] if option.startswith("--") else []
            if "action" in details and details["action"] == "store_true":
                continue
            several = details.get("nargs") == "+" and random.random() < 0.3
            words += [value(option) for _ in range(2 if several else 1)]
        if random.random() < 0.3 and command not in parser._WITHOUT_FORMAT:
            words += ["--format", value("--format")]
        if random.random() < 0.02:
            words.append(ODD[int(random.integers(len(ODD)))])
        yield words


class HungError(BaseException):
    """Interrupt a call that takes too long; no handler in the package catches it as an error."""


def _hung(*_: object) -> None:
    raise HungError


def limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def find_fault(status: object, error: str) -> str | None:
    """Return what is wrong with how a call ended, if anything."""
    if "Traceback" in error:
        return error.strip().splitlines()[-1][:300]
    if status not in (0, 1, 2):
        return f"status {status}"
    if status == 2 and (error.count("\n") != 1 or len(error) > LONGEST_LINE):
        return f"{error.count(chr(10))} lines, {len(error)} characters: {error[:200]!r}"
    return None


def called(words: Call) -> str | None:
    """Make a call in this process and return what is wrong with it, if anything."""
    out, error = io.StringIO(), io.StringIO()
    signal.signal(signal.SIGPROF, _hung)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
            status: Any = shuffledp(words)
    except SystemExit as stopped:
        status = stopped.code or 0
    except HungError:
        return f"more than {SECONDS} s"
    except BaseException as failure:
        return f"{type(failure).__name__}: {str(failure)[:300]}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
    return find_fault(status, error.getvalue())


def called_alone(words: Call) -> str | None:
    """Make a call in a new process and return what is wrong with it, if anything."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "shuffledp", *words], capture_output=True, check=False,
            timeout=20 * SECONDS, preexec_fn=limit, encoding="utf-8", errors="replace",
        )  # fmt: skip
    except ValueError:  # the system cannot pass such a word to a process
        return None
    except subprocess.TimeoutExpired:
        return "hangs"
    return find_fault(done.returncode, done.stderr)


class Limited:
    """Answer calls in a process, which is replaced if a call ends it."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(1, context, initializer=limit)

    def call(self, words: Call) -> str | None:
        try:
            # The call's own limit counts processor time; a busy machine may need far longer.
            return self._pool.submit(called, words).result(20 * SECONDS)
        except TimeoutError:
            wrong = "hangs"
        except BrokenProcessPool:
            wrong = "the process ended"
        self.end()
        self._start()
        return wrong

    def end(self) -> None:
        for process in multiprocessing.active_children():
            process.kill()
        self._pool.shutdown()


def fuzz(number: int, seed: int, seconds: float) -> tuple[Counter, list[tuple[Call, str]]]:
    """Return how often each command was called, and which calls went wrong."""
    from tqdm import tqdm

    random, begun, wrong = np.random.default_rng(seed), Counter(), list[tuple[Call, str]]()
    start, process = time.monotonic(), Limited()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        generated = calls(random, odd_files.make(folder, random), folder)
        for i in tqdm(range(number), desc="calls", disable=None):
            if time.monotonic() - start > seconds:
                break
            words = next(generated)
            begun[words[0]] += 1
            complaint = called_alone(words) if i % ALONE == ALONE - 1 else process.call(words)
            if complaint and "Memory" in complaint:  # earlier calls may have taken the memory
                complaint = called_alone(words)
            if complaint:
                wrong.append((words, complaint))
    process.end()
    return begun, wrong


def main() -> None:
    parsed = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parsed.add_argument("--calls", type=int, default=3000, help="how many (default 3000)")
    parsed.add_argument("--seed", type=int, default=1, help="of the calls (default 1)")
    parsed.add_argument("--seconds", type=float, default=3600.0, help="at most (default 3600)")
    arguments = parsed.parse_args()
    begun, wrong = fuzz(arguments.calls, arguments.seed, arguments.seconds)
    for command, count in begun.most_common():
        print(f"{count:>6}  {command}")
    for words, complaint in wrong:
        shown = " ".join(word if len(word) < 80 else f"{word[:20]}..." for word in words)
        print(f"WRONG: shuffledp {shown}: {complaint}")
    print(f"{begun.total()} calls, {len(wrong)} wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
