"""Publish a map: check, count, charge the ledger, draw the noise, and write the folder."""

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from shuffledp.accounting.contributions import Contributions, Unit
from shuffledp.data.cells import Cells, make_cells
from shuffledp.data.read import has_geometries, kind_of_source
from shuffledp.data.records import CheckinError
from shuffledp.data.regions import Box, Region, region_from_config
from shuffledp.data.sources import Layout, TextFormat
from shuffledp.data.windows import Windows, windows_from_config
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Integers
from shuffledp.pipeline.files import replacing
from shuffledp.pipeline.tables import CHECKED
from shuffledp.publishing import folder as folders
from shuffledp.publishing.counting import (
    MAX_MALFORMED_SHARE,
    Histogram,
    count_records,
    read_counts,
)
from shuffledp.publishing.estimates import Quality, estimates, interval_widths, quality
from shuffledp.publishing.ledger import (
    Charge,
    OpenLedger,
    State,
    digits_down,
    first_total,
    make_charge,
    opened,
)
from shuffledp.publishing.noise import (
    MECHANISMS,
    UNITS,
    Guarantee,
    MechanismName,
    Noise,
    add_noise,
    guarantees,
    make_noise,
)
from shuffledp.publishing.statement import make_statement, round_up

if TYPE_CHECKING:  # they are slow to load
    import geopandas as gpd

MAX_COUNTS: Final = 2_000_000  # number of cells times windows

Number = float | Decimal | str


_UNREAD: Final = (
    "This is the earlier map: no noise is drawn, nothing is charged, and no record is read. If the "
    "records or cells have changed, publish them with --again and another --output, which is "
    "charged"
)


@dataclass(frozen=True)
class Publication:
    """A published map.

    `folder` has the files, `statement` is the content of statement.json. `new` says whether the map
    was published now; otherwise the folder existed, the records were not read, and nothing was
    charged. `warning` says that the map is mostly noise, and what would help; it is None if the map
    is not. `left` says in words what is left in the ledger.
    """

    folder: Path
    statement: Mapping[str, Any]
    new: bool
    warning: str | None
    left: str

    def in_words(self) -> str:
        """Return what was done and promised as text, which reveals nothing about the records."""
        guarantee, unit = self.statement["guarantee"], self.statement["unit"]
        delta = f", delta = {round_up(guarantee['delta'])}" if guarantee["delta"] else ""
        done = "is published" if self.new else f"was published before. {_UNREAD}"
        return (
            f"{self.warning + ' ' if self.warning else ''}{self.folder.name} {done}. The map "
            f"is differentially private with eps = {round_up(guarantee['eps'])}{delta} for one "
            f"{unit['protected']}. {unit['bound']} Cells, dates and eps are published too: they "
            f"must have been chosen without the records. Ledger: {self.left}."
        )

    def to_frame(self) -> "gpd.GeoDataFrame":
        """Return the table of the map, one row for each cell of each window."""
        import geopandas as gpd

        return gpd.read_parquet(self.folder / "map.parquet", **CHECKED)


@dataclass(frozen=True)
class _CheckedArguments:
    """Checked arguments of `publish`, and what follows from them without the records."""

    source: Path
    layout: Layout
    max_malformed_share: float
    histogram: Histogram
    noise: Noise
    eps: Decimal
    promised: Guarantee  # for adding or removing one unit
    replaced: Guarantee  # for replacing one unit
    places: Mapping[str, Any]  # definition of the cells, which is published
    files: Mapping[str, Any]  # paths and properties of polygons and outline, for the ledger only
    period: Mapping[str, Any] | None
    title: str

    @property
    def counted(self) -> bool:
        """Whether the source has counts instead of records."""
        return "count" in self.layout.columns

    @property
    def request(self) -> dict[str, Any]:
        """Parameters by which the ledger recognises the same publication.

        Files are recognised by their paths. With a checksum of the records, the amount spent, which
        is published, would depend on the records.
        """
        contributions, text = self.histogram.contributions, self.layout.text
        columns = {key: column for key, column in self.layout.columns.items() if key != "count"}
        if "user" in columns:
            columns["identifier"] = columns.pop("user")
        if self.counted:
            columns = {}
        # Ledgers of versions without these keys stay valid.
        later = {
            "time_format": (self.layout.time_format, None),
            "crs": (self.layout.crs, None),
            "decimal": (text.decimal, "."),
            "quoting": (text.quoting, "strict"),
            "user_type": (self.layout.user_type, "number"),
        }
        changed = {key: value for key, (value, default) in later.items() if value != default}
        return changed | {
            "source": str(self.source.absolute()),
            "columns": columns,
            "separator": text.separator,
            "cells": {**self.places, **self.files},
            "period": self.period,
            "unit": contributions.unit,
            "records_per_user": contributions.records_per_user,
            "distinct": contributions.distinct,
            "per_window": contributions.windows > 1,
            "mechanism": self.noise.mechanism,
            "eps": str(self.eps),
            "delta": self.promised.delta,
        }


