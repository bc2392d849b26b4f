"""The recipes of docs/architecture.md followed to the letter: no other file is touched."""

import json
import re
import shutil

import pandas as pd
import pytest
from waiting import run_python

from workflow.conftest import ROOT, copy

pytestmark = pytest.mark.workflow

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")

MECHANISM = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1]
ENTRY = """
    Entry(
        name="twin",
        label="twin",
        class_path="shuffledp.mechanisms.twin.Twin",
        source="nobody: a test",
        disclosed=_DISCLOSED_TO_CURATOR,
        estimators=_estimators("twin of Laplace", "#CC79A7", "v"),
    ),"""
BOUND = '''
"""Twice the delta of the clones bound."""

import numpy as np

from shuffledp.papers.literature import clones


def log_delta(eps, setting):
    """Log of a delta that holds, and is loose."""
    return min(float(clones.clones_log_delta(eps, setting)) + np.log(2.0), 0.0)
'''
REGISTERED = """
from shuffledp.accounting.one_round import doubled

_COMPUTED_HERE = (
    Bound("doubled", "upper", "a test", "twice clones", Formulas(log_delta=doubled.log_delta)),
"""
FIGURE = '''
"""Users of each cell, in the order of the grid."""

from shuffledp.figures.style import local_style, new_figure
from shuffledp.pipeline.tables import read_counts


@local_style()
def draw_stairs(cells, *, title):
    """Draw the counts of a grid from its file."""
    figure = new_figure(3.0)
    figure.subplots().stairs(read_counts(cells))
    figure.suptitle(title)
    return figure
'''
DRAWN = """

use rule draw as draw_stairs with:
    input:
        cells=result("grids/{region}.{grid}.parquet"),
    output:
        figure("stairs.{region}.{grid}", "words", "Data"),
    log:
        log_of("draw_stairs.{region}.{grid}"),
    params:
        function="figures.stairs.draw_stairs",
        title=title_of,
        caption="Users of each cell, in the order of the grid.",
"""
STUDY = '''
"""How many there are at each n."""


def totals(samples):
    """Sum the cells of each sample."""
    return samples.groupby("n", as_index=False)["count"].sum()
'''
STUDIED = """
from pathlib import Path

from shuffledp.pipeline.jobs import job
from shuffledp.pipeline.tables import read_tables, write_csv
from shuffledp.studies.totals import totals

with job(snakemake.log[0]):
    samples = read_tables([Path(snakemake.input.samples)])
    write_csv(totals(samples), Path(snakemake.output[0]))
"""
STUDY_RULE = """

rule totals:
    input:
        samples=result("samples/{region}.{grid}.parquet"),
    output:
        result("utility/{region}.{grid}.totals.csv"),
    log:
        log_of("totals.{region}.{grid}"),
    params:
        code=COMPUTING,
    script:
        "../scripts/totals.py"
"""
KIND = """
SOURCE_KINDS: Final = MappingProxyType(
    {
        "survey": SourceKind(frozenset({"path"}), frozenset(), real_rows=True, real_users=False),
"""
SOURCE_RULE = """

rule read_survey:
    input:
        lambda wildcards: source_spec(wildcards)["path"],
    output:
        result("laid/survey/{region}.txt.gz"),
    log:
        log_of("read_survey.{region}"),
    script:
        "../scripts/survey.py"
"""
SURVEY = """
import gzip
from pathlib import Path

lines = Path(snakemake.input[0]).read_text().splitlines()
rows = [f"{user}\\t2010-10-01T12:00:00Z\\t{line}\\t0\\n" for user, line in enumerate(lines)]
Path(snakemake.output[0]).write_bytes(gzip.compress("".join(rows).encode()))
"""


class Follower:
    """Changes files of a clone, all of which the recipes name."""

    def __init__(self, clone):
        self.clone = clone

    def _place(self, path):
        assert path in PAGE or re.sub(r"\w+\.py$", "NAME.py", path) in PAGE, path
        return self.clone.path / path

    def write(self, path, text):
        place = self._place(path)
        assert not place.exists(), path
        place.write_text(text.lstrip())

    def edit(self, path, *changes, end=""):
        place = self._place(path)
        text = place.read_text()
        for old, new in changes:
            assert text.count(old) == 1, (path, old)
            text = text.replace(old, new)
        place.write_text(text + end)


