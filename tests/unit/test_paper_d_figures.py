"""Figures of paper D's experiments show what their tables hold."""

import numpy as np
import pytest
from matplotlib.collections import LineCollection

from shuffledp.papers.paper_d import estimates, training
from shuffledp.papers.paper_d import figures as personalised


def marks(axes):
    """Return the series with markers, by marker."""
    return {line.get_marker(): line for line in axes.lines if line.get_marker() != "None"}


@pytest.mark.parametrize(("figure", "panels"), [("figure-6", 2), ("dependence", 4)])
def test_estimates_are_drawn_as_tabulated(figure, panels):
    table = estimates.estimate_table(figure, 1)
    drawn = personalised.estimate_panels(table, "Title")
    assert len(drawn.axes) == panels
    assert drawn.get_suptitle() == "Title"
    first = table[table["varied"] == table["varied"].iloc[0]]
    means, errors = drawn.axes[0], drawn.axes[panels // 2]
    published = first[first["estimator"] == estimates.AS_PUBLISHED]
    np.testing.assert_array_equal(marks(means)["o"].get_ydata(), published["mean"])
    measured = np.hypot(published["mean"] - published["truth"], published["deviation"])
    np.testing.assert_array_equal(marks(errors)["o"].get_ydata(), measured)
    bars = next(one for one in means.collections if isinstance(one, LineCollection))
    ends = np.array([segment[:, 1] for segment in bars.get_segments()])
    np.testing.assert_array_equal(ends, published[["p05", "p95"]])
    looks = {(line.get_color(), line.get_marker()) for line in marks(means).values()}
    assert len(looks) == first["estimator"].nunique()


def test_privacy_is_drawn_in_its_own_row(tmp_path):
    table = estimates.estimate_table("figure-8", 1)
    table.to_csv(tmp_path / "estimates.csv", index=False)
    keys = ["varied", "value", "estimator", "tagged"]
    eps = np.arange(len(table)) + 1.0
    known = table[keys].assign(delta=1e-6, eps_upper=eps, eps_published=2.0 * eps)
    known.iloc[::-1].to_csv(tmp_path / "privacy.csv", index=False)
    drawn = personalised.draw_estimates(
        tmp_path / "estimates.csv", tmp_path / "privacy.csv", title=""
    )
    assert len(drawn.axes) == 6
    here = (known["varied"] == "budget") & (known["estimator"] == estimates.BY_SHARE)
    line = marks(drawn.axes[5])["s"]
    np.testing.assert_array_equal(line.get_ydata(), known[here]["eps_upper"])
    here = (known["varied"] == "budget") & (known["estimator"] == estimates.AS_PUBLISHED)
    (dotted,) = [line for line in drawn.axes[5].lines if line.get_linestyle() == ":"]
    np.testing.assert_array_equal(dotted.get_ydata(), known[here]["eps_published"])
    assert r"\delta=10^{-6}" in drawn.axes[5].get_ylabel()


def test_accuracies_are_drawn_as_tabulated(monkeypatch):
    monkeypatch.setattr(training, "EPOCHS", 1)
    accuracies = training.training_table({}, "personalised.mnist", 1)
    assert tuple(accuracies.columns) == training.COLUMNS
    assert set(accuracies["counted_as"]) == {1_400, 60_000}
    monkeypatch.setattr(training, "CLIENTS", 5)
    noise = training.noise_table(1)
    drawn = personalised.training_panels(accuracies, noise)
    assert [axes.get_title(loc="left") for axes in drawn.axes] == [
        "1,400 images",
        "1,400 images, counted as 60,000",
        "privacy of a record",
    ]
    rows = accuracies[(accuracies["counted_as"] == 60_000) & (accuracies["law"] == "no noise")]
    solid, dashed = drawn.axes[1].lines[:2]
    np.testing.assert_array_equal(solid.get_ydata(), rows["train_accuracy"])
    np.testing.assert_array_equal(dashed.get_ydata(), rows["test_accuracy"])
    whole = drawn.axes[2].lines[0]
    np.testing.assert_array_equal(whole.get_ydata(), np.sort(noise["eps_whole"]))