def publish(
    source: str | Path,
    output: str | Path,
    *,
    ledger: str | Path,
    cells: str | Path,
    unit: Unit,
    eps: Number,
    delta: Number = 0,
    mechanism: MechanismName | None = None,
    latitude: str | int | None = None,
    longitude: str | int | None = None,
    user: str | int | None = None,
    time: str | int | None = None,
    place: str | int | None = None,
    separator: str = ",",
    decimal: str = ".",
    quoting: str = "strict",
    crs: str | None = None,
    time_format: str | None = None,
    user_type: str = "number",
    max_malformed_share: float = MAX_MALFORMED_SHARE,
    records_per_user: int | None = None,
    distinct: bool = False,
    per_window: bool = False,
    box: Sequence[float] | None = None,
    outline: str | Path | None = None,
    cell_name: str | None = None,
    cell_id: str | None = None,
    period: tuple[str, str] | None = None,
    every: str | None = None,
    time_zone: str = "UTC",
    total: Number | None = None,
    title: str = "A private map",
    again: bool = False,
) -> Publication:
    r"""Publish a differentially private map of records, and charge it to a ledger.

    Everything except the records is published or may be guessed: choose cells, period, eps and all
    other arguments without looking at the records.

    Parameters
    ----------
    source
        Records, in a format that docs/data.md lists: text, JSON lines or Parquet with a column for
        each argument below, a folder of such files, or points of a geographic format (without
        `latitude` and `longitude`). Or counts: such a table with columns ``cell`` (the cell's id)
        and ``count``, if no column is given.
    output
        Folder that will hold the map. It appears whole or not at all and is never overwritten.
    ledger
        File that records all publications about these people; the first one creates it.
    cells
        ``h3:RESOLUTION``, ``metres:SIZE``, ``shape:ROWSxCOLUMNS``, ``step:DEGREESxDEGREES``, or the
        path of a file of polygons.
    unit
        What is protected: ``record``, or ``user`` for all records of one user.
    eps, delta
        Guarantee for adding or removing one unit. Delta must be positive for Gaussian noise.
    mechanism
        ``laplace`` or ``gaussian``; by default the one with less noise, or Laplace if delta is 0.
    latitude, longitude, user, time, place
        Columns of the records: names, or positions from 0 if the file has no header. Instead of
        coordinates, `place` may have the id of each record's cell.
    separator, decimal, quoting
        How a text file is written, as in `TextFormat`.
    crs
        EPSG code of the coordinates, if they are not degrees in WGS 84.
    time_format
        How times are written if not in ISO 8601: ``unix``, ``unix-ms``, ``unix-us`` or ``unix-ns``
        for numbers since 1970, or a format of `datetime.strptime` such as ``%d/%m/%Y %H:%M``.
    user_type
        ``number``: identifiers that are the same number, such as 7, 007 and 7.0, are one user;
        ``text``: users are compared as written.
    max_malformed_share
        Largest share of malformed records, from 0 to 1; a file with more is refused.
    records_per_user
        Largest number of records of a user that count, drawn at random (default 1; unit user only).
    distinct
        Whether a user counts at most once in each cell of each window (unit user only).
    per_window
        Whether `records_per_user` holds for each window instead of the whole period, which needs
        more noise.
    box, outline
        Region of the cells: south, north, west and east in degrees, or a GeoJSON file. One is
        needed except for polygons.
    cell_name, cell_id
        Properties of the polygons that hold their names and ids.
    period, every, time_zone
        First and last day (``2024-01-01``) of the records that count; ``day``, ``week`` or
        ``month`` for a map of each; and where a day begins.
    total
        Eps of all publications of the ledger together, set by the first one. The default is its own
        eps, so that nothing else can be published.
    title
        Title of the map.
    again
        Whether to pay once more for a map that was published before, because it is lost or the
        records or cells have changed. Without it, the earlier map is returned; no record is read.

    Raises
    ------
    InputError
        If an argument or a file cannot be used, or the ledger has not enough left. Messages about
        the records are for the data holder only.

    Examples
    --------
    Two cells whose counts are known:

    >>> import tempfile, shuffledp
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "counts.csv").write_text("cell,count\n1-1,120\n1-2,35\n")
    >>> published = shuffledp.publish(
    ...     folder / "counts.csv", folder / "map", ledger=folder / "ledger.jsonl", unit="record",
    ...     cells="shape:1x2", box=(48.8, 48.9, 2.2, 2.4), eps=1,
    ... )
    >>> published.to_frame()["id"].tolist()
    ['1-1', '1-2']
    """
    source, output, ledger = Path(source), Path(output).absolute(), Path(ledger)
    if not 0 <= max_malformed_share <= 1:
        raise InputError(f"max_malformed_share must be from 0 to 1, got {max_malformed_share}")
    columns = {"user": user, "time": time, "latitude": latitude, "longitude": longitude}
    layout = _layout(
        source,
        {
            name: column
            for name, column in (columns | {"place": place}).items()
            if column is not None
        },
        {"separator": separator, "decimal": decimal, "quoting": quoting},
        crs=crs,
        time_format=time_format,
        user_type=user_type,
    )
    _check_columns(layout, unit=unit, period=period)
    if not source.exists():
        raise InputError(f"{source} does not exist")
    windows, period_words = _windows(period, every, time_zone)
    contributions = _contributions(unit, records_per_user, distinct, per_window, windows)
    exact_eps, exact_delta = _number("eps", eps), float(_number("delta", delta))
    noise = _noise(contributions, mechanism, float(exact_eps), exact_delta)
    if noise.mechanism == "laplace":
        exact_delta = 0.0
    promised, replaced = guarantees(noise, contributions, float(exact_eps), exact_delta)
    grid, places = _cells(str(cells), box, outline, cell_name, cell_id)
    files = {
        "path": str(Path(cells).absolute()) if Path(cells).exists() else None,
        "name": cell_name,
        "id": cell_id,
        "outline": None if outline is None else str(Path(outline).absolute()),
    }
    _check_text(title, places, grid)
    histogram = Histogram(grid, windows, contributions)
    if histogram.size > MAX_COUNTS:
        raise InputError(
            f"{len(grid):,} cells in {histogram.size // len(grid):,} windows are more than "
            f"{MAX_COUNTS:,} counts: choose larger cells or longer windows"
        )
    arguments = _CheckedArguments(
        source, layout, max_malformed_share, histogram, noise, exact_eps, promised, replaced,
        places, files, period_words, title,
    )  # fmt: skip
    if ledger.absolute().is_relative_to(output):
        raise InputError(
            f"the ledger {ledger} would be in the published folder: it stays with the data holder"
        )
    with opened(ledger) as book:
        earlier = _earlier_publication(book, arguments, output, again)
        if earlier is not None:
            return earlier
        return _publish_new(
            book, arguments, output, None if total is None else _number("total", total)
        )