def follow_every_recipe(clone):
    lib = "src/shuffledp"
    recipe = Follower(clone)
    recipe.write(f"{lib}/mechanisms/twin.py", MECHANISM)
    start = "\n_ENTRIES: Final = ("
    recipe.edit(f"{lib}/mechanisms/catalogue.py", (start, f"{start}{ENTRY}"))
    recipe.write(f"{lib}/accounting/one_round/doubled.py", BOUND)
    recipe.edit(f"{lib}/accounting/bound_registry.py", ("\n_COMPUTED_HERE = (\n", REGISTERED))
    recipe.write(f"{lib}/figures/stairs.py", FIGURE)
    recipe.edit("workflow/rules/figures.smk", end=DRAWN)
    names = 'names = ["checkins", '
    recipe.edit("workflow/rules/outputs.smk", (names, f'{names}"stairs", '))
    recipe.write(f"{lib}/studies/totals.py", STUDY)
    recipe.write("workflow/scripts/totals.py", STUDIED)
    recipe.edit("workflow/rules/privacy.smk", end=STUDY_RULE)
    tables = 'tables = [f"checkins/{region}.parquet"'
    total = 'f"utility/{region}.{first_grid(region)}.totals.csv"'
    recipe.edit("workflow/rules/outputs.smk", (tables, f"{tables}, {total}"))
    start = "\nSOURCE_KINDS: Final = MappingProxyType(\n    {\n"
    recipe.edit(f"{lib}/data/sources.py", (start, KIND))
    kinds = "enum: [embedded, download, file]"
    recipe.edit(
        "workflow/schemas/config.schema.yaml", (kinds, kinds.replace("file", "file, survey"))
    )
    recipe.edit("workflow/rules/data.smk", end=SOURCE_RULE)
    recipe.write("workflow/scripts/survey.py", SURVEY)


def command(clone, *arguments):
    """Return what the command prints as JSON, run with the library of the clone."""
    library = {"PYTHONPATH": str(clone.path / "src")}
    done = run_python("-m", "shuffledp", *arguments, "--format", "json", env=library)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def svg(clone, stem):
    return (clone.path / "results" / "figures" / f"{stem}.svg").read_text()


def with_library(clone):
    """Let a clone's runs use a copy of the library in it, which a test may change."""
    ignore = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", clone.path / "src", ignore=ignore)
    clone.environment["PYTHONPATH"] = str(clone.path / "src")
    return clone


@pytest.fixture
def extended(clone):
    follow_every_recipe(with_library(clone))
    lines = (clone.path / "check-ins.txt").read_text().splitlines()
    survey = ["\t".join(line.split("\t")[2:4]) for line in lines]
    (clone.path / "survey.txt").write_text("\n".join(survey) + "\n")
    clone.config["sources"]["asked"] = {"kind": "survey", "path": "survey.txt"}
    clone.config["mechanisms"] = ["gaussian", "krr", "twin"]
    clone.config["bounds"] = ["upper", "lower", "doubled"]
    clone.config["eps0"] = [2]
    clone.config["targets"] = {"eps": [0.5], "delta": 1e-6}
    return clone


# What is looked at; a plain run plans all, too.
READ = [
    "utility/town.shape.csv", "utility/comparison.csv", "utility/town.shape.individual.eps0-2.csv",
    "utility/town.shape.totals.csv", "privacy/town.shape.parquet",
    "tables/individual.town.shape.eps0-2.html",
    *(f"figures/{stem}.svg" for stem in (
        "comparison", "mechanisms.town.shape", "privacy.town.shape", "stairs.town.shape",
        "checkins.town.shape",
    )),
]  # fmt: skip


