"""Options that several commands share, and their types. Imports only the standard library."""

import argparse
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, TypeVar

from shuffledp.errors import shortened
from shuffledp.numerics import number_parsing

T = TypeVar("T")


def _parsed(parse: Callable[[str], T], text: str, kind: str) -> T:
    try:
        return parse(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{shortened(text)} is not {kind}") from None


def whole(text: str) -> int:
    """Parse an integer, which may be written like 1e6."""
    return _parsed(number_parsing.whole, text, "a whole number")


def real(text: str) -> float:
    """Parse a number to the nearest float."""
    return _parsed(number_parsing.number, text, "a number")


def decimal(text: str) -> Decimal:
    """Parse a number exactly."""
    return _parsed(number_parsing.exact, text, "a number")


SETTING: Final[dict[str, dict[str, Any]]] = {
    "--n": {"type": whole, "required": True, "help": "number of users"},
    "--k": {"type": whole, "required": True, "help": "number of cells"},
    "--eps0": {"type": real, "required": True, "help": "local budget of one report"},
}
ROUNDS: Final[dict[str, dict[str, Any]]] = {
    "--rounds": {
        "type": whole,
        "default": 1,
        "help": "number of rounds in which the same users report; eps and delta are those of all "
        "rounds together (default 1)",
    },
}
SAMPLING: Final[dict[str, dict[str, Any]]] = {
    "--sampling-rate": {
        "type": real,
        "default": 1.0,
        "help": "probability with which each user takes part in a round, independently of other "
        "rounds (default 1); see docs/rounds.md",
    },
}
PARTICIPATION: Final[dict[str, dict[str, Any]]] = {
    "--colluding": {
        "type": whole,
        "default": 0,
        "help": "number of the n users who reveal their messages to the analyst or send arbitrary "
        "ones; only the others hide a user (default 0)",
    },
    "--response-rate": {
        "type": real,
        "default": 1.0,
        "help": "probability with which each user responds, independently of the others and of "
        "the data; delta is that of a user who does (default 1). If it depends on the data, give "
        "the smallest possible number of respondents as n",
    },
}
DUMMIES: Final[dict[str, dict[str, Any]]] = {
    "--dummies": {
        "type": real,
        "default": 0.0,
        "help": "mean number of uniform reports that each user sends besides the true one (default "
        "0)",
    },
}
COUNT: Final[dict[str, dict[str, Any]]] = {
    "--count": {
        "type": whole,
        "help": "number of other users in the target's cell (single-bin bounds)",
    },
}
BOUND: Final[dict[str, dict[str, Any]]] = {
    "--bound": {
        "nargs": "+",
        "default": ["certified"],
        "metavar": "NAME",
        "help": "bounds to evaluate: 'certified' (default) or names of 'shuffledp list'",
    },
}
MECHANISM: Final[dict[str, Any]] = {"nargs": "+", "action": "extend", "metavar": "NAME"}
EPS: Final[dict[str, Any]] = {"type": real, "required": True, "help": "central budget"}
DELTA: Final[dict[str, Any]] = {"type": decimal, "required": True, "help": "target delta"}
SEVERAL_EPS: Final = {**EPS, "nargs": "+", "help": "central budgets"}
SEVERAL_DELTAS: Final = {**DELTA, "nargs": "+", "help": "target deltas"}

HIDDEN_SLOT: Final[dict[str, dict[str, Any]]] = {
    "--hidden-slot": {
        "action": "store_true",
        "help": "also use the hidden-slot bound for local randomisers, which is usually tighter; "
        "nobody outside this project has reviewed its proof (docs/hidden-slot.md)",
    },
}

# Options of `delta` and `epsilon`.
MECHANISM_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "--eps0": {**SETTING["--eps0"], "required": False},
    "--mechanism": {
        "metavar": "NAME",
        "help": "mechanism of 'shuffledp list', instead of k-RR with --eps0; the output has a "
        "column for each view, as for 'compare'",
    },
    "--parameters": {
        "metavar": "NAME=VALUE,...",
        "help": "parameters of the mechanism in each round, as 'compare' prints them",
    },
}
COLLECTION: Final = (
    SETTING | MECHANISM_OPTIONS | ROUNDS | SAMPLING | PARTICIPATION | DUMMIES | COUNT | BOUND
)