def _publish_new(
    book: OpenLedger, arguments: _CheckedArguments, output: Path, total: Decimal | None
) -> Publication:
    unit = arguments.histogram.contributions.unit
    limit = book.limit(first_total(unit, arguments.promised, arguments.eps, total))
    if total is not None and total != limit.eps:
        raise InputError(
            f"the total of this ledger is eps={limit.eps} and cannot be changed, got {total}: "
            "leave --total out"
        )
    identifier = secrets.token_hex(8)
    charge = make_charge(
        arguments.request, output, arguments.eps, arguments.promised, limit.measure, identifier
    )
    book.check(limit, charge.cost)
    counts = _counts(arguments)
    spent = ""
    try:
        with replacing(output) as temporary:
            temporary.mkdir()  # a folder that cannot be made costs nothing
            book.charge(limit, charge)
            spent = ", but the budget is spent: another attempt needs --again and as much once more"
            statement = _write_map(arguments, counts, book.state, temporary)
            book.complete(identifier, folders.folder_sha256(temporary))
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"the map or its ledger cannot be written ({reason}){spent}") from error
    return Publication(output, statement, True, statement.get("warning"), _left(book))


def _write_map(
    arguments: _CheckedArguments, counts: Integers, state: State, folder: Path
) -> dict[str, Any]:
    """Add noise to the counts, write the files of the map to a folder, and return the statement."""
    histogram, noise = arguments.histogram, arguments.noise
    limit = state.total
    assert limit is not None
    noisy = add_noise(counts, noise)
    values = estimates(noisy, noise)
    table = folders.map_table(histogram.cells, histogram.windows, values)
    names = ("",) if histogram.windows is None else histogram.windows.names
    shape = (len(names), len(histogram.cells))
    order = np.argsort(histogram.cells.table.geometry.hilbert_distance().to_numpy())
    warning = _warning(
        quality(values["estimate"].to_numpy().reshape(shape), noise, order), arguments
    )
    statement = make_statement(
        histogram,
        noise,
        arguments.promised,
        arguments.replaced,
        interval_widths(noise, noisy.size),
        title=arguments.title,
        places=arguments.places,
        period=arguments.period,
        budget={
            "measure": limit.measure,
            "total": str(limit.total),
            "spent": str(state.spent),
            "eps": str(limit.eps),
            "delta": limit.delta,
        },
        published=datetime.now(UTC).date().isoformat(),
    )
    if warning:
        statement["warning"] = warning
    folders.write_files(folder, table, names, noise, statement)
    folders.flush_folder(folder)
    return statement


