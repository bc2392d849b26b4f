"""Draw maps of check-ins, of estimated histograms (paper A, figures 3 to 5) and of their errors."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Unpack

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import Collection
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Patch, PathPatch
from numpy.typing import NDArray

from shuffledp.data.grid import read_cells, windows_of
from shuffledp.errors import InputError
from shuffledp.figures import style
from shuffledp.figures.map_panels import (
    PLAIN_NUMBERS,
    CellShapes,
    Fill,
    MapContext,
    MapFiles,
    add_colour_bar,
    draw_attribution,
    draw_base_map,
    draw_hatch,
    draw_names,
    draw_triangles,
    draw_values,
    fill_legend,
    is_fine,
    map_height,
    map_panels,
)
from shuffledp.mechanisms.catalogue import (
    CATALOGUE,
    DISTRIBUTION,
    POSTERIOR,
    UNBIASED,
    get_estimator,
)
from shuffledp.mechanisms.recommendation import best_by_trust, recommended
from shuffledp.numerics.arrays import Floats, Integers
from shuffledp.pipeline.selection import (
    STANDARD_ERRORS,
    TARGET,
    calibrated,
    read_calibrated,
    read_target,
    usual_target,
)
from shuffledp.pipeline.tables import read_tables
from shuffledp.pipeline.units import counted, has_bound

_SINGLE_MAP_WIDTH: Final = 0.58  # share of the page's width, for one map with its colour bar
_BESIDE_MAPS: Final = 1.3  # inches taken by latitudes and colour bar

# A cell without colour shows the base map.
_ZERO: Final = Fill("none", "0.6", "////")
_NEGATIVE: Final = Fill("#F4D9E6", "#8C2D62", "xxxx")
_ZERO_LABEL: Final = "0: empty in the original, estimated as 0 in the other maps"


def _off_scale(values: Floats) -> list[tuple[Fill, NDArray[np.bool_]]]:
    """Return the fills and masks of cells that a logarithmic colour scale cannot show."""
    fills = [(_ZERO, values == 0.0), (_NEGATIVE, values < 0.0)]
    return [(fill, mask) for fill, mask in fills if mask.any()]


def _draw_counts(axes: Axes, shapes: CellShapes, values: Floats, norm: LogNorm) -> Collection:
    collection = draw_values(axes, shapes, values, values > 0.0, norm)
    for fill, mask in _off_scale(values):
        draw_hatch(axes, shapes, mask, fill)
    return collection


def _legend(values: Floats, zero_label: str) -> list[Patch]:
    """Return legend entries for cells that are not on the colour scale, if any."""
    labels = {_ZERO: zero_label, _NEGATIVE: "below 0 (possible for raw estimates)"}
    return fill_legend([(fill, labels[fill]) for fill, _ in _off_scale(values)])


def draw_checkins(
    checkins: Path, *, title: str, unit: str, dots: bool, **files: Unpack[MapFiles]
) -> Figure:
    """Read the check-ins and the grid of a region and draw `checkins_map`.

    `checkins` is a Parquet table with ``latitude`` and ``longitude`` in degrees.
    """
    points = read_tables([checkins], columns=["latitude", "longitude"])
    return checkins_map(MapContext.read(title, unit, whole=True, **files), points, dots=dots)


def draw_estimates(
    releases: Path,
    utility: Path,
    samples: Path,
    *,
    title: str,
    unit: str,
    calibration: str,
    target_delta: float,
    **files: Unpack[MapFiles],
) -> Figure:
    """Read the first release at the largest n and draw `estimate_maps`.

    `releases`, `utility` and `samples` are Parquet files of the estimates of one eps0, of their
    errors and of the true counts; `calibration` and `target_delta` are those of
    `shuffledp.pipeline.selection.calibrated`.
    """
    n = int(read_tables([samples], columns=["n"])["n"].max())
    original = read_tables([samples], n=n).sort_values("cell")["count"].to_numpy()
    rows = pd.concat(
        map(best_estimates, read_calibrated(releases, calibration, target_delta, n=n)),
        ignore_index=True,
    )
    full_title = release_title(title, unit, rows, calibration, target_delta)
    panels = release_panels(original, rows)
    del rows  # frees memory before the maps are drawn
    errors = calibrated(read_tables([utility], n=n), calibration, target_delta)
    place = MapContext.read(full_title, unit, **files)
    return estimate_maps(place, panels, n, mean_errors(errors, "tv_distance"))


@style.local_style()
def checkins_map(place: MapContext, checkins: pd.DataFrame, *, dots: bool) -> Figure:
    """Draw the check-ins of a region as points and as counts per cell (paper A, figure 3).

    The counts have a logarithmic colour scale. With `dots`, the points are on their left; that is
    misleading if their positions within the cells are invented. The title of `place` is the name of
    the region.
    """
    shapes, layers = place.shapes, place.visible_layers
    counts = place.cells["count"].to_numpy(dtype=np.float64)
    width = style.FULL_WIDTH if dots else _SINGLE_MAP_WIDTH * style.FULL_WIDTH
    figure = style.new_figure(map_height(shapes, (style.FULL_WIDTH - 0.7) / 2.0) + 1.15, width)
    *left, right = figure.subplots(1, 1 + dots, squeeze=False)[0]
    for axes in left:
        _draw_dots(axes, shapes, checkins)
    collection = _draw_counts(right, shapes, counts, LogNorm(1.0, max(counts.max(), 10.0)))
    units = style.plural(place.unit)
    titles = [
        *([f"{units.capitalize()}, one dot for each"] * dots),
        f"{units.capitalize()} per cell",
    ]
    for axes, title in zip([*left, right], titles, strict=True):
        draw_base_map(axes, place, ordinate=title == titles[0])
        axes.set_title(title, loc="left")
    draw_names(right, layers, (width - _BESIDE_MAPS) / (1 + dots))
    draw_attribution(right, layers)
    # An inset is as high as the map, whose aspect ratio is fixed.
    bar = right.inset_axes((1.03, 0.0, 0.04, 1.0))
    label = f"{units} per cell (logarithmic)"
    figure.colorbar(collection, cax=bar, format=PLAIN_NUMBERS, label=label)
    if legend := _legend(counts, f"no {counted(place.unit)}"):
        figure.legend(handles=legend, loc="outside lower center", handlelength=1.6)
    outside = len(checkins) - int(counts.sum())
    where = "not counted" if has_bound(place.unit) else "outside the grid"
    dropped = f" ({outside:,} more {where})" if outside else ""
    numbers = f"{int(counts.sum()):,} {units} in {len(counts):,} cells{dropped}"
    figure.suptitle(f"{style.escape_math(place.title)}\n{numbers}")
    return figure


def _draw_dots(axes: Axes, shapes: CellShapes, checkins: pd.DataFrame) -> None:
    if not is_fine(len(shapes)):  # the lines of a fine grid would merge
        every = shapes.outline(np.ones(len(shapes), dtype=bool))
        axes.add_patch(PathPatch(every, facecolor="none", edgecolor="0.8", linewidth=0.3))
    axes.plot(
        checkins["longitude"],
        checkins["latitude"],
        linestyle="none",
        marker="o",
        markersize=0.9,
        markeredgewidth=0.0,
        color="#0072B2",
        alpha=float(np.clip(5e3 / max(len(checkins), 1), 0.25, 0.8)),
        rasterized=True,
    )


def best_estimates(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of each mechanism's posterior median, or, without one, its projection."""
    posterior = rows["estimator"] == POSTERIOR
    has_posterior = rows["mechanism"].isin(rows["mechanism"][posterior])
    return rows[posterior | (~has_posterior & (rows["estimator"] == DISTRIBUTION))]


