"""Collect the papers' numbers and errata for the page about the reproduction."""

import re
from html import escape
from pathlib import Path
from typing import Any, Final

import pandas as pd

from shuffledp.papers.answers import VERDICTS

COLUMNS: Final = [
    "paper", "table", "quantity", "bound", "mechanism", "region", "n", "k", "eps0", "eps",
    "delta", "published", "as_printed", "lower", "upper", "correct", "verdict", "note",
]  # fmt: skip
_ENTRY: Final = re.compile(r"^### (?P<name>[A-Z]\d+)\. (?P<title>.*)$", re.MULTILINE)
# Errata that explain a number, by paper, table and bound (None for all other bounds).
_EXPLANATIONS: Final = {
    ("A", "II", "proposed"): ["A1", "A2", "A3"],
    ("A", "II", None): ["A4"],
    ("A", "IVa", None): ["A1", "A2"],
    ("A", "IVb", None): ["A1", "A2", "A5"],
    ("A", "IVc", None): ["A1", "A2"],
    ("A", "V", None): ["A6", "A9"],
    ("A", "V-C2 text", None): ["A6", "A9"],
    ("A", "V-D text", None): ["A7"],
    ("A", "VI", None): ["A6", "A9"],
    ("B", "Fig 4a headline", None): ["B1"],
    ("B", "Fig 5a headline", None): ["B2", "B3"],
    ("B", "text 1", None): ["B2", "B3"],
    ("D", "eq. (15)", None): ["D4"],
    ("D", "text 4.1", None): ["D6"],
}


def reproduction_data(values: Path, errata: Path) -> dict[str, Any]:
    """Return the papers' numbers, each with the errata that explain it, and all errata.

    ``values`` is a CSV file of `shuffledp.papers.reproduction.values_table`, and ``errata`` a
    Markdown file with a heading ``### A1. Title`` for each entry.
    """
    table = pd.read_csv(values)
    entries = _entries(errata.read_text(encoding="utf-8"))
    names = {entry["name"] for entry in entries}
    rows = [
        {name: None if pd.isna(value) else value for name, value in row.items()}
        | {"errata": [name for name in _explanations(row) if name in names]}
        for row in table[COLUMNS].to_dict("records")
    ]
    counts = table["verdict"].value_counts()
    tally = ", ".join(f"{counts.get(verdict, 0)} {verdict}" for verdict in VERDICTS)
    return {
        "rows": rows,
        "verdicts": list(VERDICTS),
        "summary": f"The four papers print {len(table)} numbers: {tally}.",
        "errata": entries,
    }


def _explanations(row: dict[Any, Any]) -> list[str]:
    paper, table = row["paper"], row["table"]
    for_bound = _EXPLANATIONS.get((paper, table, row["bound"]))
    return for_bound or _EXPLANATIONS.get((paper, table, None), [])


def _entries(text: str) -> list[dict[str, str]]:
    matches = list(_ENTRY.finditer(text))
    ends = [match.start() for match in matches[1:]] + [len(text)]
    return [
        {
            "name": match["name"],
            "title": f"{match['name']}. {match['title']}",
            # The last entry of a paper ends at the next paper's heading.
            "html": as_html(text[match.end() : end].split("\n## ", maxsplit=1)[0].strip()),
        }
        for match, end in zip(matches, ends, strict=True)
    ]


def as_html(markdown: str) -> str:
    """Convert paragraphs, code and bold text of Markdown to HTML; links become their text."""
    parts = []
    for number, part in enumerate(re.split(r"^```.*$", markdown, flags=re.MULTILINE)):
        if number % 2:
            parts.append(f"<pre>{escape(part.strip())}</pre>")
        else:
            paragraphs = re.split(r"\n\s*\n", part.strip())
            parts += [f"<p>{_inline(text)}</p>" for text in paragraphs if text]
    return "".join(parts)


def _inline(text: str) -> str:
    """Convert code spans, bold text and links; nothing is converted inside code spans."""
    pieces = re.split(r"`([^`]+)`", text)
    for number, piece in enumerate(pieces):
        html = escape(piece)
        if number % 2:
            pieces[number] = f"<code>{html}</code>"
        else:
            html = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", html)
            pieces[number] = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", html, flags=re.DOTALL)
    return "".join(pieces)
