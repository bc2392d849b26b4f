"""Maps of errors and of known cells, and the busiest cells, show the values of the table."""

import json

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
import shapely
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Normalize, to_rgba
from matplotlib.figure import Figure
from shuffledp.figures import cell_confidence, map_panels
from shuffledp.figures.basemap import backdrop, districts_at
from shuffledp.figures.cell_shapes import CellShapes
from shuffledp.figures.map_panels import MapContext
from shuffledp.figures.maps import release_panels
from shuffledp.figures.style import series_look, series_rows
from shuffledp.mechanisms.catalogue import get_estimator
from shuffledp.pipeline.selection import calibrated
from shuffledp.pipeline.tables import CERTAINTY, write_table
from shuffledp.studies.cell_confidence import confidence_tables
from shuffledp.studies.sweeps import BudgetSweep
from town import COUNTS, PLACE, release_tables, town_cells

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


@pytest.fixture
def layers(tmp_path):
    """Return three districts in the south: two overlap, and the font lacks the third's name."""
    squares = [("West", 2.0, 0.02), ("Middle", 2.01, 0.02), ("北", 2.03, 0.01)]
    features = [
        {
            "type": "Feature",
            "properties": {"name": name, "attribution": "Map: nobody"},
            "geometry": json.loads(shapely.to_geojson(shapely.box(west, 60.0, west + wide, 60.01))),
        }
        for name, west, wide in squares
    ]
    path = tmp_path / "map.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return backdrop(path)


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
    figure = cell_confidence.error_maps(MapContext(cells, "Title"), rows)
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
    cell_confidence.error_maps(MapContext(cells, "Title"), zero).draw_without_rendering()
    small = rows.assign(error=np.where(rows["cell"] == 3, -9.4, 1.0))
    bar = cell_confidence.error_maps(MapContext(cells, "Title"), small).axes[-1]
    bar.figure.draw_without_rendering()
    ticks = [label.get_text().replace("\N{MINUS SIGN}", "-") for label in bar.get_xticklabels()]
    np.testing.assert_array_equal([float(tick) for tick in ticks], bar.get_xticks())
    assert "-2.5" in ticks


def test_known_cells_are_coloured_and_the_rest_are_hatched(cells, rows):
    figure = cell_confidence.trust_maps(MapContext(cells, "Title"), rows)
    for mechanism in MECHANISMS:
        raw = series(rows, mechanism, "raw")
        known = raw["estimate"] > 2 * raw["standard_error"]
        assert 0 < known.sum() < 12
        axes = panels(figure)[get_estimator(mechanism, "raw").label]
        heat = heat_map(axes)
        np.testing.assert_array_equal(heat.get_array(), raw["estimate"][known])
        assert heat.norm.vmax == rows.loc[rows["estimator"] == "raw", "estimate"].max()
        (unknown,) = [patch for patch in axes.patches if patch.get_hatch()]
        assert len(unknown.get_path().to_polygons()) == (~known).sum()
        occupied = raw["count"] > 0
        assert axes.get_title(loc="left").split("\n")[1:] == [
            f"known: {(known & occupied).sum()} of {occupied.sum()} occupied, "
            f"{(known & ~occupied).sum()} of {12 - occupied.sum()} empty cells",
            f"each estimated at {raw['estimate'][known].min():.0f} or more",
        ]
    assert "the cell may have check-ins or none" in legend_texts(figure)[0]


@pytest.mark.parametrize("known", [True, False])
def test_all_or_no_cells_known(cells, rows, known):
    figure = cell_confidence.trust_maps(MapContext(cells, "Title"), rows.assign(known=known))
    figure.draw_without_rendering()
    for axes in panels(figure).values():
        title = axes.get_title(loc="left")
        occupied = (series(rows, "krr", "raw")["count"] > 0).sum()
        empty = 12 - occupied
        words = f"{occupied * known} of {occupied} occupied, {empty * known} of {empty} empty"
        assert title.split("\n")[1] == f"known: {words} cells"
        assert ("or more" in title) == known


