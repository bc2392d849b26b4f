"""Paper D's experiments in the workflow take images and budgets from files and addresses."""

import gzip
import hashlib
import struct
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from unit.http_server import FileServer

from workflow.conftest import checkin_lines

pytestmark = pytest.mark.workflow
TRAINING = "results/personalised/training.csv"


def _idx(data):
    data = np.asarray(data, np.uint8)
    sizes = struct.pack(f">BBBB{data.ndim}I", 0, 0, 8, data.ndim, *data.shape)
    return sizes + data.tobytes()


@pytest.mark.slow
def test_missing_images_name_their_key(clone):
    clone.config["personalised"] = {"mnist": {"images": {"path": "a"}, "labels": {"path": "b"}}}
    text = clone.refusal("--dry-run", TRAINING)
    for name, file in (("images", "a"), ("labels", "b")):
        where = clone.path / file
        assert f"config: personalised.mnist.{name}.path: there is no {where}, which train" in text


@pytest.mark.slow
def test_images_from_an_address_are_checked(clone):
    """The labels' checksum is right, but the file of images is damaged."""
    labels = gzip.compress(_idx(np.arange(120) % 10))
    images = gzip.compress(_idx(np.zeros((120, 8, 8))))[:-20]
    checksum = f"sha256:{hashlib.sha256(labels).hexdigest()}"
    with FileServer(images) as damaged, FileServer(labels) as whole:
        clone.config["personalised"] = {
            "mnist": {
                "images": {"url": damaged.url("images.gz")},
                "labels": {"url": whole.url("labels.gz"), "checksum": checksum},
            }
        }
        text = clone.refusal(TRAINING)
    images = "resources/automatic/mnist/images/images.gz"
    assert f"personalised.mnist.images: {images} is missing or damaged" in text
    assert (clone.path / "resources/automatic/mnist/labels/labels.gz").read_bytes() == labels


@pytest.mark.slow
def test_budgets_of_the_configuration_are_compared(clone):
    figure = "results/figures/budgets.town.shape.png"
    # Snakemake prints a traceback of input functions.
    refused = clone.run("--dry-run", figure, check=False)
    assert "config: budgets: there are none to compare" in refused.stdout + refused.stderr
    clone.config["budgets"] = [{"eps": 0, "share": 0.5}, {"eps": 3, "share": 0.5}]
    clone.run(figure)
    assert (clone.path / figure).read_bytes().startswith(b"\x89PNG")
    table = pd.read_csv(clone.path / "results/utility/town.shape.budgets.csv")
    assert set(table["repetitions"]) == {3}
    assert set(table["delta"]) == {1e-6}
    assert set(table["budgets"]) == {"0.5 at 0, 0.5 at 3"}


@pytest.mark.slow
def test_budgets_of_a_file_reach_the_study(clone):
    """Each user has one check-in, and the smallest of the user's budgets in the region."""
    rows = [line.split("\t") for line in checkin_lines()]
    rng = np.random.default_rng(4)
    budgets = rng.choice([0.5, 2.0, 6.0], len(rows))
    chosen = [[r[0], r[2], r[3], b] for r, b in zip(rows, budgets, strict=True)]
    chosen = pd.DataFrame(chosen, columns=["who", "lat", "lon", "eps"])
    chosen.to_csv(clone.path / "chosen.csv", index=False)
    columns = {"user": "who", "latitude": "lat", "longitude": "lon"}
    layout = {"format": "csv", "columns": columns}
    clone.config["sources"]["chosen"] = {"kind": "file", "path": "chosen.csv", "layout": layout}
    own = {"unit": "user", "n": ["all"], "source": "chosen", "budgets": {"column": "eps"}}
    clone.config["regions"]["village"] = clone.config["regions"]["town"] | own
    table = "results/utility/village.shape.budgets.csv"
    clone.run(table)

    smallest = {}
    for row, budget in zip(rows, budgets, strict=True):
        if 48.0 <= float(row[2]) <= 48.06 and 2.0 <= float(row[3]) <= 2.08:
            smallest[int(row[0])] = min(budget, smallest.get(int(row[0]), budget))
    users = pd.read_parquet(clone.path / "results/users/village.parquet")
    assert users.set_index("user")["budget"].to_dict() == smallest
    grids = clone.path / "results" / "grids"
    counted = pd.read_parquet(grids / "village.shape.budgets.parquet")
    of_budgets = counted.groupby("budget")["count"].sum()
    assert of_budgets.to_dict() == Counter(smallest.values())
    counts = pd.read_parquet(grids / "village.shape.parquet", columns=["count"])["count"]
    of_cells = counted.groupby("cell")["count"].sum().reindex(counts.index, fill_value=0)
    assert of_cells.tolist() == counts.tolist()

    table = pd.read_csv(clone.path / table)
    shares = ", ".join(f"{many / 97:.3g} at {eps:g}" for eps, many in of_budgets.items())
    assert set(table["budgets"]) == {shares}
    assert set(table["placement"]) == {"as-chosen", "at-random", "any"}
    bias = table[table["estimator"] == "raw"].set_index(["placement", "series"])["bias"][
        "as-chosen"
    ]
    assert bias[bias == 0.0].index.tolist() == ["by-share"]
