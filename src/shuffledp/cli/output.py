"""Print results as tables, CSV or JSON.

In tables, a certified end is rounded so that it stays valid: upper ends up, lower ends down.
"""

import csv
import json
import math
import shutil
import sys
import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from itertools import takewhile
from typing import Any, Final

from shuffledp.mechanisms.catalogue import CATALOGUE, VIEWS

Row = dict[str, Any]

_MIN_WRAPPED_WIDTH: Final = 24  # characters of a last column with sentences
_PAGE_WIDTH: Final = 80  # characters of text and of the table of `compare`
_FOOTNOTES: Final = ("neighbours", "unit")  # the same in all rows, and printed below a table
# The two header lines of the table of `compare`.
_HEADS_ABOVE: Final = ("", "error", "sent", "bytes", "moved", "eps of", "", "", "", "who is")
_HEADS: Final = ("mechanism", "people", "each", "each", "by 10", *VIEWS, "trusted")
# Widths of the columns between the first and the last, with at least one space before a heading.
_WIDTHS: Final = (7, 5, 7, 6, 8, 9, 7, 5)
_NOTES: Final = (
    "error: standard deviation of a cell's count, root mean square over the cells",
    "sent: messages per user; bytes: what a user uploads, encrypted; moved: how far 10 dishonest "
    "users move a cell's count, at most",
    "eps of: the analyst, who opens the reports; the shuffler, who mixes them and reads the map; "
    "the public, who reads the map; both servers together. A dash: it sees every record, or the "
    "exact histogram",
    "more: --detail (parameters, largest error, sources), --format json (all digits)",
)
_USERS: Final = "*: all users are trusted too, because they add dummies"
# Numbers of people of a cell whose errors `compare-sparse` prints, and the heads of its table.
SPARSE_RECORDS: Final = (0, 10, 100, 1000)
_SPARSE_HEADS_ABOVE: Final = f"{'shown':>26}{'error in people, of a cell with':>33}    sent dummies"
_SPARSE_HEADS: Final = ("way", "from", *(f"{each:,}" for each in SPARSE_RECORDS), "each", "each")
_SPARSE_NOTES: Final = (
    "shown from: the smallest count that is shown with probability 0.95; error: root mean square, "
    "where hidden cells count as 0; dummies: on average",
    "two-servers and shuffler-dummies need a list of all cells, and sample-threshold servers that "
    "see nothing of hidden cells",
    "more: --format json (parameters, who is trusted, all digits)",
)
# Direction in which the floats of each column are rounded in tables. Certified ends and parameters
# of a guarantee are rounded so that they stay valid. Only columns listed here can be printed.
_DIRECTIONS: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            *("delta_upper", "log10_delta_upper", "eps_upper", "eps", "delta", "log10_delta"),
            *("rdp", "local_eps0", "sigma", "moved_by_one", "high"),
            *("cost", "spent", "total_eps", "total_delta"),
            *(f"{what}_{view}" for what in ("eps", "delta") for view in VIEWS),
        ),
        ROUND_CEILING,
    ),
    **dict.fromkeys(
        (
            *("delta_lower", "log10_delta_lower", "eps_lower", "eps0", "type_2_error_at_least"),
            *("low", "left"),
        ),
        ROUND_FLOOR,
    ),
    **dict.fromkeys(
        (
            *("response_rate", "sampling_rate", "dummies", "alpha", "order", "budget_low"),
            *("budget_high", "messages", "bytes_sent", "cell_sd_users", "largest_cell_sd_users"),
            *("tv_distance", "count"),
            *(f"error_of_{records}" for records in SPARSE_RECORDS),
        ),
        ROUND_HALF_EVEN,
    ),
}


def _rounding(name: str, row: Row) -> str:
    """Return the direction in which a column is rounded, which is down for a lower bound.

    Raise a KeyError for a column that `_DIRECTIONS` lacks.
    """
    # `plan` prefixes columns with the name of a mechanism.
    direction = _DIRECTIONS.get(name) or _DIRECTIONS[name.partition("_")[2]]
    return ROUND_FLOOR if row.get("kind") == "lower" else direction


