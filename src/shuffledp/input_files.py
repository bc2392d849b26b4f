"""Small tables of input: histograms, matrices, budgets and schedules of rounds.

A file whose name ends in ``.parquet`` is read as Parquet, any other as csv. Each function raises
`InputError` if the file cannot be read, lacks a column, or has a value that is out of range; the
message names the file, the line (the row of Parquet), the column and the value.
"""

import csv
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from shuffledp.accounting.setting import LARGEST_EPS0, LARGEST_N, Setting
from shuffledp.errors import InputError, did_you_mean, is_out_of_memory, shortened
from shuffledp.numerics import number_parsing
from shuffledp.numerics.arrays import Floats, Integers

# Largest number of values in a file. As Python objects, they take half a gigabyte.
MAX_VALUES = 2_000_000
MAX_SCHEDULE_ROWS = 100_000
_SCHEDULE_COLUMNS: Final = ("n", "k", "eps0", "mechanism", "parameters", "rounds", "note")


@dataclass(frozen=True)
class _Table:
    """Columns of a file: text of csv, and numbers, text or None of Parquet.

    ``rows`` are the places of the rows in error messages, such as ``line 7``.
    """

    source: Path
    columns: dict[str, list[Any]]
    rows: list[str]

    def numbers(
        self, name: str, low: float, high: float, *, whole: bool = False, below: bool = False
    ) -> Floats:
        """Return a column of numbers (or whole numbers) from low to ``high``, or ``below`` it."""
        values = np.array([_number(value) for value in self.columns[name]], np.float64)
        valid = (low <= values) & (values < high if below else values <= high)
        if whole:
            valid &= values == np.floor(values)
        wrong = np.flatnonzero(~valid)
        if wrong.size:
            value = shortened(str(self.columns[name][wrong[0]])) or "nothing"
            raise InputError(
                f"{self.source}: {self.rows[wrong[0]]}: {name} must be a {'whole ' * whole}number "
                f"from {low:g} {'below' if below else 'to'} {high:,.12g}, got {value}"
            )
        return values


def _number(value: Any) -> float:
    """Return a value as a number; NaN if it is none."""
    try:
        return number_parsing.number(value) if isinstance(value, str) else float(value)
    except (TypeError, ValueError, OverflowError):
        return np.nan


def _read(
    source: str | Path,
    needed: Mapping[str, str],
    optional: Sequence[str] = (),
    *,
    no_others: bool = False,
) -> _Table:
    """Read columns of a file by name.

    ``needed`` has the names of the required columns, and what they hold. The ``optional`` ones are
    read if they are there, and others are ignored or, with ``no_others``, refused.
    """
    source = Path(source)
    names, rows = _lines(source)
    listed = f"(columns: {', '.join(names) or 'none'})"
    if len(set(names)) < len(names):
        raise InputError(f"{source} has a column twice {listed}")
    known = (*needed, *optional)
    if no_others and (others := [name for name in names if name not in known]):
        hint = did_you_mean(others[0], known) or f" (columns: {', '.join(known)})"
        raise InputError(f"{source} may have no column {others[0]}{hint}")
    if missing := [name for name in needed if name not in names]:
        raise InputError(f"{source} has no column {missing[0]}, {needed[missing[0]]} {listed}")
    if long := [place for place, values in rows if len(values) > len(names)]:
        raise InputError(
            f"{source}: {long[0]} has more values than columns: put a value with a comma in quotes,"
            ' as in "a=1, b=2"'
        )
    columns = {
        name: [values[i] if i < len(values) else "" for _, values in rows]
        for i, name in enumerate(names)
        if name in known
    }
    return _Table(source, columns, [place for place, _ in rows])


