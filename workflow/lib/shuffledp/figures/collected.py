"""Map of what was collected from people, beside the truth where somebody knows it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import geopandas as gpd
import numpy as np
import shapely
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from shuffledp.collection.analyst import read_opened
from shuffledp.collection.campaign import read_campaign
from shuffledp.collection.estimate import estimate_cells, projected
from shuffledp.figures.basemap import attribute, backdrop
from shuffledp.figures.cells import PLAIN, height_of, surround
from shuffledp.figures.frame import frame, scale_bar
from shuffledp.figures.style import FULL_WIDTH, eps_words, local_style, new_figure
from shuffledp.geography.geojson import read_shapes
from shuffledp.mechanisms.catalogue import CATALOGUE
from shuffledp.numerics.arrays import Floats

_COLOURS: Final = "cividis"
_EMPTY: Final = {"facecolor": "none", "edgecolor": "0.6", "hatch": "////", "linewidth": 0.0}


def draw_collected(
    campaign: Path,
    counts: Sequence[Path],
    cells: Path,
    truth: Sequence[ArrayLike] = (),
    basemap: Path | None = None,
) -> Figure:
    """Draw the projected estimate of each round, and the true numbers above it if they are known.

    Parameters
    ----------
    campaign, counts
        Files of the campaign and of the opened rounds.
    cells
        GeoJSON of the campaign's cells, in their order.
    truth
        Respondents in each cell, shape ``(k,)``, of each of these rounds; or none.
    basemap
        What lies round the cells, if there is anything.

    Raises
    ------
    InputError
        If a file cannot be read, or is not of the campaign.
    """
    known = read_campaign(campaign)
    geometry = [shape.geometry for shape in read_shapes(cells, "cells")]
    columns, error = list[list[tuple[str, Floats]]](), 0.0
    for i, path in enumerate(counts):
        opened = read_opened(path, known)
        estimates = estimate_cells(known, opened)
        error = float(estimates.standard_error[0])
        values = projected(estimates, opened.respondents)
        words = f"round {opened.number}: {opened.respondents:,} people"
        panels = [(f"Estimated, {words}", values)]
        if truth:
            panels.insert(0, (f"True, {words}", np.asarray(truth[i], np.float64)))
        columns.append(panels)
    title = (
        f"{known.title}\n{CATALOGUE[known.mechanism].label}: $\\epsilon$ = "
        f"{eps_words(known.eps['analyst'] or np.inf)}, $\\delta$ = {known.delta:g} for one person's "
        f"records of all rounds,\nunless mixer and analyst join hands; "
        f"standard error of a cell: {error:.3g} people"
    )
    return _maps(title, gpd.GeoSeries(geometry, crs=4326), columns, backdrop(basemap, None))


@local_style()
def _maps(
    title: str,
    cells: gpd.GeoSeries,
    columns: Sequence[Sequence[tuple[str, Floats]]],
    layers: gpd.GeoDataFrame,
) -> Figure:
    box = shapely.bounds(cells.to_numpy())
    corners = np.stack([box[:, [0, 1]], box[:, [2, 1]], box[:, [2, 3]], box[:, [0, 3]]], axis=1)
    rows, across = len(columns[0]), min(len(columns), 3)
    columns = columns[:across]
    width = FULL_WIDTH if across > 1 else 0.7 * FULL_WIDTH
    height = height_of(corners, (width - 0.7) / across)
    figure = new_figure(rows * (height + 0.75) + 1.2, width)
    grid = figure.subplots(rows, across, squeeze=False)
    largest = max(float(values.max()) for panels in columns for _, values in panels)
    norm = LogNorm(1.0, max(largest, 10.0))
    for j, panels in enumerate(columns):
        for i, (words, values) in enumerate(panels):
            _panel(grid[i, j], cells, corners, values, norm, layers, ordinate=j == 0)
            grid[i, j].set_title(words, loc="left")
    scale_bar(grid[-1, 0])
    attribute(grid[-1, -1], layers, scaled=across == 1)
    figure.colorbar(
        grid[0, 0].collections[-1],
        ax=list(grid.flat),
        location="bottom",
        shrink=0.6,
        aspect=40,
        format=PLAIN,
        label="people per cell (hatched: fewer than 1)",
    )
    figure.suptitle(title)
    return figure


def _panel(
    axes: Axes,
    cells: gpd.GeoSeries,
    corners: Floats,
    values: Floats,
    norm: LogNorm,
    layers: gpd.GeoDataFrame,
    *,
    ordinate: bool,
) -> None:
    surround(axes, layers)
    some = values >= 1.0
    if not some.all():
        cells[~some].plot(ax=axes, aspect=None, **_EMPTY)
    coloured = gpd.GeoDataFrame({"people": values[some]}, geometry=cells[some].to_numpy(), crs=4326)
    coloured.plot("people", ax=axes, cmap=_COLOURS, norm=norm, aspect=None, linewidth=0.2)
    frame(axes, corners, margin=not layers.empty, ordinate=ordinate)
