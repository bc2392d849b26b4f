"""Paper D's training in the workflow reads a file of images."""

import pytest

pytestmark = pytest.mark.workflow
TRAINING = "results/personalised/training.csv"


@pytest.mark.slow
def test_missing_or_damaged_images_name_their_key(clone):
    clone.config["mnist"] = "images.npz"
    text = clone.refusal("--dry-run", TRAINING)
    assert f"config: mnist: there is no {clone.path / 'images.npz'}, which training reads" in text
    (clone.path / "images.npz").write_bytes(b"damaged")
    assert "mnist: images.npz is missing, damaged or no .npz file" in clone.refusal(TRAINING)
