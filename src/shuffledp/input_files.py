"""Input files: histograms, matrices, budgets, pairs, places and ledgers of rounds.

A file whose name ends in ``.parquet`` is read as parquet, any other as csv. Each function raises
`InputError` if the file cannot be read, lacks a column, or has a value that is out of range.
"""

import csv
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from shuffledp.accounting.setting import LARGEST_EPS0, Setting
from shuffledp.errors import InputError, did_you_mean, is_out_of_memory, shortened
from shuffledp.numerics import number_parsing
from shuffledp.numerics.arrays import Floats, Integers

_COUNT: Final = "count"
# Largest number of values in a file. As Python objects, they take half a gigabyte.
MAX_VALUES = 2_000_000
MAX_LEDGER_ROWS = 100_000
_LEDGER_COLUMNS: Final = ("n", "k", "eps0", "mechanism", "parameters", "rounds", "note")


def read_histogram(source: str | Path) -> Integers:
    """Return the number of users in each cell, shape ``(rows,)``: the column ``count`` of a file.

    The column must count at least one user. The grid files of the pipeline have such a column.
    """
    needed = {_COUNT: "the number of users of each cell"}
    counts = _whole_numbers(source, _COUNT, read_columns(source, needed)[_COUNT])
    if not counts.any():
        raise InputError(f"{source}: the column {_COUNT} counts no users")
    return counts


def _numbers(values: Sequence[Any]) -> Floats:
    """Return numbers; NaN for a value that is not a number."""

    def number(value: Any) -> float:
        try:
            return _number(value)
        except (TypeError, ValueError, OverflowError):
            return np.nan

    return np.array([number(value) for value in values], np.float64)


def _number(value: Any) -> float:
    return number_parsing.number(value) if isinstance(value, str) else float(value)


def _regular(source: Path) -> Path:
    """Return the path unless it is a pipe or a device, which may have no end."""
    if not stat.S_ISREG(source.stat().st_mode):
        raise InputError(f"{source} is not a regular file: write its contents to a file first")
    return source


def _unreadable(source: Path, error: OSError) -> InputError:
    return InputError(f"{source} cannot be read: {error.strerror or error}")


def _require_rows(source: Path, rows: int, columns: int = 1) -> None:
    if rows > MAX_VALUES or rows * columns > MAX_VALUES:
        values = f"{rows:,} rows" if columns == 1 else f"{rows:,} rows of {columns:,} columns"
        raise InputError(
            f"{source} has {values}: at most {MAX_VALUES:,} values can be read (a column "
            f"{_COUNT} says how many users a row stands for)"
        )


def _whole_numbers(source: str | Path, column: str, values: Sequence[Any]) -> Integers:
    counts = _numbers(values)
    if not (np.all(counts >= 0.0) and np.all(counts == np.floor(counts)) and counts.sum() < 1e18):
        raise InputError(
            f"{source}: every value of the column {column} must be a whole number of users, at "
            "least 0"
        )
    return counts.astype(np.int64)


@dataclass(frozen=True)
class Budgets:
    """Local budgets of users, shape ``(rows,)`` each.

    Attributes
    ----------
    eps, delta
        Local budget; delta is 0 for reports that are pure eps-LDP.
    counts
        Number of users with this budget.
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

    Rows whose count is 0 are left out.

    Raises
    ------
    InputError
        If the file cannot be read or has no column ``eps``, a value is out of range, or no row
        counts a user.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "budgets.csv"
    >>> _ = file.write_text("eps,count\n0.5,900\n1,100\n")
    >>> read_budgets(file).counts.tolist()
    [900, 100]
    """
    needed = {"eps": "the local budget of each user, or of count users"}
    columns = read_columns(source, needed, optional=(_COUNT, "delta"))
    eps = _numbers(columns["eps"])
    delta = _numbers(columns.get("delta", [0.0] * eps.size))
    counts = _whole_numbers(source, _COUNT, columns.get(_COUNT, [1] * eps.size))
    for name, values, valid in (
        ("eps", eps, (eps >= 0.0) & (eps <= LARGEST_EPS0)),
        ("delta", delta, (delta >= 0.0) & (delta < 1.0)),
    ):
        wrong = np.flatnonzero(~valid)
        if wrong.size:
            limits = f"0 <= eps <= {LARGEST_EPS0:g}" if name == "eps" else "0 <= delta < 1"
            first = shortened(repr(columns[name][wrong[0]]))
            raise InputError(
                f"{source}: every {name} must be a number with {limits} (row {wrong[0] + 1} has "
                f"{first}; {wrong.size} of {values.size} rows are wrong)"
            )
    used = counts > 0
    if not used.any():
        raise InputError(f"{source} has no users")
    return Budgets(eps[used], delta[used], counts[used])


