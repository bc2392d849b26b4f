"""Write the errors of single cells as a page of HTML (paper A, Table VI)."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd

from shuffledp.figures.style import count_units, format_eps, plural
from shuffledp.mechanisms.catalogue import get_estimator
from shuffledp.pipeline.columns import CONTENTS, TRUE
from shuffledp.pipeline.files import replacing
from shuffledp.pipeline.selection import OWN_DELTA
from shuffledp.pipeline.units import replaced

_SERIES: Final = ["calibration", "mechanism", "estimator"]
_NOT_EQUAL: Final = "<strong>NOT equal privacy</strong>"
_STYLE: Final = """
:root { color-scheme: light dark; --ink: #111; --paper: #fff; --line: #888; --band: #f2f2f2; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #eee; --paper: #161616; --line: #888; --band: #242424; }
}
@media print {
  :root { --ink: #000; --paper: #fff; --line: #666; --band: #fff; }
  @page { size: landscape; }
}
body { margin: 1rem auto; padding: 0 1rem; max-width: 70rem; font: 0.95rem/1.4 sans-serif;
  color: var(--ink); background: var(--paper); }
h1 { font-size: 1.15rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; border: solid var(--ink); border-width: 2px 0;
  font-variant-numeric: tabular-nums; }
th, td { padding: 0.2rem 0.6rem; text-align: right; vertical-align: inherit; font-weight: normal; }
th:first-child, caption { text-align: left; }
[scope=row] { white-space: nowrap; }
tbody, tfoot { vertical-align: baseline; }
thead th { border-bottom: 1px solid var(--line); text-align: center; vertical-align: bottom; }
thead th:first-child { text-align: left; }
tfoot td, tfoot th { border-top: 1px solid var(--line); }
tbody tr:nth-child(even) { background: var(--band); }
td.range { padding-left: 0; text-align: left; font-size: 0.85em; white-space: nowrap; }
"""


def individual_page(summary: pd.DataFrame, title: str, unit: str) -> str:
    """Return Table VI of paper A as an HTML page: the error of each cell, one column per series.

    The page needs no other files. Its metadata mark it as true data. It has one row per cell with
    the mean absolute error over the repetitions and its 10 % to 90 % range, and a last row with the
    mean over the cells shown, all in check-ins or users. `summary` is the result of
    `shuffledp.studies.individual.individual_summary`, for one eps0.
    """
    columns = list(summary[_SERIES].drop_duplicates().itertuples(index=False, name=None))
    cells = sorted(summary["cell"].unique())
    *lines, means = zip(*(_numbers(summary, series) for series in columns), strict=True)
    body = [_row(str(cell), line) for cell, line in zip(cells, lines, strict=True)]
    heads = "".join(
        f'<th scope="colgroup" colspan="2">{_column_head(*series)}</th>' for series in columns
    )
    repetitions = int(summary["repetitions"].max())
    caption = f"Mean of {repetitions} repetitions and its 10 % to 90 % range, in {plural(unit)}"
    table = "\n".join(
        [
            f"<table>\n<caption>{caption}</caption>",
            f'<thead><tr><th scope="col">cell <i>x</i><sub>0</sub></th>{heads}</tr></thead>',
            "<tbody>",
            *body,
            "</tbody>",
            f"<tfoot>{_row('mean of the rows', means)}</tfoot>\n</table>",
        ]
    )
    heading = f"{title}: absolute error of single cells, in {plural(unit)}"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="{CONTENTS}" content="{TRUE}">\n'
        f"<title>{escape(heading)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{escape(heading)}</h1>\n{_introduction(summary, unit)}\n"
        # The tab index makes a wide table scrollable by keyboard.
        f'<div class="wide" tabindex="0" role="region" aria-label="Table">\n{table}\n</div>\n'
        "</body>\n</html>\n"
    )


def write_page(text: str, destination: Path) -> None:
    """Write a page; the file appears only when it is complete."""
    with replacing(destination) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def _row(head: str, cells: Sequence[tuple[str, str]]) -> str:
    """Return a row of HTML from its head and pairs of a number and its range, all plain text."""
    data = "".join(
        f'<td>{escape(number)}</td><td class="range">{escape(range_)}</td>'
        for number, range_ in cells
    )
    return f'<tr><th scope="row">{escape(head)}</th>{data}</tr>'


def _introduction(summary: pd.DataFrame, unit: str) -> str:
    """Return one or two paragraphs on n, the guarantee, and the columns without a guarantee."""
    matched = summary[summary["calibration"] == "matched"].iloc[0]
    n, eps0 = int(matched["n"]), float(matched["eps0"])
    paragraphs = [
        f"n = {count_units(n, unit)}, ε<sub>0</sub> = {eps0:g}. Equal privacy means "
        f"ε = {format_eps(matched['eps'])} and δ = 10<sup>{matched['log10_delta']:.3g}</sup>, for "
        f"the replacement of {replaced(unit)}."
    ]
    own = summary[summary["calibration"] == OWN_DELTA]["log10_delta"]
    if not own.empty:
        paragraphs.append(
            "Own δ(<i>x</i><sub>0</sub>) is the δ of one cell's count (Biswas et al.), from "
            f"10<sup>{own.min():.1f}</sup> to 10<sup>{own.max():.1f}</sup> at the same ε. It is "
            "not a guarantee. These errors are computed from their distribution."
        )
    return "\n".join(f"<p>{each.replace('<sup>-', '<sup>−')}</p>" for each in paragraphs)


def _column_head(calibration: str, mechanism: str, estimator: str) -> str:
    name = escape(get_estimator(mechanism, estimator).label)
    if calibration == "none":
        return name
    if calibration == "matched":
        return f"{name}, equal privacy"
    source = "own δ(<i>x</i><sub>0</sub>)" if calibration == OWN_DELTA else escape(calibration)
    return f"{name}, {source}: {_NOT_EQUAL}"


def _numbers(summary: pd.DataFrame, series: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return the mean error of each cell and its range, and the mean of all without a range.

    They are in check-ins or users, with the decimals that show the mean with at least two digits.
    """
    rows = summary[(summary[_SERIES] == list(series)).all(axis=1)].sort_values("cell")
    errors = rows[["mean", "p10", "p90"]] * float(rows["n"].iloc[0])
    mean = errors["mean"].mean()
    decimals = max(1 - int(np.floor(np.log10(mean))), 0) if mean > 0.0 else 0
    cells = [
        (f"{each:,.{decimals}f}", f"({low:,.{decimals}f} to {high:,.{decimals}f})")
        for each, low, high in errors.itertuples(index=False)
    ]
    return [*cells, (f"{mean:,.{decimals}f}", "")]
