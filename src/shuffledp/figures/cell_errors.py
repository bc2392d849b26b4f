"""Draw the errors of single cells."""

from pathlib import Path
from typing import Final, Unpack

import numpy as np
import pandas as pd
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from shuffledp.figures import style
from shuffledp.figures.map_panels import (
    MapContext,
    MapFiles,
    add_colour_bar,
    draw_triangles,
    draw_values,
    map_panels,
)
from shuffledp.figures.maps import best_estimates, mean_errors, release_title
from shuffledp.mechanisms.catalogue import DISTRIBUTION, POSTERIOR, get_estimator
from shuffledp.pipeline.selection import calibrated
from shuffledp.pipeline.tables import read_tables

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