def mean_errors(utility: pd.DataFrame, column: str) -> dict[str, str]:
    """Return the line of a panel's title with the mean error over all releases, by label.

    `utility` has the columns of `pipeline.tables.UTILITY` for one n, eps0 and calibration; `column`
    is that of the error. The dictionary lacks mechanisms with a single release.
    """
    table = utility.groupby(["mechanism", "estimator"])[column].agg(["size", "mean"]).reset_index()
    return {
        get_estimator(*series).label: f"\n(mean of {size} releases: {mean:,.3g})"
        for *series, size, mean in table[table["size"] > 1].itertuples(index=False)
    }


def release_panels(original: Integers, rows: pd.DataFrame) -> dict[str, Floats]:
    """Return the histograms for `estimate_maps`: the original and one release of each mechanism.

    `original` is the true histogram, shape ``(k,)``. `rows` have the columns of
    `pipeline.tables.RELEASES` for one repetition at one n, eps0 and calibration; only
    `best_estimates` are kept. The result has shares of n, shape ``(k,)``, by panel title; the
    original is first.
    """
    (n,) = rows["n"].unique()
    if original.sum() != n:
        raise InputError(f"original must sum to the {n} records released, got {original.sum()}")
    panels = {"Original": original / n}
    shown = best_estimates(rows)
    for series in style.list_series(shown):
        cells = style.series_rows(shown, series).sort_values("cell")
        label = get_estimator(*series).label
        if not np.array_equal(cells["cell"], np.arange(original.size)):
            raise InputError(
                f"releases must hold one estimate for each of {original.size} cells of "
                f"{label!r} at n={n}, got {len(cells)}"
            )
        panels[label] = cells["estimate"].to_numpy()
    return panels