def _counts(arguments: _CheckedArguments) -> Integers:
    source, layout, histogram = arguments.source, arguments.layout, arguments.histogram
    if not arguments.counted:
        return count_records(source, layout, histogram, arguments.max_malformed_share)
    try:
        return read_counts(source, layout, histogram)
    except InputError as error:
        raise InputError(
            f"{error}. This file was read as counts; for records, give --latitude and --longitude, "
            "or --place for the column that names the cell of each record"
        ) from error


def _earlier_publication(
    book: OpenLedger, arguments: _CheckedArguments, output: Path, again: bool
) -> Publication | None:
    """Return the publication if it was made before; None if it has to be made.

    An `InputError` is raised if it was paid for but its folder is missing or altered, or is not the
    output. If it has to be made, the output must not exist.
    """
    earlier = book.state.of_request(arguments.request)
    if not earlier or again:
        if output.exists() or output.is_symlink():
            raise InputError(
                f"{output} exists and is never overwritten: give another --output"
                + (", or move it away" if again else "")
            )
        return None
    last = earlier[-1]
    folder = Path(last.output)
    state = _folder_state(last, folder)
    if state == "complete" and folder == output:
        statement = json.loads((folder / "statement.json").read_text(encoding="utf-8"))
        return Publication(folder, statement, False, statement.get("warning"), _left(book))
    raise InputError(
        f"this map was charged on {last.time} for {folder}, which is {state}: "
        + ("use that folder" if state == "complete" else "restore it")
        + ", or pay for new noise with --again, also if the records or cells have changed since "
        "(every further copy tells more about the records)"
    )


def _folder_state(charge: Charge, folder: Path) -> str:
    if charge.sha256 is None:
        return "unfinished, because the publication was interrupted"
    if not folder.is_dir():
        return "missing"
    try:
        same = folders.folder_sha256(folder) == charge.sha256
    except OSError:
        same = False
    return "complete" if same else "altered"


def _left(book: OpenLedger) -> str:
    total = book.state.total
    assert total is not None
    left, limit = digits_down(book.state.left), digits_down(total.total)
    return f"{total.measure}={left} of {limit} is left"


