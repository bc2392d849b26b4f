"""Maps of errors show the values of the table."""

import numpy as np
import pandas as pd
import pytest
import shapely
from matplotlib.colors import to_rgba
from town import COUNTS, PLACE, release_tables, town_cells

from shuffledp.figures import cell_errors
from shuffledp.figures.map_panels import MapContext
from shuffledp.figures.maps import release_panels
from shuffledp.figures.style import series_rows
from shuffledp.mechanisms.catalogue import get_estimator
from shuffledp.pipeline.selection import calibrated
from shuffledp.studies.cell_confidence import confidence_tables
from shuffledp.studies.sweeps import BudgetSweep

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