def release_title(
    region_title: str, unit: str, rows: pd.DataFrame, calibration: str, target_delta: float
) -> str:
    """Return a title that states region, n, budgets and calibration of releases at one n.

    The releases have columns ``n``, ``eps0``, ``eps`` and ``mechanism``.
    """
    n, eps0, eps = int(rows["n"].iloc[0]), rows["eps0"].iloc[0], rows["eps"].max()
    calibrated_to = style.calibration_title(calibration, target_delta, rows["mechanism"])
    return (
        rf"{style.escape_math(region_title)}: n = {style.count_units(n, unit)}, "
        rf"$\epsilon_0={eps0:g}$, $\epsilon={style.format_eps(eps)}$; one release of each mechanism"
        f"\n{calibrated_to}"
    )


@style.local_style()
def estimate_maps(
    place: MapContext,
    estimates: Mapping[str, Floats],
    n: int,
    means: Mapping[str, str] | None = None,
) -> Figure:
    """Draw estimated histograms side by side on a common colour scale (paper A, figures 4 and 5).

    `estimates` are shares of n by panel title, in the order of the cells: shape ``(k,)``, or
    ``(windows * k,)``, of which the maps show ``place.window``. The first is the original; the
    titles of the others state their total variation distance to it, over all windows, and end with
    the `mean_errors`. The title of `place` should state region, privacy and calibration.
    """
    k = len(place.cells)
    shown = {name: np.shape(estimate[place.window]) for name, estimate in estimates.items()}
    if wrong := {name: shape for name, shape in shown.items() if shape != (k,)}:
        raise InputError(f"estimates must have one share for each of {k} cells, got {wrong}")
    values = n * np.stack(list(estimates.values()))
    norm = LogNorm(1.0, max(values.max(), 10.0))
    distances = [
        f"\ntotal variation distance {0.5 * np.abs(value - values[0]).sum() / n:.3g}"
        f"{(means or {}).get(name, '')}"
        for name, value in list(zip(estimates, values, strict=True))[1:]
    ]
    titles = [name + distance for name, distance in zip(estimates, ["", *distances], strict=True)]
    values = values[:, place.window]
    figure, panels, bar = map_panels(place, titles, _legend(values, _ZERO_LABEL))
    for axes, value in zip(panels, values, strict=True):
        collection = _draw_counts(axes, place.shapes, value, norm)
    label = f"{style.plural(place.unit)} per cell (estimated share × n, logarithmic)"
    extend = "min" if ((values > 0.0) & (values < 1.0)).any() else "neither"
    add_colour_bar(bar, collection, label, extend=extend)
    return figure