def _warning(judged: Quality, arguments: _CheckedArguments) -> str | None:
    if not judged.mostly_noise:
        return None
    remedies = []
    if judged.eps_factor is not None:
        remedies.append(f"with eps={float(arguments.eps) * judged.eps_factor:.2g}")
    if judged.cells_factor is not None:
        longer = " or windows" if arguments.histogram.windows is not None else ", or a period,"
        remedies.append(f"with cells{longer} {judged.cells_factor} times as large")
    advice = f" It would not be {' or '.join(remedies)}." if remedies else ""
    return (
        "This map is mostly noise: the interval of a typical cell is wider than its count." + advice
    )


# --- Arguments ------------------------------------------------------------------------------


def _number(name: str, value: Number) -> Decimal:
    try:
        exact = Decimal(repr(float(value)) if isinstance(value, float) else str(value))
    except InvalidOperation:
        raise InputError(f"{name} must be a number, got {value!r}") from None
    if not exact.is_finite():
        raise InputError(f"{name} must be finite, got {value}")
    return exact


def _layout(
    source: Path,
    columns: Mapping[str, str | int],
    text: Mapping[str, str],
    **options: Any,
) -> Layout:
    """Return the layout of records, or of counts if no column of them is given."""
    located = {"latitude", "longitude", "place"} & set(columns)
    try:
        kind = kind_of_source(source)
    except CheckinError:
        # Reading will fail, but a map that was made before is returned without reading.
        kind = "csv"
    if kind == "parquet" and not located and has_geometries(source):
        kind = "geo"
    if kind == "geo" and located:
        raise InputError(
            f"{source} has points with coordinates of their own: leave out --latitude, --longitude "
            "and --place"
        )
    if located not in (set(), {"place"}, {"latitude", "longitude"}):
        raise InputError("give either both --latitude and --longitude, or --place")
    if options["time_format"] is not None and "time" not in columns:
        raise InputError("--time-format needs --time, the column of times")
    if not located and kind != "geo":
        columns = {"place": "cell", "count": "count", **columns}
    positions = [isinstance(column, int) for column in columns.values()]
    if any(positions) and not all(positions) and kind == "csv":
        raise InputError(
            "columns must be all names, or all positions in a file without a header, got "
            f"{', '.join(str(column) for column in columns.values())}"
        )
    if kind == "geo" and options["crs"] is not None:
        raise InputError(f"{source} declares its own reference system: leave out --crs")
    header = not any(positions)
    return Layout(kind, columns, TextFormat(header=header, **text), **options)


def _check_columns(layout: Layout, *, unit: Unit, period: object) -> None:
    if unit not in UNITS:
        raise InputError(f"unit must be record or user, got {unit!r}")
    counted, timed = "count" in layout.columns, "time" in layout.columns
    if counted and unit == "user":
        raise InputError(
            "a file of counts does not say which records belong to one user: give --unit record, "
            "or, for records, --user with --latitude and --longitude, or with --place if a column "
            "names the cell of each record"
        )
    if unit == "user" and "user" not in layout.columns:
        raise InputError("--unit user needs --user, the column that identifies users")
    if unit == "record" and "user" in layout.columns:
        raise InputError("--user needs --unit user: --unit record protects each record on its own")
    if timed != (period is not None):
        raise InputError(
            "a period needs both its days (--from and --to) and --time, the column of times"
        )
    if counted and timed:
        raise InputError("a period needs records with a time: a file of counts has none")


def _windows(
    period: tuple[str, str] | None, every: str | None, time_zone: str
) -> tuple[Windows | None, dict[str, Any] | None]:
    if period is None:
        if every is not None:
            raise InputError("--every needs a period, --from and --to")
        return None, None
    if every not in (None, "day", "week", "month"):
        raise InputError(f"every must be day, week or month, got {every!r}")
    first, last = map(str, period)
    spec: dict[str, Any] = {"period": {"from": first, "to": last}, "time_zone": time_zone}
    if every is not None:
        spec["every"] = every
    words = {"from": first, "to": last, "every": every, "time_zone": time_zone}
    return windows_from_config(spec), words


