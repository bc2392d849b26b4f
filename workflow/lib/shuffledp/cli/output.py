"""How answers are printed: no digit is rounded to the unsafe side."""

import csv
import json
import math
import sys
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from typing import Any

Row = dict[str, Any]

# What a print must not round the wrong way: ends of intervals, and answers that keep a promise.
_UP = {"delta_upper", "log10_delta_upper", "eps_upper", "eps", "delta", "log10_delta"}
_DOWN = {"delta_lower", "log10_delta_lower", "eps_lower", "eps0"}


def _rounding(name: str, row: Row) -> str:
    """Up or down, whichever is the safe side of a column; of a lower bound that is down."""
    if name in _DOWN or (name in _UP and row.get("kind") == "lower"):
        return ROUND_FLOOR
    return ROUND_CEILING if name in _UP else ROUND_HALF_EVEN


def _cell(name: str, row: Row) -> str:
    """Seven digits, rounded to the safe side."""
    value = row[name]
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, float) or not math.isfinite(value):
        return str(value)
    shortest = Decimal(repr(float(value)))  # what the user wrote, where it is an echo
    rounded = Context(prec=7, rounding=_rounding(name, row)).create_decimal(shortest)
    return f"{float(rounded):.7g}" if rounded else "0"


def _finite(value: object) -> object:
    """Infinity is no JSON: it becomes null, like a side that a bound does not have."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_rows(rows: Sequence[Row], style: str) -> None:
    """Print rows of the same columns.

    Parameters
    ----------
    rows
        At least one; None where a value does not exist.
    style
        ``table`` (seven digits), ``csv`` or ``json`` (all digits).
    """
    if style == "json":
        finite = [{name: _finite(value) for name, value in row.items()} for row in rows]
        print(json.dumps(finite, indent=2, allow_nan=False))
    elif style == "csv":
        writer = csv.DictWriter(sys.stdout, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    else:
        lines = [list(rows[0]), *([_cell(name, row) for name in row] for row in rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        for line in lines:
            cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
            print("  ".join(cells).rstrip())
