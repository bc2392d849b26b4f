"""Algorithm 1 of paper D: gradients, clipping, noise, and reading images."""

import numpy as np
import pytest
from scipy.special import logsumexp

from shuffledp.accounting.rounds.tradeoff import gdp_epsilon
from shuffledp.errors import InputError
from shuffledp.papers.paper_d import training
from shuffledp.papers.paper_d.training import (
    bundled_digits,
    clipped_gradient,
    initial_parameters,
    noise_scale,
    principal_components,
    record_mu,
)

# --- The classifier -------------------------------------------------------------------------------


@pytest.fixture
def batch():
    rng = np.random.default_rng(1)
    parameters = [p + 0.1 * rng.normal(size=p.shape) for p in initial_parameters(5, 4, rng)]
    return parameters, rng.normal(size=(7, 5)), rng.integers(0, 10, 7)


def scores(parameters, records):
    first, bias, second, last = parameters
    return np.maximum(records @ first + bias, 0.0) @ second + last


def cross_entropy(parameters, records, labels):
    logits = scores(parameters, records)
    return (logsumexp(logits, axis=1) - logits[np.arange(len(labels)), labels]).sum()


def flat(parts):
    return np.concatenate([part.ravel() for part in parts])


def test_gradient_against_finite_differences(batch):
    parameters, records, labels = batch
    gradient = clipped_gradient(parameters, records, labels, np.inf)
    step = 1e-6
    for part, slope in zip(parameters, gradient, strict=True):
        for place in np.ndindex(part.shape):
            part[place] += step
            above = cross_entropy(parameters, records, labels)
            part[place] -= 2 * step
            below = cross_entropy(parameters, records, labels)
            part[place] += step
            assert slope[place] == pytest.approx((above - below) / (2.0 * step), abs=1e-7)


@pytest.mark.parametrize("clip", [1e-3, 1.0, 2.0, 1e6])
def test_every_records_gradient_is_clipped_by_itself(batch, clip):
    parameters, records, labels = batch
    whole, shortened = 0.0, 0
    for row, label in zip(records, labels, strict=True):
        own = flat(clipped_gradient(parameters, row[None], np.array([label]), np.inf))
        length = np.linalg.norm(own)
        shortened += length > clip
        whole = whole + own / max(1.0, length / clip)
    gradient = flat(clipped_gradient(parameters, records, labels, clip))
    np.testing.assert_allclose(gradient, whole, atol=1e-12)
    assert shortened == {1e-3: 7, 1e6: 0}.get(clip, shortened)


# --- Noise and privacy ----------------------------------------------------------------------------


def test_privacy_of_a_record_composes_like_gaussians():
    few = noise_scale([0.5, 1.0], 1e-5, 2.0, 100)
    assert few[1] == pytest.approx(0.04 * np.sqrt(2.0 * np.log(125_000.0)))
    assert few[0] == 2.0 * few[1]
    one, all_epochs = (float(record_mu(few[1], 2.0, 100, epochs)) for epochs in (1, 50))
    assert one == pytest.approx(0.04 / few[1])
    assert all_epochs == pytest.approx(np.sqrt(50.0) * one)
    # One step keeps its promise, all steps together leak far more.
    in_one, in_all = (gdp_epsilon(mu, float(np.log(1e-5))) for mu in (one, all_epochs))
    assert in_one < 1.0 < 6.0 < in_all


# --- Images ---------------------------------------------------------------------------------------


PIXELS = np.arange(5 * 2 * 3, dtype=np.uint8).reshape(5, 2, 3)
WHOLE = {"x_train": PIXELS, "y_train": np.arange(5)}


def archive(folder, **arrays):
    np.savez(folder / "images.npz", **arrays)
    return folder / "images.npz"


@pytest.mark.parametrize("damage", [lambda data: data[:-90], lambda _: b"\x89PNG\r\n", None])
def test_files_that_are_no_archive_are_refused(tmp_path, damage):
    path = archive(tmp_path, **WHOLE)
    path.write_bytes(damage(path.read_bytes())) if damage else path.unlink()
    with pytest.raises(InputError, match=r"^mnist: .*images\.npz is missing, damaged or no \.npz"):
        training.training_table(path, 1)


# --- Training -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def digits():
    pixels, labels = bundled_digits()
    pixels, _ = principal_components(pixels[:1500], pixels, training.COMPONENTS)
    return pixels[:1500], labels[:1500]


def test_one_epoch_is_algorithm_1_step_by_step(digits, monkeypatch):
    """Repeat the epoch with a loop over records, without noise."""
    monkeypatch.setattr(training, "EPOCHS", 1)
    records, labels = digits[0][:12], digits[1][:12]
    (reached,) = training.descend(records, labels, np.zeros(3), 2.0, 5, "law", hidden=4)
    start = training.stream(5, training._STREAM, "start")
    parameters = initial_parameters(training.COMPONENTS, 4, start)
    for client in training.stream(5, training._STREAM, "order").permutation(3):
        total = [np.zeros(part.shape) for part in parameters]
        for record in range(4 * client, 4 * client + 4):
            one = slice(record, record + 1)
            own = clipped_gradient(parameters, records[one], labels[one], training.CLIP)
            total = [a + b for a, b in zip(total, own, strict=True)]
        step = training.STEP * 2.0 / 3.0
        parameters = [p - step * t for p, t in zip(parameters, total, strict=True)]
    np.testing.assert_allclose(flat(reached), flat(parameters), atol=1e-12)
