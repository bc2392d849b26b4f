"""Paper D's experiments in the workflow: their images' files, by path and by address."""

import gzip
import hashlib
import struct
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pandas as pd
import pytest

pytestmark = pytest.mark.workflow
TRAINING = "results/personalised/training.csv"


def _idx(data):
    data = np.asarray(data, np.uint8)
    sizes = struct.pack(f">BBBB{data.ndim}I", 0, 0, 8, data.ndim, *data.shape)
    return sizes + data.tobytes()


def test_missing_images_name_their_key(clone):
    clone.config["personalised"] = {"mnist": {"images": {"path": "a"}, "labels": {"path": "b"}}}
    result = clone.run("--dry-run", TRAINING, check=False)
    text = result.stdout + result.stderr
    assert result.returncode != 0
    for name, file in (("images", "a"), ("labels", "b")):
        where = clone.path / file
        assert f"config: personalised.mnist.{name}.path: there is no {where}, which train" in text


@pytest.mark.slow
def test_images_from_an_address_are_checked(clone):
    """The labels' checksum is right, the images' file is no such file."""
    site = clone.path / "site"
    site.mkdir()
    labels = gzip.compress(_idx(np.arange(120) % 10))
    (site / "labels.gz").write_bytes(labels)
    (site / "images.gz").write_bytes(gzip.compress(_idx(np.zeros((120, 8, 8))))[:-20])
    handler = partial(SimpleHTTPRequestHandler, directory=site)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        checksum = f"sha256:{hashlib.sha256(labels).hexdigest()}"
        clone.config["personalised"] = {
            "mnist": {
                "images": {"url": f"{url}/images.gz"},
                "labels": {"url": f"{url}/labels.gz", "checksum": checksum},
            }
        }
        result = clone.run(TRAINING, check=False)
        server.shutdown()
    text = result.stdout + result.stderr
    assert result.returncode != 0
    assert "personalised.mnist.images: resources/automatic/mnist/images/images.gz is dam" in text
    assert "Traceback" not in text, text
    assert (clone.path / "resources/automatic/mnist/labels/labels.gz").read_bytes() == labels


@pytest.mark.slow
def test_estimates_are_the_same_for_any_number_of_cores(clone):
    names = ("figure-6", "figure-7", "dependence")
    tables = [f"results/personalised/estimates.{name}.csv" for name in names]
    clone.run(*tables, cores=1)
    before = clone.outputs("personalised")
    assert len(before) == len(names)
    assert not pd.read_csv(clone.path / tables[0]).isna().any().any()
    clone.run("--force", *tables, cores=3)
    assert clone.outputs("personalised") == before


@pytest.mark.slow
def test_budgets_of_the_configuration_are_compared(clone):
    figure = "results/figures/budgets.town.shape.png"
    result = clone.run("--dry-run", figure, check=False)
    assert "config: budgets: there are none to compare" in result.stdout + result.stderr
    clone.config["budgets"] = [{"eps": 0, "share": 0.5}, {"eps": 3, "share": 0.5}]
    clone.run(figure)
    assert (clone.path / figure).read_bytes().startswith(b"\x89PNG")
    table = pd.read_csv(clone.path / "results/utility/town.shape.budgets.csv")
    assert set(table["repetitions"]) == {3}
    assert set(table["delta"]) == {1e-6}
    assert set(table["budgets"]) == {"0.5 at 0, 0.5 at 3"}