def _lines(source: Path) -> tuple[list[str], list[tuple[str, list[Any]]]]:
    """Return the names of the columns, and the place and the values of each row."""
    try:
        # A pipe or a device may have no end.
        if not stat.S_ISREG(source.stat().st_mode):
            raise InputError(f"{source} is not a regular file: write its contents to a file first")
        if source.suffix == ".parquet":
            return _parquet_lines(source)
        rows, size = list[tuple[str, list[Any]]](), 0
        with source.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            for row in filter(None, reader):
                rows.append((f"line {reader.line_num}", row))
                size += len(row)
                _check_size(source, len(rows), size)
        return (rows[0][1], rows[1:]) if rows else ([], [])
    except (UnicodeDecodeError, csv.Error):
        raise InputError(f"{source} is not a csv file; Parquet files end in .parquet") from None
    except OSError as error:
        raise InputError(f"{source} cannot be read: {error.strerror or error}") from None


def _check_size(source: Path, rows: int, values: int) -> None:
    if values > MAX_VALUES:
        raise InputError(
            f"{source} has {rows:,} rows or more: at most {MAX_VALUES:,} values can be read (a "
            "column count says how many users a row stands for)"
        )


def _parquet_lines(source: Path) -> tuple[list[str], list[tuple[str, list[Any]]]]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError as missing:
        raise InputError(
            f"{source}: Parquet files are read with pyarrow: pip install pyarrow, or give csv"
        ) from missing
    try:
        with pq.ParquetFile(source, page_checksum_verification=True) as file:
            names = list(file.schema_arrow.names)
            # A constant column is tiny in the file and large in memory.
            count = max(file.metadata.num_rows, 0)
            _check_size(source, count, count * len(names))
            columns = [column.to_pylist() for column in file.read(use_threads=False).columns]
    # Damaged bytes raise these in pyarrow's reader: impossible lengths, names that are no text.
    except (pa.ArrowException, OSError, ValueError, MemoryError, KeyError, IndexError) as error:
        if isinstance(error, InputError) or (isinstance(error, OSError) and error.errno):
            raise
        cause = "needs more memory than there is" if is_out_of_memory(error) else "no Parquet file"
        raise InputError(f"{source} is damaged, or {cause}") from None
    values = map(list, zip(*columns, strict=True))
    return names, [(f"row {number}", row) for number, row in enumerate(values, 1)]


def read_histogram(source: str | Path) -> Integers:
    """Return the number of users in each cell, shape ``(rows,)``: the column ``count`` of a file.

    The column must count at least one user. The grid files of the pipeline have such a column.
    """
    table = _read(source, {"count": "the number of users of each cell"})
    counts = table.numbers("count", 0, LARGEST_N, whole=True).astype(np.int64)
    if not counts.any():
        raise InputError(f"{source}: the column count counts no users")
    return counts


@dataclass(frozen=True)
class Budgets:
    """Local budgets of users, shape ``(rows,)`` each, and the number of users with each.

    ``delta`` is 0 for reports that are pure eps-LDP.
    """

    eps: Floats
    delta: Floats
    counts: Integers

    def deltas_of(self, budgets: Floats) -> Floats:
        """Return the mean delta of the users of each budget; ``budgets`` are in ascending order."""
        place = np.searchsorted(budgets, self.eps)
        sums = np.bincount(place, self.delta * self.counts, budgets.size)
        return np.asarray(sums / np.bincount(place, self.counts, budgets.size))


def read_budgets(source: str | Path) -> Budgets:
    r"""Read local budgets: the column ``eps``, and ``count`` and ``delta`` if there are any.

    Rows whose count is 0 are left out. Raises `InputError` if the file cannot be read or has no
    column ``eps``, a value is out of range, or no row counts a user.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "budgets.csv"
    >>> _ = file.write_text("eps,count\n0.5,900\n1,100\n")
    >>> read_budgets(file).counts.tolist()
    [900, 100]
    """
    needed = {"eps": "the local budget of each user, or of count users"}
    table = _read(source, needed, optional=("count", "delta"))
    size = len(table.rows)
    table.columns.setdefault("count", [1] * size)
    table.columns.setdefault("delta", [0] * size)
    eps = table.numbers("eps", 0, LARGEST_EPS0)
    delta = table.numbers("delta", 0, 1, below=True)
    counts = table.numbers("count", 0, LARGEST_N, whole=True).astype(np.int64)
    used = counts > 0
    if not used.any():
        raise InputError(f"{source} has no users")
    return Budgets(eps[used], delta[used], counts[used])


