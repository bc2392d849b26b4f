"""Figures show the values of the tables, and their files are whole and reproducible.

The studies themselves make the tables, from an invented histogram of 12 cells.
"""

import re
from dataclasses import replace
from html import unescape
from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import shapely
from matplotlib.artist import Artist
from matplotlib.cbook import STEP_LOOKUP_MAP
from matplotlib.figure import Figure
from town import COUNTS, release_tables, town_cells

from shuffledp.accounting.bound_registry import BOUNDS as BOUND_REGISTRY
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.figures import bounds, distances, individual_table, maps, style
from shuffledp.figures.bounds import guarantee_steps
from shuffledp.figures.map_panels import MapContext
from shuffledp.mechanisms.catalogue import get_estimator
from shuffledp.papers.figure_specs import FigureText, curve
from shuffledp.papers.recomputed_figures import curve_panels
from shuffledp.pipeline.selection import calibrated
from shuffledp.studies.individual import individual_summary, own_delta_summary
from shuffledp.studies.privacy import privacy_curves
from shuffledp.studies.releases import BudgetSweep
from shuffledp.studies.samples import sample_table
from shuffledp.studies.utility import comparison_summary

TARGET = 1e-3
NAMES = {"seed": 7, "region": "made-up", "grid": "3x4"}
BUDGETS = [2.0, 4.0]
BOUNDS = ["upper", "lower", "single-bin", "single-bin-as-printed"]
SAMPLED = sample_table(COUNTS, [200, "all"], **NAMES)


@pytest.fixture(scope="module")
def both():
    """Return releases and their utility."""
    sweeps = [BudgetSweep(eps0, [0.5, 1.0], TARGET) for eps0 in BUDGETS]
    samples = {n: rows["count"].to_numpy() for n, rows in SAMPLED.groupby("n")}
    tables = [release_tables(each, samples, ["gaussian", "krr"], 5, **NAMES) for each in sweeps]
    return [pd.concat(each, ignore_index=True) for each in zip(*tables, strict=True)]


@pytest.fixture(scope="module")
def releases(both):
    """Return the releases at the largest n and budget."""
    return both[0].query("n == 400 and eps0 == 4")


@pytest.fixture(scope="module")
def utility(both):
    return both[1]


@pytest.fixture(scope="module")
def curves():
    return privacy_curves(COUNTS, BUDGETS, BOUNDS, TARGET)


@pytest.fixture(scope="module")
def cells():
    return town_cells(cell=np.arange(12), name="", count=COUNTS)


@pytest.fixture(scope="module")
def checkins(cells):
    middle = shapely.get_coordinates(shapely.centroid(cells.geometry.to_numpy()))
    return pd.DataFrame(np.repeat(middle, COUNTS, axis=0), columns=["longitude", "latitude"])


def texts(figure):
    """Return all texts of a figure, drawn once so that tick labels exist."""
    figure.canvas.draw()
    artists = figure.findobj(mpl.text.Text)
    return [artist.get_text() for artist in artists if artist.get_text()]


def legend(figure):
    texts = (text.get_text() for text in figure.legends[0].get_texts())
    return [text for text in texts if text.strip()]  # blank entries pad the columns


def heat(axes):
    (collection,) = [c for c in axes.collections if c.get_array() is not None]
    return collection


# --- files ---------------------------------------------------------------------------------------


def test_saved_files_are_complete_and_titled(tmp_path):
    figure = style.new_figure(1.0, 2.0)
    figure.subplots().plot([1, 2])
    figure.suptitle("A line & more")
    png, pdf, svg = style.save(figure, tmp_path / "new" / "line", "true data")
    assert png.read_bytes().endswith(b"IEND\xaeB`\x82")
    assert pdf.read_bytes().rstrip().endswith(b"%%EOF")
    assert svg.read_text().rstrip().endswith("</svg>")
    assert "A line &amp; more" in svg.read_text()
    for path in (pdf, svg):
        assert b"Date" not in path.read_bytes()


class Broken(Artist):
    def draw(self, renderer):
        raise RuntimeError("cannot be drawn")


