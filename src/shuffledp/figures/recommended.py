"""Draw the release of the recommended mechanism: beside that of a curator, and over time."""

from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from shuffledp.data.grid import read_cells, windows_of
from shuffledp.errors import InputError
from shuffledp.figures import style
from shuffledp.figures.map_panels import MapContext
from shuffledp.figures.maps import estimate_maps, mean_errors, release_panels
from shuffledp.mechanisms.catalogue import CATALOGUE, DISTRIBUTION, POSTERIOR, UNBIASED
from shuffledp.mechanisms.recommendation import best_by_trust, recommended
from shuffledp.pipeline.selection import STANDARD_ERRORS, TARGET, read_target, usual_target
from shuffledp.pipeline.tables import read_tables

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
    full_title = f"{_title(title, unit, rows)}; one release of each mechanism"
    place = MapContext.read(full_title, unit, cells=cells, basemap=basemap, outline=outline)
    panels = release_panels(original, chosen)
    return estimate_maps(place, panels, n, mean_errors(errors, "tv_distance"))


@style.local_style()
def draw_series(
    summary: Path,
    samples: Path,
    *,
    title: str,
    unit: str,
    cells: Path,
    **releases: Path,
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
            read_cells(cells)["name"],
            counts,
            n * chosen["estimate"],
            n * chosen["standard_error"],
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
    figure.suptitle(f"{_title(title, unit, rows)}; one release")
    return figure


def _title(title: str, unit: str, rows: pd.DataFrame) -> str:
    n, eps, delta = (rows[name].iloc[0] for name in ("n", "eps", "delta"))
    return (
        rf"{style.escape_math(title)}: n = {style.count_units(int(n), unit)}, "
        rf"$\epsilon = {style.format_eps(eps)}$, $\delta = {style.power(delta)}$"
    )