def read_matrix(source: str | Path) -> Floats:
    """Read the numbers of a csv or Parquet file, shape ``(rows, columns)``.

    A first line of csv without numbers is taken for a header.
    """
    source = Path(source)
    names, lines = _lines(source)
    if source.suffix != ".parquet" and not np.isnan([_number(name) for name in names]).all():
        lines = [("line 1", names), *lines]
    if not lines:
        raise InputError(f"{source} holds no numbers: give a line for each record")
    width = len(lines[0][1])
    for place, values in lines:
        if len(values) != width:
            raise InputError(
                f"{source}: {place}: every record must have as many probabilities as the first, "
                f"{width}, got {len(values)}"
            )
    places, rows = [place for place, _ in lines], zip(*(values for _, values in lines), strict=True)
    table = _Table(source, {f"report {i}": list(row) for i, row in enumerate(rows)}, places)
    return np.stack([table.numbers(name, 0, 1) for name in table.columns], axis=1)


def read_rounds(source: str | Path) -> list[Setting]:
    r"""Read a schedule: the settings of rounds in which the same users took part, one row each.

    Raises `InputError` if the file cannot be read, has other columns or too many rows, or a row is
    no setting.

    Parameters
    ----------
    source
        A file with columns ``n`` and ``k``; ``eps0`` for k-RR, or ``mechanism`` and ``parameters``
        as for `shuffledp.mechanism`; optionally ``rounds``, the number of such rounds, and
        ``note``, which is ignored.

    Returns
    -------
    Settings, which `delta` and `epsilon` accept.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "schedule.csv"
    >>> _ = file.write_text("n,k,eps0,rounds\n1000,5,1,3\n800,5,0.5,1\n")
    >>> [(setting.n, setting.rounds) for setting in read_rounds(file)]
    [(1000, 3), (800, 1)]
    """
    needed = {"n": "the number of users", "k": "the number of cells"}
    # A misspelt column of rounds must not be ignored.
    table = _read(source, needed, _SCHEDULE_COLUMNS[2:], no_others=True)
    if not table.rows:
        raise InputError(f"{source} has no rounds in it")
    if len(table.rows) > MAX_SCHEDULE_ROWS:
        raise InputError(
            f"{source} has more than {MAX_SCHEDULE_ROWS:,} rows: rounds that are alike go into "
            "one, with their number in the column rounds"
        )
    settings = []
    for place, values in zip(table.rows, zip(*table.columns.values(), strict=True), strict=True):
        try:
            settings.append(_round(dict(zip(table.columns, values, strict=True))))
        except InputError as error:
            raise InputError(f"{source}: {place}: {error}") from None
    return settings


def _round(row: dict[str, Any]) -> Setting:
    """Return the setting of one row of a schedule."""
    texts = {name: "" if value is None else str(value).strip() for name, value in row.items()}
    values = {name: text for name, text in texts.items() if text}
    if missing := [name for name in ("n", "k") if name not in values]:
        raise InputError(f"it has no {' and no '.join(missing)}")
    named = [name for name in ("mechanism", "parameters") if name in values]
    if len(named) == 1 or bool(named) == ("eps0" in values):
        raise InputError("give eps0, for k-RR, or a mechanism and its parameters")
    numbers = dict[str, Any]()
    for name in ("n", "k", "rounds", "eps0"):
        if name in values:
            parse = number_parsing.number if name == "eps0" else number_parsing.whole
            try:
                numbers[name] = parse(values[name])
            except ValueError:
                kind = "a number" if name == "eps0" else "a whole number"
                raise InputError(f"{name} must be {kind}, got {shortened(values[name])}") from None
    if not named:
        return Setting(**numbers)
    from shuffledp.mechanisms.registry import get_mechanisms
    from shuffledp.mechanisms.target_calibration import Released, read_parameters

    (mechanism,) = get_mechanisms([values["mechanism"]])
    released = Released(mechanism, read_parameters(mechanism, values["parameters"]))
    return Setting(**numbers, mechanism=released)
