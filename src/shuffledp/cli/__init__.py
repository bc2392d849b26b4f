"""The ``shuffledp`` command: privacy and errors of collections, and maps to publish."""

import os
import re
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import chain
from typing import Any

from shuffledp.cli.output import most_accurate_first, print_compared, print_rows, print_sparse
from shuffledp.cli.parser import parse
from shuffledp.errors import DEFECT, InputError, is_out_of_memory, one_line


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status.

    The status is 0 on success; 2 for invalid arguments or files, or a missing package; 1 if the
    output cannot be written, memory is short, or a certificate is not proven. Help and words that
    cannot be parsed raise `SystemExit`. Any other exception is a defect and is raised.
    """
    try:
        try:
            return _run(parse(sys.argv[1:] if arguments is None else arguments))
        finally:
            sys.stdout.flush()
    except InputError as error:
        print(f"shuffledp: {one_line(str(error))}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        if (error.name or "shuffledp").startswith("shuffledp"):
            raise
        print(
            f"shuffledp: this needs {error.name}, which is not installed: run pip install "
            "'.[maps]' in a clone of the repository",
            file=sys.stderr,
        )
        return 2
    except BrokenPipeError:  # the reader has closed the pipe, as in `shuffledp list | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if is_out_of_memory(error):
            detail = " ".join(str(error).split()) or type(error).__name__
            print(f"shuffledp: out of memory ({detail})", file=sys.stderr)
        elif isinstance(error, OSError):
            message = one_line(str(error))
            print(f"shuffledp: the answer cannot be written: {message}", file=sys.stderr)
        else:
            error.add_note(f"shuffledp: {DEFECT}")
            raise
        return 1


def _run(parsed: Namespace) -> int:
    """Execute a parsed command and return the exit status."""
    from shuffledp.cli import answers  # loads NumPy and SciPy, which --help does not need

    if parsed.command in ("publish", "certify", "restyle", "page"):
        try:
            getattr(answers, parsed.command)(parsed)
        except InputError as error:
            if parsed.command == "publish":
                raise InputError(_with_options(str(error))) from error
            raise
        return 0
    # Numbers that the user typed keep all their digits in tables.
    options = vars(parsed).values()
    values = chain.from_iterable(one if isinstance(one, list) else [one] for one in options)
    inputs = [float(number) for number in values if isinstance(number, float | Decimal)]
    rows = answers.answer(parsed)
    _warn_of_delta(rows)
    if parsed.command == "compare":
        # A terminal may be too narrow for the short table.
        if parsed.format == "table" and not parsed.detail and print_compared(rows, inputs):
            return 0
        rows = most_accurate_first(rows)
    if parsed.command == "compare-sparse" and parsed.format == "table":
        print_sparse(rows, inputs)
        return 0
    print_rows(rows, parsed.format, inputs)
    return int(any(row.get("verdict", "proven") != "proven" for row in rows))


def _warn_of_delta(rows: Sequence[Mapping[str, Any]]) -> None:
    """Warn on standard error of the first delta that promises nothing to single users."""
    for row in rows:
        n, delta = row.get("n"), row.get("delta")
        if isinstance(n, int) and isinstance(delta, float) and delta >= 1.0 / n:
            print(
                f"shuffledp: delta={delta:g} is at least 1/n, which protects nobody: publishing "
                f"one of the {n:,} records as it is would satisfy it; take a much smaller delta",
                file=sys.stderr,
            )
            return


def _with_options(message: str) -> str:
    """Replace the configuration keys in an error message about records by options of the command.

    ``set columns.user: ID`` and ``columns.user`` become ``give --user ID`` and ``--user``.
    """
    from shuffledp.publishing.options import Source

    keys = "|".join(each for each in Source.__dataclass_fields__ if each not in ("data", "name"))
    message = re.sub(r"\bset header: \w+ and ", "", message)
    message = re.sub(rf"\bset (?:columns\.)?({keys})(?::| to) ", r"give columns.\1 ", message)
    message = re.sub(
        r"(?<!columns\.)(max_malformed_share|time_format)[= ]", r"columns.\1 ", message
    )
    return re.sub(rf"\bcolumns\.({keys})\b", lambda key: f"--{key[1].replace('_', '-')}", message)
