"""Options that several commands share or `publish` has. Imports no third-party library."""

import argparse
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, TypeVar

from shuffledp.data.sources import QUOTING, USER_TYPES
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


def column(text: str) -> str | int:
    """Parse a column: its position from 0 if it is a number, its name otherwise."""
    return int(text) if text.isascii() and text.isdigit() else text


def separator(text: str) -> str:
    r"""Parse a separator; a tab may be written as \t."""
    return "\t" if text == "\\t" else text


SETTING: Final[dict[str, dict[str, Any]]] = {
    "--n": {"type": whole, "required": True, "help": "number of users"},
    "--k": {"type": whole, "required": True, "help": "number of cells"},
    "--eps0": {"type": real, "required": True, "help": "local budget of one report"},
}
SIZES: Final = {name: SETTING[name] for name in ("--n", "--k")}
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
        "ones; the guarantee counts on the others only (default 0)",
    },
    "--response-rate": {
        "type": real,
        "default": 1.0,
        "help": "probability with which each user responds, independently of the others and of "
        "the data; delta is for a user who responds (default 1). If responding depends on the "
        "data, give the smallest possible number of respondents as n",
    },
}
ROUNDS_AND_PARTICIPATION: Final = ROUNDS | SAMPLING | PARTICIPATION
DUMMIES: Final[dict[str, dict[str, Any]]] = {
    "--dummies": {
        "type": real,
        "default": 0.0,
        "help": "mean number of uniform reports that each user sends besides the k-RR report "
        "(default 0)",
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
# Details of one option, to which a command adds its name and may add a help text.
SEVERAL_MECHANISMS: Final[dict[str, Any]] = {"nargs": "+", "action": "extend", "metavar": "NAME"}
EPS: Final[dict[str, Any]] = {"type": real, "required": True, "help": "central budget"}
DELTA: Final[dict[str, Any]] = {"type": decimal, "required": True, "help": "target delta"}
SEVERAL_EPS: Final = {**EPS, "nargs": "+", "help": "central budgets"}
SEVERAL_DELTAS: Final = {**DELTA, "nargs": "+", "help": "target deltas"}
EPS_OR_DELTA: Final[dict[str, dict[str, Any]]] = {
    "--eps": {
        **SEVERAL_EPS,
        "required": False,
        "help": "central budgets; give either --eps or --delta",
    },
    "--delta": {**SEVERAL_DELTAS, "required": False},
}

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
        "help": "a mechanism listed by 'shuffledp list', instead of k-RR with --eps0; the output "
        "has a column for each view, as for 'compare'",
    },
    "--parameters": {
        "metavar": "NAME=VALUE,...",
        "help": "parameters of the mechanism in each round, as 'compare' prints them",
    },
}
COLLECTION: Final = SETTING | MECHANISM_OPTIONS | ROUNDS_AND_PARTICIPATION | DUMMIES | COUNT | BOUND

