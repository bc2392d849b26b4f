"""The parser of the command line. Imports no third-party library, so that --help is fast."""

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import takewhile
from typing import Any, Final, NoReturn

from shuffledp.cli.options import (
    BOUND,
    COLLECTION,
    COUNT,
    DELTA,
    EPS,
    EPS_OR_DELTA,
    HIDDEN_SLOT,
    MECHANISM_OPTIONS,
    PARTICIPATION,
    PUBLISH,
    ROUNDS,
    ROUNDS_AND_PARTICIPATION,
    SETTING,
    SEVERAL_DELTAS,
    SEVERAL_EPS,
    SEVERAL_MECHANISMS,
    SIZES,
    decimal,
    real,
    whole,
)
from shuffledp.errors import InputError, did_you_mean, one_line
from shuffledp.mechanisms.catalogue import VIEWS
from shuffledp.version import find_version


class _Parser(argparse.ArgumentParser):
    """A parser that prints errors in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {one_line(message)} ('{self.prog} --help' shows the usage)\n")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        sys.stdout.flush()  # raises BrokenPipeError here, where `main` can handle it
        super().exit(status, message)


class _Version(argparse.Action):
    """Print the version, which is looked up only for this option."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        print(f"shuffledp {find_version()}")
        parser.exit()


# The description and the options of each command.
_COMMANDS: Final[dict[str, tuple[str, dict[str, dict[str, Any]]]]] = {
    "delta": (
        "enclose delta at given eps",
        COLLECTION | {"--eps": SEVERAL_EPS},
    ),
    "epsilon": (
        "enclose eps at given delta",
        COLLECTION | {"--delta": SEVERAL_DELTAS},
    ),
    "calibrate": (
        "find the largest eps0 whose certified delta at eps meets the target",
        SIZES | ROUNDS_AND_PARTICIPATION | {"--eps": EPS, "--delta": SEVERAL_DELTAS},
    ),
    "plan": (
        "compute the one of n, k, eps0, eps, delta that is left out (smallest certified n, k, eps "
        "or delta, largest certified eps0), and predict the error of one round's histogram for "
        "several mechanisms at the same privacy (uniform histogram, unbiased estimates): "
        "cell_sd_users is the standard deviation of a cell's estimated number of users, "
        "tv_distance the total variation distance of the shares",
        {
            option: {
                **details,
                "required": False,
                "help": f"{details['help']} (leave out exactly one of the five)",
            }
            for option, details in (SETTING | {"--eps": EPS, "--delta": DELTA}).items()
        }
        | ROUNDS_AND_PARTICIPATION
        | {
            "--mechanism": {
                **SEVERAL_MECHANISMS,
                "help": "mechanisms whose errors are predicted (default gaussian krr)",
            }
        },
    ),
    "compare": (
        "compare mechanisms at the same certified privacy: each is calibrated to (eps, delta). The "
        "table is at most 80 columns wide; a line is printed as soon as it is computed, in the "
        "order of --mechanism or of 'shuffledp list'. On a narrower terminal, with --detail, and "
        "in json or csv, all lines are printed at the end, the most accurate mechanism first. With "
        "--detail, and in json or csv, the columns are: all digits of the parameters; the local "
        "budget of a user's messages before they are mixed (local_eps0; empty: unbounded); the eps "
        "of four views (eps_...; empty: unbounded), namely analyst (opens the reports), shuffler "
        "(mixes them and reads the map), public (reads the map) and both servers together; the "
        "messages per user; the bytes that a user uploads, encrypted (bytes_sent); the number of "
        "people by which one dishonest user can change a cell's estimate (moved_by_one); the "
        "predicted error of the unbiased estimate (standard deviation of a cell's estimated number "
        "of users, root mean square over the cells and largest; total variation distance of the "
        "shares); and who must be trusted",
        {
            "--n": {"type": whole, "help": "number of users (default: those of the histogram)"},
            "--k": {
                "type": whole,
                "help": "number of cells (default: those of the histogram; additional cells are "
                "empty)",
            },
            "--eps": EPS,
            "--delta": DELTA,
            "--mechanism": {**SEVERAL_MECHANISMS, "help": "mechanisms to compare (default: all)"},
            "--histogram": {
                "metavar": "FILE",
                "help": "csv or parquet file with a column 'count', the users of each cell, such "
                "as a grid file of the pipeline (default: equally many users in each cell)",
            },
            "--slots": {
                "type": whole,
                "help": "messages per user, with the true one and blanks, for signed dummies",
            },
            "--share": {
                "type": real,
                "help": "smallest share of users who take part, for signed dummies (default 0.9)",
            },
            "--max-seconds": {
                "type": real,
                "default": 30.0,
                "metavar": "SECONDS",
                "help": "wall-clock limit for each mechanism (default 30)",
            },
            "--detail": {"action": "store_true", "help": "print all columns, and sources"},
        }
        | HIDDEN_SLOT
        | ROUNDS
        | PARTICIPATION,
    ),
    "matrix": (
        "enclose delta at given eps, or eps at given delta, for n users of a randomiser given as a "
        "matrix; also print the local budget of one report (local_eps0) and the "
        "error of the least-squares estimate of a uniform histogram (cell_sd_users: largest "
        "standard deviation of the estimated number of users with one given record; empty if rows "
        "are linearly dependent)",
        {
            "file": {
                "metavar": "FILE",
                "help": "csv or parquet, one row of probabilities per record",
            },
            "--n": SETTING["--n"],
            **EPS_OR_DELTA,
            "--pairs": {
                "metavar": "FILE",
                "help": "csv or parquet file with columns 'record' and 'neighbour': the pairs of "
                "rows, numbered from 0, that are neighbours (default: all)",
            },
            "--places": {
                "metavar": "FILE",
                "help": "csv or parquet file with columns 'latitude' and 'longitude' of each "
                "record, in degrees: records at most --distance apart are neighbours",
            },
            "--distance": {
                "type": real,
                "metavar": "KM",
                "help": "largest distance between neighbours, along a great circle",
            },
        }
        | HIDDEN_SLOT
        | ROUNDS
        | PARTICIPATION,
    ),
    "rounds": (
        "enclose delta at given eps, or eps at given delta, for all rounds of a file together; the "
        "rounds may differ (docs/rounds.md)",
        {
            "file": {
                "metavar": "FILE",
                "help": "csv file with columns n and k; eps0 for k-RR, or mechanism and parameters "
                "as for 'delta'; optionally rounds, the number of such rounds, and note (ignored)",
            },
            **EPS_OR_DELTA,
        },
    ),
    "personalised": (
        "compute the eps of users who choose their own budgets: for each group and for all users, "
        "next to published bounds and the eps if all had the largest or the smallest budget "
        "(docs/personalised.md)",
        {
            "--budgets": {
                "required": True,
                "metavar": "FILE",
                "help": "csv or parquet file with a column 'eps', the local budget of a user; "
                "optionally 'count', the number of users with it, and 'delta', if reports are only "
                "(eps, delta)-LDP, as Gaussian ones are",
            },
            "--delta": {
                "type": decimal,
                "default": Decimal("1e-6"),
                "help": "target delta (default 1e-6)",
            },
            "--mechanism": {
                "choices": ["krr", "binary", "laplace", "gaussian"],
                "default": "krr",
                "help": "how users report: k-RR (default), yes or no by randomised response, or a "
                "number in a known range with Laplace or Gaussian noise (output column sigma: "
                "standard deviation of Gaussian noise on a range of length 1)",
            },
            "--k": {"type": whole, "help": "number of cells (k-RR)"},
            **ROUNDS,
        },
    ),
    "bounds": (
        "list the eps of every applicable bound: guarantees first, each group smallest first "
        "('shuffledp list' and --format csv have the sources)",
        SETTING | ROUNDS | COUNT | {"--delta": DELTA},
    ),
    "rdp": (
        "bound the Renyi DP at given orders, for any randomiser and number of cells",
        {name: SETTING[name] for name in ("--n", "--eps0")}
        | ROUNDS
        | {
            "--order": {
                "type": real,
                "nargs": "+",
                "default": [2.0, 4.0, 8.0, 16.0, 32.0, 64.0],
                "help": "orders above 1, up to 1e6 (default 2 4 8 16 32 64); renyi takes integers",
            },
            "--bound": {
                "nargs": "+",
                "default": ["renyi"],
                "metavar": "NAME",
                "help": "renyi (default), renyi-simple, or renyi-special-pair (no guarantee)",
            },
        },
    ),
    "fdp": (
        "bound the trade-off function (f-DP): the smallest type II error of any test for one "
        "user's report with type I error alpha",
        SETTING
        | ROUNDS
        | BOUND
        | {
            "--alpha": {
                "type": real,
                "nargs": "+",
                "default": [0.001, 0.01, 0.05, 0.1, 0.2, 0.5],
                "help": "type I errors (default 0.001 0.01 0.05 0.1 0.2 0.5)",
            }
        },
    ),
    "certify": (
        "write a certificate of delta at eps, which 'shuffledp verify' checks: for k-RR (--eps0), "
        "for true reports among users' dummies (--dummies), or for a view of shuffler-dummies, "
        "two-servers or signed-dummies (--mechanism)",
        SIZES
        | {"--eps0": MECHANISM_OPTIONS["--eps0"], "--eps": EPS}
        | ROUNDS
        | {
            "--dummies": {
                "type": real,
                "help": "mean number of uniform reports that each user sends besides the true one",
            },
            "--chances": {
                "type": whole,
                "help": "largest number of dummies of a user (default: --dummies, rounded up)",
            },
            "--mechanism": {"metavar": "NAME", "help": "mechanism, with its --parameters"},
            "--parameters": MECHANISM_OPTIONS["--parameters"],
            "--view": {
                "choices": VIEWS,
                "default": VIEWS[0],
                "help": "party whose view is certified (default: analyst, who opens the reports)",
            },
            "--output": {"metavar": "FILE", "help": "file to write (default: print it)"},
        },
    ),
    "verify": (
        "check certificates with ball arithmetic, by code independent of the accountant",
        {"files": {"nargs": "+", "metavar": "FILE", "help": "certificates to check"}},
    ),
    "publish": (
        "publish a private map of records: a folder with the map and a statement of its guarantee, "
        "which may be handed to anybody, and a line in a ledger, which stays with you. Cells, "
        "dates and eps are published too: choose them without looking at the records "
        "(docs/publish.md)",
        PUBLISH,
    ),
    "ledger": (
        "show what was published about a population, what it cost and what is left",
        {
            "action": {"choices": ["show"], "help": "what to do"},
            "file": {"metavar": "FILE", "help": "ledger that 'shuffledp publish' wrote"},
        },
    ),
    "list": ("list bounds and mechanisms: kind, whether each is a guarantee, and source", {}),
    "completion": (
        "print shell code that completes commands and options; add this line to a start-up file: "
        'eval "$(shuffledp completion bash)"',
        {"shell": {"choices": ["bash", "zsh"], "help": "the shell"}},
    ),
}
# These commands print JSON, a script or sentences, and so have no --format.
_WITHOUT_FORMAT: Final = ("certify", "completion", "publish")


