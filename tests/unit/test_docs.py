"""The committed pages are current, and `make docs` makes a site that needs no other."""

import contextlib
import io
import json
import re
import runpy
import shutil
import sys
from base64 import b64decode
from pathlib import Path

import pytest
import waiting
from needs import needs

import shuffledp

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs" / "tutorial.ipynb"
PYTHON_TUTORIAL = ROOT / "docs" / "python.ipynb"
# Addresses that a browser fetches without being asked.
FETCHED = re.compile(
    r'<(?:script|img|iframe|source)\b[^>]*\bsrc="?([^"> ]+)|<link\b[^>]*\bhref="?([^"> ]+)'
)


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


def test_the_tutorial_is_kept_with_small_pictures():
    texts, drawn = outputs(json.loads(TUTORIAL.read_text(encoding="utf-8")))
    assert len(texts) > 5 and sum(map(bool, texts)) >= 4 and len(drawn) == 3
    assert all(len(picture) < 120_000 for picture in drawn)


@pytest.mark.parametrize("tutorial", [TUTORIAL, PYTHON_TUTORIAL], ids=lambda path: path.stem)
def test_a_tutorial_is_a_valid_notebook(tutorial):
    nbformat = pytest.importorskip("nbformat", reason=needs("site", "`make docs` installs it"))
    nbformat.validate(nbformat.read(tutorial, as_version=nbformat.NO_CONVERT))


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


@pytest.mark.slow
def test_the_tutorial_is_kept_as_it_ran():
    executed = ROOT / "build" / "tutorial.ipynb"
    if not executed.exists():
        pytest.skip(needs("site", "`make docs` runs the tutorial"))
    ran, now = (json.loads(path.read_text(encoding="utf-8")) for path in (executed, TUTORIAL))
    sources = [[cell["source"] for cell in each["cells"]] for each in (ran, now)]
    assert sources[0] == sources[1], "`make docs` runs the tutorial as it is now"
    kept = runpy.run_path(str(ROOT / "docs" / "_site" / "pictures.py"))["kept"]
    for printed, shown in zip(outputs(kept(ran))[0], outputs(now)[0], strict=True):
        assert alike("\n".join(printed), "\n".join(shown)), "`make pictures` updates the tutorial"


def test_the_reference_lists_what_the_package_gives():
    page = (ROOT / "docs" / "reference" / "index.md").read_text(encoding="utf-8")
    names = page.partition("## The command")[0]
    rows = re.findall(r"^\| (.*?) \|", names, re.MULTILINE)
    assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == sorted(shuffledp.__all__)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the site of a clone in which some figures were drawn but the tutorial was not run."""
    for package in ("mkdocs", "material", "mkdocstrings_handlers"):
        pytest.importorskip(package, reason=needs("site", "`make docs` installs it"))
    clone = tmp_path_factory.mktemp("clone of é")
    for name in ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "CITATION.cff", "mkdocs.yml"]:
        shutil.copy(ROOT / name, clone)
    for name in ["docs", "config", "resources/basemaps", "src/shuffledp", "packages"]:
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, clone / name, ignore=ignore)
    for run, names in {"figures": ["checkins.there.a", "new"], "paper/figures": ["new"]}.items():
        (clone / "results" / run).mkdir(parents=True)
        for name in names:
            picture = "comparison" if run == "figures" else "privacy"
            source = ROOT / "docs" / "figures" / f"{picture}.png"
            shutil.copy(source, clone / "results" / run / f"{name}.png")
    built = waiting.run([sys.executable, "-m", "mkdocs", "build", "--strict"], 600, cwd=clone)
    assert built.returncode == 0, built.stderr
    return clone / "site"


@pytest.mark.slow
def test_the_gallery_shows_drawn_figures_or_else_committed_ones(site):
    page = (site / "gallery.html").read_text(encoding="utf-8")
    shown = re.findall(r'<img [^>]*src="([^"]+)"', page)
    assert [name for name in shown if name.startswith("pictures/")] == [
        "pictures/checkins.there.a.png",
        "pictures/new.png",
    ]
    assert "figures/comparison.png" in shown
    assert "<!-- pictures" not in page
    # A figure of the default run takes precedence over one of the reproduction.
    drawn = (site.parent / "results" / "figures" / "new.png").read_bytes()
    assert (site / "pictures" / "new.png").read_bytes() == drawn


@pytest.mark.slow
def test_links_lead_to_pages_of_the_site(site):
    home = (site / "index.html").read_text(encoding="utf-8")
    assert {"errata.html", "configuration.html", "CITATION.cff"} <= set(
        re.findall(r'href="([^"#]+)', home)
    )
    assert 'href="index.html"' in (site / "accounting.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_reference_says_what_functions_return(site):
    page = (site / "reference" / "shuffledp.html").read_text(encoding="utf-8")
    assert 'id="shuffledp.queries.epsilon"' in page
    assert re.search(r"LogDelta\w+</a>.{0,300}?</code>[^<]*–\s*<div[^>]*>\s*<p>Ends of ln", page)


@pytest.mark.slow
def test_reading_the_site_fetches_nothing_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    fetched = {
        a or b for page in pages for a, b in FETCHED.findall(page.read_text(encoding="utf-8"))
    }
    assert len(fetched) > 5
    assert [address for address in fetched if re.match(r"(\w+:)?//", address)] == []
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()[\s\"']*(https?:)?//", sheet.read_text())


def gallery_commands():
    """Return the command below each picture of the gallery, by the picture's name."""
    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    found = re.findall(r"^!\[.*\]\(figures/([\w-]+)\.png\).*\n\n`(.+)`$", page, re.MULTILINE)
    assert len(found) == page.count("](figures/")
    return dict(found)


def test_each_picture_of_the_gallery_has_the_command_that_makes_it():
    """The command makes the file of which `make pictures` takes the picture."""
    taken = runpy.run_path(str(ROOT / "docs" / "_site" / "pictures.py"))["TAKEN"]
    overlays = {
        "figures": None,
        "paper": "paper",
        "mechanisms": "mechanisms",
        "cell_sizes": "gowalla.yaml config/cell_sizes",
    }
    commands = gallery_commands()
    assert commands.pop("map") == "make pictures"
    assert set(commands) == set(taken)
    for name, command in commands.items():
        overlay = overlays[taken[name].partition("/")[0]]
        options = f"--configfile config/config.yaml config/{overlay}.yaml -- " if overlay else ""
        assert command == f"snakemake --cores all {options}results/{taken[name]}.png"


@pytest.mark.slow
def test_snakemake_has_rules_for_the_pictures_of_the_gallery():
    targets = {}
    for command in gallery_commands().values():
        if command.startswith("snakemake"):
            *options, target = command.split()[1:]
            targets.setdefault(tuple(options), []).append(target)
    for options, files in targets.items():
        end = [] if options[-1] == "--" else ["--"]
        command = [sys.executable, "-m", "snakemake", "-n", "--nolock", "--quiet", "all"]
        done = waiting.run([*command, *options, *end, *files], 600, cwd=ROOT)
        assert done.returncode == 0, done.stderr