def test_failed_save_leaves_the_earlier_file_and_no_debris(tmp_path):
    (tmp_path / "figure.png").write_text("earlier")
    figure = Figure()
    figure.add_artist(Broken())
    with pytest.raises(RuntimeError, match="cannot be drawn"):
        style.save(figure, tmp_path / "figure", "public")
    assert [p.name for p in tmp_path.iterdir()] == ["figure.png"]
    assert (tmp_path / "figure.png").read_text() == "earlier"


# --- maps ----------------------------------------------------------------------------------------


def test_checkins_map_shows_every_point_and_count(checkins, cells):
    everywhere = pd.concat([checkins, checkins[:3] + 1.0])
    figure = maps.checkins_map(MapContext(cells, "City"), everywhere, dots=True)
    left, right = figure.axes[:2]
    np.testing.assert_array_equal(left.lines[0].get_xydata(), everywhere.to_numpy())
    np.testing.assert_array_equal(heat(right).get_array(), COUNTS[COUNTS > 0])
    (zero,) = [patch for patch in right.patches if patch.get_hatch()]
    assert len(zero.get_path().to_polygons()) == 2
    written = texts(figure)
    assert "City\n400 check-ins in 12 cells (3 more outside the grid)" in written
    # 0.04 degrees of longitude at 60 degrees north are 2.2 km, and the bar takes up to a quarter
    assert written.count("500 m") == 2


def test_invented_positions_are_not_drawn(checkins, cells):
    figure = maps.checkins_map(MapContext(cells, "City", unit="one user"), checkins, dots=False)
    assert figure.get_suptitle() == "City\n400 users in 12 cells"
    (axes,) = (each for each in figure.axes if each.get_title(loc="left"))
    assert not axes.lines
    np.testing.assert_array_equal(heat(axes).get_array(), COUNTS[COUNTS > 0])


def test_estimate_maps_share_one_scale_in_checkins(cells):
    original = COUNTS / 400
    raw = original + np.tile([0.01, -0.01], 6)  # cell 7, the fullest, loses
    figure = maps.estimate_maps(MapContext(cells, "Title"), {"Original": original, "Raw": raw}, 400)
    first, second = figure.axes[:2]
    assert heat(first).norm is heat(second).norm
    assert heat(second).norm.vmax == pytest.approx(120.0)
    np.testing.assert_allclose(heat(second).get_array(), 400 * raw[raw > 0])
    (below,) = [patch for patch in second.patches if patch.get_hatch()]
    assert len(below.get_path().to_polygons()) == (raw < 0).sum()
    # 12 cells, each off by 0.01
    assert "Raw\ntotal variation distance 0.06" in texts(figure)


def test_maps_of_one_release_state_the_mean_of_all(releases, utility, cells):
    first = calibrated(releases.query("repetition == 0"), "matched", TARGET)
    panels = maps.release_panels(COUNTS, first)
    errors = calibrated(utility.query("n == 400 and eps0 == 4"), "matched", TARGET)
    means = maps.mean_errors(errors, "tv_distance")
    titles = texts(maps.estimate_maps(MapContext(cells, "Title"), panels, 400, means))
    first, *others = style.series_rows(errors, ("krr", "projected"))["tv_distance"]
    distances = f"{first:.3g}\n(mean of 5 releases: {(first + sum(others)) / 5:.3g})"
    assert f"shuffle+INV, projected\ntotal variation distance {distances}" in titles


def test_maps_refuse_another_histogram_or_missing_cells(releases, cells):
    with pytest.raises(InputError, match="12 cells"):
        maps.estimate_maps(MapContext(cells, "Title"), {"Original": np.ones(11)}, 400)
    rows = calibrated(releases.query("repetition == 0"), "matched", TARGET)
    panels = maps.release_panels(COUNTS, rows)
    assert sorted(panels) == ["Gaussian, projected", "Original", "shuffle+INV, projected"]
    with pytest.raises(InputError, match="400 records"):
        maps.release_panels(COUNTS + 1, rows)
    with pytest.raises(InputError, match=r"12 cells of 'Gaussian, projected'.*got 11"):
        dropped = (rows["mechanism"] == "gaussian") & (rows["cell"] == 5)
        maps.release_panels(COUNTS, rows[~dropped])


