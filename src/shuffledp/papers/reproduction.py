"""Recompute every printed number of papers A to D, and summarise how the values compare.

The rules write the results to results/reproduction/values.csv and summary.md.
"""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from shuffledp.numerics.arrays import Integers
from shuffledp.papers import paper_a, paper_b, paper_c
from shuffledp.papers.figure_specs import FigureSpec
from shuffledp.papers.paper_d import curves
from shuffledp.papers.verdicts import (
    NOT_REPRODUCED,
    NOT_TRIED,
    REPRODUCED,
    VERDICTS,
    Answer,
    Published,
    Recompute,
)
from shuffledp.pipeline.tables import CHECKED, reading

# Figures that are drawn from a table of curves, by the prefix of their file names.
FIGURES: Final[Mapping[str, Mapping[str, FigureSpec]]] = {
    "paper_b": paper_b.FIGURES,
    "paper_c": paper_c.FIGURES,
    "paper_d": curves.FIGURES,
}
# Functions that recompute a number, by paper and table; `paper_a.random_answers` has the others.
NUMBERS: Final[Mapping[str, Mapping[str, Recompute]]] = {
    "A": paper_a.NUMBERS,
    "B": paper_b.NUMBERS,
    "C": paper_c.NUMBERS,
    "D": curves.NUMBERS,
}


def read_histogram(grid: Path) -> Integers:
    """Read the counts of a rectangular grid, shape ``(rows, columns)`` from the south-west."""
    with reading(grid):
        table = pq.read_table(grid, columns=["row", "column", "count"], **CHECKED)
    row, column = table["row"].to_numpy(), table["column"].to_numpy()
    counts = np.zeros((row.max() + 1, column.max() + 1), dtype=np.int64)
    counts[row, column] = table["count"].to_numpy()
    return counts


def answers(
    published: Sequence[Published],
    histograms: Mapping[str, Integers],
    *,
    seed: int,
    repetitions: int = paper_a.REPETITIONS,
) -> list[tuple[Published, Answer]]:
    """Recompute printed numbers, and return each with its recomputed values, in the same order.

    The histograms are check-ins per cell of paper A's grids by region, shape ``(rows, columns)``
    from the south-west. Each random quantity is simulated `repetitions` times, with random streams
    of this seed.
    """
    results = dict(paper_a.random_answers(published, histograms, seed, repetitions))
    return [
        (row, results[row] if row in results else NUMBERS[row.paper][row.table](row))
        for row in published
    ]


def values_table(results: Sequence[tuple[Published, Answer]]) -> pd.DataFrame:
    """Return a table with one row per printed number and only text columns.

    The columns are the parameters of `Published`, followed by those of `Answer.row`.
    """
    rows = []
    for row, answer in results:
        stated = {name: value for name, value in vars(row).items() if name != "published"}
        rows.append(stated | answer.row(row))
    return pd.DataFrame(rows, dtype=str)


_MAX_UNSAFE_ROWS: Final = 10
_PAPERS: Final = (
    "A is Biswas, Jung and Palamidessi; B Girgis, Data, Diggavi, Suresh and Kairouz; C Koskela, "
    "Heikkilä and Honkela; D Chen, Cao and Ge."
)
_PARAMETERS: Final = ("bound", "mechanism", "region", "n", "k", "eps0", "eps", "x0")
_VERDICT_LEGEND: Final = (
    "`values.csv` has every number with its parameters, values and a note. Digits are compared "
    "after rounding, for A's Table II after truncation; a number printed as a minimum is met by "
    "any larger value. *By the printed formula only*: the digits follow from the paper's formula, "
    "which is not correct. *Compatible*: inside the central 99 % of 1,000 repetitions, and the "
    "column as a whole is not rejected (p >= 0.01); with seven numbers in a column that is weak "
    "evidence. *Not tried*: out of scope, or the data are not available."
)
_NOT_DRAWN: Final = "Not drawn: figure 1 of B, and the diagram in figure 1 of D."