@pytest.mark.slow
def test_every_recipe_is_enough(extended):
    clone = extended
    clone.config["source"] = "asked"
    everything = planned(clone)
    for made in ("figures/stairs.town.shape.svg", "utility/town.shape.totals.csv"):
        assert f"results/{made}" in everything
    clone.run(*(f"results/{name}" for name in READ))

    for table in ["releases/town.shape.eps0-2", "utility/town.shape"]:
        rows = pd.read_parquet(clone.path / "results" / f"{table}.parquet")
        assert set(rows["mechanism"]) == {"gaussian", "krr", "twin"}, table
    for table in ["utility/comparison", "utility/town.shape.individual.eps0-2",
                  "utility/town.shape"]:  # fmt: skip
        rows = pd.read_csv(clone.path / "results" / f"{table}.csv")
        assert set(rows["mechanism"]) == {"gaussian", "krr", "twin"}, table
    privacy = pd.read_parquet(clone.path / "results" / "privacy" / "town.shape.parquet")
    assert set(privacy["bound"]) == {"upper", "lower", "doubled"}
    # The other figures take its looks from the same table.
    assert "twin of Laplace" in svg(clone, "comparison")
    individual = clone.path / "results" / "tables" / "individual.town.shape.eps0-2.html"
    assert "twin of Laplace" in individual.read_text()
    assert "twin (1)" in svg(clone, "mechanisms.town.shape")
    assert "doubled: " in svg(clone, "privacy.town.shape")
    assert "town" in svg(clone, "stairs.town.shape")
    totals = pd.read_csv(clone.path / "results" / "utility" / "town.shape.totals.csv")
    cells = pd.read_parquet(clone.path / "results" / "grids" / "town.shape.parquet")["count"]
    assert totals["count"].tolist() == [400, cells.sum()]
    assert "one dot for each" in svg(clone, "checkins.town.shape")

    plan = ["plan", "--n", "10000", "--k", "16", "--eps0", "2", "--delta", "1e-6"]
    (row,) = command(clone, *plan, "--mechanism", "discrete-laplace", "krr", "twin")
    assert row["krr_cell_sd_users"] > row["twin_cell_sd_users"] > 0
    for rounds in ("1", "3"):
        target = ["--n", "10000", "--k", "16", "--eps", "1", "--delta", "1e-6", "--rounds", rounds]
        twin, real = (
            next(row for row in command(clone, "compare", *target, "--mechanism", name))
            for name in ("twin", "discrete-laplace")
        )
        assert twin["cell_sd_users"] == pytest.approx(real["cell_sd_users"], rel=1e-3)
    compared = command(clone, "compare", *plan[1:5], "--eps", "1", "--delta", "1e-6")
    assert "twin" in {row["mechanism"] for row in compared}
    assert {"doubled", "twin"} <= {row["name"] for row in command(clone, "list")}
    setting = ["--n", "10000", "--k", "16", "--eps0", "1"]
    listed = command(clone, "bounds", *setting, "--delta", "1e-6")
    assert "doubled" in {row["bound"] for row in listed}

    clone.config["unit"] = "user"
    assert "needs to know who checked in" in clone.refusal("--dry-run")


def planned(clone):
    """Return the output of a dry run."""
    said = clone.run("--dry-run")
    return said.stdout + said.stderr


@pytest.mark.slow
def test_a_change_of_code_runs_again_what_it_can_influence(whole, tmp_path):
    clone = with_library(copy(whole, tmp_path / "copy of é"))
    assert "Nothing to be done" in planned(clone)
    library = clone.path / "src" / "shuffledp"

    def add(module, line):
        with (library / module).open("a") as file:
            file.write(line)

    add("data/grid.py", "# A remark.\n")
    add("cli/__init__.py", "ANSWER = 42\n")
    assert "Nothing to be done" in planned(clone)
    add("figures/style.py", "ANSWER = 42\n")
    again = planned(clone)
    assert "output: results/figures/checkins.town.shape.png" in again
    assert "output: results/checkins/town.parquet" not in again
    add("mechanisms/hadamard.py", "ANSWER = 42\n")
    assert "output: results/checkins/town.parquet" in planned(clone)
