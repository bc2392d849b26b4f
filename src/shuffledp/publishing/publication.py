"""Publish a map: count, charge the ledger, draw the noise, and write the folder."""

import json
import secrets
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from shuffledp.accounting.contributions import Unit
from shuffledp.data.read import has_geometries, kind_of_source
from shuffledp.data.records import CheckinError, Frame, frame_of
from shuffledp.data.sources import COORDINATES, TO_COORDINATES, Layout, TextFormat
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Integers
from shuffledp.pipeline.files import replacing
from shuffledp.publishing import folder as folders
from shuffledp.publishing.area import read_geometries
from shuffledp.publishing.counting import count_records, read_counts
from shuffledp.publishing.design import Design, make_design
from shuffledp.publishing.estimates import (
    Quality,
    estimates_of_levels,
    estimates_of_sparse,
    quality,
)
from shuffledp.publishing.ledger import (
    Charge,
    OpenLedger,
    State,
    first_total,
    make_charge,
    opened,
    round_down,
    round_up,
)
from shuffledp.publishing.noise import add_noise, zcdp_eps
from shuffledp.publishing.options import (
    Ledger,
    Levels,
    MapCells,
    Period,
    Protection,
    Source,
    exact_number,
)
from shuffledp.publishing.statement import make_statement

if TYPE_CHECKING:  # they are slow to load
    import geopandas as gpd


_LOCATED: Final = {*COORDINATES, "place"}
_ENDS: Final = {*TO_COORDINATES, "to_place"}
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

    def __str__(self) -> str:
        """Return what was done and promised as text, which reveals nothing about the records."""
        guarantee, unit = self.statement["guarantee"], self.statement["unit"]
        delta = f", delta = {round_up(guarantee['delta'])}" if guarantee["delta"] else ""
        done = "is published" if self.new else f"was published before. {_UNREAD}"
        return (
            f"{self.warning + ' ' if self.warning else ''}{self.folder.name} {done}. "
            f"{'' if self.warning else self.statement.get('accuracy', '') + ' '}The map "
            f"is differentially private with eps = {round_up(guarantee['eps'])}{delta} for one "
            f"{unit['protected']}. {unit['bound']} Cells, dates and eps are published too: they "
            f"must have been chosen without the records. Ledger: {self.left}."
        )

    def to_frame(self) -> "gpd.GeoDataFrame":
        """Return the table of the map, one row for each cell of each window."""
        return read_geometries(self.folder / "map.parquet")


@dataclass(frozen=True)
class _CheckedArguments:
    """Checked arguments of `publish`, and what follows from them without the records."""

    design: Design
    source: Path | Frame
    layout: Layout
    max_malformed_share: float
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
        text = self.layout.text
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
        source = self.source.absolute() if isinstance(self.source, Path) else self.source
        own = {"source": str(source), "columns": columns, "separator": text.separator}
        return changed | own | self.design.request


def publish(
    source: Any,
    output: str | Path,
    *,
    cells: MapCells | str | Path,
    protection: Protection,
    ledger: Ledger | str | Path,
    levels: Levels | None = None,
    windows: Period | None = None,
    name: str | None = None,
    title: str = "A private map",
) -> Publication:
    r"""Publish a differentially private map of records, and charge it to a ledger.

    Everything except the records is published or may be guessed: choose cells, levels, windows, eps
    and all other arguments without looking at the records. The objects are in
    `shuffledp.publishing.options`; wherever one is accepted, its first field may stand for it.
    Raises `InputError` if an argument or a file cannot be used, or the ledger has not enough left.
    Messages about the records are for the data holder only.

    Parameters
    ----------
    source
        Records and what their columns mean (`Source`), or a path or table of counts.
    output
        Folder that will hold the map. It appears whole or not at all and is never overwritten.
    cells
        Cells of the map (`MapCells`).
    protection
        What is protected, and eps (`Protection`).
    ledger
        File that records all publications about these people (`Ledger`).
    levels
        Coarser areas and longer times with noisy counts of their own (`Levels`).
    windows
        Days that count, and the windows into which they are divided (`Period`).
    name
        Name of a table of records, by which the ledger recognises it; as in `Source`.
    title
        Title of the map.

    Examples
    --------
    Two cells whose counts are known:

    >>> import tempfile, shuffledp
    >>> from shuffledp.publishing.options import MapCells, Protection
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "counts.csv").write_text("cell,count\n1-1,120\n1-2,35\n")
    >>> published = shuffledp.publish(
    ...     folder / "counts.csv", folder / "map", ledger=folder / "ledger.jsonl",
    ...     cells=MapCells("shape:1x2", box=(48.8, 48.9, 2.2, 2.4)),
    ...     protection=Protection("record", eps=1),
    ... )
    >>> published.to_frame()["id"].tolist()
    ['1-1', '1-2']
    """
    records = source if isinstance(source, Source) else Source(source)
    if name is not None:
        records = replace(records, name=name)
    places = cells if isinstance(cells, MapCells) else MapCells(cells)
    if places.flows and not records.flows:
        raise InputError("trips need the columns of where they end: to_place, or coordinates")
    places = replace(places, flows=records.flows)
    book_options = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    output, book_path = Path(output).absolute(), Path(book_options.path)
    data, layout = _source(records, protection, windows)
    if windows is not None:
        layout = replace(layout, clock=windows.clock)
    if "count" not in layout.columns:
        layout = replace(layout, blank_places=places.elsewhere)
    design = make_design(places, protection, levels or Levels(), windows)
    check_text(title, design)
    arguments = _CheckedArguments(design, data, layout, records.max_malformed_share, title)
    if book_path.absolute().is_relative_to(output):
        raise InputError(
            f"the ledger {book_path} would be in the published folder: it stays with the data "
            "holder"
        )
    with opened(book_path) as book:
        earlier = _earlier_publication(book, arguments, output, book_options.again)
        return _publish_new(book, arguments, output, book_options) if earlier is None else earlier


