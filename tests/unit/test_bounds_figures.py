"""Notes on coinciding curves, and distinct colours."""

from dataclasses import replace

import numpy as np
import pandas as pd
from matplotlib.colors import to_rgb

from shuffledp.figures.bounds import coincidence_note
from shuffledp.mechanisms.catalogue import CATALOGUE
from shuffledp.papers.figure_specs import FigureText
from shuffledp.papers.recomputed_figures import curve_panels

X = np.geomspace(1e-3, 1.0, 20)


def curve(name: str, y: np.ndarray, panel: str = "a", x: np.ndarray = X) -> pd.DataFrame:
    return pd.DataFrame({"panel": panel, "curve": name, "kind": "upper", "x": x, "y": y})


def test_curves_within_a_lines_width_are_named_together() -> None:
    table = pd.concat(
        [
            curve("first", X**-2),
            curve("apart", 2.0 * X**-2),
            curve("upon it", 1.05 * X[5:] ** -2, x=X[5:]),
        ]
    )
    words = coincidence_note(table, "log", "log")
    assert words == "These curves coincide within the width of a line: first; upon it."


def test_curves_that_differ_in_one_panel_are_not_named() -> None:
    same = pd.concat([curve("first", X), curve("second", X)])
    apart = pd.concat([curve("first", X, "b"), curve("second", 2.0 * X, "b")])
    assert coincidence_note(same, "linear", "linear")
    assert coincidence_note(pd.concat([same, apart]), "linear", "linear") == ""


def test_curves_without_common_abscissae_are_not_named() -> None:
    halves = pd.concat([curve("left", X[:9], x=X[:9]), curve("right", X[9:], x=X[9:])])
    assert coincidence_note(halves, "log", "log") == ""
    # Zeros have no place on a logarithmic axis.
    assert coincidence_note(pd.concat([curve("a", X), curve("b", 0.0 * X)]), "log", "log") == ""


def test_the_note_stands_above_the_legend() -> None:
    table = pd.concat([curve("k = 2", X), curve("k = 4", X), curve("clones", 3.0 * X)])
    text = FigureText(title="", x_label="", y_label="", caption="")
    figure = curve_panels(table, text)
    (legend,) = figure.legends
    assert legend.get_title().get_text().endswith("of a line: k = 2; k = 4.")
    parted = curve_panels(table[table["curve"] != "k = 4"], text)
    assert parted.legends[0].get_title().get_text() == (
        "Computed at the marks; the lines of guarantees between them only guide the eye."
    )
    proven = curve_panels(table[table["curve"] != "k = 4"], replace(text, between="next"))
    assert proven.legends[0].get_title().get_text() == ""
    # A curve that is no bound has no bound's colour.
    colours = {line.get_label(): line.get_color() for line in figure.axes[0].lines}
    assert colours["clones"] == "#E69F00"
    assert len(set(colours.values())) == 3
    markers = {line.get_marker() for line in figure.axes[0].lines}
    assert len(markers) == 3


def test_mechanisms_have_distinct_colours_that_are_visible_on_white() -> None:
    mechanism_of: dict[str, str] = {}
    for name, mechanism in CATALOGUE.items():
        for estimator in mechanism.estimators:
            colour = estimator.look.colour
            assert mechanism_of.setdefault(colour, name) == name
            red, green, blue = to_rgb(colour)
            assert 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.75
