"""README's tables and picture are what a run makes, and its sentences are short."""

import gzip
import json
import math
import re
import runpy
from collections import Counter

import numpy as np
import pandas as pd
import pytest
import yaml
from PIL import Image
from real_data import GOWALLA, needs_gowalla
from shuffledp.accounting.setting import probabilities
from shuffledp.cli import main
from shuffledp.figures.curves import curve_panels
from shuffledp.figures.paper_a import synthetic_distances
from shuffledp.figures.style import save
from shuffledp.geography.embedded import PEOPLE
from shuffledp.geography.grid import grid_cells, make_lattice
from shuffledp.geography.regions import region_from_config
from shuffledp.reproduction import paper_c
from shuffledp.reproduction.paper_a import distance_table
from shuffledp.studies.comparison import comparison_summary, findings
from shuffledp.studies.points import BudgetSweep, TargetSweep
from shuffledp.studies.releases import swept
from shuffledp.studies.samples import sample_counts
from test_numbers import is_among, printed, prose, registry
from test_pages import ROOT

README = ROOT / "README.md"
WORDS = " ".join(README.read_text(encoding="utf-8").split())
CONFIG = yaml.safe_load((ROOT / "config" / "config.yaml").read_text())
MECHANISMS = {
    "dummies by the shuffler": "shuffler-dummies",
    "discrete Laplace": "discrete-laplace",
    "signed dummies by users": "signed-dummies",
    "noise by both servers": "two-servers",
    "Gaussian": "gaussian",
    "dummies by users": "user-dummies",
    "shuffle+INV": "krr",
}
SIZES = {"paris": (11_190, 192), "san_francisco": (123_094, 408)}


def embedded(city):
    """Check-ins of the embedded counts in the cells of the default run."""
    region = CONFIG["regions"][city]
    shape = region["grids"]["shape"]["shape"]
    grid = make_lattice(region_from_config(city, {"box": region["box"]}), {"shape": shape})
    south, west, north, east, number = np.loadtxt(
        ROOT / "resources" / "cell_counts" / f"{city}.csv", delimiter=",", skiprows=1
    ).T
    cell = grid.locate((south + north) / 2.0, (west + east) / 2.0)
    counts = np.bincount(cell, number, math.prod(shape)).astype(int)
    assert (counts.sum(), counts.size) == SIZES[city]
    return counts


def rows_of(heads):
    """The cells of README's table with such heads of its rows, by head."""
    lines = [line.strip("| \n").split(" | ") for line in README.read_text().splitlines()]
    return {first: cells for first, *cells in lines if first in heads}


def compared(counts, folder, capsys, *words):
    """What `shuffledp compare` has for a histogram, by mechanism."""
    histogram = folder / "counts.csv"
    histogram.write_text("count\n" + "\n".join(map(str, counts)) + "\n")
    command = ["compare", "--histogram", str(histogram), "--eps", "1", *words, "--format", "json"]
    main([*command, "--mechanism", *MECHANISMS.values()])
    return {row["mechanism"]: row for row in json.loads(capsys.readouterr().out)}


def _cell(row):
    return f"{row['tv_distance']:.4f} ({row['cell_sd_users']:.1f})"


def test_the_answer_has_the_expected_errors_of_both_cities(capsys, tmp_path):
    table = rows_of(MECHANISMS)
    found = [
        compared(embedded("paris"), tmp_path, capsys, "--delta", "1e-6"),
        compared(embedded("san_francisco"), tmp_path, capsys, "--delta", "1e-6"),
        compared(embedded("san_francisco"), tmp_path, capsys, "--delta", "1e-8"),
    ]
    assert [MECHANISMS[label] for label in table] == list(found[1])
    for label, cells in table.items():
        assert cells[:3] == [_cell(each[MECHANISMS[label]]) for each in found]
    off = [100 * each["two-servers"]["tv_distance"] for each in found[:2]]
    assert f"Paris is {off[0]:.1f} % off, and one of San Francisco {off[1]:.1f} %" in WORDS
    krr = found[1]["krr"]
    ratios = [
        krr["tv_distance"] / found[1][name]["tv_distance"]
        for name in ("gaussian", "discrete-laplace")
    ]
    assert [round(ratio, 2) for ratio in ratios] == [1.37, 3.4]
    assert "37 % further than the Gaussian and 3.4 times as far as discrete Laplace" in WORDS
    truth = probabilities(krr["local_eps0"], SIZES["san_francisco"][1])[0]
    assert f"{100 * truth:.0f} % of San Francisco's are true" in WORDS


@pytest.fixture(scope="module")
def comparison():
    """`results/utility/comparison.csv` of the default run, at its smallest and its largest n.

    Every stream is named by what it is for, so the numbers are those of the whole run.
    """
    errors, seed = {}, CONFIG["seed"]
    for city, region in CONFIG["regions"].items():
        counts, least = embedded(city), region["n"][0]
        samples = {least: sample_counts(counts, least, seed, city, "shape"), counts.sum(): counts}
        parts = [
            utility
            for eps0 in CONFIG["eps0"]
            for _, utility in swept(
                samples,
                BudgetSweep(eps0, [], CONFIG["target_delta"]),
                CONFIG["repetitions"],
                ["gaussian", "krr"],
                seed=seed,
                region=city,
                grid="shape",
            )
        ]
        errors[region["title"]] = pd.concat(parts, ignore_index=True)
    units, references = (dict.fromkeys(errors, word) for word in ("one check-in", "gaussian"))
    return comparison_summary(errors, units, CONFIG["target_delta"], references)