def _publish_new(
    book: OpenLedger, arguments: _CheckedArguments, output: Path, options: Ledger
) -> Publication:
    design = arguments.design
    unit = design.histogram.contributions.unit
    total, total_delta = (
        None if value is None else exact_number(name, value)
        for name, value in (("total", options.total), ("total_delta", options.total_delta))
    )
    limit = book.limit(first_total(unit, design.promised, design.eps, total, total_delta))
    for name, measure, asked, fixed in (
        ("total", "eps", total, limit.eps),
        ("total-delta", "delta", total_delta, limit.delta_of_thresholds),
    ):
        if asked is not None and float(asked) != float(fixed):
            raise InputError(
                f"the {name} of this ledger is {measure}={fixed:g} and cannot be changed, got "
                f"{asked}: leave --{name} out"
            )
    identifier = secrets.token_hex(8)
    charge = make_charge(
        arguments.request, output, design.eps, design.promised, limit.measure, identifier
    )
    book.check(limit, charge.cost, charge.delta)
    counts = _counts(arguments)
    if design.measurements.several and design.threshold is None:
        _ = design.measurements.half_widths  # what can fail or take long comes before the charge
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
    except Exception as error:
        if spent:
            error.add_note(f"the map cannot be made{spent}")
        raise
    return Publication(output, statement, True, statement.get("warning"), _left(book))


def _write_map(
    arguments: _CheckedArguments, found: tuple[Integers, Integers], state: State, folder: Path
) -> dict[str, Any]:
    """Add noise to the counts, write the files of the map to a folder, and return the statement.

    `found` has the numbers of the counts above 0, and these.
    """
    design = arguments.design
    limit = state.total
    assert limit is not None
    measurements, cells = design.measurements, design.histogram.cells
    areas, threshold = design.histogram.areas, design.threshold
    above, counts = found
    sums = {}
    if threshold is None or measurements.several:
        sums = measurements.sums(design.histogram.filled(above, counts).reshape(-1, areas))
    if threshold is not None:
        sums[0, 0] = counts
    noisy = {at: add_noise(sums[at], each.noise) for at, each in measurements.measured.items()}
    if threshold is None:
        tables = estimates_of_levels(noisy, measurements)
    else:
        tables = estimates_of_sparse(above, noisy, measurements, threshold.least)
    statement = make_statement(
        design,
        title=arguments.title,
        budget={
            "measure": limit.measure,
            "total": str(limit.total),
            "spent": str(state.spent),
            "eps": str(limit.eps),
            "delta": limit.delta,
        },
        published=datetime.now(UTC).date().isoformat(),
    )
    if threshold is None:
        width = None
        if measurements.several:
            width = 2.0 * float(np.median(measurements.half_widths[0, 0]))
        counted, estimated = (
            tables[0, 0][name].to_numpy().reshape(-1, areas) for name in ("count", "estimate")
        )
        order = np.arange(1) if design.histogram.flows else cells.in_hilbert_order()
        judged = quality(counted, estimated, design.noise, order, width)
        statement["accuracy"] = _verdict(judged, design)
        if judged.mostly_noise:
            statement["warning"] = statement["accuracy"]
    else:
        sparse = statement["sparse"]
        statement["accuracy"] = (
            f"Shown are counts that are at least {sparse['threshold']} after noise was added. What "
            f"is not shown is at most {sparse['hidden_at_most']}, with probability 95 %."
        )
    folders.write_files(folder, design, tables, statement)
    folders.flush_folder(folder)
    return statement


