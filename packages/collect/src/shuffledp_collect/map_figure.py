"""Draw the map of a collected round, beside the true numbers if they are known."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import geopandas as gpd
import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from shuffledp.errors import InputError
from shuffledp.figures.basemap import backdrop
from shuffledp.figures.cell_shapes import CellShapes
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
from shuffledp.geography.layers import Shape
from shuffledp.geography.regions import read_shapes
from shuffledp.mechanisms.catalogue import CATALOGUE
from shuffledp.numerics.arrays import Floats
from shuffledp.pipeline.files import file_sha256

from shuffledp_collect.analyst import Opened
from shuffledp_collect.campaign import Campaign
from shuffledp_collect.estimate import estimate_cells, projected

_EMPTY: Final = {"facecolor": "none", "edgecolor": "0.6", "hatch": "////", "linewidth": 0.0}


def draw_collected(
    campaign: Campaign,
    opened: Opened,
    cells: Path,
    truth: Floats | None = None,
    basemap: Path | None = None,
) -> Figure:
    """Draw the projected estimate of a round, and the true numbers beside it if they are known.

    The cells and the base map around them are GeoJSON files. Raises `InputError` if a file cannot
    be read, or the cells are not those of the campaign.
    """
    shapes = read_cells(cells, campaign)
    estimates = estimate_cells(campaign, opened)
    panels = {"Estimated": projected(estimates, opened.respondents)}
    if truth is not None:
        panels = {"True": truth, **panels}
    title = (
        f"{campaign.title}: round {opened.number}, {opened.respondents:,} people\n"
        f"{CATALOGUE[campaign.mechanism].label}: "
        rf"$\epsilon$ = {format_eps(campaign.eps['analyst'] or np.inf)}, $\delta$ = "
        f"{campaign.delta:g} for one person's records of all rounds,\nunless mixer and analyst "
        f"join hands; standard error of a cell: {estimates.standard_error[0]:.3g} people"
    )
    geometry = gpd.GeoSeries([shape.geometry for shape in shapes])
    return _maps(title, geometry, panels, backdrop(basemap, None))


def read_cells(path: Path, campaign: Campaign) -> list[Shape]:
    """Read the cells of a campaign, in order.

    Raises `InputError` if the file cannot be read, or has other cells.
    """
    shapes = read_shapes(path, "cells")
    if file_sha256(path) != campaign.cells_sha256:
        raise InputError(f"{path} does not have the cells of the campaign")
    return shapes


@local_style()
def _maps(
    title: str, cells: gpd.GeoSeries, panels: Mapping[str, Floats], layers: gpd.GeoDataFrame
) -> Figure:
    shapes = CellShapes.from_polygons(cells.to_numpy())
    width = FULL_WIDTH if len(panels) > 1 else 0.75 * FULL_WIDTH
    height = map_height(shapes, (width - 0.7) / len(panels))
    figure = new_figure(height + 2.1, width)
    (row,) = figure.subplots(1, len(panels), squeeze=False)
    norm = LogNorm(1.0, max(10.0, *(float(values.max()) for values in panels.values())))
    for axes, (name, values) in zip(row, panels.items(), strict=True):
        draw_surroundings(axes, layers)
        drawn = values >= 1.0
        if not drawn.all():
            cells[~drawn].plot(ax=axes, aspect=None, **_EMPTY)
        coloured = gpd.GeoDataFrame({"people": values[drawn]}, geometry=cells[drawn].to_numpy())
        coloured.plot("people", ax=axes, cmap=COUNT_COLOURS, norm=norm, aspect=None, linewidth=0.2)
        axes.set_ylabel("")  # geopandas sets a label
        draw_frame(axes, shapes, margin=not layers.empty, ordinate=axes is row[0])
        axes.set_title(name, loc="left")
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
