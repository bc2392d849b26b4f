"""Algorithm 1 of paper D: gradients, clipping, noise, and reading images."""

import gzip
import struct

import numpy as np
import pytest
from real_data import MNIST, needs_mnist
from scipy.special import logsumexp

from shuffledp.accounting.rounds.tradeoff import gdp_epsilon
from shuffledp.errors import InputError
from shuffledp.papers.paper_d import training
from shuffledp.papers.paper_d.training import (
    Network,
    bundled_digits,
    load_images,
    noise_scale,
    principal_components,
    read_idx,
    record_mu,
)

NETWORK = Network(inputs=5, hidden=4, classes=3)


@pytest.fixture
def batch():
    rng = np.random.default_rng(1)
    theta = NETWORK.initial(rng) + 0.1 * rng.normal(size=NETWORK.size)
    return theta, rng.normal(size=(7, 5)), rng.integers(0, 3, 7)


# --- The network ----------------------------------------------------------------------------------


def cross_entropy(theta, records, labels):
    scores = NETWORK.scores(theta, records)
    return (logsumexp(scores, axis=1) - scores[np.arange(len(labels)), labels]).sum()


def test_gradient_against_finite_differences(batch):
    theta, records, labels = batch
    gradient = NETWORK.clipped_gradient(theta, records, labels, np.inf)
    step = 1e-6
    moved = np.array(
        [
            cross_entropy(theta + step * axis, records, labels)
            - cross_entropy(theta - step * axis, records, labels)
            for axis in np.eye(NETWORK.size)
        ]
    )
    np.testing.assert_allclose(gradient, moved / (2.0 * step), atol=1e-7)


@pytest.mark.parametrize("clip", [1e-3, 1.0, 2.0, 1e6])
def test_every_records_gradient_is_clipped_by_itself(batch, clip):
    theta, records, labels = batch
    whole = np.zeros(NETWORK.size)
    shortened = 0
    for row, label in zip(records, labels, strict=True):
        own = NETWORK.clipped_gradient(theta, row[None], np.array([label]), np.inf)
        length = np.linalg.norm(own)
        shortened += length > clip
        whole += own / max(1.0, length / clip)
    gradient = NETWORK.clipped_gradient(theta, records, labels, clip)
    np.testing.assert_allclose(gradient, whole, atol=1e-12)
    assert shortened == {1e-3: 7, 1e6: 0}.get(clip, shortened)


def test_one_record_moves_the_sum_by_at_most_twice_the_norm(batch):
    theta, records, labels = batch
    others = NETWORK.clipped_gradient(theta, records, labels, 0.5)
    records = np.concatenate([[100.0 * records[0]], records[1:]])
    labels = np.concatenate([[(labels[0] + 1) % 3], labels[1:]])
    moved = NETWORK.clipped_gradient(theta, records, labels, 0.5) - others
    assert 0.5 < np.linalg.norm(moved) <= 2.0 * 0.5


def test_accuracy_counts_the_largest_logit(batch):
    theta, records, _ = batch
    answers = NETWORK.scores(theta, records).argmax(axis=1)
    assert NETWORK.accuracy(theta, records, answers) == 1.0
    answers[:3] = (answers[:3] + 1) % 3
    assert NETWORK.accuracy(theta, records, answers) == pytest.approx(4 / 7)


# --- Noise and privacy ----------------------------------------------------------------------------


def test_noise_follows_step_6():
    sigma = noise_scale([0.5, 1.0], 1e-5, 2.0, 100)
    assert sigma[1] == pytest.approx(0.04 * np.sqrt(2.0 * np.log(125_000.0)))
    assert sigma[0] == 2.0 * sigma[1]


def test_privacy_of_a_record_composes_like_gaussians():
    sigma = noise_scale(1.0, 1e-5, 2.0, 100)
    one, all_epochs = (float(record_mu(sigma, 2.0, 100, epochs)) for epochs in (1, 50))
    assert one == pytest.approx(0.04 / sigma)
    assert all_epochs == pytest.approx(np.sqrt(50.0) * one)
    # One step keeps its promise, all steps together leak far more.
    in_one, in_all = (gdp_epsilon(mu, float(np.log(1e-5))) for mu in (one, all_epochs))
    assert in_one < 1.0 < 6.0 < in_all


