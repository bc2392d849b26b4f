"""What may be typed after ``shuffledp``; the standard library alone, so that --help is quick."""

import argparse
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NoReturn


def _number(text: str) -> int:
    """Integer that may be written 1e6."""
    try:
        value = Decimal(text)
        if value.is_finite() and value == value.to_integral_value() and abs(value) < 10**18:
            return int(value)
    except InvalidOperation:
        pass
    raise argparse.ArgumentTypeError(f"{text} is not a whole number")


def _delta(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise argparse.ArgumentTypeError(f"{text} is not a number") from None


class _Parser(argparse.ArgumentParser):
    """Errors in one line: the usage is what --help is for."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} ('{self.prog} --help' shows the usage)\n")


_SETTING: Final[dict[str, dict[str, Any]]] = {
    "--n": {"type": _number, "required": True, "help": "number of users"},
    "--k": {"type": _number, "required": True, "help": "number of cells"},
    "--eps0": {"type": float, "required": True, "help": "local budget of k-RR"},
    "--rounds": {
        "type": _number,
        "default": 1,
        "help": "times the same users report (default 1)",
    },
    "--count": {
        "type": _number,
        "help": "how many other users hold the target's cell (single-bin bounds)",
    },
}
_BOUND: Final[dict[str, dict[str, Any]]] = {
    "--bound": {
        "nargs": "+",
        "default": ["certified"],
        "metavar": "NAME",
        "help": "bounds to evaluate: 'certified' (default) or names of 'shuffledp list'",
    },
    "--sampling-rate": {
        "type": float,
        "default": 1.0,
        "help": "probability with which each user takes part (default 1)",
    },
}
_EPS: Final[dict[str, Any]] = {"type": float, "required": True, "help": "central budget"}
_DELTA: Final[dict[str, Any]] = {"type": _delta, "required": True, "help": "target delta"}
_SEVERAL_EPS: Final = {**_EPS, "nargs": "+", "help": "central budgets"}
_SEVERAL_DELTAS: Final = {**_DELTA, "nargs": "+", "help": "target deltas"}
_OPTIONAL: Final = "leave out exactly one of the five"

# Of each command: what it does, and its options.
_COMMANDS: Final[dict[str, tuple[str, dict[str, dict[str, Any]]]]] = {
    "delta": ("delta of given eps", _SETTING | _BOUND | {"--eps": _SEVERAL_EPS}),
    "epsilon": ("eps of given delta", _SETTING | _BOUND | {"--delta": _SEVERAL_DELTAS}),
    "calibrate": (
        "largest eps0 whose certified delta at eps meets the target",
        {name: _SETTING[name] for name in ("--n", "--k")}
        | {"--eps": _EPS, "--delta": _SEVERAL_DELTAS},
    ),
    "bounds": ("eps of every applicable bound, smallest first", _SETTING | {"--delta": _DELTA}),
    "plan": (
        "find the one of n, k, eps0, eps, delta that is left out (the smallest n, k, eps or delta, "
        "the largest eps0 that is certified), and predict the error of "
        "every mechanism at the same privacy (uniform histogram, unbiased estimates)",
        {
            "--n": {"type": _number, "help": _OPTIONAL},
            "--k": {"type": _number, "help": _OPTIONAL},
            "--eps0": {"type": float, "help": _OPTIONAL},
            "--eps": {"type": float, "help": _OPTIONAL},
            "--delta": {"type": _delta, "help": _OPTIONAL},
        },
    ),
    "certify": (
        "write a certificate of delta at eps, which 'shuffledp verify' checks",
        {name: _SETTING[name] for name in ("--n", "--k", "--eps0")}
        | {
            "--eps": _EPS,
            "--output": {"metavar": "FILE", "help": "where to write it (default: print it)"},
        },
    ),
    "verify": (
        "check certificates by ball arithmetic, with code that shares nothing with the accountant",
        {"files": {"nargs": "+", "metavar": "FILE", "help": "certificates to check"}},
    ),
    "list": ("every bound with its kind, worth and source", {}),
}


def make_parser() -> argparse.ArgumentParser:
    """Parser of the command line; what it parses has the command's name as ``command``."""
    parser = _Parser(
        prog="shuffledp",
        description="Privacy of shuffled k-randomised response: (eps, delta)-DP of the histogram "
        "for the replacement of one report, enclosed between certified bounds.",
        epilog="Only bounds marked as a guarantee in 'shuffledp list' may be promised to users.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (about, options) in _COMMANDS.items():
        command = commands.add_parser(name, help=about, description=about)
        for option, details in options.items():
            command.add_argument(option, **details)
        if name == "certify":  # it is JSON
            continue
        command.add_argument(
            "--format",
            choices=["table", "json", "csv"],
            default="table",
            help="how to print (default table)",
        )
    return parser
