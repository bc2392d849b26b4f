"""Maps of errors show the values of the table."""

import json

import numpy as np
import pandas as pd
import pytest
import shapely
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Normalize, to_rgba
from matplotlib.figure import Figure
from town import COUNTS, PLACE, release_tables, town_cells

from shuffledp.figures import cell_errors, map_panels
from shuffledp.figures.cell_shapes import CellShapes
from shuffledp.figures.map_panels import MapContext
from shuffledp.figures.maps import release_panels
from shuffledp.figures.style import series_rows
from shuffledp.mechanisms.catalogue import get_estimator
from shuffledp.pipeline.selection import calibrated
from shuffledp.pipeline.tables import CERTAINTY, write_table
from shuffledp.studies.cell_confidence import confidence_tables
from shuffledp.studies.sweeps import BudgetSweep

ORDER = [7, 4, 8, 2, 9, 10, 11, 3, 1, 5, 0, 6]  # by count; 0 and 6 are empty
TARGET = 1e-3
MECHANISMS = ["gaussian", "krr"]


def matched_releases(samples, **more):
    table, _ = release_tables(BudgetSweep(4.0, [], TARGET), samples, MECHANISMS, 1, **more)
    return calibrated(table, "matched", TARGET)


@pytest.fixture(scope="module")
def table():
    samples = {200: COUNTS // 2 + np.eye(12, dtype=int)[0] * 4, 400: COUNTS}
    releases = matched_releases(samples)
    return pd.concat(confidence_tables(releases, samples, **PLACE), ignore_index=True)


@pytest.fixture(scope="module")
def rows(table):
    return table[table["n"] == 400]


@pytest.fixture(scope="module")
def cells():
    return town_cells(count=COUNTS, name=[f"cell {number}" for number in range(12)])


def series(rows, mechanism, estimator):
    return series_rows(rows, (mechanism, estimator)).sort_values("cell").reset_index(drop=True)


def panels(figure):
    return {a.get_title(loc="left").split("\n")[0]: a for a in figure.axes[:-1]}


def legend_texts(figure):
    (legend,) = figure.legends
    return [text.get_text() for text in legend.get_texts()]


def heat_map(axes):
    (heat,) = [each for each in axes.collections if each.get_array() is not None]
    return heat


def test_errors_share_one_symmetric_scale_and_large_ones_are_marked(cells, rows):
    figure = cell_errors.error_maps(MapContext(cells, "Title"), rows)
    errors = {m: series(rows, m, "projected")["error"] for m in MECHANISMS}
    most = max(error.abs().max() for error in errors.values())
    low, high = legend_texts(figure)
    threshold = float(low.split()[-2])
    assert high == low.replace("too low", "too high")
    assert 0.1 * most < threshold < 0.3 * most
    for mechanism, error in errors.items():
        axes = panels(figure)[get_estimator(mechanism, "projected").label]
        heat = heat_map(axes)
        np.testing.assert_array_equal(heat.get_array(), error)
        assert (heat.norm.vmin, heat.norm.vmax) == (-most, most)
        low, zero, high = (np.array(heat.cmap(share)[:3]) for share in (0.0, 0.5, 1.0))
        assert low[2] > low[0]
        assert high[0] > high[2]
        assert zero.min() > 0.9
        marks = [patch for patch in axes.patches if patch.get_facecolor() == to_rgba("black")]
        within = cells.geometry.contains
        for mark, wrong, up in zip(
            marks, (error < -threshold, error > threshold), (False, True), strict=True
        ):
            triangles = [t[:3] for t in mark.get_path().to_polygons()]
            middles = [shapely.Point(t.mean(axis=0)) for t in triangles]
            cell_of = [int(np.flatnonzero(within(middle))[0]) for middle in middles]
            assert cell_of == np.flatnonzero(wrong).tolist()
            assert all((t[2, 1] > t[0, 1]) == up for t in triangles)
        spread = np.sqrt((error**2).mean())
        assert axes.get_title(loc="left").endswith(f"\nroot mean square error {spread:.3g}")


def test_the_scale_of_small_errors_is_not_rounded(cells, rows):
    zero = rows.assign(error=0.0)
    cell_errors.error_maps(MapContext(cells, "Title"), zero).draw_without_rendering()
    small = rows.assign(error=np.where(rows["cell"] == 3, -9.4, 1.0))
    bar = cell_errors.error_maps(MapContext(cells, "Title"), small).axes[-1]
    bar.figure.draw_without_rendering()
    ticks = [label.get_text().replace("\N{MINUS SIGN}", "-") for label in bar.get_xticklabels()]
    np.testing.assert_array_equal([float(tick) for tick in ticks], bar.get_xticks())
    assert "-2.5" in ticks


def test_figures_from_files_show_the_largest_n(table, cells, tmp_path):
    feature = {"type": "Feature", "properties": {"name": "West", "attribution": "Map: nobody"}}
    feature["geometry"] = json.loads(shapely.to_geojson(shapely.box(2.0, 60.0, 2.02, 60.01)))
    collection = {"type": "FeatureCollection", "features": [feature]}
    (tmp_path / "map.geojson").write_text(json.dumps(collection))
    write_table(table, CERTAINTY, tmp_path / "t.parquet", {})
    cells.to_parquet(tmp_path / "c.parquet")
    place = {"cells": tmp_path / "c.parquet", "basemap": tmp_path / "map.geojson"}
    words = {"title": "Town", "unit": "one check-in", "target_delta": TARGET}
    figure = cell_errors.draw_errors(tmp_path / "t.parquet", **place, **words)
    assert figure.get_suptitle().startswith("Town: n = 400 check-ins, $\\epsilon_0=4$")
    assert "Equal privacy" in figure.get_suptitle()
    written = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert written.count("Map: nobody") == 1


def test_a_fine_grid_is_drawn_with_few_paths_in_the_same_colours(monkeypatch):
    """4,096 cells of several colours, each larger than a pixel."""
    side = 64
    south, west = np.divmod(np.arange(side**2), side)
    ring = np.array([[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]])
    corners = np.stack([west, south], axis=-1)[:, None] + ring.astype(float)
    shapes = CellShapes.from_polygons(shapely.polygons(corners))
    values = np.random.default_rng(3).uniform(0.0, 1.0, side**2)
    shown = values > 0.2
    middles, counts = [], []
    for limit in (side**2, side**2 - 1):
        monkeypatch.setattr(map_panels, "_RASTERISE_FROM", limit)
        figure = Figure((side / 10, side / 10), dpi=100)
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0), xlim=(0, side), ylim=(0, side))
        axes.set_axis_off()
        heat = map_panels.draw_values(axes, shapes, values, shown, Normalize(0.0, 1.0))
        counts.append(len(heat.get_paths()))
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        middles.append(np.asarray(canvas.buffer_rgba())[5::10, 5::10])
    assert counts[0] == shown.sum()
    assert counts[1] <= 256
    np.testing.assert_array_equal(*middles)


def test_corners_in_a_file_are_those_of_its_polygons(cells, tmp_path):
    path = tmp_path / "cells.parquet"
    cells.to_parquet(path)
    read = MapContext.read("Title", "one user", cells=path)
    made = MapContext(cells, "Title").shapes
    for name in ("points", "starts", "cell_of_ring"):
        np.testing.assert_array_equal(getattr(read.shapes, name), getattr(made, name))
    np.testing.assert_allclose(read.shapes.middles, made.middles, rtol=1e-12)
    assert len(read.cells) == len(cells)


def test_maps_show_posterior_medians_of_the_mechanisms_that_have_them(cells):
    samples = {400: COUNTS}
    releases = matched_releases(samples, estimate="posterior")
    labels = ["Gaussian, posterior", "shuffle+INV, projected"]
    assert list(release_panels(COUNTS, releases)) == ["Original", *labels]
    table = pd.concat(confidence_tables(releases, samples, **PLACE), ignore_index=True)
    assert {"raw", "projected", "posterior"} <= set(table["estimator"])
    figure = cell_errors.error_maps(MapContext(cells, "Town"), table)
    titles = [axes.get_title(loc="left").partition("\n")[0] for axes in figure.axes]
    assert sorted(titles[:2]) == labels
