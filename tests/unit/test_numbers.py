"""Every measured or computed number in the prose of a page has a command, a test or a file."""

import csv
import doctest
import re
import shlex
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from shuffledp.cli import main
from test_pages import PAGES, ROOT, blocks

# docs/_numbers.csv: who shows the numbers that no block of their page prints. A row has a page, its
# heading, numbers there (*all*, or *tables* for all cells of tables), and
# - a command of ours, which prints them, or
# - a target of make, with what it costs, for what takes minutes or is measured on a machine, or
# - a test, as `test_name -k word`, in whose file they stand, or that reads the page, or
# - a file in which they stand.
REGISTRY = ROOT / "docs" / "_numbers.csv"
PUBLISHED = ROOT / "resources" / "published_values.csv"

_DIGITS = r"(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:[eE]-?\d+)?"
_NUMBER = re.compile(rf"(?<![\w.^/*:#-])(?<!\w,)({_DIGITS})(?![\w^/*]|-\w|[.,]\d)")
_UNIT = re.compile(
    rf"(?: to {_DIGITS})? ?(?:%|times\b|m?s\b|µs\b|min\b|minutes?\b|seconds?\b|hours?\b"
    r"|core hours\b|[kMG]B\b|bytes\b|powers of ten\b)"
)
_LIST = rf"(?:{_DIGITS}(?:,? (?:and|or|to)|,) )*$"
_VALUE = re.compile(rf"[=<>]\s*{_LIST}")
_NAMES = re.compile(
    r"(?i:theorems?|lemmas?|remarks?|corollar(?:y|ies)|definitions?|facts?|eqs?\.|sections?|tables?"
    rf"|figures?|arxiv|python) \(?(?:{_DIGITS}\)?,? (?:and|or|to) )?\(?{_LIST}"
)


class Number(NamedTuple):
    """A number of a page, with the heading it is under and what is around it."""

    text: str
    section: str
    in_table: bool
    around: str


