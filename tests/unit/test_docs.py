"""The documentation as a site: what is committed, and what `make docs` makes of it."""

import json
import re
import runpy
import shutil
import subprocess
import sys
from base64 import b64decode
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import shuffledp
import yaml
from needs import needs
from PIL import Image
from shuffledp.figures.style import save
from shuffledp.geography.grid import grid_cells, make_lattice
from shuffledp.geography.regions import region_from_config
from shuffledp.studies.releases import swept
from shuffledp.studies.sweeps import TargetSweep

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs" / "tutorial.ipynb"
# What a browser fetches by itself.
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
    """Texts that are the same, but that the last digit of a broken number may be the next one."""
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


@pytest.mark.slow
def test_the_tutorial_is_kept_as_it_ran():
    """But for what Matplotlib's versions change."""
    made = ROOT / "build" / "tutorial.ipynb"
    if not made.exists():
        pytest.skip(needs("site", "`make docs` runs the tutorial"))
    ran, now = (json.loads(path.read_text(encoding="utf-8")) for path in (made, TUTORIAL))
    sources = [[cell["source"] for cell in each["cells"]] for each in (ran, now)]
    assert sources[0] == sources[1], "`make docs` runs the tutorial as it is now"
    kept = runpy.run_path(str(ROOT / "docs" / "_site" / "pictures.py"))["kept"]
    (said, fresh), (told, old) = outputs(kept(ran)), outputs(now)
    for one, other in zip(said, told, strict=True):
        assert alike("\n".join(one), "\n".join(other)), "`make pictures` keeps what it prints now"
    for pair in zip(fresh, old, strict=True):
        one, other = (np.asarray(Image.open(BytesIO(p)).convert("RGB"), dtype=float) for p in pair)
        assert one.shape == other.shape and np.abs(one - other).mean() < 0.1


@pytest.mark.slow
def test_the_map_of_readme_is_what_a_run_draws(tmp_path):
    """But for what Matplotlib's versions change. The release is the run's, by its stream."""
    pictures = runpy.run_path(str(ROOT / "docs" / "_site" / "pictures.py"))
    city = pictures["REGION"]
    config = yaml.safe_load((ROOT / "config" / "config.yaml").read_text())
    spec = config["regions"][city]
    region = region_from_config(city, {"box": spec["box"]})
    cells = grid_cells(region, spec["grids"]["shape"])
    south, west, north, east, number = np.loadtxt(
        ROOT / "resources" / "cell_counts" / f"{city}.csv", delimiter=",", skiprows=1
    ).T
    grid = make_lattice(region, spec["grids"]["shape"])
    cell = grid.locate((south + north) / 2.0, (west + east) / 2.0)
    counts = np.bincount(cell, number, len(cells)).astype(int)
    target = TargetSweep([pictures["EPS"]], pictures["DELTA"])
    names = {"seed": config["seed"], "region": city, "grid": "shape"}
    parts = swept({counts.sum(): counts}, target, 1, [pictures["MECHANISM"]], **names)
    rows = pd.concat([releases for releases, _ in parts], ignore_index=True)
    figure = pictures["private_map"](cells, counts, rows)
    drawn, *_ = save(figure, tmp_path / "map", "true data")
    pictures["shrink"](drawn, tmp_path / "small.png")
    paths = ROOT / "docs" / "figures" / "map.png", tmp_path / "small.png"
    kept, fresh = (np.asarray(Image.open(path).convert("RGB"), dtype=float) for path in paths)
    assert kept.shape == fresh.shape
    assert np.abs(kept - fresh).mean() < 0.1


def test_the_reference_lists_what_the_package_gives():
    page = (ROOT / "docs" / "reference" / "index.md").read_text(encoding="utf-8")
    names = page.partition("## The command")[0]
    rows = re.findall(r"^\| (.*?) \|", names, re.MULTILINE)
    assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == sorted(shuffledp.__all__)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site of a clone where some figures were drawn and the tutorial was not run."""
    for package in ("mkdocs", "material", "mkdocstrings_handlers"):
        pytest.importorskip(package, reason=needs("site", "`make docs` installs it"))
    clone = tmp_path_factory.mktemp("clone of é")
    for name in ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "CITATION.cff", "mkdocs.yml"]:
        shutil.copy(ROOT / name, clone)
    for name in ["docs", "config", "resources/basemaps", "workflow/lib/shuffledp", "packages"]:
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, clone / name, ignore=ignore)
    for run, names in {"figures": ["checkins.there.a", "new"], "paper/figures": ["new"]}.items():
        (clone / "results" / run).mkdir(parents=True)
        for name in names:
            picture = "comparison" if run == "figures" else "privacy"
            source = ROOT / "docs" / "figures" / f"{picture}.png"
            shutil.copy(source, clone / "results" / run / f"{name}.png")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict"],
        cwd=clone, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    return clone / "site"


@pytest.mark.slow
def test_the_gallery_shows_what_was_drawn_and_else_what_is_kept(site):
    page = (site / "gallery.html").read_text(encoding="utf-8")
    shown = re.findall(r'<img [^>]*src="([^"]+)"', page)
    assert [name for name in shown if name.startswith("pictures/")] == [
        "pictures/checkins.there.a.png",
        "pictures/new.png",
    ]
    assert "figures/comparison.png" in shown
    assert "<!-- pictures" not in page
    # The default run goes before the reproduction.
    drawn = (site.parent / "results" / "figures" / "new.png").read_bytes()
    assert (site / "pictures" / "new.png").read_bytes() == drawn


@pytest.mark.slow
def test_pages_from_elsewhere_lead_to_pages_of_the_site(site):
    home = (site / "index.html").read_text(encoding="utf-8")
    assert {"errata.html", "configuration.html", "CITATION.cff"} <= set(
        re.findall(r'href="([^"#]+)', home)
    )
    assert 'href="index.html"' in (site / "accounting.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_reference_says_what_functions_return(site):
    page = (site / "reference" / "accounting.html").read_text(encoding="utf-8")
    assert 'id="shuffledp.accounting.accountant.epsilon"' in page
    assert re.search(r"Interval</a>.{0,300}?</code>[^<]*–\s*<div[^>]*>\s*<p>Natural logs", page)


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


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_whoever_sees_little_or_hears_the_site_misses_nothing(site, browser, scheme):
    """By axe-core; what it calls minor is left to the theme."""
    axe = (ROOT / "tests" / "browser" / "vendor" / "axe.min.js").read_text(encoding="utf-8")
    with browser.new_page(color_scheme=scheme) as page:
        for name in ("index", "city", "errata", "gallery", "reference/accounting"):
            page.goto((site / f"{name}.html").as_uri())
            assert page.locator("[role=dialog]:not([aria-label])").count() == 0
            page.evaluate(axe)
            found = page.evaluate("axe.run()")
            wrong = [
                (rule["id"], rule["nodes"][0]["html"][:120])
                for rule in found["violations"]
                if rule["impact"] in {"serious", "critical"}
            ]
            assert wrong == [], name
