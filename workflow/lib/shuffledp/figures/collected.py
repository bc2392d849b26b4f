"""Map of what was collected from people, beside the truth where somebody knows it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import geopandas as gpd
import numpy as np
import pandas as pd
import shapely
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from shuffledp.collection.analyst import read_opened
from shuffledp.collection.campaign import Campaign, read_campaign
from shuffledp.collection.estimate import estimate_cells, projected
from shuffledp.errors import InputError
from shuffledp.figures.basemap import backdrop
from shuffledp.figures.map_panels import (
    COUNT_COLOURS,
    PLAIN_NUMBERS,
    draw_attribution,
    draw_frame,
    draw_scale_bar,
    draw_surroundings,
    map_height,
)
from shuffledp.figures.style import FULL_WIDTH, format_eps, local_style, new_figure
from shuffledp.geography.geojson import Shape, read_shapes
from shuffledp.mechanisms.catalogue import CATALOGUE
from shuffledp.numerics.arrays import Floats
from shuffledp.pipeline.files import file_sha256

_EMPTY: Final = {"facecolor": "none", "edgecolor": "0.6", "hatch": "////", "linewidth": 0.0}


def draw_collected(
    campaign: Path,
    counts: Path,
    cells: Path,
    truth: Path | None = None,
    basemap: Path | None = None,
) -> Figure:
    """Draw the projected estimate of a round, and the true numbers beside it if they are known.

    Parameters
    ----------
    campaign, counts
        Files of the campaign and of the opened round.
    cells
        GeoJSON of the campaign's cells, in their order.
    truth
        CSV with columns ``cell`` and ``count``: the respondents of each; or None.
    basemap
        What lies round the cells, if there is anything.

    Raises
    ------
    InputError
        If a file cannot be read, or is not of the campaign.
    """
    known = read_campaign(campaign)
    shapes = campaign_cells(cells, known)
    opened = read_opened(counts, known)
    estimates = estimate_cells(known, opened)
    panels = {"Estimated": projected(estimates, opened.respondents)}
    if truth is not None:
        panels = {"True": _read_truth(truth, known.cells), **panels}
    label = CATALOGUE[known.mechanism].label
    title = (
        f"{known.title}: round {opened.number}, {opened.respondents:,} people\n{label}: "
        rf"$\epsilon$ = {format_eps(known.eps['analyst'] or np.inf)}, $\delta$ = {known.delta:g} "
        f"for one person's records of all rounds,\nunless mixer and analyst join hands; standard "
        f"error of a cell: {estimates.standard_error[0]:.3g} people"
    )
    geometry = [shape.geometry for shape in shapes]
    return _maps(title, gpd.GeoSeries(geometry), panels, backdrop(basemap, None))


def campaign_cells(path: Path, campaign: Campaign) -> list[Shape]:
    """Cells of a campaign, in their order.

    Raises
    ------
    InputError
        If the file cannot be read, or has others.
    """
    shapes = read_shapes(path, "cells")
    if file_sha256(path) != campaign.cells_sha256:
        raise InputError(f"{path} has not the cells of the campaign")
    return shapes


def _read_truth(path: Path, cells: int) -> Floats:
    table = pd.read_csv(path)
    if list(table.columns) != ["cell", "count"] or list(table["cell"]) != list(range(cells)):
        raise InputError(f"{path} must have columns cell and count, for cells 0 to {cells - 1}")
    return table["count"].to_numpy(np.float64)


@local_style()
def _maps(
    title: str, cells: gpd.GeoSeries, panels: Mapping[str, Floats], layers: gpd.GeoDataFrame
) -> Figure:
    box = shapely.bounds(cells.to_numpy())
    corners = np.stack([box[:, [0, 1]], box[:, [2, 1]], box[:, [2, 3]], box[:, [0, 3]]], axis=1)
    width = FULL_WIDTH if len(panels) > 1 else 0.75 * FULL_WIDTH
    height = map_height(corners, (width - 0.7) / len(panels))
    figure = new_figure(height + 2.1, width)
    (row,) = figure.subplots(1, len(panels), squeeze=False)
    norm = LogNorm(1.0, max(10.0, *(float(values.max()) for values in panels.values())))
    for axes, (words, values) in zip(row, panels.items(), strict=True):
        _panel(axes, cells, corners, values, norm, layers, ordinate=axes is row[0])
        axes.set_title(words, loc="left")
        draw_scale_bar(axes)
    draw_attribution(row[-1], layers)
    figure.colorbar(
        ScalarMappable(norm, COUNT_COLOURS),
        ax=list(row),
        location="bottom",
        shrink=0.6,
        aspect=40,
        format=PLAIN_NUMBERS,
        label="people per cell, logarithmic (hatched: fewer than 1)",
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
    draw_surroundings(axes, layers)
    some = values >= 1.0
    if not some.all():
        cells[~some].plot(ax=axes, aspect=None, **_EMPTY)
    coloured = gpd.GeoDataFrame({"people": values[some]}, geometry=cells[some].to_numpy())
    coloured.plot("people", ax=axes, cmap=COUNT_COLOURS, norm=norm, aspect=None, linewidth=0.2)
    axes.set_ylabel("")  # geopandas writes its own
    draw_frame(axes, corners, margin=not layers.empty, ordinate=ordinate)