Row = Mapping[Any, str]


def summary(values: pd.DataFrame, figures: Mapping[str, Sequence[str]]) -> str:
    """Return the summary of a `values_table` in Markdown.

    ``figures`` has the names of the files that show each figure of the papers.
    """
    rows: list[Row] = list(values.to_dict("records"))
    counts = verdict_counts(values)
    by_verdict = [[*index, *numbers] for index, *numbers in counts.itertuples()]
    worst = sorted(rows, key=orders_too_small, reverse=True)[:_MAX_UNSAFE_ROWS]
    lines = [
        *("# The papers' numbers, recomputed", "", _PAPERS, ""),
        *_markdown(
            ["paper", "table", *VERDICTS], [*by_verdict, ["all", len(values), *counts.sum()]]
        ),
        *(_VERDICT_LEGEND, "", _reproduced(rows), ""),
        *("## Not reproduced", "", *_with_verdict(rows, NOT_REPRODUCED)),
        *("## Not tried", "", *_with_verdict(rows, NOT_TRIED)),
        *("## Furthest on the unsafe side", ""),
        *_markdown(
            [
                *("paper", "table", "setting", "printed delta", "correct delta of one count"),
                *("correct delta of the histogram", "powers of ten"),
            ],
            [
                [*_place(r), r["published"], r["single_bin"], r["correct"], f"{orders:.0f}"]
                for orders, r in zip(map(orders_too_small, worst), worst, strict=True)
            ],
        ),
        *("## Figures", ""),
        *_markdown(
            ["figure", "files in ../figures (png, pdf, svg)"],
            [[name, ", ".join(f"`{file}`" for file in files)] for name, files in figures.items()],
        ),
        *(_NOT_DRAWN, ""),
    ]
    return "\n".join(lines)


def verdict_counts(values: pd.DataFrame) -> pd.DataFrame:
    """Return how many rows of each paper's table (index, in order) have each verdict (columns)."""
    keys = [values["paper"], values["table"]]
    counts = pd.crosstab(keys, values["verdict"]).reindex(columns=list(VERDICTS), fill_value=0)
    return counts.reindex(pd.MultiIndex.from_frame(values[["paper", "table"]].drop_duplicates()))


def orders_too_small(row: Row) -> float:
    """Return log10 of correct over printed delta; 0 for other quantities and deltas of 0."""
    if row["quantity"] != "delta" or not row["correct"]:
        return 0.0
    printed, correct = Decimal(row["published"]), Decimal(row["correct"])
    return float((correct / printed).log10()) if printed and correct else 0.0


def _markdown(header: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Return the lines of a table, and an empty one."""
    cells = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(str(cell) for cell in row) + " |" for row in cells] + [""]


def _place(row: Row) -> list[str]:
    """Return paper, table and setting of a number."""
    stated = [f"{name}={row[name]}" for name in _PARAMETERS if row[name]]
    return [row["paper"], row["table"], ", ".join([row["quantity"], *stated])]


def _reproduced(rows: Iterable[Row]) -> str:
    """Return a sentence that counts the reproduced zeros and names the other numbers."""
    reproduced = [row for row in rows if row["verdict"] == REPRODUCED]
    others = [row for row in reproduced if Decimal(row["published"])]
    names = "; ".join(f"{row['quantity']} ({row['paper']}, {row['table']})" for row in others)
    zeros = f"{len(reproduced) - len(others)} printed zeros, where eps >= eps0"
    return f"The {len(reproduced)} reproduced numbers are {zeros}, and {len(others)} more: {names}."


def _with_verdict(rows: Iterable[Row], verdict: str) -> list[str]:
    return _markdown(
        ["paper", "table", "setting", "printed", "recomputed", "note"],
        [
            [*_place(r), r["published"], r["as_printed"], r["note"]]
            for r in rows
            if r["verdict"] == verdict
        ],
    )
