"""What docs/papers.md names is there: modules, commands, bounds, tests, figures and errata."""

import importlib
import re
from pathlib import Path

import pytest
import yaml
from shuffledp import cli
from shuffledp.accounting.registry import BOUNDS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| item |")
]
PLACES = [
    (row[0], name) for row in ROWS for name in dict.fromkeys(re.findall(r"`([^`]+)`", row[2]))
]
LINKS = sorted(set(re.findall(r"\]\(([^)]+)\)", PAGE)))
FIGURE = r"(paper_[a-d]|checkins|estimates|distances)\..+|personalised\.(figure-\d+|dependence)"
FIGURES = {name for _, name in PLACES if re.fullmatch(FIGURE, name)}


def anchors(page):
    """Anchors of a page's headings, as code hosts make them."""
    for heading in re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE):
        yield re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def lookup(name):
    """The module, function or constant of a dotted name of the package."""
    parts = name.split(".")
    for size in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(["shuffledp", *parts[:size]]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[size:]:
            found = getattr(found, attribute)
        return found
    raise AssertionError(f"no module {name}")


def test_every_row_has_four_cells():
    assert len(ROWS) > 30
    assert [row for row in ROWS if len(row) != 4 or not all(row)] == []


def _numbers(kind, items):
    """Numbers of a kind in the first column: "Lemmas 5.1 to 5.3" are 5.1, 5.2 and 5.3."""
    plural = {"Corollary": "Corollar(?:y|ies)"}.get(kind, f"{kind}s?")
    for item in items:
        for words in re.findall(rf"\b{plural} ((?:[\w.]+(?:, | to )?)+)", item):
            for first, last in re.findall(r"([\w.]*\d)(?: to ([\w.]+))?", words):
                stem, _, low = first.rpartition(".")
                high = last.rpartition(".")[2] or low
                yield from (f"{stem}.{i}".lstrip(".") for i in range(int(low), int(high) + 1))


NUMBERED = {
    "A": {"Definition": "III.1 III.2 III.3 III.4 III.5 III.6 III.7 III.8 III.9 IV.1 IV.2 V.1",
          "Theorem": "IV.1", "Remark": "1 2", "Figure": "1 2 3 4 5 6 7"},
    "B": {"Definition": "1 2 3", "Theorem": "3.1 3.3 3.4 3.6 3.7 7.1",
          "Lemma": "2.1 2.2 5.1 5.2 5.3 6.1 6.2", "Corollary": "3.2 3.5 5.4",
          "Remark": "3 4 5 6 7 8", "Table": "1", "Figure": "1 2 3 4 5"},
    "C": {"Definition": "1 2 3 4 8 9", "Theorem": "5 7 10 C.1", "Lemma": "6 11 B.1 B.2 B.3",
          "Algorithm": "1", "Figure": "1 2 3 4 5 6 7 8 9 10"},
    "D": {"Definition": "1 2 3 4", "Theorem": "1 2 3 4", "Lemma": "1 2 3 4", "Corollary": "1 2",
          "Fact": "1 2 3", "Algorithm": "1 2 3", "Table": "1 2 3", "Figure": "1 2 3 4 5 6 7 8"},
}  # fmt: skip


@pytest.mark.parametrize("paper", NUMBERED)
def test_every_numbered_item_has_a_row(paper):
    text = re.search(rf"^## {paper}:.*?(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)[0]
    items = re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE)
    for kind, numbers in NUMBERED[paper].items():
        assert set(numbers.split()) - set(_numbers(kind, items)) == set()


@pytest.mark.parametrize("name", sorted({name for _, name in PLACES} - FIGURES - set(BOUNDS)))
def test_what_is_named_is_there(capsys, name):
    test = re.fullmatch(r"(test_\w+) -k (\w+)", name)
    if test:
        files = (ROOT / "tests").glob(f"*/{test[1]}.py")
        text = "\n".join(file.read_text(encoding="utf-8") for file in files)
        assert re.search(rf"^def test_\w*{test[2]}", text, re.MULTILINE)
    elif name.startswith("shuffledp "):
        with pytest.raises(SystemExit, match="0"):
            cli.main([name.split()[1], "--help"])
        shown = capsys.readouterr().out
        assert all(word in shown for word in name.split()[2:])
    elif name.startswith("make "):
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        assert f"\n{name.split()[1]}: " in makefile
    elif "/" in name:
        assert (ROOT / name).is_file()
    else:
        lookup(name)


@pytest.mark.slow
@pytest.mark.workflow
def test_every_figure_is_made_by_reproduce(clone):
    clone.config = yaml.safe_load((clone.path / "config" / "config.yaml").read_text())
    overlay = ("--configfile", "config/config.yaml", "config/paper.yaml")
    planned = clone.run("--dry-run", *overlay, "--", "reproduce").stdout
    made = set(re.findall(r"results/paper/figures/(\S+)\.png", planned))
    assert FIGURES
    assert set() == FIGURES - made


@pytest.mark.parametrize("link", LINKS)
def test_links_lead_somewhere(link):
    file, _, anchor = link.partition("#")
    target = (ROOT / "docs" / file).resolve()
    assert target.is_file()
    assert not anchor or anchor in anchors(target)