def read_pairs(source: str | Path) -> Integers:
    """Read pairs of records: the columns ``record`` and ``neighbour``, shape ``(rows, 2)``."""
    needed = {"record": "the number of a record, from 0", "neighbour": "that of a neighbour"}
    columns = read_columns(source, needed)
    pairs = np.stack([_numbers(columns[name]) for name in needed], axis=1)
    if not pairs.size:
        raise InputError(f"{source} has no pairs")
    if not (np.abs(pairs) < MAX_VALUES).all() or (pairs != np.floor(pairs)).any():
        raise InputError(f"{source}: every record and neighbour must be a whole number")
    return pairs.astype(np.int64)


def read_places(source: str | Path) -> Floats:
    """Read the columns ``latitude`` and ``longitude``, in degrees, shape ``(rows, 2)``."""
    limits = {"latitude": 90.0, "longitude": 360.0}
    columns = read_columns(source, dict.fromkeys(limits, "of each record, in degrees"))
    places = np.stack([_numbers(columns[name]) for name in limits], axis=1)
    for (name, limit), values in zip(limits.items(), places.T, strict=True):
        wrong = np.flatnonzero(~(np.abs(values) <= limit))
        if wrong.size:
            first = shortened(repr(columns[name][wrong[0]]))
            raise InputError(
                f"{source}: every {name} must be a number from {-limit:g} to {limit:g} (row "
                f"{wrong[0] + 1} has {first})"
            )
    return places


def read_columns(
    source: str | Path, needed: Mapping[str, str], optional: Sequence[str] = ()
) -> dict[str, list[Any]]:
    """Read columns of a csv file with a header, or of a parquet file, by name.

    ``needed`` has the names of the required columns, and what they hold. The ``optional`` ones are
    read if they are there.
    """
    source = Path(source)
    read = _parquet if source.suffix == ".parquet" else _csv
    return read(source, needed, optional)


def _chosen(
    source: Path, names: Sequence[str], needed: Mapping[str, str], optional: Sequence[str]
) -> list[str]:
    for name, meaning in needed.items():
        if name not in names:
            raise InputError(
                f"{source} has no column {name}, {meaning} (columns: {', '.join(names) or 'none'})"
            )
    return [*needed, *(name for name in optional if name in names)]


@contextmanager
def _csv_reading(source: Path) -> Iterator[Any]:
    """Open a regular text file; raise `InputError` if it cannot be read."""
    try:
        with _regular(source).open(encoding="utf-8-sig", newline="") as file:
            yield file
    except (UnicodeDecodeError, csv.Error):
        raise InputError(f"{source} is not a csv file; parquet files end in .parquet") from None
    except OSError as error:
        raise _unreadable(source, error) from None


def _csv(source: Path, needed: Mapping[str, str], optional: Sequence[str]) -> dict[str, list[Any]]:
    with _csv_reading(source) as file:
        reader = csv.DictReader(file)
        chosen = _chosen(source, list(reader.fieldnames or []), needed, optional)
        columns: dict[str, list[Any]] = {name: [] for name in chosen}
        for rows, row in enumerate(reader, 1):
            _require_rows(source, rows)
            for name, values in columns.items():
                values.append(row[name])
    return columns


