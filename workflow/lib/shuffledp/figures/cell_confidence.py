"""What a release shows of single cells: maps of errors, and of what is known."""

from pathlib import Path
from typing import Final, Unpack

import numpy as np
import pandas as pd
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from shuffledp.figures.context import MapContext, MapFiles
from shuffledp.figures.map_panels import (
    PLAIN,
    Fill,
    coloured,
    hatched,
    key_of,
    map_panels,
    marked,
)
from shuffledp.figures.maps import release_title
from shuffledp.figures.style import local_style, of_series, plural, series_of
from shuffledp.mechanisms.catalogue import DISTRIBUTION, UNBIASED, get_estimator
from shuffledp.pipeline.selection import STANDARD_ERRORS
from shuffledp.pipeline.tables import read_tables

# Diverging, safe for the colour-blind, and unlike water.
_ERRORS: Final = "PuOr_r"
_MARKED: Final = 0.2  # of the end of the scale, about: what is too low by more has a mark
_UNKNOWN: Final = Fill("none", "0.45", "......")


class Release(MapFiles):
    """Files of a place, and what is said of the releases there.

    Attributes
    ----------
    title
        Of the figure: the place, as a rule.
    unit
        What a record is: `check-in` or `user`.
    target_delta
        Delta in (0, 1) of the calibrations to a target.
    """

    title: str
    unit: str
    target_delta: float


def draw_errors(certainty: Path, **release: Unpack[Release]) -> Figure:
    """Draw `error_maps` of the largest n from files; parameters as `read_release`."""
    return error_maps(*read_release(certainty, DISTRIBUTION, **release))


def draw_trust(certainty: Path, **release: Unpack[Release]) -> Figure:
    """Draw `trust_maps` of the largest n from files; parameters as `read_release`."""
    return trust_maps(*read_release(certainty, UNBIASED, **release))


def read_release(
    certainty: Path,
    estimator: str,
    *,
    title: str,
    unit: str,
    target_delta: float,
    **place: Unpack[MapFiles],
) -> tuple[MapContext, pd.DataFrame]:
    """Read one estimate of each release of the largest n, and the grid.

    Parameters
    ----------
    certainty
        Parquet table of `pipeline.tables.CERTAINTY`.
    estimator
        Name of the estimator whose rows are read.
    title, unit, target_delta
        As of `Release`.
    place
        Files of the grid, and of a base map and an outline if there are any.
    """
    n = int(read_tables([certainty], columns=["n"])["n"].max())
    rows = read_tables([certainty], n=n, estimator=estimator)
    words = release_title(title, unit, rows, "matched", target_delta)
    return MapContext.read(words, unit, **place), rows


def _panels(rows: pd.DataFrame, estimator: str) -> dict[str, pd.DataFrame]:
    """Rows of one estimator of every mechanism, by label, in the order of the cells."""
    return {
        get_estimator(*series).label: of_series(rows, series).sort_values("cell")
        for series in series_of(rows)
        if series[1] == estimator
    }


@local_style()
def error_maps(place: MapContext, rows: pd.DataFrame) -> Figure:
    """Where the projected estimates are too high and where too low, on one symmetric scale.

    Parameters
    ----------
    place
        The grid and its surroundings; the title as `shuffledp.figures.maps.release_title` has it.
    rows
        Columns of `pipeline.tables.CERTAINTY`: one release of each mechanism.
    """
    panels = _panels(rows, DISTRIBUTION)
    errors = [panel["error"].to_numpy() for panel in panels.values()]
    most = max(float(np.abs(error).max()) for error in errors)
    norm = Normalize(-most, most)
    titles = [
        f"{label}\nroot mean square error {np.sqrt((error**2).mean()):,.3g}"
        for label, error in zip(panels, errors, strict=True)
    ]
    much = float(f"{_MARKED * most:.1g}")
    words = f"too low by more than {much:,g} {plural(place.unit)}"
    key = [Line2D([], [], linestyle="none", marker="v", color="black", label=words)]
    # Names would lie on the marks.
    figure, maps, bar = map_panels(place, titles, key, 1, named=False)
    for axes, error in zip(maps, errors, strict=True):
        heat = coloured(axes, place.corners, error, np.isfinite(error), norm, _ERRORS)
        marked(axes, place.corners, error < -much)
    figure.colorbar(
        heat,
        cax=bar,
        orientation="horizontal",
        format=PLAIN,
        label="too low  \N{LEFTWARDS ARROW}  estimated \N{MINUS SIGN} true "
        f"{plural(place.unit)} per cell  "
        "\N{RIGHTWARDS ARROW}  too high",
    )
    return figure


@local_style()
def trust_maps(place: MapContext, rows: pd.DataFrame) -> Figure:
    """Unbiased estimates where they exceed two standard errors, the other cells hatched.

    Parameters as for `error_maps`.
    """
    panels = _panels(rows, UNBIASED)
    values = {label: panel["estimate"].to_numpy() for label, panel in panels.items()}
    known = {label: panel["known"].to_numpy() for label, panel in panels.items()}
    norm = LogNorm(1.0, max(*(value.max() for value in values.values()), 10.0))
    titles = [f"{label}\n{_known_words(panel)}" for label, panel in panels.items()]
    words = (
        f"not known: the estimate does not exceed {STANDARD_ERRORS:g} standard errors.\n"
        f"There may be {plural(place.unit)} or none: an estimate of zero is not zero "
        f"{plural(place.unit)}.\n"
        "Of cells that are empty in truth, one in 30 to 44 counts as known by chance"
    )
    key = key_of([(_UNKNOWN, words)])
    figure, maps, bar = map_panels(place, titles, key, 3)
    for axes, label in zip(maps, panels, strict=True):
        heat = coloured(axes, place.corners, values[label], known[label], norm)
        hatched(axes, place.corners, ~known[label], _UNKNOWN)
    figure.colorbar(
        heat,
        cax=bar,
        orientation="horizontal",
        format=PLAIN,
        label=f"estimated {plural(place.unit)} per cell, above 2 standard errors (logarithmic)",
    )
    return figure


def _known_words(panel: pd.DataFrame) -> str:
    known, held = panel["known"], panel["count"] > 0
    words = (
        f"known: {(known & held).sum():,} of {held.sum():,} occupied, "
        f"{(known & ~held).sum():,} of {(~held).sum():,} empty cells"
    )
    least = panel["estimate"][known].min()
    return f"{words}\neach estimated at {least:,.0f} or more" if known.any() else words