def prose(page):
    """Headings with the text below them, without code, links and what is not shown."""
    text = page.read_text(encoding="utf-8")
    text = re.sub(r"^( *)```.*?^\1```", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"^ {4}.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"`[^`]*`", "CODE", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    parts = re.split(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return zip(parts[1::2], parts[2::2], strict=True)


def _is_result(text, before, after):
    """Measured or computed, not the name of a theorem or a setting such as eps = 1."""
    mantissa = re.split("[eE]", text)[0]
    significant = len(mantissa.replace(",", "").replace(".", "").strip("0"))
    if _NAMES.search(before) or (_VALUE.search(before) and (significant < 2 or "." not in text)):
        return False
    counted = "," in mantissa and significant > 2
    return bool(
        "." in mantissa or counted or (text != mantissa and mantissa != "1") or _UNIT.match(after)
    )


def numbers(page):
    """The numbers of a page that somebody measured or computed."""
    for section, text in prose(page):
        tables = "\n".join(re.findall(r"^\|.*$", text, re.MULTILINE))
        rest = re.sub(r"^\|.*$", "", text, flags=re.MULTILINE)
        for part, in_table in ((rest, False), (tables, True)):
            line = re.sub(r"\s+", " ", part)
            for found in _NUMBER.finditer(line):
                before, after = (
                    line[max(0, found.start() - 70) : found.start()],
                    line[found.end() :],
                )
                word = found[1].rstrip(",")
                if _is_result(word, before, after):
                    around = f"{before[-40:]}{word}{after[:30]}"
                    yield Number(word, section, in_table, around)


def _value(text):
    return Decimal(text.replace(",", ""))


def printed(text):
    """All numbers of a text, as `Decimal`."""
    return [_value(found.rstrip(",")) for found in re.findall(_DIGITS, text)]


def is_among(text, values):
    """Whether a number of a page is one of those printed, rounded as the page rounds it."""
    value = _value(text)
    half = Decimal((0, (5,), value.as_tuple().exponent - 1))
    rounded = len(value.as_tuple().digits) > 1
    return any(each == value or (rounded and abs(each - value) <= half) for each in values)


@cache
def registry():
    """The rows of `REGISTRY`, in order."""
    with REGISTRY.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@cache
def published():
    """The numbers that the papers print, and the parameters that they state."""
    with PUBLISHED.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return tuple(printed(" ".join(row[key] or "" for row in rows)) for key in ("published", "eps0"))


def shown(page):
    """The numbers that the blocks and examples of a page print, and those that they are given."""
    examples = doctest.DocTestParser().get_examples(page.read_text(encoding="utf-8"))
    answers = [block.shown for block in blocks(page)] + [example.want for example in examples]
    given = [command for block in blocks(page) for command in block.commands]
    return printed("\n".join(answers)), printed("\n".join(given))


def _registered(number, rows):
    return any(
        row["section"] in number.section
        and (
            row["numbers"] == "all"
            or (row["numbers"] == "tables" and number.in_table)
            or number.text in row["numbers"].split()
        )
        for row in rows
    )


NUMBERS = {str(page.relative_to(ROOT)): list(numbers(page)) for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_number_in_prose_is_printed_by_something(page):
    name = str(page.relative_to(ROOT))
    rows = [row for row in registry() if row["page"] == name]
    answers, given = shown(page)
    results, settings = published()
    nowhere = [
        number.around
        for number in NUMBERS[name]
        if not is_among(number.text, answers + results)
        and not ("." in number.text and _value(number.text) in given + settings)
        and not _registered(number, rows)
    ]
    assert nowhere == []


def _states(path, row):
    """Whether a file states a row's numbers, or is a test that reads its page."""
    text = path.read_text(encoding="utf-8")
    stated = printed(re.sub(r"(?<=\d)_(?=\d)", "", text))
    whole = row["numbers"] in {"all", "tables"}
    given = not whole and all(is_among(each, stated) for each in row["numbers"].split())
    return given or (path.suffix == ".py" and Path(row["page"]).name in text)


def _is_there(row):
    """Whether what a row names exists, and says its numbers or what it costs."""
    first, *words = row["shown by"].split()
    if first == "shuffledp":
        return True  # the next test runs it
    if first == "make":
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        return f"\n{words[0]}: " in makefile and "on two cores" in row["cost"]
    if first == "snakemake":
        return "on two cores" in row["cost"]
    if first.startswith("test_"):
        named = re.compile(rf"^def test_\w*{words[1]}", re.MULTILINE)
        found = (ROOT / "tests").glob(f"*/{first}.py")
        return any(named.search(path.read_text("utf-8")) and _states(path, row) for path in found)
    return _states(ROOT / first, row)


def test_what_shows_a_number_is_there():
    assert [row for row in registry() if not _is_there(row)] == []
    assert [row for row in registry() if not (ROOT / row["page"]).exists()] == []


def test_what_is_measured_on_a_machine_is_called_so():
    measured = {"make bench", "make run", "make scale"}
    pages = {row["page"] for row in registry() if row["shown by"] in measured}
    words = {page: " ".join((ROOT / page).read_text("utf-8").split()) for page in pages}
    assert pages
    assert [page for page in pages if "measured on two cores" not in words[page]] == []


def test_no_row_is_left_whose_number_is_gone():
    gone = [
        (row["page"], each)
        for row in registry()
        if row["numbers"] not in {"all", "tables"}
        for each in row["numbers"].split()
        if each not in [number.text for number in NUMBERS[row["page"]]]
    ]
    assert gone == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "row",
    [row for row in registry() if row["shown by"].startswith("shuffledp ")],
    ids=lambda row: row["shown by"],
)
def test_a_command_that_is_named_prints_the_number(row, capsys):
    assert main(shlex.split(row["shown by"])[1:]) == 0
    found = printed(capsys.readouterr().out)
    assert [each for each in row["numbers"].split() if not is_among(each, found)] == []
