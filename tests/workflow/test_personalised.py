"""Paper D's experiments in the workflow take images from files and addresses."""

import gzip
import hashlib
import struct

import numpy as np
import pytest
from unit.http_server import FileServer

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