def _check_text(title: str, places: Mapping[str, Any], cells: Cells) -> None:
    """Check before anything is charged that all text of a map can be written."""
    if not isinstance(title, str):
        raise InputError(f"title must be a text, got {title!r}")
    try:
        "".join(
            [title, *map(str, places.values()), *cells.table["id"], *cells.table["name"]]
        ).encode()
    except UnicodeEncodeError as error:
        raise InputError(
            "the title, and names of cells and of their file, must be Unicode text, got "
            f"{error.object[error.start]!r}"
        ) from None


def _contributions(
    unit: Unit,
    records_per_user: int | None,
    distinct: bool,
    per_window: bool,
    windows: Windows | None,
) -> Contributions:
    if unit == "record":
        if records_per_user is not None or distinct or per_window:
            raise InputError(
                "--records-per-user, --distinct and --per-window are for --unit user: with --unit "
                "record, an additional record could change which others are kept"
            )
        return Contributions(unit)
    m = 1 if records_per_user is None else records_per_user
    if isinstance(m, bool) or not isinstance(m, int) or m < 1:
        raise InputError(f"records_per_user must be an integer >= 1, got {records_per_user!r}")
    if per_window and (windows is None or len(windows) < 2):
        raise InputError("--per-window needs several windows: give --every, --from and --to")
    times = len(windows) if per_window and windows is not None else 1
    return Contributions(unit, m, distinct, times)


def _noise(
    contributions: Contributions, mechanism: MechanismName | None, eps: float, delta: float
) -> Noise:
    if mechanism is not None:
        if mechanism not in MECHANISMS:
            raise InputError(f"mechanism must be laplace or gaussian, got {mechanism!r}")
        return make_noise(contributions, mechanism, eps, delta)
    laplace = make_noise(contributions, "laplace", eps, 0.0)
    if delta == 0.0:
        return laplace
    return min(laplace, make_noise(contributions, "gaussian", eps, delta), key=lambda each: each.sd)


def _cells(
    cells: str,
    box: Sequence[float] | None,
    outline: str | Path | None,
    cell_name: str | None,
    cell_id: str | None,
) -> tuple[Any, dict[str, Any]]:
    kind, colon, value = cells.partition(":")
    kind = _SPELLINGS.get(kind.lower(), kind.lower())
    lattice = bool(colon) and kind in _SPECS
    region = _region(box, outline, needed=lattice)
    if lattice:
        if cell_name is not None or cell_id is not None:
            raise InputError("--cell-name and --cell-id are properties of a file of polygons")
        try:
            spec = {kind: _SPECS[kind](value)}
        except ValueError:
            raise InputError(
                f"cells must be h3:8, metres:250, shape:20x30, step:0.01x0.02 or the path of a "
                f"file of polygons, got {cells!r}"
            ) from None
        words = {"kind": f"{kind}:{value}"}
    else:
        keys = {"path": cells, "name": cell_name, "id": cell_id}
        spec = {"cells": {key: each for key, each in keys.items() if each is not None}}
        words = {"kind": f"polygons of {Path(cells).name}"}
    region_words: dict[str, Any] = {"box": None if box is None else list(box)}
    region_words["outline"] = None if outline is None else Path(outline).name
    return make_cells(region, spec), words | region_words


def _pair_of(kind: type[int] | type[float]) -> Any:
    return lambda text: [kind(part) for part in text.split("x")]


_SPELLINGS: Final = {"meters": "metres"}
_SPECS: Final[Mapping[str, Any]] = {
    "h3": int,
    "metres": float,
    "shape": _pair_of(int),
    "step": _pair_of(float),
}


def _region(box: Sequence[float] | None, outline: str | Path | None, *, needed: bool) -> Region:
    if box is None and outline is None:
        if needed:
            raise InputError(
                "these cells need a region: give --box SOUTH NORTH WEST EAST or --outline FILE. It "
                "must not be derived from the records, because it is published"
            )
        return Region("the map", Box(south=-90.0, north=90.0, west=-180.0, east=180.0))
    if box is not None and outline is not None:
        raise InputError("give either --box or --outline, got both")
    spec: dict[str, Any] = {}
    if box is not None:
        spec["box"] = dict(zip(("south", "north", "west", "east"), box, strict=True))
    if outline is not None:
        spec["outline"] = str(outline)
    return region_from_config("map", spec)