def _counts(arguments: _CheckedArguments) -> tuple[Integers, Integers]:
    source, layout, histogram = arguments.source, arguments.layout, arguments.design.histogram
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
        folders.check_new(output, ", or move it away" if again else "")
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
    left, limit = round_down(book.state.left), round_down(total.total)
    words = f"{total.measure}={left} of {limit} is left"
    if total.measure == "rho" and book.state.left > 0:
        fits = zcdp_eps(float(book.state.left), total.delta)
        words += f", for example for Gaussian noise at eps={fits:.3g}, delta={total.delta:g}"
    if total.delta_of_thresholds:
        words += f", and delta={round_down(book.state.delta_left)} of {total.delta:g}"
    return words


def _verdict(judged: Quality, design: Design) -> str:
    """Return how much of a map is more than noise, as a sentence."""
    of_cells = "trips are between cells" if design.histogram.flows else "records lie in cells"
    shown = (
        f"{100 * judged.share:.0f} % of the {of_cells} whose interval is narrower than their count."
    )
    if not judged.mostly_noise:
        return f"About {shown}"
    remedies = []
    if judged.eps_factor is not None:
        remedies.append(f"with eps={float(design.eps) * judged.eps_factor:.2g}")
    if judged.cells_factor is not None:
        longer = " or windows" if design.histogram.windows is not None else ", or a period,"
        remedies.append(f"with cells{longer} {judged.cells_factor} times as large")
    advice = f" It would not be {' or '.join(remedies)}." if remedies else ""
    return f"This map is mostly noise: about {shown}{advice}"


# --- Arguments ------------------------------------------------------------------------------


def _source(
    records: Source, protection: Protection, windows: Period | None
) -> tuple[Path | Frame, Layout]:
    """Return the path or table of the records, and its layout."""
    share = records.max_malformed_share
    if not 0 <= share <= 1:
        raise InputError(f"max_malformed_share must be from 0 to 1, got {share}")
    text = {key: getattr(records, key) for key in ("separator", "decimal", "quoting")}
    options = {key: getattr(records, key) for key in ("crs", "time_format", "user_type")}
    if isinstance(records.data, str | Path):
        data: Path | Frame = Path(records.data)
        if records.name is not None:
            raise InputError("a name is for tables in memory: a file has its path")
    else:
        data = frame_of(records.data, records.name, points=not _LOCATED & set(records.columns))
    layout = _layout(data, records.columns, text, **options)
    _check_columns(layout, unit=protection.unit, period=windows)
    if isinstance(data, Path) and not data.exists():
        raise InputError(f"{data} does not exist")
    return data, layout


def _layout(
    source: Path | Frame, columns: Mapping[str, str | int], text: Mapping[str, str], **options: Any
) -> Layout:
    """Return the layout of records, or of counts if no column of them is given."""
    if isinstance(source, Frame) and source.points:
        columns = {**columns, **{name: name for name in COORDINATES}}
    located = _LOCATED & set(columns)
    if isinstance(source, Frame):
        kind = "parquet"
    else:
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
    _check_located(located, _ENDS & set(columns))
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


def _check_located(begin: Set[str], end: Set[str]) -> None:
    if begin not in (set(), {"place"}, set(COORDINATES)):
        raise InputError("give either both --latitude and --longitude, or --place")
    if end not in (set(), {"to_place"}, set(TO_COORDINATES)):
        raise InputError("give either both --to-latitude and --to-longitude, or --to-place")
    if end and not begin:
        raise InputError("trips need columns of where they begin, too: --place, or coordinates")


def _check_columns(layout: Layout, *, unit: Unit, period: object) -> None:
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


def check_text(title: str, design: Design) -> None:
    """Check before anything is charged that all text of a map can be written."""
    if not isinstance(title, str):
        raise InputError(f"title must be a text, got {title!r}")
    table = design.histogram.cells.table
    areas = [name for level in design.measurements.areas.levels for name in level.names]
    try:
        "".join(
            [
                *(title, *map(str, design.places.values()), *areas),
                *(text for each in ("id", "name") for text in table[each].tolist()),
            ]
        ).encode()
    except UnicodeEncodeError as error:
        raise InputError(
            "the title, and names of cells and of their file, must be Unicode text, got "
            f"{error.object[error.start]!r}"
        ) from None