def test_table_of_noise(monkeypatch):
    monkeypatch.setattr(training, "CLIENTS", 10)
    table = training.noise_table(1)
    assert tuple(table.columns) == training.NOISE_COLUMNS
    assert len(table) == 5 * 10
    # The classical calibration holds at all these budgets, also above 1.
    assert table["eps"].max() > 1.5
    assert (table["eps_step"] < table["eps"]).all()
    assert (table["eps_whole"] > table["eps"]).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, 0.0], 1e-5, 2.0, 100), "budget 0 cannot"),
        (([np.nan], 1e-5, 2.0, 100), "got nan"),
        (([1.0], 0.0, 2.0, 100), "delta must be above 0 and below 1"),
        (([1.0], 1.0, 2.0, 100), "delta must be above 0 and below 1"),
        (([1.0], 1e-5, 0.0, 100), "clip must be positive"),
    ],
)
def test_wrong_noise_parameters_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        noise_scale(*arguments)


# --- Images ---------------------------------------------------------------------------------------


def idx(data, kind=0x08):
    data = np.asarray(data, np.uint8)
    return (
        struct.pack(">BBBB", 0, 0, kind, data.ndim)
        + struct.pack(f">{data.ndim}I", *data.shape)
        + data.tobytes()
    )


PIXELS = np.arange(5 * 2 * 3).reshape(5, 2, 3)
DIMENSIONS = {"images": 3, "labels": 1}


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_idx_is_read_packed_or_not(tmp_path, pack):
    (tmp_path / "images").write_bytes(pack(idx(PIXELS)))
    np.testing.assert_array_equal(read_idx(tmp_path / "images", "key", 3), PIXELS)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is not an IDX file of unsigned bytes: it begins with ''"),
        (b"\x89PNG\r\n", "begins with '89504e47' instead of 00000803"),
        (idx(PIXELS, kind=0x0D), "begins with '00000d03'"),
        (idx(np.arange(5)), "begins with 00000801 instead of 00000803.*exchanged"),
        (idx(PIXELS)[:-1], "has 45 bytes, but by its header it must have 46"),
        (idx(PIXELS)[:9], "has 9 bytes, but by its header it must have"),
        (idx(PIXELS) + b"\0", "has 47 bytes, but by its header it must have 46"),
        (gzip.compress(idx(PIXELS), mtime=0)[:-10], "damaged or truncated"),
        (gzip.compress(idx(PIXELS), mtime=0)[:12] + b"\xff" * 30, "damaged or truncated"),
        (None, r"cannot be read \(No such file"),
    ],
)
def test_files_that_are_not_idx_are_refused(tmp_path, data, message):
    path = tmp_path / "images"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(InputError, match=f"^key: (.* )?{message}"):
        read_idx(path, "key", 3)


def files_of(folder, **parts):
    files = {}
    for name, data in parts.items():
        files[name] = folder / name
        files[name].write_bytes(idx(data))
    return files


def test_images_and_labels_must_fit(tmp_path):
    rng = np.random.default_rng(1)
    few = files_of(tmp_path, images=PIXELS, labels=np.arange(4))
    with pytest.raises(InputError, match=r"m\.labels: .*4 labels for 5 images"):
        load_images(few, "m", 0.2, rng)
    letters = files_of(tmp_path, images=PIXELS, labels=np.arange(5) + 6)
    with pytest.raises(InputError, match=r"m\.labels: .*a label 10"):
        load_images(letters, "m", 0.2, rng)
    test = {"test_images": PIXELS[:, :1], "test_labels": np.arange(5)}
    other = files_of(tmp_path, images=PIXELS, labels=np.arange(5), **test)
    with pytest.raises(InputError, match=r"m\.test_images: its images have 3 pixels, .* 6"):
        load_images(other, "m", 0.2, rng)
    with pytest.raises(InputError, match=r"m\.images: training needs 100 images"):
        training.training_table(files_of(tmp_path, images=PIXELS, labels=np.arange(5)), "m", 1)
    with pytest.raises(InputError, match=r"m\.images: training needs .*, got 0, 0 and 6"):
        training.training_table(files_of(tmp_path, images=PIXELS[:0], labels=[]), "m", 1)


