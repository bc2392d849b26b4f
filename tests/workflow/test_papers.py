"""Modules, commands, bounds, tests, figures and errata that docs/papers.md names exist."""

import importlib
import re
from pathlib import Path

import pytest
import yaml

from shuffledp import cli
from shuffledp.accounting.bound_registry import BOUNDS

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
FIGURE = r"(paper_[a-d]|checkins|estimates|distances)\..+|personalised\.figure-\d+"
FIGURES = {name for _, name in PLACES if re.fullmatch(FIGURE, name)}


def lookup(name):
    """Return the module, function or constant with a dotted name in the package."""
    parts = name.split(".")
    for size in range(len(parts), 0, -1):
        try:
            member = importlib.import_module(".".join(["shuffledp", *parts[:size]]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[size:]:
            member = getattr(member, attribute)
        return member
    raise AssertionError(f"no module {name}")


@pytest.mark.parametrize("name", sorted({name for _, name in PLACES} - FIGURES - set(BOUNDS)))
def test_every_named_thing_exists(capsys, name):
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
    drawn = set(re.findall(r"results/paper/figures/(\S+)\.png", planned))
    assert FIGURES
    assert set() == FIGURES - drawn
