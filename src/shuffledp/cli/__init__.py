"""The ``shuffledp`` command, which computes the privacy of a collection and predicts its errors."""

import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from itertools import chain

from shuffledp.cli.output import most_accurate_first, print_compared, print_rows
from shuffledp.cli.parser import parse
from shuffledp.errors import DEFECT, InputError, is_out_of_memory, one_line
from shuffledp.mechanisms.catalogue import CATALOGUE


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status.

    The status is 0 on success; 2 for invalid arguments or files; 1 if the output cannot be written,
    memory is short, or a certificate is not proven. Help and words that cannot be parsed raise
    `SystemExit`. Any other exception is a defect and is raised.
    """
    try:
        status = _run(parse(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
        return status
    except InputError as error:
        print(f"shuffledp: {one_line(str(error))}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader has closed the pipe, as in `shuffledp list | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        return _report(error)


def _report(error: Exception) -> int:
    """Print an error of memory or output and return the exit status; raise any other error."""
    if is_out_of_memory(error):
        detail = " ".join(str(error).split()) or type(error).__name__
        print(f"shuffledp: out of memory ({detail})", file=sys.stderr)
        return 1
    if isinstance(error, OSError):
        print(f"shuffledp: the answer cannot be written: {one_line(str(error))}", file=sys.stderr)
        return 1
    error.add_note(f"shuffledp: {DEFECT}")
    raise error


def _run(parsed: Namespace) -> int:
    """Execute a parsed command and return the exit status."""
    # These imports load NumPy and SciPy, which --help does not need.
    from shuffledp.cli.answers import answer, certify, publish
    from shuffledp.results import PROVEN

    if parsed.command == "publish":
        publish(parsed)
        return 0
    if parsed.command == "certify":
        certify(parsed)
        return 0
    values = vars(parsed).values()
    typed = chain.from_iterable(one if isinstance(one, list) else [one] for one in values)
    inputs = [number for number in typed if isinstance(number, float)]
    if parsed.command == "compare" and parsed.format == "table" and not parsed.detail:
        print_compared(answer(parsed), parsed.mechanism or CATALOGUE, inputs)
        return 0
    rows = list(answer(parsed))
    if parsed.command == "compare":
        rows = most_accurate_first(rows)
    print_rows(rows, parsed.format, inputs)
    return int(any(row.get("verdict", PROVEN) != PROVEN for row in rows))
