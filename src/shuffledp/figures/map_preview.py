"""Draw the intervals that a published map would have."""

from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

from shuffledp.figures.style import escape_math, local_style, ordered_colours, plain_log_axis

_ROW_INCHES = 0.34


@local_style()
def draw_preview(destination: Path, table: pd.DataFrame, at_least: float | None) -> None:
    """Write a preview as PNG: a line for each level of each map, a dot for each eps.

    `table` is a result of `publishing.preview.preview` with a column ``name``. `at_least` is a
    known count; a line marks a quarter of it.
    """
    names = list(dict.fromkeys(table["name"]))
    figure, axes = plt.subplots(figsize=(7.5, 1.4 + _ROW_INCHES * len(names)), layout="constrained")
    budgets = sorted(set(table["eps"]))
    colours = ordered_colours(len(budgets))
    for eps, colour in zip(budgets, colours, strict=True):
        rows = table[table["eps"] == eps]
        heights = [names.index(name) for name in rows["name"]]
        axes.plot(rows["half_width"], heights, "o", color=colour, label=f"eps = {eps:g}")
    if at_least is not None:
        axes.axvline(at_least / 4, color="0.4", linestyle="--", label=f"25 % of {at_least:g}")
    axes.set_xscale("log")
    plain_log_axis(axes.xaxis)
    axes.set_yticks(range(len(names)), [escape_math(name) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(axis="x", which="both", color="0.9")
    axes.set_xlabel("half-width of the 95 % interval of a count, in records")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.savefig(destination, dpi=200, format="png", metadata={"Software": None})
    plt.close(figure)