# --- Errors of single cells -----------------------------------------------------------------------

# Diverging, safe for the colour-blind, and different from the colour of water.
_ERROR_COLOURS: Final = "PuOr_r"
_MIN_MARKED_ERROR: Final = 0.2  # share of the largest error; errors above it are marked by sign


@style.local_style()
def draw_errors(
    certainty: Path,
    utility: Path,
    *,
    title: str,
    unit: str,
    target_delta: float,
    **files: Unpack[MapFiles],
) -> Figure:
    """Draw the errors of the `best_estimates` at the largest n on a common scale around 0.

    `certainty` and `utility` are Parquet files with the columns of `pipeline.tables.CERTAINTY` and
    `UTILITY`, for one eps0, `title` the name of the region, `unit` the unit of the guarantee, and
    `target_delta` the delta to which the releases are calibrated. The titles of the maps state the
    root mean square error over all cells and windows, and end with the `mean_errors`.
    """
    n = int(read_tables([certainty], columns=["n"])["n"].max())
    tables = [read_tables([certainty], n=n, estimator=each) for each in (DISTRIBUTION, POSTERIOR)]
    rows = pd.concat([table for table in tables if len(table)], ignore_index=True)
    full_title = release_title(title, unit, rows, "matched", target_delta)
    releases = calibrated(read_tables([utility], n=n), "matched", target_delta)
    means = mean_errors(releases, "cell_error")
    place = MapContext.read(full_title, unit, **files)
    best = best_estimates(rows)
    series = style.list_series(best)
    errors = [
        style.series_rows(best, each).sort_values("cell")["error"].to_numpy() for each in series
    ]
    labels = [get_estimator(*each).label for each in series]
    titles = [
        f"{label}\nroot mean square error {np.sqrt((error**2).mean()):,.3g}{means.get(label, '')}"
        for label, error in zip(labels, errors, strict=True)
    ]
    errors = [error[place.window] for error in errors]
    largest = max(float(np.abs(error).max()) for error in errors)
    norm = Normalize(-largest, largest)
    threshold = float(f"{_MIN_MARKED_ERROR * largest:.1g}")
    marked = f"by more than {threshold:,g} {style.plural(unit)}"
    legend = [
        style.legend_mark(f"estimate too {word} {marked}", marker=marker, color="black")
        for marker, word in (("v", "low"), ("^", "high"))
    ]
    # Names of districts would cover the triangles.
    figure, maps, bar = map_panels(place, titles, legend, named=False)
    for axes, error in zip(maps, errors, strict=True):
        shown = np.isfinite(error)
        collection = draw_values(axes, place.shapes, error, shown, norm, _ERROR_COLOURS)
        draw_triangles(axes, place.shapes, error < -threshold)
        draw_triangles(axes, place.shapes, error > threshold, up=True)
    add_colour_bar(
        bar,
        collection,
        "too low  \N{LEFTWARDS ARROW}  estimated \N{MINUS SIGN} true "
        f"{style.plural(unit)} per cell  \N{RIGHTWARDS ARROW}  too high",
    )
    return figure


# --- The recommended mechanism: beside that of a curator, and over time ---------------------------

_MAX_PLACES: Final = 6  # panels of the figure of a series


