"""Tables for people: pages of one file, which need nothing from elsewhere."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Final

from shuffledp.pipeline.columns import CONTENTS, TRUE
from shuffledp.pipeline.files import replacing

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


def page(title: str, words: str, table: str) -> str:
    """Write a page of errors in HTML, for the screen (dark or light) and for print.

    They are about the truth, and it says so of itself.

    Parameters
    ----------
    title
        Plain text.
    words, table
        HTML: what stands above the table, and the table.
    """
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="{CONTENTS}" content="{TRUE}">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n{words}\n"
        # What scrolls must be reached by keys.
        f'<div class="wide" tabindex="0" role="region" aria-label="Table">\n{table}\n</div>\n'
        "</body>\n</html>\n"
    )


def row(head: str, pairs: Sequence[tuple[str, str]]) -> str:
    """Write a row of a table: its name, and numbers with their ranges; all plain text."""
    cells = "".join(
        f'<td>{escape(number)}</td><td class="range">{escape(range_)}</td>'
        for number, range_ in pairs
    )
    return f'<tr><th scope="row">{escape(head)}</th>{cells}</tr>'


def heads(first: str, names: Sequence[str]) -> str:
    """Write the row of the columns' names, HTML; all but the first have numbers with ranges."""
    cells = "".join(f'<th scope="colgroup" colspan="2">{name}</th>' for name in names)
    return f'<tr><th scope="col">{first}</th>{cells}</tr>'


def write_page(text: str, destination: Path) -> None:
    """Write a page, whole or not at all."""
    with replacing(destination) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")
