"""Maps of check-ins and of estimated histograms (paper A, figures 3 to 5)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Unpack

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import Collection, PolyCollection
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray

from shuffledp.errors import InputError
from shuffledp.figures.basemap import attribute, draw_names
from shuffledp.figures.context import MapContext, MapFiles
from shuffledp.figures.frame import frame, scale_bar
from shuffledp.figures.map_panels import (
    PLAIN,
    Fill,
    coloured,
    hatched,
    height_of,
    is_fine,
    key_of,
    map_panels,
    surround,
)
from shuffledp.figures.style import (
    FULL_WIDTH,
    calibration_words,
    counted,
    eps_words,
    literal,
    local_style,
    new_figure,
    of_series,
    plural,
    series_of,
)
from shuffledp.mechanisms.catalogue import DISTRIBUTION, get_estimator
from shuffledp.numerics.arrays import Floats, Integers
from shuffledp.pipeline.selection import read_calibrated
from shuffledp.pipeline.tables import read_tables

_ALONE: Final = 0.58  # of the width of a page: one map with its colour bar

# Land or water shows through.
_ZERO: Final = Fill("none", "0.6", "////")
_NEGATIVE: Final = Fill("#F4D9E6", "#8C2D62", "xxxx")
_ESTIMATED_0: Final = "0: in the original none, elsewhere estimated as 0"


def _off_scale(values: Floats) -> list[tuple[Fill, NDArray[np.bool_]]]:
    """Which cells a logarithmic colour scale cannot show; kinds without a cell are left out."""
    kinds = [(_ZERO, values == 0.0), (_NEGATIVE, values < 0.0)]
    return [(fill, mask) for fill, mask in kinds if mask.any()]


def _heat(axes: Axes, corners: Floats, values: Floats, norm: LogNorm) -> Collection:
    """Colour the positive cells; set off those of zero and those below."""
    heat = coloured(axes, corners, values, values > 0.0, norm)
    for fill, mask in _off_scale(values):
        hatched(axes, corners, mask, fill)
    return heat


def _key(values: Floats, zero: str) -> list[Patch]:
    """Legend of the cells that the colour bar does not hold, if any; ``zero`` says what 0 is."""
    labels = {_ZERO: zero, _NEGATIVE: "below 0 (raw estimates may be)"}
    return key_of([(fill, labels[fill]) for fill, _ in _off_scale(values)])


def draw_checkins(
    checkins: Path, *, title: str, unit: str, dots: bool, **place: Unpack[MapFiles]
) -> Figure:
    """Draw `checkins_map` from the files of the check-ins, the grid and what lies round it.

    Parameters
    ----------
    checkins
        Parquet table with ``latitude`` and ``longitude`` in degrees.
    title
        Of the figure: the place, as a rule.
    unit
        What a record is: `check-in` or `user`.
    dots
        Whether each check-in is drawn; only the grid otherwise.
    place
        Files of the grid, and of a base map and an outline if there are any.
    """
    points = read_tables([checkins], columns=["latitude", "longitude"])
    return checkins_map(MapContext.read(title, unit, **place), points, dots=dots)


def draw_estimates(
    releases: Path,
    samples: Path,
    *,
    title: str,
    unit: str,
    calibration: str,
    target_delta: float,
    **place: Unpack[MapFiles],
) -> Figure:
    """Draw `estimate_maps` of the first repetition from files, as for `draw_checkins`.

    Parameters
    ----------
    releases, samples
        Parquet tables of the estimates, and of the true counts.
    title
        Of the figure: the place, as a rule.
    unit
        What a record is: `check-in` or `user`.
    calibration
        Which rows: a name of a calibration, `matched` for those at the certified privacy.
    target_delta
        Delta in (0, 1) of the calibrations to a target.
    place
        Files of the grid, and of a base map and an outline if there are any.
    """
    n = int(read_tables([samples], columns=["n"])["n"].max())
    original = read_tables([samples], n=n).sort_values("cell")["count"].to_numpy()
    rows = pd.concat(
        read_calibrated(releases, calibration, target_delta, n=n, estimator=DISTRIBUTION),
        ignore_index=True,
    )
    words = release_title(title, unit, rows, calibration, target_delta)
    panels = release_panels(original, rows)
    del rows  # not in memory beside the maps
    return estimate_maps(MapContext.read(words, unit, **place), panels, n)


@local_style()
def checkins_map(place: MapContext, checkins: pd.DataFrame, *, dots: bool) -> Figure:
    """Where the check-ins of a region are, as points and per cell (paper A, figure 3).

    Parameters
    ----------
    place
        The grid with its counts; the title names the region.
    checkins
        Columns ``latitude`` and ``longitude`` in degrees.
    dots
        Whether the positions are real: if not, no point is drawn.

    Returns
    -------
    The counts on a logarithmic colour scale; left of them, if wanted, the points on the grid,
    rasterised in vector files.
    """
    corners, layers = place.corners, place.around
    counts = place.cells["count"].to_numpy(dtype=np.float64)
    width = FULL_WIDTH if dots else _ALONE * FULL_WIDTH
    figure = new_figure(height_of(corners, (FULL_WIDTH - 0.7) / 2.0) + 1.15, width)
    *left, right = figure.subplots(1, 1 + dots, squeeze=False)[0]
    for axes in left:
        _draw_dots(axes, corners, checkins)
    heat = _heat(right, corners, counts, LogNorm(1.0, max(counts.max(), 10.0)))
    units = plural(place.unit)
    titles = [*([f"{units.capitalize()}, one dot each"] * dots), f"{units.capitalize()} per cell"]
    for axes, panel in zip([*left, right], titles, strict=True):
        surround(axes, layers)
        frame(axes, corners, margin=not layers.empty, ordinate=panel == titles[0])
        scale_bar(axes)
        axes.set_title(panel, loc="left")
    draw_names(right, layers, FULL_WIDTH / 2.0)
    attribute(right, layers)
    # An inset keeps the bar as high as the map, whose proportions are fixed.
    bar = right.inset_axes((1.03, 0.0, 0.04, 1.0))
    figure.colorbar(heat, cax=bar, format=PLAIN, label=f"{units} per cell (logarithmic)")
    if key := _key(counts, f"no {place.unit.removeprefix('one ')}"):
        figure.legend(handles=key, loc="outside lower center", handlelength=1.6)
    outside = len(checkins) - int(counts.sum())
    dropped = f" ({outside:,} more outside the grid)" if outside else ""
    words = f"{int(counts.sum()):,} {units} in {len(counts):,} cells{dropped}"
    figure.suptitle(f"{literal(place.title)}\n{words}")
    return figure


def _draw_dots(axes: Axes, corners: Floats, checkins: pd.DataFrame) -> None:
    if not is_fine(len(corners)):  # the lines would run together
        axes.add_collection(
            PolyCollection(list(corners), facecolors="none", edgecolors="0.8", linewidths=0.3)
        )
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


def release_panels(original: Integers, rows: pd.DataFrame) -> dict[str, Floats]:
    """Select the panels of `estimate_maps`: the original and one release of each mechanism.

    Parameters
    ----------
    original
        Histogram that was released, shape ``(k,)``.
    rows
        Columns of `pipeline.tables.RELEASES`: one repetition, at one n, eps0 and calibration. Of
        each mechanism the ``projected`` estimate is taken, so that like stands beside like.

    Returns
    -------
    Panel title to shares of n, shape ``(k,)``, the original first.

    Raises
    ------
    InputError
        If the original does not sum to n, or a mechanism has not one estimate for each cell.
    """
    (n,) = rows["n"].unique()
    if original.sum() != n:
        raise InputError(f"original must hold the {n} records released (got {original.sum()})")
    panels = {"Original": original / n}
    projected = rows[rows["estimator"] == DISTRIBUTION]
    for series in series_of(projected):
        cells = of_series(projected, series).sort_values("cell")
        label = get_estimator(*series).label
        if not np.array_equal(cells["cell"], np.arange(original.size)):
            raise InputError(
                f"releases must hold one estimate for each of {original.size} cells of "
                f"{label!r} at n={n} (got {len(cells)})"
            )
        panels[label] = cells["estimate"].to_numpy()
    return panels


def _check_shapes(estimates: Mapping[str, Floats], k: int) -> None:
    wrong = {name: np.shape(e) for name, e in estimates.items() if np.shape(e) != (k,)}
    if wrong:
        raise InputError(f"estimates must have one share for each of {k} cells (got {wrong})")


def release_title(
    region_title: str, unit: str, rows: pd.DataFrame, calibration: str, target_delta: float
) -> str:
    """Title for the panels of `release_panels`: region, size, budgets and calibration.

    Parameters
    ----------
    region_title
        Name of the region.
    unit
        What a record is: `check-in` or `user`.
    rows
        Releases of one n.
    calibration
        Which rows: a name of a calibration, `matched` for those at the certified privacy.
    target_delta
        Delta in (0, 1) of the calibrations to a target.
    """
    n, eps0, eps = int(rows["n"].iloc[0]), rows["eps0"].iloc[0], rows["eps"].max()
    words = calibration_words(calibration, target_delta, list(rows["mechanism"].unique()))
    return (
        rf"{literal(region_title)}: n = {counted(n, unit)}, $\epsilon_0={eps0:g}$, "
        rf"$\epsilon={eps_words(eps)}$"
        f"\n{words}"
    )


@local_style()
def estimate_maps(place: MapContext, estimates: Mapping[str, Floats], n: int) -> Figure:
    """Estimated histograms side by side on one colour scale (paper A, figures 4 and 5).

    Parameters
    ----------
    place
        The grid, whose counts are not used. Its title should name the region, the privacy and the
        calibration. Districts are named in the first panel.
    estimates
        Panel title to shares of n in the order of the cells, shape ``(k,)``. The first is the
        original; the others show their total variation distance to it.
    n
        Number of check-ins that were released.

    Raises
    ------
    InputError
        If an estimate does not have one share per cell.
    """
    _check_shapes(estimates, len(place.cells))
    values = n * np.stack(list(estimates.values()))
    norm = LogNorm(1.0, max(values.max(), 10.0))
    notes = [
        f"\ntotal variation distance {0.5 * np.abs(value - values[0]).sum() / n:.3g}"
        for value in values[1:]
    ]
    titles = [name + note for name, note in zip(estimates, ["", *notes], strict=True)]
    key = _key(values, _ESTIMATED_0)
    figure, panels, bar = map_panels(place, titles, key, 1)
    for axes, value in zip(panels, values, strict=True):
        heat = _heat(axes, place.corners, value, norm)
    figure.colorbar(
        heat,
        cax=bar,
        orientation="horizontal",
        format=PLAIN,
        label=f"{plural(place.unit)} per cell (estimated share × n, logarithmic)",
        extend="min" if ((values > 0.0) & (values < 1.0)).any() else "neither",
    )
    return figure