def test_the_busiest_cells_with_their_intervals(cells, rows, layers):
    figure = cell_confidence.ranked_cells(MapContext(cells, "Title", layers), rows)
    left, right, where = figure.axes
    names = [label.get_text().split() for label in left.get_yticklabels()]
    assert [name[-1] for name in names] == [str(rank) for rank in range(1, 13)]
    assert [int(name[-2]) for name in names] == ORDER
    # Cell 0 is in the first district, cell 1 in both, 2 in the second, 3 in one without a name.
    districts = {int(name[-2]): name[:-3] for name in names}
    assert [districts[cell] for cell in (0, 1, 2, 3, 4)] == [
        ["West,"], ["West,"], ["Middle,"], [], []
    ]  # fmt: skip
    (truth,) = [c for c in left.collections if to_rgba("black") in map(tuple, c.get_colors())]
    np.testing.assert_array_equal([s[0, 0] for s in truth.get_segments()], COUNTS[ORDER])
    for mechanism in MECHANISMS:
        raw = series(rows, mechanism, "raw").loc[ORDER]
        for axes, column in ((left, "estimate"), (right, "error")):
            (bars,) = [c for c in axes.containers if c.get_label() == f"{mechanism} raw"]
            marks, _, (whiskers,) = bars
            np.testing.assert_array_equal(marks.get_xdata(), raw[column])
            assert marks.get_color() == series_look(mechanism, "raw").colour
            reach = [(s[0, 0], s[1, 0]) for s in whiskers.get_segments()]
            two = 2 * raw["standard_error"]
            np.testing.assert_allclose(
                reach, np.stack([raw[column] - two, raw[column] + two], axis=1), atol=1e-9
            )
        inside = int((raw["error"].abs() <= 2 * raw["standard_error"]).sum())
        entries = legend_texts(figure)
        label = get_estimator(mechanism, "raw").label
        (line,) = [text for text in entries if text.startswith(label)]
        assert line.endswith(f": {inside} of 12 intervals contain the true count")
    ranked = {text.get_text(): text.get_position() for text in where.texts}
    assert "Map: nobody" in ranked
    corners = shapely.get_coordinates(cells.geometry.to_numpy()).reshape(12, -1, 2)
    for rank, cell in enumerate(ORDER, 1):
        np.testing.assert_allclose(ranked[str(rank)], corners[cell, :-1].mean(axis=0))


def test_twenty_cells_are_enough(rows):
    many = pd.concat([rows.assign(cell=rows["cell"] + 12 * part) for part in range(3)])
    west = 2.0 + 0.01 * np.arange(36)
    names = [f"cell {number}" for number in range(len(west))]
    shapes = shapely.box(west, 60.0, west + 0.01, 60.01)
    grid = gpd.GeoDataFrame({"name": names}, geometry=shapes, crs=4326)
    figure = cell_confidence.ranked_cells(MapContext(grid, "Title"), many)
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert len(names) == 20
    assert names[:4] == ["cell 7   1", "cell 19   2", "cell 31   3", "cell 4   4"]
    assert figure.axes[0].get_title(loc="left") == "The 20 busiest of 36 cells"


def test_figures_from_files_show_the_largest_n(table, rows, cells, layers, tmp_path):
    write_table(table, CERTAINTY, tmp_path / "t.parquet", {})
    cells.to_parquet(tmp_path / "c.parquet")
    place = {"cells": tmp_path / "c.parquet", "basemap": tmp_path / "map.geojson"}
    words = {"title": "Town", "unit": "one check-in", "target_delta": TARGET}
    for name in ("errors", "trust", "ranks"):
        figure = getattr(cell_confidence, f"draw_{name}")(tmp_path / "t.parquet", **place, **words)
        assert figure.get_suptitle().startswith("Town: n = 400 check-ins, $\\epsilon_0=4$")
        assert "Equal privacy" in figure.get_suptitle()
        written = [text.get_text() for axes in figure.axes for text in axes.texts]
        assert written.count("Map: nobody") == 1


def test_a_point_has_the_name_of_its_district(layers):
    points = np.array([[2.005, 60.005], [2.025, 60.005], [2.035, 60.005], [2.005, 60.5]])
    assert districts_at(layers, points) == ["West", "Middle", "", ""]
    assert districts_at(backdrop(), points) == [""] * 4


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
    figure = cell_confidence.error_maps(MapContext(cells, "Town"), table)
    titles = [axes.get_title(loc="left").partition("\n")[0] for axes in figure.axes]
    assert sorted(titles[:2]) == labels


def test_some_cells_keep_their_rings_in_the_order_asked_for():
    hole = shapely.box(2.0, 60.0, 2.3, 60.3) - shapely.box(2.1, 60.1, 2.2, 60.2)
    parts = shapely.MultiPolygon([shapely.box(3.0, 60.0, 3.1, 60.1), shapely.box(4.0, 60, 4.1, 61)])
    polygons = np.array([hole, shapely.box(5.0, 60.0, 5.1, 60.1), parts])
    chosen = np.array([2, 0])
    part = CellShapes.from_polygons(polygons).part(chosen)
    alone = CellShapes.from_polygons(polygons[chosen])
    for name in ("points", "starts", "cell_of_ring", "middles"):
        np.testing.assert_array_equal(getattr(part, name), getattr(alone, name))