PUBLISH: Final[dict[str, dict[str, Any]]] = {
    "file": {
        "metavar": "FILE",
        "help": "records: text (plain or compressed), JSON lines, Parquet, a folder of such files, "
        "or points in a geographic format (docs/data.md lists all); or counts: columns 'cell' (the "
        "cell's id) and 'count'",
    },
    "--latitude": {
        "type": column,
        "metavar": "COLUMN",
        "help": "column of latitudes: its name, or its position from 0",
    },
    "--longitude": {"type": column, "metavar": "COLUMN", "help": "column of longitudes"},
    "--place": {
        "type": column,
        "metavar": "COLUMN",
        "help": "column with the id of each record's cell, instead of coordinates",
    },
    "--user": {"type": column, "metavar": "COLUMN", "help": "column of users (for --unit user)"},
    "--time": {"type": column, "metavar": "COLUMN", "help": "column of times (for --from)"},
    "--time-format": {
        "metavar": "FORMAT",
        "help": "format of the times: unix, unix-ms, unix-us or unix-ns (seconds or their parts "
        "since 1970), or for example '%%d/%%m/%%Y %%H:%%M' (default ISO 8601)",
    },
    "--separator": {
        "type": separator,
        "default": ",",
        "help": r"column separator of text files (default a comma; \t for a tab)",
    },
    "--decimal": {
        "choices": [".", ","],
        "default": ".",
        "help": "decimal mark of numbers in text files (default a point)",
    },
    "--quoting": {
        "choices": QUOTING,
        "default": QUOTING[0],
        "help": "how text files quote fields: strict (default): as RFC 4180 says, but a file "
        "in which a field with line breaks may hide records is refused; rfc4180: any such field; "
        "none: quotation marks are ordinary characters, and a line is a record",
    },
    "--crs": {
        "metavar": "EPSG:CODE",
        "help": "reference system of the coordinates (default degrees in WGS 84); the latitude is "
        "then the northing",
    },
    "--user-type": {
        "choices": USER_TYPES,
        "default": USER_TYPES[0],
        "help": "number (default): 7, 007 and 7.0 are one user; text: they are three",
    },
    "--max-malformed-share": {
        "type": real,
        "default": 0.01,
        "metavar": "SHARE",
        "help": "largest share of records that may be malformed, which do not count (default 0.01)",
    },
    "--cells": {
        "required": True,
        "help": "h3:8, metres:250, shape:20x30 or step:0.01x0.02 (degrees), or a file of polygons",
    },
    "--cell-name": {"metavar": "PROPERTY", "help": "polygon property that holds the cell's name"},
    "--cell-id": {"metavar": "PROPERTY", "help": "polygon property that holds the cell's id"},
    "--box": {
        "type": real,
        "nargs": 4,
        "metavar": ("SOUTH", "NORTH", "WEST", "EAST"),
        "help": "region of the cells in degrees",
    },
    "--outline": {"metavar": "FILE", "help": "region of the cells as GeoJSON"},
    "--from": {"dest": "first_day", "metavar": "DAY", "help": "first day that counts"},
    "--to": {"dest": "last_day", "metavar": "DAY", "help": "last day that counts"},
    "--every": {
        "choices": ["day", "week", "month"],
        "help": "make one map for each day, week or month; weeks are counted from the day of "
        "--from",
    },
    "--time-zone": {
        "default": "UTC",
        "metavar": "NAME",
        "help": "time zone of the days, such as Europe/Paris (default UTC). Times without an "
        "offset are taken as UTC. If yours are local times, leave this option out: each day then "
        "begins at 00:00 of the times as written",
    },
    "--unit": {
        "choices": ["record", "user"],
        "required": True,
        "help": "what is protected: one record, or all records of one user",
    },
    "--records-per-user": {
        "type": whole,
        "metavar": "M",
        "help": "largest number of records of a user that count, drawn at random (default 1)",
    },
    "--distinct": {
        "action": "store_true",
        "help": "count a user at most once in each cell (of each window)",
    },
    "--per-window": {
        "action": "store_true",
        "help": "let M records of a user count in each window instead of the whole period, at the "
        "price of more noise",
    },
    "--eps": {"type": decimal, "required": True, "help": "eps for adding or removing a unit"},
    "--delta": {
        "type": decimal,
        "default": Decimal(0),
        "help": "if above 0, Gaussian or Laplace noise is used, whichever is less (default 0: "
        "Laplace)",
    },
    "--mechanism": {"choices": ["laplace", "gaussian"], "help": "noise (default: see --delta)"},
    "--ledger": {
        "required": True,
        "metavar": "FILE",
        "help": "list of all publications about these people, created by the first",
    },
    "--total": {
        "type": decimal,
        "metavar": "EPS",
        "help": "total eps that a new ledger allows (default: that of this publication)",
    },
    "--output": {"required": True, "metavar": "FOLDER", "help": "folder to create"},
    "--title": {"default": "A private map", "help": "title of the map"},
    "--again": {
        "action": "store_true",
        "help": "pay once more for a map that was published before, because it is lost or the file "
        "has changed",
    },
}