@contextmanager
def _parquet_reading(source: Path) -> Iterator[Any]:
    """Open a regular parquet file; raise `InputError` if it cannot be read."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError as missing:
        raise InputError(
            f"{source}: parquet files are read with pyarrow: pip install pyarrow, or give a csv "
            "file"
        ) from missing
    try:
        with pq.ParquetFile(_regular(source), page_checksum_verification=True) as file:
            yield file
    except InputError:
        raise
    # Damaged bytes raise these in pyarrow's reader: impossible lengths, names that are no text.
    except (pa.ArrowException, OSError, ValueError, MemoryError, KeyError, IndexError) as error:
        if is_out_of_memory(error):
            raise InputError(f"{source} is damaged, or needs more memory than there is") from None
        if isinstance(error, OSError) and error.errno:
            raise _unreadable(source, error) from None
        raise InputError(f"{source} is damaged, or no parquet file") from None


def _parquet(
    source: Path, needed: Mapping[str, str], optional: Sequence[str]
) -> dict[str, list[Any]]:
    with _parquet_reading(source) as file:
        chosen = _chosen(source, file.schema_arrow.names, needed, optional)
        columns: dict[str, list[Any]] = _values(source, file, chosen).to_pydict()
    return columns


def _values(source: Path, file: Any, columns: Sequence[str]) -> Any:
    """Return columns of numbers as a table; their types and sizes are checked before reading."""
    import pyarrow as pa

    for name in columns:
        kind = file.schema_arrow.field(name).type
        numeric = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_null)
        if not any(of(kind) for of in numeric):
            raise InputError(f"{source}: the column {name} must hold numbers, got {kind}")
    metadata = file.metadata
    parts = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    _require_rows(source, max(metadata.num_rows, sum(parts)), len(columns))
    return file.read(columns=list(columns), use_threads=False)


def read_matrix(source: str | Path) -> Floats:
    """Read the numbers of a csv or parquet file, shape ``(rows, columns)``.

    A first line of csv without numbers is taken for a header.
    """
    source = Path(source)
    lines = _parquet_lines(source) if source.suffix == ".parquet" else _csv_lines(source)
    if not lines:
        raise InputError(f"{source} holds no numbers: give a line for each record")
    rows = []
    for number, line in enumerate(lines, 1):
        if len(line) != len(lines[0]):
            raise InputError(
                f"{source}: every record must have as many probabilities as the first, "
                f"{len(lines[0])}, got {len(line)} for record {number - 1}"
            )
        try:
            rows.append([_number(value) for value in line])
        except (TypeError, ValueError):
            raise InputError(
                f"{source}: every value must be a probability, got "
                f"{shortened(str(line))} for record {number - 1}"
            ) from None
    return np.array(rows, np.float64)


def _is_number(text: str) -> bool:
    try:
        number_parsing.number(text)
    except ValueError:
        return False
    return True


def _csv_lines(source: Path) -> list[Any]:
    with _csv_reading(source) as file:
        lines = []
        for line in csv.reader(file):
            if line:
                lines.append(line)
                _require_rows(source, len(lines), len(line))
    return lines[1:] if lines and not any(map(_is_number, lines[0])) else lines


def _parquet_lines(source: Path) -> list[Any]:
    with _parquet_reading(source) as file:
        table = _values(source, file, file.schema_arrow.names)
        return list(map(list, zip(*table.to_pydict().values(), strict=True)))


def read_rounds(source: str | Path) -> list[Setting]:
    r"""Read a ledger: the settings of rounds in which the same users took part, one row each.

    Parameters
    ----------
    source
        A csv file with columns ``n`` and ``k``; ``eps0`` for k-RR, or ``mechanism`` and
        ``parameters`` as for `shuffledp.mechanism`; optionally ``rounds``, the number of such
        rounds, and ``note``, which is ignored.

    Returns
    -------
    Settings, which `delta` and `epsilon` accept.

    Raises
    ------
    InputError
        If the file cannot be read, has other columns or too many rows, or a row is no setting.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "ledger.csv"
    >>> _ = file.write_text("n,k,eps0,rounds\n1000,5,1,3\n800,5,0.5,1\n")
    >>> [(setting.n, setting.rounds) for setting in read_rounds(file)]
    [(1000, 3), (800, 1)]
    """
    source = Path(source)
    with _csv_reading(source) as file:
        reader = csv.DictReader(file)
        names = list(reader.fieldnames or [])
        for name in names:
            if name not in _LEDGER_COLUMNS:
                hint = did_you_mean(name, _LEDGER_COLUMNS)
                hint = hint or f" (columns: {', '.join(_LEDGER_COLUMNS)})"
                raise InputError(f"{source}: a ledger has no column {name}{hint}")
        if len(set(names)) < len(names):
            raise InputError(f"{source} has a column twice (columns: {', '.join(names)})")
        if missing := [name for name in ("n", "k") if name not in names]:
            raise InputError(f"{source} has no column {' and no column '.join(missing)}")
        return _ledger_settings(source, reader)


def _ledger_settings(source: Path, rows: Iterable[dict[str | None, Any]]) -> list[Setting]:
    settings = []
    for number, row in enumerate(rows, 1):
        if number > MAX_LEDGER_ROWS:
            raise InputError(
                f"{source} has more than {MAX_LEDGER_ROWS:,} rows: rounds that are alike go into "
                "one, with their number in the column rounds"
            )
        try:
            settings.append(_row_setting(row))
        except InputError as error:
            raise InputError(f"{source}: row {number}: {error}") from None
    if not settings:
        raise InputError(f"{source} has no rounds in it")
    return settings


def _row_setting(row: dict[str | None, Any]) -> Setting:
    if None in row:
        raise InputError('it has more values than columns: put parameters in quotes, "a=1, b=2"')
    values = {name: text.strip() for name, text in row.items() if name and (text or "").strip()}
    if missing := [name for name in ("n", "k") if name not in values]:
        raise InputError(f"it has no {' and no '.join(missing)}")
    named = [name for name in ("mechanism", "parameters") if name in values]
    if len(named) == 1 or bool(named) == ("eps0" in values):
        raise InputError("give eps0, for k-RR, or a mechanism and its parameters")
    n, k, rounds = (_whole(values.get(name, "1")) for name in ("n", "k", "rounds"))
    if not named:
        try:
            return Setting(n, k, number_parsing.number(values["eps0"]), rounds)
        except InputError:
            raise
        except ValueError:
            raise InputError(f"{shortened(values['eps0'])} is not a number") from None
    from shuffledp.mechanisms.registry import get_mechanisms
    from shuffledp.mechanisms.target_calibration import Released, read_parameters

    (mechanism,) = get_mechanisms([values["mechanism"]])
    released = Released(mechanism, read_parameters(mechanism, values["parameters"]))
    return Setting(n, k, rounds=rounds, mechanism=released)


def _whole(text: str) -> int:
    try:
        return number_parsing.whole(text)
    except ValueError:
        raise InputError(f"{shortened(text)} is not a whole number") from None