# --- the matched comparison ----------------------------------------------------------------------


COMPARED = [("gaussian", "raw"), ("krr", "raw"), ("gaussian", "projected"), ("krr", "projected"),
            ("krr", "maximum-likelihood")]  # fmt: skip


def test_matched_comparison_draws_means_and_ratios(utility):
    regions = ("City", "Town")
    units, baselines = dict.fromkeys(regions, "one check-in"), dict.fromkeys(regions, "gaussian")
    tables = dict.fromkeys(regions, utility)
    summary = comparison_summary(tables, units, TARGET, baselines)
    figure = distances.matched_comparison(summary, TARGET)
    grid = np.array(figure.axes).reshape(3, 2)
    rows = calibrated(utility, "matched", TARGET)
    means = rows.groupby(["mechanism", "estimator", "eps0", "n"])["tv_distance"].mean()
    for column in grid.T:
        raw, projected, ratios = (
            {line.get_label(): line.get_ydata() for line in axes.lines} for axes in column
        )
        assert len(raw) == 2 * 2 and len(projected) == 3 * 2
        for eps0 in BUDGETS:
            for mechanism, name in COMPARED:
                like, drawn = ("raw", raw) if name == "raw" else ("projected", projected)
                label = f"{mechanism} {name}, eps0={eps0:g}"
                mean = means[mechanism, name, eps0]
                np.testing.assert_allclose(drawn[label], mean, rtol=1e-12)
                if mechanism == "gaussian":
                    assert label not in ratios
                else:
                    expected = mean / means["gaussian", like, eps0]
                    np.testing.assert_allclose(ratios[label], expected, rtol=1e-12)
    labels = {get_estimator(*each).label for each in COMPARED}
    assert set(legend(figure)) == labels | {r"$\epsilon_0=2$", r"$\epsilon_0=4$"}
    assert r"\delta=10^{-3}" in figure.get_suptitle()


# --- privacy -------------------------------------------------------------------------------------


def drawn_curves(axes):
    """Return the curves of a panel by bound, without its marks."""
    return {line.get_label(): line for line in axes.lines if line.get_label() in BOUNDS}


def test_delta_curves_show_the_values_of_the_table(curves):
    figure = bounds.delta_curves(curves, "City", "one check-in", TARGET)
    for axes, eps0 in zip(figure.axes, BUDGETS, strict=True):
        drawn = drawn_curves(axes)
        assert list(drawn) == BOUNDS
        for bound, line in drawn.items():
            rows = curves[(curves["bound"] == bound) & (curves["eps0"] == eps0)]
            rows = rows[np.isfinite(rows["log10_delta"])]
            at = np.searchsorted(line.get_xdata(), rows["eps"])
            np.testing.assert_array_equal(line.get_xdata()[at], rows["eps"])
            np.testing.assert_allclose(line.get_ydata()[at], rows["log10_delta"], rtol=1e-12)
        upper = drawn["upper"].get_xydata()
        assert (upper[0, 0], upper[-1, 0]) == (0.0, axes.get_xlim()[1])
        assert upper[-1, 1] == pytest.approx(-12.0, abs=1e-3)
    assert [label.partition(": ")[::2] for label in legend(figure)[:3]] == [
        ("upper", "certified, a guarantee"),
        ("lower", "certified, lower bound, no guarantee"),
        ("single-bin", "lower bound, no guarantee"),
    ]
    assert "n = 400 check-ins, k = 12 cells" in figure.get_suptitle()
    users = bounds.delta_curves(curves, "City", "one user", TARGET)
    assert "n = 400 users, k = 12 cells" in users.get_suptitle()


