"""Check the choices for a published map, and derive from them what needs no record."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from shuffledp.accounting.contributions import Contributions
from shuffledp.accounting.thresholds import Threshold, smallest_threshold
from shuffledp.data.cells import AllHexagons, Cells, all_hexagons, make_cells
from shuffledp.data.regions import Box, Region, region_from_config
from shuffledp.data.sources import CLOCKS, LENGTHS, PROFILES
from shuffledp.data.windows import Windows, windows_from_config
from shuffledp.errors import InputError
from shuffledp.publishing.counting import Histogram
from shuffledp.publishing.levels import (
    CELLS,
    MAX_RECORDS,
    TOTAL,
    WINDOWS,
    FlowAxis,
    Measurements,
    axis_of,
    cells_levels,
    flows,
    measure,
    properties_of,
    windows_levels,
)
from shuffledp.publishing.noise import (
    MAX_DELTA,
    MECHANISMS,
    MIN_DELTA,
    UNITS,
    Guarantee,
    MechanismName,
    Noise,
    guarantees,
)
from shuffledp.publishing.options import Levels, MapCells, Period, Protection, exact_number

MAX_COUNTS: Final = 4_000_000  # number of cells, or pairs of them, times windows
MAX_SPARSE_COUNTS: Final = 50_000_000


@dataclass(frozen=True)
class Design:
    """Everything about a map that is public and known before a record is read.

    `promised` and `replaced` are the guarantees for adding or removing, and for replacing, one
    unit. `places` and `period` define cells and windows; they are published. `files` has the paths
    and properties of polygons and outline, for the ledger only. `threshold` is that of a sparse
    map.
    """

    histogram: Histogram
    measurements: Measurements
    eps: Decimal
    promised: Guarantee
    replaced: Guarantee
    places: Mapping[str, Any]
    files: Mapping[str, Any]
    period: Mapping[str, Any] | None
    threshold: Threshold | None = None

    @property
    def noise(self) -> Noise:
        """Noise of the counts of cells and windows."""
        return self.measurements.measured[0, 0].noise

    @property
    def shares(self) -> dict[str, str]:
        """Share of each level above the cells and windows."""
        areas = self.measurements.areas
        axes = (areas.ends if isinstance(areas, FlowAxis) else areas, self.measurements.times)
        return {
            level.name: str(share)
            for axis in axes
            for level, share in zip(axis.levels[1:], axis.shares[1:], strict=True)
        }

    @property
    def request(self) -> dict[str, Any]:
        """Parameters by which the ledger recognises the same map."""
        contributions = self.histogram.contributions
        # Ledgers of versions without these keys stay valid.
        later = {
            "levels": self.shares,
            "elsewhere": self.histogram.cells.elsewhere,
            "flows": self.histogram.flows,
            "sparse": self.threshold is not None,
        }
        return {key: value for key, value in later.items() if value} | {
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


def make_design(
    cells: MapCells, protection: Protection, levels: Levels, period: Period | None
) -> Design:
    """Return the design of a map; raise `InputError` if a choice cannot be used."""
    windows, period_words = windows_of(period)
    contributions = _contributions(protection, windows)
    eps = exact_number("eps", protection.eps)
    delta = float(exact_number("delta", protection.delta))
    names = list(levels.shares) + [name for name in levels.errors if name not in (CELLS, WINDOWS)]
    grid, places = _cells(cells, properties_of(names), listed=not protection.sparse)
    files = {
        "path": str(Path(cells.kind).absolute()) if Path(cells.kind).exists() else None,
        "name": cells.name,
        "id": cells.identifier,
        "outline": None if cells.outline is None else str(Path(cells.outline).absolute()),
    }
    histogram = Histogram(grid, windows, contributions, cells.flows)
    sparse = protection.sparse
    if sparse:
        _check_sparse(protection, levels, delta)
    _check_size(histogram, levels, sparse=sparse)
    if cells.flows and not sparse:
        if levels.errors:
            raise InputError("--levels auto is not for trips: give shares of levels")
        # Departures, arrivals and the total are always published, if only as sums.
        levels = Levels({TOTAL: 0} | dict(levels.shares))
        names = [TOTAL, *(name for name in names if name != TOTAL)]
    areas, times = cells_levels(grid, places["kind"], names), windows_levels(windows, names)
    choices = []
    threshold_delta, delta = (delta, 0.0) if sparse else (0.0, delta)
    for mechanism in _mechanisms(protection.mechanism, delta):
        used = 0.0 if mechanism == "laplace" and protection.mechanism is None else delta
        time_axis, area_axis = (
            axis_of(each, levels, contributions, mechanism, float(eps), used)
            for each in (times, areas)
        )
        if cells.flows:
            area_axis = flows(area_axis)
        found = measure(time_axis, area_axis, contributions, mechanism, float(eps), used)
        choices.append(replace(found, separate=sparse))
    measurements = min(choices, key=lambda each: each.measured[0, 0].noise.sd)
    if measurements.measured[0, 0].noise.mechanism == "laplace":
        delta = 0.0
    promised, replaced = guarantees(list(measurements.measured.values()), float(eps), delta)
    threshold = None
    if sparse:
        scale = measurements.measured[0, 0].noise.scale
        threshold = smallest_threshold(threshold_delta, scale, contributions)
        promised, replaced = (replace(each, delta=threshold.delta) for each in (promised, replaced))
    return Design(
        histogram, measurements, eps, promised, replaced, places, files, period_words, threshold
    )


def _check_sparse(protection: Protection, levels: Levels, delta: float) -> None:
    if not MIN_DELTA <= delta <= MAX_DELTA:
        raise InputError(
            f"--sparse needs a --delta from {MIN_DELTA:g} to {MAX_DELTA:g}, got {delta}: for "
            "example 1e-8, and well below one over the number of people"
        )
    if protection.mechanism not in (None, "laplace"):
        raise InputError("--sparse has Laplace noise: leave out --mechanism")
    if levels.errors:
        raise InputError("--levels auto is not for sparse maps: give shares of levels")
    if 0 in map(float, levels.shares.values()):
        raise InputError(
            "levels of a sparse map need shares above 0: sums of hidden counts are not known"
        )


def _check_size(histogram: Histogram, levels: Levels, *, sparse: bool) -> None:
    if isinstance(histogram.cells, AllHexagons):
        if levels.shares:
            raise InputError("levels need a list of the cells: give --box or --outline")
        if histogram.size >= 2**62:  # counts are numbered by integers of 64 bits
            raise InputError(
                "so many hexagons, pairs or windows cannot be numbered: choose larger hexagons"
            )
        if histogram.contributions.records_per_user > MAX_RECORDS:
            raise InputError(
                f"without --box, --records-per-user must be at most {MAX_RECORDS:,}, got "
                f"{histogram.contributions.records_per_user:,}"
            )
        return  # only hexagons with records take memory
    limit = MAX_SPARSE_COUNTS if sparse else MAX_COUNTS
    if histogram.size > limit:
        raise InputError(
            f"{histogram.areas:,} {'pairs of ' if histogram.flows else ''}cells in "
            f"{histogram.size // histogram.areas:,} windows are more than {limit:,} counts: choose "
            f"larger cells or longer windows{'' if sparse else ', or --sparse'}"
        )


def _mechanisms(name: MechanismName | None, delta: float) -> Sequence[MechanismName]:
    if name is None:
        return ("laplace",) if delta == 0.0 else ("laplace", "gaussian")
    if name not in MECHANISMS:
        raise InputError(f"mechanism must be laplace or gaussian, got {name!r}")
    return (name,)


# --- Windows, contributions and cells ---------------------------------------------------------


def windows_of(period: Period | None) -> tuple[Windows | None, dict[str, Any] | None]:
    """Return the windows of a period, and its words for the statement."""
    if period is None:
        return None, None
    optional = {"every": period.every, "profile": period.profile, "times": period.times}
    accepted = {"every": LENGTHS, "profile": PROFILES, "times": CLOCKS}
    for name, value in optional.items():
        if value not in (None, *accepted[name]):
            raise InputError(f"{name} must be {' or '.join(accepted[name])}, got {value!r}")
    words = {
        "from": str(period.first),
        "to": str(period.last),
        "every": period.every,
        "time_zone": period.time_zone,
    }
    given = {key: value for key, value in optional.items() if value is not None}
    spec = {"period": words, **optional}
    windows = windows_from_config(spec | {"time_zone": period.time_zone})
    if period.times == "local":
        windows = windows_from_config(spec)  # local times are read as if they were UTC
        assert windows is not None
        names = tuple(name.removesuffix("+00:00") for name in windows.names)
        windows = replace(windows, names=names)
    return windows, words | given


def _contributions(protection: Protection, windows: Windows | None) -> Contributions:
    unit, records_per_user = protection.unit, protection.records_per_user
    distinct, per_window = protection.distinct, protection.per_window
    if unit not in UNITS:
        raise InputError(f"unit must be record or user, got {unit!r}")
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


def _cells(
    choice: MapCells, groups: Sequence[str], *, listed: bool
) -> tuple[Cells, dict[str, Any]]:
    text = str(choice.kind)
    kind, colon, value = text.partition(":")
    kind = _SPELLINGS.get(kind.lower(), kind.lower())
    lattice = bool(colon) and kind in _SPECS
    anywhere = kind == "h3" and choice.box is None and choice.outline is None and not listed
    region = _region(choice.box, choice.outline, needed=lattice and not anywhere)
    if lattice:
        if choice.name is not None or choice.identifier is not None:
            raise InputError(
                "--cell-name and --cell-id are properties of a file of polygons or points"
            )
        try:
            spec: dict[str, Any] = {kind: _SPECS[kind](value)}
        except ValueError:
            raise InputError(
                f"cells must be h3:8, metres:250, shape:20x30, step:0.01x0.02 or the path of a "
                f"file of polygons, got {text!r}"
            ) from None
        words: dict[str, Any] = {"kind": f"{kind}:{value}"}
    else:
        keys = {"path": text, "name": choice.name, "id": choice.identifier}
        spec = {"cells": {key: each for key, each in keys.items() if each is not None}}
        spec["cells"] |= {"groups": list(groups), "points": True}
        words = {"kind": f"polygons of {Path(text).name}"}
    words["box"] = None if choice.box is None else list(choice.box)
    words["outline"] = None if choice.outline is None else Path(choice.outline).name
    if anywhere and lattice:
        cells: Cells = all_hexagons(spec[kind])
    else:
        cells = make_cells(region, spec)
    if not lattice and cells.table.geometry.iloc[0].geom_type == "Point":
        words["kind"] = f"points of {Path(text).name}"
    if anywhere and choice.elsewhere:
        raise InputError("hexagons without --box cover the earth: leave out --elsewhere")
    return (cells.with_elsewhere() if choice.elsewhere else cells), words


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
    if box is None:
        return region_from_config("map", {"outline": str(outline)})
    edges = dict(zip(("south", "north", "west", "east"), box, strict=True))
    return region_from_config("map", {"box": edges})
