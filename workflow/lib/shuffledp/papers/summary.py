"""results/reproduction/summary.md: what was reproduced, what was not, what is most wrong."""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import pandas as pd

from shuffledp.papers.answer import NOT, NOT_TRIED, REPRODUCED, VERDICTS

_WORST: Final = 10
_PAPERS: Final = (
    "A is Biswas, Jung and Palamidessi; B Girgis, Data, Diggavi, Suresh and Kairouz; C Koskela, "
    "Heikkilä and Honkela; D Chen, Cao and Ge."
)
_PARAMETERS: Final = ("bound", "mechanism", "region", "n", "k", "eps0", "eps", "x0")
_VERDICTS: Final = (
    "Every number stands with its parameters, values and note in `values.csv`. Digits are compared "
    "rounded, in A's Table II cut; what is printed as at least so much is met by more. *By the "
    "printed formula only*: the digits follow from what the paper computes, which is not what is "
    "right. *Compatible*: inside the central 99 % of 1,000 repetitions, and the column as a whole "
    "not rejected (p >= 0.01); with seven numbers to a column that is weak evidence. *Not tried*: "
    "out of scope, or the data are not at hand."
)
_NOT_DRAWN: Final = "Not drawn: figure 1 of B and D, of which D's is a diagram."

Row = Mapping[Any, str]


def summary(values: pd.DataFrame, figures: Mapping[str, Sequence[str]]) -> str:
    """Write the summary in Markdown.

    Parameters
    ----------
    values
        Columns of `shuffledp.papers.values.values_table`, all text.
    figures
        Files that stand for each figure of the papers.
    """
    rows: list[Row] = list(values.to_dict("records"))
    lines = [
        *("# The papers' numbers, recomputed", "", _PAPERS, "", *_counts(values), _VERDICTS, ""),
        *(_reproduced(rows), ""),
        *("## Not reproduced", "", *_with_verdict(rows, NOT)),
        *("## Not tried", "", *_with_verdict(rows, NOT_TRIED)),
        *("## Furthest on the unsafe side", "", *_unsafe(rows)),
        *("## Figures", "", *_figures(figures), _NOT_DRAWN, ""),
    ]
    return "\n".join(lines)


def verdict_counts(values: pd.DataFrame) -> pd.DataFrame:
    """Numbers by paper and table (rows, in the order of the values) and verdict (columns)."""
    keys = [values["paper"], values["table"]]
    counts = pd.crosstab(keys, values["verdict"]).reindex(columns=list(VERDICTS), fill_value=0)
    return counts.reindex(pd.MultiIndex.from_frame(values[["paper", "table"]].drop_duplicates()))


def orders_too_small(row: Row) -> float:
    """By how many powers of ten a printed delta is below what is right; 0 if it is not one."""
    if row["quantity"] != "delta" or not row["correct"]:
        return 0.0
    printed, correct = Decimal(row["published"]), Decimal(row["correct"])
    return float((correct / printed).log10()) if printed and correct else 0.0


def _table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    cells = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(str(cell) for cell in row) + " |" for row in cells] + [""]


def _setting(row: Row) -> str:
    given = [f"{name}={row[name]}" for name in _PARAMETERS if row[name]]
    return ", ".join([row["quantity"], *given])


def _counts(values: pd.DataFrame) -> list[str]:
    counts = verdict_counts(values)
    rows = [[*index, *numbers] for index, *numbers in counts.itertuples()]
    return _table(
        ["paper", "table", *VERDICTS], [*rows, ["all", len(values), *counts.sum().tolist()]]
    )


def _reproduced(rows: Iterable[Row]) -> str:
    """What is reproduced: how many printed zeros, and the others by name."""
    found = [row for row in rows if row["verdict"] == REPRODUCED]
    others = [row for row in found if Decimal(row["published"])]
    names = "; ".join(f"{row['quantity']} ({row['paper']}, {row['table']})" for row in others)
    zeros = f"{len(found) - len(others)} printed zeros, where eps >= eps0"
    return f"The {len(found)} reproduced are {zeros}, and {len(others)} more: {names}."


def _with_verdict(rows: Iterable[Row], verdict: str) -> list[str]:
    return _table(
        ["paper", "table", "setting", "printed", "found", "note"],
        [
            [r["paper"], r["table"], _setting(r), r["published"], r["as_printed"], r["note"]]
            for r in rows
            if r["verdict"] == verdict
        ],
    )


def _unsafe(rows: Iterable[Row]) -> list[str]:
    worst = sorted(rows, key=orders_too_small, reverse=True)[:_WORST]
    return _table(
        [
            *("paper", "table", "setting", "printed delta", "of the same count, right"),
            *("of the histogram (certified)", "powers of ten"),
        ],
        [
            [
                *(r["paper"], r["table"], _setting(r), r["published"], r["single_bin"]),
                *(r["correct"], f"{orders_too_small(r):.0f}"),
            ]
            for r in worst
        ],
    )


def _figures(figures: Mapping[str, Sequence[str]]) -> list[str]:
    return _table(
        ["figure", "files in ../figures (png, pdf, svg)"],
        [[name, ", ".join(f"`{file}`" for file in files)] for name, files in figures.items()],
    )
