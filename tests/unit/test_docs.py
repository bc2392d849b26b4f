"""The committed pages are current."""

import contextlib
import io
import json
import re
from base64 import b64decode
from pathlib import Path

import pytest

import shuffledp

ROOT = Path(__file__).parents[2]
PYTHON_TUTORIAL = ROOT / "docs" / "python.ipynb"


def outputs(notebook):
    """Return the text that each code cell printed, and the pictures that were drawn."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    texts = [["".join(o["text"]) for o in cell["outputs"] if "text" in o] for cell in cells]
    drawn = [o["data"]["image/png"] for cell in cells for o in cell["outputs"] if "data" in o
             if "image/png" in o["data"]]  # fmt: skip
    return texts, [b64decode(picture) for picture in drawn]


def alike(one, other):
    """Return whether texts agree, up to one unit in the last digit of each decimal number."""
    parts = [re.split(r"(\d+\.\d+)", text) for text in (one, other)]
    words, numbers = ([each[start::2] for each in parts] for start in (0, 1))
    if words[0] != words[1]:
        return False
    return all(
        len(a) == len(b) and abs(float(a) - float(b)) < 1.5 * 0.1 ** len(a.partition(".")[2])
        for a, b in zip(*numbers, strict=True)
    )


@pytest.mark.slow
def test_the_tutorial_in_python_prints_what_it_shows(monkeypatch):
    notebook = json.loads(PYTHON_TUTORIAL.read_text(encoding="utf-8"))
    texts, drawn = outputs(notebook)
    assert sum(map(bool, texts)) >= 6 and len(drawn) == 2
    assert all(len(picture) < 120_000 for picture in drawn)
    monkeypatch.chdir(PYTHON_TUTORIAL.parent)
    monkeypatch.setenv("MPLBACKEND", "agg")
    namespace = {}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for cell, shown in zip(cells, texts, strict=True):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec("".join(cell["source"]), namespace)
        assert alike(printed.getvalue(), "".join(shown)), "`make docs pictures` updates it"


def test_the_reference_lists_what_the_package_gives():
    page = (ROOT / "docs" / "reference" / "index.md").read_text(encoding="utf-8")
    names = page.partition("## The command")[0]
    rows = re.findall(r"^\| (.*?) \|", names, re.MULTILINE)
    assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == sorted(shuffledp.__all__)