def _format_cell(name: str, row: Row, inputs: Collection[float]) -> str:
    """Return a value as text, with all digits if it is an input.

    Otherwise it has seven digits and is rounded in the direction of its column.
    """
    value = row[name]
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, float) or not math.isfinite(value):
        return str(value)
    shortest = Decimal(repr(float(value)))
    if value in inputs and len(shortest.as_tuple().digits) > 7:
        return repr(float(value))  # a certified end might be false at a rounded input
    rounded = Context(prec=7, rounding=_rounding(name, row)).create_decimal(shortest)
    return f"{float(rounded):.7g}" if rounded else "0"


def _format_short(name: str, row: Row, factor: int = 1) -> str:
    """Return a value times `factor` in at most seven characters: three digits or a whole number."""
    if row[name] is None:
        return "-"
    value = Decimal(repr(float(row[name]))) * factor

    def rounded(digits: int) -> Decimal:
        return Context(prec=digits, rounding=_rounding(name, row)).create_decimal(value)

    whole = value.quantize(Decimal(1), _rounding(name, row))
    plain = f"{whole if value == whole or value >= 100 else rounded(3):f}"
    return plain if len(plain) <= 7 else f"{rounded(3):.2e}".replace("e+", "e")


def _json_value(value: object) -> object:
    """Return a value, or None if it is infinite or NaN, which JSON cannot represent."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_rows(rows: Sequence[Row], style: str, inputs: Collection[float] = ()) -> None:
    """Print rows, at least one, with the same columns; a missing value is None.

    `style` is ``table`` (seven digits, fitted to the terminal or 80 characters), ``csv`` or
    ``json`` (all digits). Tables show all digits of `inputs`, the numbers that the user typed.
    """
    for row in rows:
        for name, value in row.items():
            if isinstance(value, float):
                _rounding(name, row)  # fails for an unlisted column, whatever the style
    if style == "json":
        json_rows = [{name: _json_value(value) for name, value in row.items()} for row in rows]
        print(json.dumps(json_rows, indent=2, allow_nan=False))
    elif style == "csv":
        writer = csv.DictWriter(sys.stdout, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    else:
        width = shutil.get_terminal_size().columns
        _print_table(
            [
                {name: _format_cell(name, row, inputs) for name in row if name not in _FOOTNOTES}
                for row in rows
            ],
            width,
        )
        distances = [row[name] for row in rows for name in row if name.endswith("tv_distance")]
        if any(distance is not None and distance > 1.0 for distance in distances):
            print_wrapped(
                "tv_distance above 1: errors exceed the number of records, the map is noise"
            )
        print_wrapped(
            "; ".join(f"{name}: {rows[0][name]}" for name in _FOOTNOTES if name in rows[0])
        )


def most_accurate_first(rows: Iterable[Row]) -> list[Row]:
    """Sort rows of `compare` by the error of a cell; uncalibrated mechanisms come last."""
    return sorted(rows, key=lambda row: math.inf if row["reason"] else row["cell_sd_users"])


def print_compared(rows: Sequence[Row], inputs: Collection[float] = ()) -> bool:
    """Print rows of `compare` as a table, unless the terminal is narrower than it.

    Return whether they were printed. A line at the end lists the mechanisms in the order of their
    errors. `inputs` are the numbers that the user typed.
    """
    name_width = max(len(row["mechanism"]) for row in rows)
    name_width = max(name_width, len(_HEADS[0]))
    if name_width + sum(_WIDTHS) + len("  servers*") > shutil.get_terminal_size().columns:
        return False

    def print_line(line: Sequence[str]) -> None:
        printed, end = line[0].ljust(name_width), name_width
        for cell, width in zip(line[1:-1], _WIDTHS, strict=True):
            # A cell that is too wide shifts the next ones, unless their gaps absorb the excess.
            end += width
            printed += f" {cell}".rjust(end - len(printed))
        print(f"{printed.ljust(end + 1)} {line[-1]}".rstrip())

    _print_common(rows[0], "mechanism", inputs)
    print_line(_HEADS_ABOVE)
    print_line(_HEADS)
    for row in rows:
        if row["reason"] is None:
            print_line(_comparison_cells(row))
        else:
            print_wrapped(f"{row['mechanism']}: {row['reason']}")
    print()
    calibrated = [row for row in most_accurate_first(rows) if row["reason"] is None]
    if len(calibrated) > 1:
        rounds = calibrated[0].get("rounds", 1)
        over = "in one round" if rounds == 1 else f"over {rounds} rounds"
        ordered = ", ".join(row["mechanism"] for row in calibrated)
        print_wrapped(f"least error first, {over}: {ordered}")
    entries = [CATALOGUE[row["mechanism"]] for row in calibrated]
    noises = [f"{row['mechanism']}: {row['noise']} noise" for row in calibrated if row["noise"]]
    servers = dict.fromkeys(entry.servers for entry in entries if not entry.central)
    notes = [f"servers: {', or '.join(servers)}, who must not collude"] * bool(servers)
    notes += [_USERS] * any("users" in entry.extra_trust for entry in entries)
    for note in (*noises, *_NOTES[:-1], "; ".join(notes), _NOTES[-1]):
        print_wrapped(note)
    print_wrapped("; ".join(f"{name}: {rows[0][name]}" for name in _FOOTNOTES))
    return True


def _print_common(row: Row, end: str, inputs: Collection[float]) -> None:
    """Print what all rows have in common, the columns before `end`, and an empty line."""
    names = takewhile(lambda name: name != end, row)
    print_wrapped(", ".join(f"{name} = {_format_cell(name, row, inputs)}" for name in names))
    print()


def print_sparse(rows: Sequence[Row], inputs: Collection[float] = ()) -> None:
    """Print rows of `compare-sparse` as a table, with who must be trusted below it."""
    _print_common(rows[0], "way", inputs)
    numbers = (*(f"error_of_{records}" for records in SPARSE_RECORDS), "messages", "dummies")
    lines = [
        (row["way"], str(row["shown_from"]), *(_format_short(name, row) for name in numbers))
        for row in rows
    ]
    print(_SPARSE_HEADS_ABOVE)
    for way, *cells in (_SPARSE_HEADS, *lines):
        print(f"{way:17} {' '.join(cell.rjust(7) for cell in cells)}")
    print()
    for note in _SPARSE_NOTES:
        print_wrapped(note)


def _comparison_cells(row: Row) -> tuple[str, ...]:
    entry = CATALOGUE[row["mechanism"]]
    servers = "servers*" if "users" in entry.extra_trust else "servers"
    return (
        entry.name,
        _format_short("cell_sd_users", row),
        _format_short("messages", row),
        _format_short("bytes_sent", row),
        _format_short("moved_by_one", row, 10),
        *(_format_short(f"eps_{view}", row) for view in VIEWS),
        "curator" if entry.central else servers,
    )


def print_wrapped(text: str) -> None:
    """Print text in lines that fit the terminal."""
    width = min(_PAGE_WIDTH, max(shutil.get_terminal_size().columns, _MIN_WRAPPED_WIDTH))
    lines = textwrap.wrap(text, width, break_on_hyphens=False)
    print(*lines, sep="\n", end="\n" if text else "")


def _print_table(rows: Sequence[dict[str, str]], width: int) -> None:
    """Print one line per row; if that is too wide, print the values common to all rows first.

    If the other columns are still too wide, print each row as a block with one line per column.
    """
    lines = [list(rows[0]), *(list(row.values()) for row in rows)]
    if _fits(lines, width):
        _print_lines(lines, width)
        return
    common = {name for name, cell in rows[0].items() if all(row[name] == cell for row in rows)}
    if common:
        _print_lines([[name, cell] for name, cell in rows[0].items() if name in common], width)
        rest = [{name: cell for name, cell in row.items() if name not in common} for row in rows]
        if rest[0]:
            print()
            _print_table(rest, width)
        return
    for i, row in enumerate(rows):
        if i:
            print()
        _print_lines([[name, cell] for name, cell in row.items()], width)


def _widths(lines: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*lines, strict=True)]


def _fits(lines: Sequence[Sequence[str]], width: int) -> bool:
    *others, last = _widths(lines)
    if any(" " in line[-1] for line in lines):
        last = min(last, _MIN_WRAPPED_WIDTH)
    return sum(others) + 2 * len(others) + last <= width


def _print_lines(lines: Sequence[Sequence[str]], width: int) -> None:
    """Print aligned cells; the last column is wrapped between words."""
    widths = _widths(lines)[:-1]
    indent = sum(widths) + 2 * len(widths)
    for *cells, last in lines:
        start = "".join(cell.ljust(size) + "  " for cell, size in zip(cells, widths, strict=True))
        wrapped = textwrap.wrap(
            last,
            max(width - indent, _MIN_WRAPPED_WIDTH),
            break_long_words=False,
            break_on_hyphens=False,
        )
        print(start + f"\n{' ' * indent}".join(wrapped))
