"""Levels of a published map: what they group, their shares of the budget, and their noise.

Areas group cells, times group windows. Each combination of a level of areas and a level of times is
a histogram with noise of its own, for which it gets the product of the two shares of the budget.
Its sensitivity follows from first principles (`Contributions.areas_sensitivity`); the guarantees of
all histograms add up (`noise.guarantees`). A level with share 0 gets no noisy counts; its numbers
are sums.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from itertools import pairwise, product
from typing import Any, Final

import numpy as np
import pandas as pd
import scipy

from shuffledp.accounting.contributions import Contributions
from shuffledp.data.cells import ELSEWHERE, LATTICE_MAKERS, AllHexagons, Cells
from shuffledp.data.windows import Windows
from shuffledp.errors import InputError, did_you_mean
from shuffledp.numerics.arrays import Floats, Integers
from shuffledp.publishing.chains import Chain, Pairs, Structure, distinct, divided
from shuffledp.publishing.noise import (
    LEVEL,
    MAX_SCALE,
    Measured,
    MechanismName,
    Part,
    half_width,
    make_noise,
    variance,
)
from shuffledp.publishing.options import Levels, Number, exact_number

CELLS: Final = "cells"
WINDOWS: Final = "windows"
TOTAL: Final = "total"
PERIOD: Final = "period"
_FLOW_NAMES: Final = {
    (CELLS, CELLS): "pairs",
    (CELLS, TOTAL): "departures",
    (TOTAL, CELLS): "arrivals",
    (TOTAL, TOTAL): TOTAL,
}
# Levels that group windows rather than cells.
TIMES: Final = ("day", "week", "month", "quarter", "year", PERIOD)
_COLUMNS: Final = {
    *("window", "cell", "id", "name", "row", "column", "raw", "count", "estimate", "low", "high"),
    *("joint_low", "joint_high", "geometry", CELLS, WINDOWS),
}  # names that a level cannot have
_DYADIC: Final = 2.0**20  # estimates are multiples of its inverse, so that their sums are exact
_MANTISSA: Final = 52  # bits
_MIN_DEVIATION: Final = 1e-6  # records
_NUMBER: Final = re.compile(r"\d{1,9}(\.\d{1,15})?")
_MIN_SHARE: Final = Decimal("1e-6")
_MIN_ERROR: Final = Decimal("0.001")  # records
MAX_RECORDS: Final = 1_000_000  # of a user, in cells that are not listed


@dataclass(frozen=True)
class Level:
    """One level of an axis: the number of the group of each leaf, and ids and names of groups."""

    name: str
    group: Integers
    ids: tuple[str, ...]
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def sizes(self) -> Integers:
        """Number of leaves of each group."""
        return np.bincount(self.group)


@dataclass(frozen=True)
class _Unlisted(Level):
    """Cells of which only the number is known."""

    number: int

    def __len__(self) -> int:
        return self.number

    @property
    def sizes(self) -> Integers:
        return np.ones(min(self.number, MAX_RECORDS), np.int64)


@dataclass(frozen=True)
class Axis:
    """Levels of cells or of windows, finest first, with their shares, which add up to 1."""

    levels: tuple[Level, ...]
    shares: tuple[Decimal, ...]

    def __len__(self) -> int:
        return len(self.levels)

    def chain(self, weights: Sequence[float]) -> Structure:
        """Return the groups with a weight of each level."""
        return Chain(tuple(level.group for level in self.levels), tuple(weights))


@dataclass(frozen=True)
class FlowLevel(Level):
    """Pairs of a group of `start`, where trips begin, and one of `end`."""

    start: Level
    end: Level

    def __len__(self) -> int:
        return len(self.start) * len(self.end)

    @property
    def sizes(self) -> Integers:
        """Number of pairs of cells of each group."""
        if isinstance(self.start, _Unlisted):
            return self.start.sizes
        return np.multiply.outer(self.start.sizes, self.end.sizes).ravel()


@dataclass(frozen=True)
class FlowAxis(Axis):
    """Levels of trips: all combinations of a level where they begin and one where they end.

    Both are levels of cells, those of the axis `ends`.
    """

    ends: Axis

    def chain(self, weights: Sequence[float]) -> Structure:
        """Return the pairs of groups with a weight of each level."""
        m = len(self.ends)
        by_start = [each / weights[0] for each in weights[::m]]
        groups = tuple(level.group for level in self.ends.levels)
        return Pairs(Chain(groups, tuple(by_start)), Chain(groups, tuple(weights[:m])))


def flows(ends: Axis) -> FlowAxis:
    """Return the levels of trips between the areas of an axis; shares are multiplied."""
    both = list(product(range(len(ends)), repeat=2))
    return FlowAxis(
        tuple(_flow_level(ends.levels[i], ends.levels[j]) for i, j in both),
        tuple(ends.shares[i] * ends.shares[j] for i, j in both),
        ends,
    )


def _flow_level(start: Level, end: Level) -> FlowLevel:
    pair = (start.name, end.name)
    name = f"{start.name} to {end.name}"
    if end.name == TOTAL:
        name = f"departures by {start.name}"
    elif start.name == TOTAL:
        name = f"arrivals by {end.name}"
    # There may be millions of pairs: groups and ids follow from those of both ends.
    return FlowLevel(_FLOW_NAMES.get(pair, name), np.empty(0, np.int64), (), (), start, end)


# --- What levels group ----------------------------------------------------------------------


def properties_of(names: Iterable[str]) -> list[str]:
    """Return the levels that are properties of a file of polygons or points."""
    return [
        name
        for name in names
        if name not in (*TIMES, TOTAL, CELLS, WINDOWS) and _lattice(name) is None
    ]


def cells_levels(cells: Cells, kind: str, names: Iterable[str]) -> list[Level]:
    """Return the levels of areas among the names, after that of the cells, finest first.

    `kind` is that of the cells, such as ``h3:8``. Raises `InputError` if a level does not exist, or
    levels are not nested.
    """
    if isinstance(cells, AllHexagons):
        return [_Unlisted(CELLS, np.empty(0, np.int64), (), (), len(cells))]
    table = cells.table
    ids, titles = (tuple(table[column].tolist()) for column in ("id", "name"))
    finest = Level(CELLS, np.arange(len(cells)), ids, titles)
    coarser = []
    for name in names:
        if name in TIMES:
            continue
        if name in _COLUMNS:
            raise InputError(
                f"a level cannot be called {name!r}, which is a column of the map: rename the "
                "property"
            )
        if name == TOTAL:
            labels = [TOTAL] * len(cells)
        elif name in cells.groups:
            labels = cells.groups[name]
        else:
            labels = _coarser(cells, kind, name)
        coarser.append(labelled_level(name, labels))
    return _nested([finest, *coarser])


def windows_levels(windows: Windows | None, names: Iterable[str]) -> list[Level]:
    """Return the levels of times among the names, after that of the windows, finest first."""
    names = [name for name in names if name in TIMES]
    if windows is None:
        for name in names:
            raise InputError(f"--level {name} needs windows: give --time, --from, --to and --every")
        return [Level(WINDOWS, np.zeros(1, np.int64), ("",), ("",))]
    finest = Level(WINDOWS, np.arange(len(windows)), windows.names, windows.names)
    coarser = [
        labelled_level(name, [PERIOD] * len(windows) if name == PERIOD else windows.calendar(name))
        for name in names
    ]
    return _nested([finest, *coarser])


def labelled_level(name: str, labels: Sequence[str]) -> Level:
    """Return a level whose groups are the leaves with the same label, in order of appearance."""
    group, ids = pd.factorize(np.array(labels, dtype=object))
    texts = tuple("Total" if each == TOTAL else str(each) for each in ids)
    return Level(name, group.astype(np.int64), tuple(map(str, ids)), texts)


def _nested(levels: list[Level]) -> list[Level]:
    levels = sorted(levels, key=len, reverse=True)
    for finer, coarser in pairwise(levels):
        parent = np.empty(len(finer), np.int64)
        parent[finer.group] = coarser.group
        wrong = np.flatnonzero(parent[finer.group] != coarser.group)
        if wrong.size:
            area = finer.names[finer.group[wrong[0]]]
            raise InputError(
                f"levels must be nested, but {area} of the level {finer.name} lies in several "
                f"areas of the level {coarser.name}: leave out one of them"
            )
        if len(finer) == len(coarser):
            raise InputError(
                f"the level {coarser.name} would count the same as {finer.name} once more: leave "
                "it out, or choose a coarser one"
            )
    return levels


def _lattice(name: str) -> tuple[str, str] | None:
    kind, colon, value = name.partition(":")
    kind = "metres" if kind == "meters" else kind
    return (kind, value) if colon and kind in ("h3", *LATTICE_MAKERS) else None


def _coarser(cells: Cells, kind: str, name: str) -> list[str]:
    """Return the hexagon or rectangle of a coarser lattice that contains each cell."""
    wanted, own = _lattice(name), _lattice(kind)
    if wanted is None:
        raise InputError(
            f"there is no level {name!r}{did_you_mean(name, [TOTAL, *TIMES, *cells.groups])}: give "
            f"{TOTAL}, {', '.join(TIMES)}, a property of polygons or points, or above hexagons or "
            "rectangles coarser ones, such as h3:6 or metres:4000"
        )
    if own is None or own[0] != wanted[0]:
        raise InputError(f"--level {name} needs cells of the same kind, got {kind}")
    identifiers = [each for each in cells.table["id"] if each != ELSEWHERE]
    rest = [ELSEWHERE] * (len(cells) - len(identifiers))
    try:
        if own[0] == "h3":
            import h3

            return [*(h3.cell_to_parent(each, int(wanted[1])) for each in identifiers), *rest]
        rows, columns = (_ratio(own, wanted, at) for at in (0, -1))
    except ValueError as error:  # also those of h3
        raise InputError(
            f"--level {name} must have cells that consist of whole cells {kind}: a lower "
            "resolution, or a multiple of their size"
        ) from error
    places = (each.split("-") for each in identifiers)
    labels = [f"{(int(r) - 1) // rows + 1}-{(int(c) - 1) // columns + 1}" for r, c in places]
    return [*labels, *rest]


def _ratio(own: tuple[str, str], wanted: tuple[str, str], at: int) -> int:
    """Return how many cells an area has along one side; a `ValueError` if they are not whole."""
    finer, coarser = (value.split("x")[at] for _, value in (own, wanted))
    if not (_NUMBER.fullmatch(finer) and _NUMBER.fullmatch(coarser)):
        raise ValueError
    sizes = Fraction(finer), Fraction(coarser)
    if min(sizes) == 0:
        raise ValueError
    ratio = sizes[0] / sizes[1] if own[0] == "shape" else sizes[1] / sizes[0]
    if ratio.denominator != 1:
        raise ValueError
    return ratio.numerator


# --- Shares of the budget -------------------------------------------------------------------


def axis_of(
    levels: Sequence[Level],
    chosen: Levels,
    contributions: Contributions,
    mechanism: MechanismName,
    eps: float,
    delta: float,
) -> Axis:
    """Return an axis with the chosen shares, or with shares for the errors that are wanted.

    The latter make the largest ratio of a level's error to the wanted one smallest. The finest
    level gets what the shares of the others leave.
    """
    if chosen.shares and chosen.errors:
        raise InputError("give either the shares of levels, or the errors that are wanted")
    names = [level.name for level in levels]

    def exact(what: str, numbers: Mapping[str, Number]) -> dict[str, Decimal]:
        known = {name: number for name, number in numbers.items() if name in names}
        return {name: exact_number(f"the {what} of {name}", each) for name, each in known.items()}

    errors = exact("error", chosen.errors)
    if len(levels) == 1:
        if errors:
            raise InputError(
                f"an error of {names[0]} alone follows from eps: name a level above them, too"
            )
        return Axis(tuple(levels), (Decimal(1),))
    if not chosen.errors:
        return _with_shares(levels, exact("share", chosen.shares))
    if min(errors.values()) < _MIN_ERROR:
        raise InputError(f"errors must be at least {_MIN_ERROR}, got {min(errors.values())}")
    for name in names:
        if name not in errors:
            raise InputError(
                f"--levels auto needs the wanted error of {name}, too: --level {name}:ERROR"
            )
    wanted = np.array([float(errors[name]) for name in names])

    def weight(level: Level, share: float) -> float:
        sensitivity = contributions.areas_sensitivity(level.sizes)
        try:
            return 1.0 / make_noise(sensitivity, mechanism, eps, delta, share).sd ** 2
        except InputError:  # the share is too small; the search goes on
            return 1.0 / MAX_SCALE**2

    def worst(logits: Floats) -> float:
        shares = np.exp(np.append(logits, 0.0))
        shares /= shares.sum()
        weights = map(weight, levels, shares.tolist())
        chain = Chain(tuple(level.group for level in levels), tuple(weights))
        ratios = np.array([np.sqrt(each.mean()) for each in chain.variances]) / wanted
        return float(np.log(ratios.max()))

    start = np.full(len(levels) - 1, -1.0)
    found = scipy.optimize.minimize(worst, start, method="Nelder-Mead", options={"xatol": 1e-2})
    shares = np.exp(np.append(np.clip(found.x, -9.0, 9.0), 0.0))
    rounded = [Decimal(f"{share:.3f}") for share in shares / shares.sum()]
    return _with_shares(levels, dict(zip(names[1:], rounded[1:], strict=True)))


def _with_shares(levels: Sequence[Level], shares: Mapping[str, Decimal]) -> Axis:
    coarser = [shares[level.name] for level in levels[1:]]
    rest = 1 - sum(coarser, Decimal(0))
    if min([rest, *filter(None, coarser)]) < _MIN_SHARE:
        raise InputError(
            f"shares of levels must be 0, for sums without noise of their own, or at least "
            f"{_MIN_SHARE}, and add up to less than 1, because the {levels[0].name} get the rest; "
            f"got {', '.join(map(str, shares.values()))}"
        )
    return Axis(tuple(levels), (rest, *coarser))


# --- Noise and estimates --------------------------------------------------------------------


@dataclass(frozen=True)
class Measurements:
    """Histograms, one for each combination of a level of times and one of areas.

    ``measured[t, s]`` is the noise of the levels ``times.levels[t]`` and ``areas.levels[s]``; a
    combination without a share of the budget is not there. If levels are `separate`, estimates are
    the noisy counts of each.
    """

    times: Axis
    areas: Axis
    measured: Mapping[tuple[int, int], Measured]
    separate: bool = False

    @property
    def several(self) -> bool:
        """Whether there are levels above the cells and windows."""
        return len(self.combinations) > 1

    @property
    def combinations(self) -> list[tuple[int, int]]:
        """Numbers of a level of times and of one of areas, of all histograms."""
        return list(product(range(len(self.times)), range(len(self.areas))))

    @cached_property
    def chains(self) -> tuple[Chain, Structure]:
        """Groups of times and areas; the products of their weights are inverse variances.

        With levels on both axes, variances need not be products. Then those of the histograms in
        which one level is the finest decide, which leaves estimates unbiased.
        """

        def weight(t: int, s: int) -> float:
            if (t, s) not in self.measured:
                return 0.0
            # Where hardly any noise is drawn, the deviation may round to 0.
            return max(self.measured[t, s].noise.sd, _MIN_DEVIATION) ** -2

        by_time = [weight(t, 0) for t in range(len(self.times))]
        by_area = [weight(0, s) for s in range(len(self.areas))]
        by_area = [weight / by_area[0] for weight in by_area]
        times = self.times.chain(by_time)
        assert isinstance(times, Chain)  # windows are no pairs
        return times, self.areas.chain(by_area)

    def sums(self, counts: Any) -> dict[tuple[int, int], Any]:
        """Return the sums of counts of every level; `counts` has shape ``(windows, cells)``."""
        times, areas = self.chains
        return {(t, s): times.sums(t, areas.sums(s, counts.T).T) for t, s in self.combinations}

    def estimate(self, noisy: Mapping[tuple[int, int], Integers]) -> Floats:
        """Return the least-squares estimates of all counts, shape ``(windows, cells)``.

        `noisy` has the noisy counts of `measured`, shape ``(times, areas)``. Estimates are
        multiples of 2^-20, or for counts above some 1e9 of a larger power of two, rounded, so that
        sums are exact in double precision.
        """
        times, areas = self.chains

        def drawn(t: int, s: int) -> Integers:
            shape = (len(self.times.levels[t]), len(self.areas.levels[s]))
            return noisy.get((t, s), np.zeros(shape, dtype=np.int64))

        by_time = [
            areas.solve([drawn(t, s).T.astype(np.float64) for s in range(len(self.areas))]).T
            for t in range(len(self.times))
        ]
        solved = times.solve(by_time)
        # Sums of large counts are exact only for coarser multiples.
        digits = math.ceil(math.log2(float(np.abs(solved).sum()) + 1.0))
        dyadic = min(_DYADIC, 2.0 ** (_MANTISSA - digits))
        return np.asarray(np.rint(solved * dyadic) / dyadic)

    def whole_numbers(self, estimates: Floats) -> Integers:
        """Return non-negative integers close to estimates, shape ``(windows, cells)``.

        For each time of the coarsest level, numbers of cells are close to the estimates of all
        areas. They are then divided among shorter times. Trips are found for each window, so that
        departures and arrivals stay close to theirs.
        """
        times, areas = self.chains
        if isinstance(areas, Pairs):
            return np.array([areas.whole_numbers(each) for each in estimates])
        coarsest = times.sums(len(times) - 1, estimates)
        totals = np.array([areas.whole_numbers(each) for each in coarsest])
        return divided(times, estimates, totals)

    def noises(self, time: Floats, area: Floats) -> list[Part]:
        """Return the noises in the estimate of a weighted sum of counts.

        `time` and `area` are the weights of windows, shape ``(windows,)``, and of cells, shape
        ``(cells,)``, whose products are those of the counts.
        """
        times, areas = self.chains
        by_time = [distinct(each) for each in times.influence(time)]
        by_area = [distinct(each) for each in areas.influence(area)]
        return self._parts(by_time, by_area)

    def _parts(self, by_time: Sequence[Any], by_area: Sequence[Any]) -> list[Part]:
        return [
            Part(
                self.measured[t, s].noise,
                np.multiply.outer(by_time[t][0], by_area[s][0]).ravel(),
                np.multiply.outer(by_time[t][1], by_area[s][1]).ravel(),
            )
            for t, s in self.measured
        ]

    @cached_property
    def half_widths(self) -> Mapping[tuple[int, int], Floats]:
        """Half-widths of the 95 % intervals of every level, shape ``(times, areas)``."""

        def width(parts: Sequence[Part], leaves: int) -> float:
            return half_width(parts, 1.0 - LEVEL) + leaves / _DYADIC

        return {at: self._by_class(*at, width) for at in self.combinations}

    def standard_deviations(self, time: int, area: int) -> Floats:
        """Return the standard deviations of the estimates of a level, shape ``(times, areas)``."""
        return self._by_class(time, area, lambda parts, _: float(np.sqrt(variance(parts))))

    def _by_class(
        self, time: int, area: int, compute: Callable[[Sequence[Part], int], float]
    ) -> Floats:
        """Compute a value for one area and time of each class, whose noise has the same law."""
        if self.separate or not self.several:
            # One noise for each count.
            value = compute([Part(self.measured[time, area].noise, np.ones(1), np.ones(1))], 1)
            shape = (len(self.times.levels[time]), len(self.areas.levels[area]))
            return np.broadcast_to(value, shape)  # there may be too many to list
        times, areas = self.chains
        (time_class, time_first), (area_class, area_first) = (
            times.classes[time],
            areas.classes[area],
        )
        values = np.empty((len(time_first), len(area_first)))
        for i, j in product(range(len(time_first)), range(len(area_first))):
            window, group = time_first[i], area_first[j]
            leaves = int(times.sizes[time][window] * areas.sizes[area][group])
            by_time = times.distinct_influence(time, window)
            by_area = areas.distinct_influence(area, group)
            values[i, j] = compute(self._parts(by_time, by_area), leaves)
        return values[np.ix_(time_class, area_class)]


def measure(
    times: Axis,
    areas: Axis,
    contributions: Contributions,
    mechanism: MechanismName,
    eps: float,
    delta: float,
) -> Measurements:
    """Return the histograms of all levels, with noise that gives (eps, delta) together.

    Raises `InputError` as `noise.make_noise` does, or for levels of times with a limit on records
    in each window, because one user would then move a longer time by the limit of each window.
    """
    per_window = contributions.windows > 1
    if per_window and len(times) > 1:
        raise InputError(
            f"--per-window lets a user count in every window, so that a {times.levels[1].name} "
            "would need noise for all its windows: leave out --per-window or the levels of time"
        )
    measured = {}
    for t, s in product(range(len(times)), range(len(areas))):
        share = times.shares[t] * areas.shares[s]
        if not share:
            continue
        sizes = areas.levels[s].sizes
        if not per_window:
            sizes = np.multiply.outer(times.levels[t].sizes, sizes).ravel()
        sensitivity = contributions.areas_sensitivity(sizes)
        noise = make_noise(sensitivity, mechanism, eps, delta, float(share))
        measured[t, s] = Measured(noise, sensitivity, share)
    return Measurements(times, areas, measured)