@pytest.mark.slow
def test_the_ratios_are_those_that_a_run_finds(comparison):
    lines = findings(comparison).partition("\n\n")[0].splitlines()[1:]
    pair = r" +(\S+) at n = \S+ \((\S+) at \S+\)"
    found = {}
    for line in lines:
        label, *ends = re.fullmatch(rf"(.*?){pair}{pair}", line).groups()
        found[label] = [
            f"{last} ({first})" for last, first in zip(ends[::2], ends[1::2], strict=True)
        ]
    assert len(found) == 6
    assert rows_of(found) == found
    last = [float(cell.split()[0]) for cells in found.values() for cell in cells]
    further = f"{100 * (min(last) - 1):.0f} to {100 * (max(last) - 1):.0f} % further from the truth"
    assert further in WORDS
    assert further in " ".join((ROOT / "docs" / "errata.md").read_text(encoding="utf-8").split())


@pytest.mark.slow
def test_what_pages_quote_of_the_findings_is_there(comparison):
    """Numbers that docs/_numbers.csv says `make findings` prints."""
    shown = printed(findings(comparison))
    quoted = [
        (row["page"], number)
        for row in registry()
        if row["shown by"] == "make findings" and row["page"] != "README.md"
        for number in row["numbers"].split()
    ]
    assert len(quoted) > 5
    assert [each for each in quoted if not is_among(each[1], shown)] == []


@pytest.mark.slow
def test_the_map_of_the_first_screen_is_what_a_run_draws(tmp_path):
    """The release is that of the run, by the name of its stream."""
    pictures = runpy.run_path(str(ROOT / "docs" / "_site" / "pictures.py"))
    city, counts = pictures["REGION"], embedded(pictures["REGION"])
    region = CONFIG["regions"][city]
    target = TargetSweep([pictures["EPS"]], pictures["DELTA"])
    names = {"seed": CONFIG["seed"], "region": city, "grid": "shape"}
    parts = swept({counts.sum(): counts}, target, 1, [pictures["MECHANISM"]], **names)
    rows = pd.concat([releases for releases, _ in parts], ignore_index=True)
    cells = grid_cells(region_from_config(city, {"box": region["box"]}), region["grids"]["shape"])
    require_same(pictures["private_map"](cells, counts, rows), "map", tmp_path)


def require_same(figure, name, folder):
    """A picture of docs/figures is the figure, but for what Matplotlib's versions change."""
    pictures = runpy.run_path(str(ROOT / "docs" / "_site" / "pictures.py"))
    drawn, *_ = save(figure, folder / name, "true data")
    pictures["shrink"](drawn, folder / "small.png")
    paths = ROOT / "docs" / "figures" / f"{name}.png", folder / "small.png"
    kept, fresh = (np.asarray(Image.open(path).convert("RGB"), dtype=float) for path in paths)
    assert kept.shape == fresh.shape
    assert np.abs(kept - fresh).mean() < 0.1


def recomputed(study, name):
    """A figure of a paper whose curves are computed."""
    figure = study.FIGURES[name]
    return curve_panels(figure.compute(), figure)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "draw"),
    [
        ("paper-a", lambda: synthetic_distances(distance_table(CONFIG["seed"]))),
        ("paper-c", lambda: recomputed(paper_c, "figure-1")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_pictures_of_papers_are_what_is_computed(name, draw, tmp_path):
    """Two of five: each takes half a minute to compute."""
    require_same(draw(), name, tmp_path)


PLAIN = ["README.md", "docs/city.md"]  # what is read first


@needs_gowalla
def test_a_person_of_paris_has_as_many_check_ins_as_pages_say():
    lines = gzip.decompress((GOWALLA / "paris_checkins.txt.gz").read_bytes()).decode().splitlines()
    box = CONFIG["regions"]["paris"]["box"]
    users = Counter()
    for user, _, latitude, longitude, _ in (line.split("\t") for line in lines):
        inside = box["south"] <= float(latitude) <= box["north"]
        users[user] += inside and box["west"] <= float(longitude) <= box["east"]
    numbers = [number for number in users.values() if number]
    assert (len(numbers), np.median(numbers), max(numbers)) == (PEOPLE["paris"], 3, 641)
    points = gzip.decompress((GOWALLA / "san_francisco_points.csv.gz").read_bytes()).decode()
    assert len({line.split(",")[0] for line in points.splitlines()[1:]}) == PEOPLE["san_francisco"]
    assert "The median Gowalla user has 3 check-ins in Paris, the busiest 641." in WORDS
    data = " ".join((ROOT / "docs" / "data.md").read_text(encoding="utf-8").split())
    assert f"Paris then has {PEOPLE['paris']:,} users" in data
    assert "the median user has 3 and the busiest 641" in data


def sentences(text):
    """The sentences of a page's prose, without tables and pictures."""
    text = re.sub(r"^ *(?:\||!\[).*$", "", text, flags=re.MULTILINE)
    items = re.sub(r"^ *- ", "\n", text, flags=re.MULTILINE)
    for paragraph in re.split(r"\n\s*\n", items):
        yield from re.split(r"(?<=[.?!:;])[*)]* +(?=[A-Z*[(\d])", " ".join(paragraph.split()))


@pytest.mark.parametrize("page", PLAIN)
def test_sentences_are_short(page):
    said = [one for _, text in prose(ROOT / page) for one in sentences(text)]
    assert [one for one in said if len(one.split()) > 25] == []