def test_a_line_of_a_guarantee_is_nowhere_below_the_accountant(curves):
    figure = bounds.delta_curves(curves, "City", "one check-in", TARGET)
    for axes, eps0 in zip(figure.axes, BUDGETS, strict=True):
        line = drawn_curves(axes)["upper"]
        assert line.get_drawstyle() == "steps-post"
        x, y = line.get_xydata().T
        certified = BOUND_REGISTRY["upper"].curve(Setting(400, 12, eps0))
        for eps in np.random.default_rng(1).uniform(0.0, x[-1], 60):
            drawn = y[np.searchsorted(x, eps, side="right") - 1]
            assert certified.log_delta(eps).upper <= np.log(10.0) * drawn


def test_steps_between_two_points_are_upper_bounds_of_any_curve():
    """Compare with the extreme case, a delta that is linear in exp(eps)."""
    eps, most = np.array([0.0, 0.3, 2.0, 5.0]), np.exp(4.0)
    delta = np.maximum(1e-9 * (most - np.exp(eps)), 0.0)
    with np.errstate(divide="ignore"):
        x, y = guarantee_steps(eps, np.log10(delta))
    assert set(eps) <= set(x) and np.isneginf(y[-1])
    for e in np.linspace(0.0, 3.99, 300):
        drawn = y[np.searchsorted(x, e, side="right") - 1]
        assert 10.0**drawn >= 1e-9 * (most - np.exp(e)) * (1.0 - 1e-12)
    far = guarantee_steps([0.0, 1.0, 2.0, 3.0], [-400.0, -900.0, -800.0, -np.inf])[1]
    assert far[0] == -400.0 and (np.diff(far[:-1]) <= 0.0).all()
    assert (far[12:25] == -800.0).all(), "a bound that grows is as large as at the next point"


def test_a_region_s_name_may_have_any_character(curves):
    for name in ("A $ store", "$\\nothing{$"):
        figure = bounds.delta_curves(curves, name, "one check-in", TARGET)
        figure.draw_without_rendering()
        assert figure.get_suptitle().replace(r"\$", "$").startswith(name)


@pytest.mark.parametrize(
    ("eps", "words"),
    [(0.05, "0.05"), (0.1711108, "0.172"), (0.0338781, "0.0339"), (4.0, "4"), (2.2003, "2.21")],
)
def test_a_certified_eps_is_rounded_up(eps, words):
    assert style.format_eps(eps) == words


def _corners(line):
    """Return the vertices of a line as drawn, including steps, shape (2, points)."""
    steps = STEP_LOOKUP_MAP[line.get_drawstyle()]
    return np.asarray(steps(*line.get_xydata().T))


def test_a_guarantee_of_recomputed_curves_is_nowhere_below_the_accountant():
    """Compare with the accountant at 200 random places between a few points."""
    setting = Setting(100, 12, 4.0)
    certified, attained = (BOUND_REGISTRY[name].curve(setting) for name in ("upper", "lower"))
    eps = np.linspace(0.05, 2.4, 7)
    delta = np.exp([certified.log_delta(e).upper for e in eps])
    text = FigureText(title="", x_label="", y_label="", caption="", between="delta over eps")
    (over_eps,) = curve_panels(curve("", "a", "upper", eps, delta), text).axes[0].lines
    text = replace(text, between="eps over delta")
    (over_delta,) = curve_panels(curve("", "a", "upper", delta, eps), text).axes[0].lines
    # Compare the lines as drawn, on logarithmic axes of delta.
    lines = [
        (_corners(over_eps)[0], np.log(_corners(over_eps)[1])),
        (_corners(over_delta)[1], np.log(_corners(over_delta)[0])),
    ]
    assert all(set(eps) <= set(x) for x, _ in lines)
    for e in np.random.default_rng(2).uniform(eps[0], eps[-1], 200):
        least = certified.log_delta(e).upper
        assert attained.log_delta(e).lower <= least
        assert all(least <= np.interp(e, *line) for line in lines)


def test_a_guarantee_that_grows_has_the_value_of_the_next_point():
    """The same holds for a decreasing type II error; unproven intervals show only markers."""
    x = np.array([2.0, 4.0, 8.0, 16.0])
    for y in (x**2, 1.0 / x):
        table = curve("", "any", "exact", x, y)
        text = FigureText(title="", x_label="", y_label="", caption="", between="next")
        (line,) = curve_panels(table, text).axes[0].lines
        corners = _corners(line).T
        for before, after in pairwise(corners):
            assert before[0] == after[0] or before[1] == after[1] in y
        assert [*x[:-1]] == [at for at, value in corners[1:-1:2]]
        (marked,) = curve_panels(table, replace(text, between="points")).axes[0].lines
        assert marked.get_marker() != "" and marked.get_markevery() == (0, 1)