def _make_parser() -> tuple[_Parser, dict[str, _Parser]]:
    """Return the parser, and the parsers of the commands by their names."""
    parser = _Parser(
        prog="shuffledp",
        description="Privacy of shuffled k-randomised response: (eps, delta)-DP of the histogram "
        "for the replacement of one record, enclosed between certified bounds.",
        epilog="Only bounds marked as a guarantee in 'shuffledp list' may be promised to users. "
        "'shuffledp COMMAND --help' shows the options of a command.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    parsers = dict[str, _Parser]()
    for name, (about, options) in _COMMANDS.items():
        summary = re.split(r" \(|:|;", about)[0]
        command = parsers[name] = commands.add_parser(name, help=summary, description=about)
        command.set_defaults(command=name)
        for option, details in options.items():
            command.add_argument(option, **details)
        if name in _WITHOUT_FORMAT:
            continue
        command.add_argument(
            "--format",
            choices=["table", "json", "csv"],
            default="table",
            help="table: rounded, fitted to the terminal (default); json and csv: all digits",
        )
    return parser, parsers


def _check_words(parser: _Parser, parsers: Mapping[str, _Parser], words: Sequence[str]) -> None:
    """Exit with an error for an unknown command or option, and suggest a similar one.

    argparse would instead report a missing option first, which is often the misspelt one.
    """
    before = list(takewhile(lambda word: word.startswith("-"), words))
    after = words[len(before) :]
    _check_options(parser, before, ("--help", "--version"))
    if not after:
        return
    command = after[0]
    if command not in _COMMANDS:
        meant = did_you_mean(command, _COMMANDS) or f" (commands: {', '.join(_COMMANDS)})"
        parser.error(f"there is no command {command}{meant}")
    options = [*_COMMANDS[command][1], "--format", "--help"]
    _check_options(parsers[command], after[1:], options)


def _check_options(parser: _Parser, words: Sequence[str], options: Sequence[str]) -> None:
    for word in words:
        option = word.split("=")[0]
        if option.startswith("--") and not any(name.startswith(option) for name in options):
            parser.error(f"there is no option {option}{did_you_mean(option, options)}")


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse the words of the command line; the command's name is in ``command``.

    Like argparse, exit after printing help, version or completion, and for words that cannot be
    parsed; without words, print the help. Raise `InputError` for completion if shtab is missing.
    """
    parser, parsers = _make_parser()
    if not words:
        parser.print_help()
        parser.exit()
    _check_words(parser, parsers, words)
    parsed = parser.parse_args(words)
    if parsed.command == "completion":
        print(_completion(parser, parsed.shell))
        parser.exit()
    return parsed


def _completion(parser: _Parser, shell: str) -> str:
    try:
        import shtab
    except ImportError as error:
        raise InputError(
            "completion needs shtab, which is not installed: pip install shtab"
        ) from error
    return str(shtab.complete(parser, shell))
