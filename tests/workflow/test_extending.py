"""docs/extending.md followed: a mechanism and a bound of two files each are in every table."""

import json
import os
import subprocess
import sys

import pandas as pd
import pytest

pytestmark = pytest.mark.workflow

LIBRARY = "workflow/lib/shuffledp"

MECHANISM = '''
"""k-RR once more, under another name."""

from dataclasses import replace

from shuffledp.mechanisms.krr import KRandomisedResponse
from shuffledp.mechanisms.protocol import Look


class Twin(KRandomisedResponse):
    """As k-RR."""

    name = "twin"
    label = "twin"
    estimators = tuple(
        replace(each, label=f"twin of {each.label}", look=Look("#CC79A7", "v", each.look.filled))
        for each in KRandomisedResponse.estimators
    )
'''


def edit(clone, name, old, new):
    path = clone.path / LIBRARY / name
    text = path.read_text()
    assert text.count(old) == 1, (name, old)
    path.write_text(text.replace(old, new))


def add_mechanism(clone):
    (clone.path / LIBRARY / "mechanisms" / "twin.py").write_text(MECHANISM)
    registry = "mechanisms/registry.py"
    edit(
        clone, registry, "    KRandomisedResponse(),\n", "    KRandomisedResponse(),\n    Twin(),\n"
    )
    line = "from shuffledp.mechanisms.krr import KRandomisedResponse\n"
    edit(clone, registry, line, f"{line}from shuffledp.mechanisms.twin import Twin\n")


def add_bound(clone):
    (clone.path / LIBRARY / "accounting" / "one_round" / "doubled.py").write_text(
        '"""Twice the delta of the clones bound."""\n\n'
        "import numpy as np\n\n"
        "from shuffledp.accounting.one_round import clones\n\n\n"
        "def log_delta(eps, setting):\n"
        '    """Log of a delta that holds, and is loose."""\n'
        "    return min(float(clones.clones_log_delta(eps, setting)) + np.log(2.0), 0.0)\n"
    )
    registry = "accounting/registry.py"
    edit(
        clone,
        registry,
        "\n_BOUNDS = (\n",
        "\nfrom shuffledp.accounting.one_round import doubled\n\n_BOUNDS = (\n"
        '    Bound("doubled", "upper", "a test", "twice clones",\n'
        "          log_delta_function=doubled.log_delta),\n",
    )


def command(clone, *arguments):
    """What the command prints as JSON, by the library of the clone."""
    done = subprocess.run(
        [sys.executable, "-m", "shuffledp", *arguments, "--format", "json"],
        env={**os.environ, "PYTHONPATH": str(clone.path / "workflow" / "lib")},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return json.loads(done.stdout)


def svg(clone, stem):
    return (clone.path / "results" / "figures" / f"{stem}.svg").read_text()


# Of each kind of table and figure one, or all of them.
SOME = [
    *("results/utility/comparison.csv", "results/utility/town.shape.individual.eps0-2.csv"),
    "results/tables/individual.town.shape.eps0-2.html",
    *("results/figures/comparison.svg", "results/figures/privacy.town.shape.svg"),
    "results/privacy/town.shape.parquet",
    *("results/utility/town.shape.targets.csv", "results/figures/mechanisms.town.shape.svg"),
]
FIGURES = ["distances.town.shape.matched", "distances.town.shape.as-published",
           "distances-over-eps.town.shape", "estimates.town.shape.eps0-2.matched"]  # fmt: skip


@pytest.mark.parametrize(
    ("targets", "figures"), [(SOME, []), pytest.param([], FIGURES, marks=pytest.mark.slow)]
)
def test_a_new_mechanism_and_a_new_bound_are_everywhere(clone, targets, figures):
    add_mechanism(clone)
    add_bound(clone)
    clone.config["mechanisms"] = ["gaussian", "krr", "twin"]
    clone.config["bounds"] = ["upper", "lower", "doubled"]
    clone.config["eps0"] = [2]
    clone.config["targets"] = {"eps": [0.5], "delta": 1e-6}
    clone.run(*targets)

    for table in ["releases/town.shape.eps0-2", "utility/town.shape",
                  "utility/town.shape.individual"]:  # fmt: skip
        rows = pd.read_parquet(clone.path / "results" / f"{table}.parquet")
        assert set(rows["mechanism"]) == {"gaussian", "krr", "twin"}, table
    for table in ["utility/comparison", "utility/town.shape.individual.eps0-2",
                  "utility/town.shape.targets"]:  # fmt: skip
        rows = pd.read_csv(clone.path / "results" / f"{table}.csv")
        assert set(rows["mechanism"]) == {"gaussian", "krr", "twin"}, table
    privacy = pd.read_parquet(clone.path / "results" / "privacy" / "town.shape.parquet")
    assert set(privacy["bound"]) == {"upper", "lower", "doubled"}
    for stem in ["comparison", *figures]:
        assert "twin of shuffle+INV" in svg(clone, stem), stem
    table = clone.path / "results" / "tables" / "individual.town.shape.eps0-2.html"
    assert "twin of shuffle+INV" in table.read_text()
    assert "twin: 1 message a user" in svg(clone, "mechanisms.town.shape")
    assert "doubled: " in svg(clone, "privacy.town.shape")

    plan = ["plan", "--n", "10000", "--k", "16", "--eps0", "2", "--delta", "1e-6"]
    (row,) = command(clone, *plan, "--mechanism", "gaussian", "krr", "twin")
    assert row["twin_cell_sd_users"] == row["krr_cell_sd_users"]
    assert row["krr_cell_sd_users"] > row["gaussian_cell_sd_users"] > 0
    compared = command(clone, "compare", *plan[1:5], "--eps", "1", "--delta", "1e-6")
    assert "twin" in {row["mechanism"] for row in compared}
    assert "doubled" in {row["bound"] for row in command(clone, "list")}
    setting = ["--n", "10000", "--k", "16", "--eps0", "1"]
    listed = command(clone, "bounds", *setting, "--delta", "1e-6")
    assert "doubled" in {row["bound"] for row in listed}