def draw_recommended(
    summary: Path,
    utility: Path,
    samples: Path,
    *,
    title: str,
    unit: str,
    cells: Path,
    basemap: Path | None = None,
    outline: Path | None = None,
    **releases: Path,
) -> Figure:
    """Draw the true map, that of the best mechanism with a curator, and the recommended one.

    The figure shows the `best_estimates` at the largest n, and at the target eps that is closest to
    1. `summary` is a CSV file of the mean errors of all mechanisms at the targets; `utility` and
    `samples` are Parquet files of the errors of each release and of the true counts. `releases` are
    Parquet files of the releases at the targets, by ``releases_`` and the mechanism's name.
    """
    rows = usual_target(pd.read_csv(summary), UNBIASED)
    names = dict.fromkeys(filter(None, [best_by_trust(rows).get("curator"), recommended(rows)]))
    estimates = [
        read_target(rows, releases, list(names), each) for each in (DISTRIBUTION, POSTERIOR)
    ]
    chosen = pd.concat([each for each in estimates if len(each)])
    n, eps = int(rows["n"].iloc[0]), float(rows["eps"].iloc[0])
    errors = read_tables([utility], n=n, eps=eps, calibration=TARGET)
    original = read_tables([samples], n=n).sort_values("cell")["count"].to_numpy()
    full_title = f"{_target_title(title, unit, rows)}; one release of each mechanism"
    place = MapContext.read(full_title, unit, cells=cells, basemap=basemap, outline=outline)
    panels = release_panels(original, chosen)
    return estimate_maps(place, panels, n, mean_errors(errors, "tv_distance"))


@style.local_style()
def draw_series(
    summary: Path, samples: Path, *, title: str, unit: str, cells: Path, **releases: Path
) -> Figure:
    """Draw true counts and unbiased estimates with two standard errors over the windows of time.

    The panels are the busiest cells, and the estimates those of the recommended mechanism. The
    parameters are those of `draw_recommended`, without the errors of each release.
    """
    rows = usual_target(pd.read_csv(summary), UNBIASED)
    name = recommended(rows)
    if name is None:
        raise InputError("no mechanism meets the target, so that there is no series to draw")
    chosen = read_target(rows, releases, [name], UNBIASED).sort_values("cell")
    n = int(rows["n"].iloc[0])
    counts = read_tables([samples], n=n).sort_values("cell")["count"]
    windows = windows_of(cells)
    places, truth, estimates, errors = (
        column.to_numpy().reshape(len(windows), -1)
        for column in (
            *(read_cells(cells)["name"], counts),
            *(n * chosen["estimate"], n * chosen["standard_error"]),
        )
    )
    busiest = np.argsort(-truth.sum(axis=0), kind="stable")[:_MAX_PLACES]
    columns = min(len(busiest), 3)
    lines = -(-len(busiest) // columns)
    figure = style.new_figure(1.1 + 1.7 * lines)
    panels = figure.subplots(lines, columns, sharex=True, squeeze=False)
    at = np.arange(len(windows))
    look = style.marker_style(style.series_look(name, UNBIASED))
    for axes, place in zip(panels.flat, busiest, strict=False):
        axes.plot(at, truth[:, place], color="black", linewidth=1.0, label="truth")
        axes.errorbar(
            at,
            estimates[:, place],
            yerr=STANDARD_ERRORS * errors[:, place],
            linestyle="none",
            elinewidth=1.0,
            markersize=3.0,
            label=f"{CATALOGUE[name].label}, \N{PLUS-MINUS SIGN} 2 standard errors",
            **look,
        )
        axes.set_title(style.escape_math(places[0, place]), loc="left")
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
        axes.grid(axis="y")
        shown = at[:: -(-len(windows) // 6)]
        axes.set_xticks(shown, [windows[each] for each in shown], rotation=40, ha="right")
    for axes in panels.flat[len(busiest) :]:
        axes.set_visible(False)
    for axes in panels[:, 0]:
        axes.set_ylabel(style.plural(unit))
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    figure.suptitle(f"{_target_title(title, unit, rows)}; one release")
    return figure


def _target_title(title: str, unit: str, rows: pd.DataFrame) -> str:
    n, eps, delta = (rows[name].iloc[0] for name in ("n", "eps", "delta"))
    return (
        rf"{style.escape_math(title)}: n = {style.count_units(int(n), unit)}, "
        rf"$\epsilon = {style.format_eps(eps)}$, $\delta = {style.power(delta)}$"
    )
