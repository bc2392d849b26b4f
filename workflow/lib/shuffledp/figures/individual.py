"""Individual-specific utility: errors of single cells (paper A, Table VI), as a page."""

from html import escape
from typing import Final

import numpy as np
import pandas as pd

from shuffledp.figures.html import heads, page, row
from shuffledp.figures.style import counted, eps_words, plural
from shuffledp.mechanisms.catalogue import get_estimator
from shuffledp.pipeline.selection import OWN_DELTA

_SERIES: Final = ["calibration", "mechanism", "estimator"]
_NOT_EQUAL: Final = "<strong>NOT equal privacy</strong>"


def individual_page(summary: pd.DataFrame, title: str, unit: str) -> str:
    """Table VI of paper A in HTML: the error of each cell, the series side by side.

    Parameters
    ----------
    summary
        Columns of `shuffledp.studies.utility.individual_summary`, of one eps0.
    title
        Names the region.
    unit
        What delta protects and n counts, ``one check-in`` or ``one user``.

    Returns
    -------
    A row per cell: mean absolute error over the repetitions and its 10 to 90 % range, and a last
    row with the mean over the cells shown, all in check-ins (or users).
    """
    columns = list(summary[_SERIES].drop_duplicates().itertuples(index=False, name=None))
    errors = [_errors(summary, series) for series in columns]
    digits = [_digits(each["mean"].mean()) for each in errors]
    body = [
        row(str(cell), [_pair(each, cell, d) for each, d in zip(errors, digits, strict=True)])
        for cell in sorted(summary["cell"].unique())
    ]
    means = [(f"{each['mean'].mean():,.{d}f}", "") for each, d in zip(errors, digits, strict=True)]
    named = [_head(*each) for each in columns]
    table = "\n".join(
        [
            f"<table>\n<caption>{_caption(summary, unit)}</caption>",
            f"<thead>{heads('cell <i>x</i><sub>0</sub>', named)}</thead>",
            "<tbody>",
            *body,
            "</tbody>",
            f"<tfoot>{row('mean of rows', means)}</tfoot>\n</table>",
        ]
    )
    heading = f"{title}: absolute error of single cells, in {plural(unit)}"
    return page(heading, _words(summary, unit), table)


def _words(summary: pd.DataFrame, unit: str) -> str:
    """What is compared, at which privacy, in a paragraph or two."""
    matched = summary[summary["calibration"] == "matched"].iloc[0]
    n, eps0 = int(matched["n"]), float(matched["eps0"])
    paragraphs = [
        f"n = {counted(n, unit)}, ε<sub>0</sub> = {eps0:g}. Equal privacy: "
        f"ε = {eps_words(matched['eps'])} and δ = 10<sup>{matched['log10_delta']:.3g}</sup>, for "
        "the replacement of one report."
    ]
    own = summary[summary["calibration"] == OWN_DELTA]["log10_delta"]
    if not own.empty:
        paragraphs.append(
            "Own δ(<i>x</i><sub>0</sub>), of one cell's count (Biswas et al.): "
            f"10<sup>{own.min():.1f}</sup> to 10<sup>{own.max():.1f}</sup> at the same ε, no "
            "guarantee; these errors follow from their law."
        )
    return "\n".join(f"<p>{each.replace('<sup>-', '<sup>−')}</p>" for each in paragraphs)


def _caption(summary: pd.DataFrame, unit: str) -> str:
    repetitions = int(summary["repetitions"].max())
    return f"Mean of {repetitions} repetitions, and its 10 to 90 % range, in {plural(unit)}"


def _head(calibration: str, mechanism: str, estimator: str) -> str:
    """What stands above a column."""
    name = escape(get_estimator(mechanism, estimator).label)
    if calibration == "none":
        return name
    if calibration == "matched":
        return f"{name}, equal privacy"
    words = "own δ(<i>x</i><sub>0</sub>)" if calibration == OWN_DELTA else escape(calibration)
    return f"{name}, {words}: {_NOT_EQUAL}"


def _errors(summary: pd.DataFrame, series: tuple[str, ...]) -> pd.DataFrame:
    """Mean and range of the errors of a series by cell, in check-ins or users."""
    rows = summary[(summary[_SERIES] == list(series)).all(axis=1)]
    return rows.set_index("cell")[["mean", "p10", "p90"]] * float(rows["n"].iloc[0])


def _digits(mean: float) -> int:
    """Decimals of a column: two digits or more of what it is on average."""
    return max(1 - int(np.floor(np.log10(mean))), 0) if mean > 0.0 else 0


def _pair(errors: pd.DataFrame, cell: int, digits: int) -> tuple[str, str]:
    """The mean of a cell, and its range."""
    mean, low, high = (f"{value:,.{digits}f}" for value in errors.loc[cell])
    return mean, f"({low} to {high})"
