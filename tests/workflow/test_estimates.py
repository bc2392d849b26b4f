"""Posterior medians in a run, and the target that compares estimates on finer and finer grids."""

import pandas as pd
import pytest

from shuffledp.pipeline.tables import read_tables

pytestmark = pytest.mark.workflow

TABLE = "results/utility/town.cell-sizes.csv"
UTILITY = "results/utility/town.shape.eps0-1.parquet"


@pytest.mark.slow
def test_estimates_are_compared_and_added_on_request(clone):
    clone.config["regions"]["town"]["grids"]["fine"] = {"shape": [12, 16]}
    clone.config["estimate"] = "posterior"
    # Only the target makes the table, and it needs no release of the run.
    assert TABLE not in clone.plan("all")
    stages = {path.split("/")[1] for path in clone.plan("cell_sizes") if path != "-"}
    assert stages == {"checkins", "grids", "utility", "figures"}
    ran = clone.run("cell_sizes", UTILITY)
    assert "noise by both servers, eps = 1, delta = 1e-06: mean total" in ran.stdout + ran.stderr
    table = pd.read_csv(clone.path / TABLE)
    assert list(table["k"]) == [12] * 4 + [192] * 4
    for kind in ("png", "pdf", "svg"):
        assert (clone.path / f"results/figures/cell-sizes.town.{kind}").exists()
    utility = read_tables([clone.path / UTILITY])
    series = set(zip(utility["mechanism"], utility["estimator"], strict=True))
    assert ("gaussian", "posterior") in series
    assert ("krr", "posterior") not in series