def test_images_keep_their_labels_and_the_test_has_its_share(tmp_path):
    whole = files_of(tmp_path, images=PIXELS, labels=np.arange(5))
    images = load_images(whole, "m", 0.4, np.random.default_rng(1))
    assert (len(images.train), len(images.test)) == (3, 2)
    pixels = np.concatenate([images.train, images.test])
    labels = np.concatenate([images.train_labels, images.test_labels])
    np.testing.assert_allclose(pixels, PIXELS.reshape(5, 6)[labels] / 255.0)
    assert sorted(labels) == [0, 1, 2, 3, 4]
    test = {"test_images": PIXELS[:2], "test_labels": [8, 9]}
    apart = files_of(tmp_path, images=PIXELS, labels=np.arange(5), **test)
    images = load_images(apart, "m", 0.4, np.random.default_rng(1))
    assert (len(images.train), images.test_labels.tolist()) == (5, [8, 9])


def test_principal_components_are_those_of_the_singular_values():
    rng = np.random.default_rng(3)
    train, test = rng.normal(size=(50, 6)) * np.arange(1, 7), rng.normal(size=(9, 6))
    along, across = principal_components(train, test, 3)
    values = np.linalg.svd(train - train.mean(axis=0), compute_uv=False)
    np.testing.assert_allclose(np.linalg.norm(along, axis=0), values[:3])
    np.testing.assert_allclose(along.T @ along, np.diag(values[:3] ** 2), atol=1e-9)
    assert across.shape == (9, 3)
    again, _ = principal_components(-train, test, 3)
    np.testing.assert_allclose(np.abs(again), np.abs(along))


@needs_mnist
def test_the_real_files_are_read():
    files = {name: MNIST / f"t10k-{name}-idx{d}-ubyte.gz" for name, d in DIMENSIONS.items()}
    images = load_images(files, "m", 0.2, np.random.default_rng(1))
    assert images.train.shape == (8_000, 784)
    assert images.test.shape == (2_000, 784)
    labels = np.concatenate([images.train_labels, images.test_labels])
    # The published frequencies of the digits in the test set.
    assert np.bincount(labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    files["labels"] = MNIST / "train-labels-idx1-ubyte.gz"
    with pytest.raises(InputError, match="60000 labels for 10000 images"):
        load_images(files, "m", 0.2, np.random.default_rng(1))


# --- Training -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def digits():
    pixels, labels = bundled_digits()
    pixels, _ = principal_components(pixels[:1500], pixels, training.COMPONENTS)
    return pixels[:1500], labels[:1500]


def trained(digits, sigma, weight, law="law"):
    network = Network(training.COMPONENTS, 16, 10)
    *_, theta = training.descend(network, *digits, np.full(100, sigma), weight, 5, law)
    return network.accuracy(theta, *digits)


def test_training_learns_without_noise_and_not_with_much(digits, monkeypatch):
    monkeypatch.setattr(training, "EPOCHS", 5)
    assert trained(digits, 0.0, 40.0) > 0.9
    assert trained(digits, 20.0, 40.0) < 0.5


def test_training_is_the_same_each_time(digits, monkeypatch):
    monkeypatch.setattr(training, "EPOCHS", 1)
    assert trained(digits, 0.2, 40.0) == trained(digits, 0.2, 40.0)
    assert trained(digits, 0.2, 40.0) != trained(digits, 0.2, 40.0, law="another")


def test_one_epoch_is_algorithm_1_step_by_step(digits, monkeypatch):
    """Repeat the epoch with a loop over records, without noise."""
    monkeypatch.setattr(training, "EPOCHS", 1)
    monkeypatch.setattr(training, "CLIENTS", 3)
    records, labels = digits[0][:12], digits[1][:12]
    network = Network(training.COMPONENTS, 4, 10)
    (parameters,) = training.descend(network, records, labels, np.zeros(3), 2.0, 5, "law")
    theta = network.initial(training.stream(5, training._STREAM, "start"))
    for client in training.stream(5, training._STREAM, "order").permutation(3):
        total = np.zeros(network.size)
        for record in range(4 * client, 4 * client + 4):
            one = slice(record, record + 1)
            total += network.clipped_gradient(theta, records[one], labels[one], training.CLIP)
        theta = theta - training.STEP * 2.0 / 3.0 * total
    np.testing.assert_allclose(parameters, theta, atol=1e-12)