# --- individual ----------------------------------------------------------------------------------


def test_individual_summary_agrees_with_the_releases(releases):
    summary = individual_summary(releases, COUNTS, 5, TARGET)
    assert sorted(set(summary["cell"])) == [5, 10]
    assert set(summary["repetitions"]) == {5}
    rows = style.series_rows(releases.query("cell == 10"), ("gaussian", "raw"))
    rows = (rows[np.isclose(rows["log10_delta"], -3.0)]["estimate"] - COUNTS[10] / 400).abs()
    assert len(rows) == 5
    matched = summary[(summary["calibration"] == "matched") & (summary["cell"] == 10)]
    (row,) = style.series_rows(matched, ("gaussian", "raw")).itertuples()
    expected = (rows.mean(), np.quantile(rows, 0.1), np.quantile(rows, 0.9))
    assert (row.mean, row.p10, row.p90) == pytest.approx(expected, rel=1e-12)
    # By default a twentieth of the cells; of only 12, every cell but cell 0.
    every = individual_summary(releases, COUNTS, None, TARGET)
    assert sorted(set(every["cell"])) == list(range(1, 12))
    for every in (0, 12):
        with pytest.raises(InputError, match="every must"):
            individual_summary(releases, COUNTS, every, TARGET)


def without_tags(html):
    return unescape(re.sub("<[^>]*>", "", html))


def column_heads(page):
    return [without_tags(head) for head in re.findall('<th scope="col.*?</th>', page)]


def rows_by_head(page):
    """Return the cells of each row of the page's table by the head of the row."""
    rows = re.findall('<th scope="row">(.*?)</th>(.*?)</tr>', page)
    return {
        without_tags(head): [without_tags(cell) for cell in re.findall("<td.*?</td>", cells)]
        for head, cells in rows
    }


def test_individual_page_writes_the_summary(releases):
    summary = individual_summary(releases, COUNTS, 5, TARGET)
    page = individual_table.individual_page(summary, "City & <co>", "one check-in")
    heads, table = column_heads(page), rows_by_head(page)
    columns = summary[["calibration", "mechanism", "estimator"]].drop_duplicates()
    assert list(table) == ["5", "10", "mean of the rows"]
    assert len(heads) == 1 + len(columns) and heads[0] == "cell x0"
    for place, series in enumerate(columns.itertuples(index=False)):
        rows = summary[(summary[list(columns)] == list(series)).all(axis=1)].set_index("cell")
        for cell in (5, 10):
            mean, low, high = 400.0 * rows.loc[cell, ["mean", "p10", "p90"]]
            number, range_ = table[str(cell)][2 * place : 2 * place + 2]
            half = 0.5 * 10.0 ** -len(number.partition(".")[2]) + 1e-9
            shown = [float(each) for each in (number, *range_.strip("()").split(" to "))]
            assert shown == pytest.approx([mean, low, high], abs=half)
    assert sum("NOT equal privacy" in head for head in heads) == 1
    assert "City &amp; &lt;co&gt;: absolute error of single cells, in check-ins" in page
    assert "δ = 10<sup>−3</sup>, for the replacement of one record" in page
    assert not re.search("(src|href|url|@import)", page)


def test_individual_page_marks_the_cells_own_deltas(releases):
    summary = individual_summary(releases, COUNTS, 5, TARGET)
    own = own_delta_summary(summary, COUNTS)
    page = individual_table.individual_page(pd.concat([own, summary]), "City", "one check-in")
    (head,) = [head for head in column_heads(page) if "own" in head]
    assert head == "Gaussian, raw, own δ(x0): NOT equal privacy"
    assert f"10<sup>−{-own['log10_delta'].min():.1f}</sup>" in page and "not a guarantee" in page
