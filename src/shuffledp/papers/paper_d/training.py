"""Paper D's Algorithm 1 (shuffled noisy SGD) and figure 5: training on images of digits.

In one step a client clips the gradients of its records to norm C, sums them, divides the sum by the
number m of clients, and adds normal noise of standard deviation ``sigma`` to each coordinate.
Replacing one record moves the result by at most ``2 C / m``, so a step is ``2 C / (m sigma)``-GDP
for a record. A permutation of the clients, drawn once, is repeated in each of T epochs. The T steps
of a client together are GDP with sqrt(T) times that mu, which is exact against an adversary who
sees every iterate. Shuffling does not enter the privacy stated here.

The classifier has one ReLU layer and a softmax output. Its parameters are a list of the weights and
biases of both layers.
"""

import logging
import math
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_softmax

from shuffledp.errors import InputError
from shuffledp.mechanisms.gaussian import classical_sigma
from shuffledp.numerics.arrays import Floats, Integers
from shuffledp.papers.paper_d.estimation import BUDGET_LAWS, sample_budgets
from shuffledp.pipeline.streams import stream

logger = logging.getLogger(__name__)

# Parameters of paper D's Table 2.
CLIENTS: Final = 100
EPOCHS: Final = 50
CLIP: Final = 2.0
STEP: Final = 0.05
DELTA: Final = 1e-5
PAPER_N: Final = 60_000
COMPONENTS: Final = 60
CLASSES: Final = 10
# Not stated in paper D.
HIDDEN: Final = 64
TEST_SHARE: Final = 0.2
# Used in place of a law of budgets.
NO_NOISE: Final = "no noise"

COLUMNS: Final = (
    *("data", "n_train", "n_test", "counted_as", "law", "epoch", "train_accuracy"),
    "test_accuracy",
)
_STREAM: Final = "paper D, algorithm 1"

# --- Noise and privacy ----------------------------------------------------------------------------


def noise_scale(budgets: ArrayLike, delta: float, clip: float, clients: int) -> Floats:
    """Return the standard deviation of each coordinate's noise (Algorithm 1, step 6).

    It is ``(2 C / m) sqrt(2 log(1.25 / delta)) / eps``, the classical Gaussian mechanism for one
    record. C is the largest norm ``clip`` of a record's gradient, and m the number of clients.
    Budgets, which are positive, and delta are those of one step and one record.
    """
    return classical_sigma(np.asarray(budgets, np.float64), delta, 2.0 * clip / clients)


def record_mu(sigma: ArrayLike, clip: float, clients: int, epochs: int = 1) -> Floats:
    """Return the mu of Gaussian DP for one record after all epochs.

    It holds for replacement of the record in every data set, against an adversary who sees every
    iterate, all other records and the permutation. A whole client with r records has r times mu.
    See `noise_scale`, whose result is ``sigma``, for ``clip`` and ``clients``.
    """
    sensitivity = 2.0 * clip / clients
    return np.asarray(np.sqrt(epochs) * sensitivity / np.asarray(sigma, np.float64))


# --- Images ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Images:
    """Images and labels of the training and the test set.

    Images have pixels in ``[0, 1]``, shape ``(n, pixels)``, and labels are 0 to 9, shape ``(n,)``.
    Tables contain the name of the data.
    """

    name: str
    train: Floats
    train_labels: Integers
    test: Floats
    test_labels: Integers


def bundled_digits() -> tuple[Floats, Integers]:
    """Return scikit-learn's 1,797 images of 8 by 8 pixels, and their labels."""
    from sklearn.datasets import load_digits  # this import takes a second

    bunch = load_digits()
    return bunch.data / 16.0, bunch.target.astype(np.int64)


def _read_archive(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of an .npz file by name; raise `InputError` if it is none."""
    try:
        return dict(np.load(path))
    except (EOFError, OSError, TypeError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(
            f"mnist: {path} is missing, damaged or no .npz file ({error}): replace it"
        ) from None


def load_images(path: Path | None, test_share: float, rng: np.random.Generator) -> Images:
    """Read the images for training and test, the training set in random order.

    `path` is an .npz file with the arrays ``x_train``, bytes of shape ``(n, rows, columns)``, and
    ``y_train``, shape ``(n,)``, and optionally ``x_test`` and ``y_test``, as Keras distributes
    MNIST; None stands for the bundled digits. Without images for the test, it has a share
    `test_share` of all. Raises `InputError` if the file cannot be read, or labels or test images do
    not fit the images.
    """
    if path is None:
        name, (pixels, labels), archive = "digits", bundled_digits(), dict[str, NDArray[Any]]()
    else:
        name, archive = "MNIST", _read_archive(path)
        pixels, labels = _labelled(archive, "train", path)
    order = rng.permutation(len(pixels))
    pixels, labels = pixels[order], labels[order]
    if "x_test" in archive:
        test, test_labels = _labelled(archive, "test", path)
        if test.shape[1:] != pixels.shape[1:]:
            raise InputError(
                f"mnist: {path} must have test images of {pixels.shape[1]} pixels, as for "
                f"training, got {test.shape[1]}"
            )
        return Images(name, pixels, labels, test, test_labels)
    n = len(pixels) - round(test_share * len(pixels))
    return Images(name, pixels[:n], labels[:n], pixels[n:], labels[n:])


def _labelled(
    archive: Mapping[str, NDArray[Any]], part: str, path: Path | None
) -> tuple[Floats, Integers]:
    """Return the pixels, scaled to [0, 1], and the labels of the training or test images."""
    missing = np.empty(0)
    pixels, labels = archive.get(f"x_{part}", missing), archive.get(f"y_{part}", missing)
    fits = pixels.ndim == 3 and pixels.dtype == np.uint8 and labels.shape == pixels.shape[:1]
    if not (fits and np.isin(labels, np.arange(CLASSES)).all()):
        raise InputError(
            f"mnist: {path} must have bytes x_{part}, shape (n, rows, columns), and a label from 0 "
            f"to 9 for each in y_{part}, got the shapes {pixels.shape} and {labels.shape}"
        )
    return pixels.reshape(len(pixels), math.prod(pixels.shape[1:])) / 255.0, labels.astype(np.int64)


def principal_components(train: Floats, test: Floats, number: int) -> tuple[Floats, Floats]:
    """Project both sets, whose records are rows, to the training set's principal components.

    The components are computed from the true data without noise; what they reveal is not part of
    any privacy statement.
    """
    from sklearn.decomposition import PCA  # this import takes a second

    components = PCA(number, svd_solver="covariance_eigh").fit(train)
    return components.transform(train), components.transform(test)


# --- Classifier -----------------------------------------------------------------------------------

Parameters = list[Floats]  # weights and biases of the hidden layer, then of the output


def initial_parameters(inputs: int, hidden: int, rng: np.random.Generator) -> Parameters:
    """Draw initial parameters: normal weights with variance 2 / (input width), biases 0."""
    first = rng.normal(0.0, np.sqrt(2.0 / inputs), (inputs, hidden))
    second = rng.normal(0.0, np.sqrt(2.0 / hidden), (hidden, CLASSES))
    return [first, np.zeros(hidden), second, np.zeros(CLASSES)]


def _forward(parameters: Parameters, records: Floats) -> tuple[Floats, Floats]:
    """Return the hidden layer and the logits of records, shape ``(n, classes)``."""
    first, bias, second, last = parameters
    hidden = np.maximum(records @ first + bias, 0.0)
    return hidden, hidden @ second + last


def accuracy(parameters: Parameters, records: Floats, labels: Integers) -> float:
    """Return the share of records whose largest logit is that of their label."""
    return float(np.mean(_forward(parameters, records)[1].argmax(axis=1) == labels))


def clipped_gradient(
    parameters: Parameters, records: Floats, labels: Integers, clip: float
) -> Parameters:
    """Return the sum of the records' gradients, each scaled down to norm ``clip`` at most.

    A record's gradient with respect to a layer's weights is the outer product of the layer's
    input and the derivative with respect to its output. Its norm is the product of their norms,
    so gradients of single records need not be stored. ``clip`` may be inf for no clipping.
    """
    hidden, logits = _forward(parameters, records)
    output = np.exp(log_softmax(logits, axis=1))
    output[np.arange(len(labels)), labels] -= 1.0
    inner = (output @ parameters[2].T) * (hidden > 0.0)
    # The 1 stands for the bias, a weight of a constant input.
    squared_norms = (_squares(records) + 1.0) * _squares(inner)
    squared_norms += (_squares(hidden) + 1.0) * _squares(output)
    factor = (1.0 / np.maximum(1.0, np.sqrt(squared_norms) / clip))[:, np.newaxis]
    inner *= factor
    output *= factor
    return [records.T @ inner, inner.sum(axis=0), hidden.T @ output, output.sum(axis=0)]


def _squares(rows: Floats) -> Floats:
    return np.asarray(np.einsum("ij,ij->i", rows, rows))


def descend(
    records: Floats,
    labels: Integers,
    sigma: Floats,
    weight: float,
    seed: int,
    law: str,
    hidden: int = HIDDEN,
) -> Iterator[Parameters]:
    """Run Algorithm 1 and yield the parameters after each epoch.

    Records and labels are client by client, the same number for each client; `sigma` is the
    standard deviation of each client's noise, shape ``(m,)``. `weight` is a factor of the
    gradients: each record counts as this number of equal records. Seed and law name the random
    streams; the initial parameters and the order of the clients are the same for every law.
    """
    m = sigma.size
    per_client = len(labels) // m
    parameters = initial_parameters(records.shape[1], hidden, stream(seed, _STREAM, "start"))
    order = stream(seed, _STREAM, "order").permutation(m)
    rng = stream(seed, _STREAM, "noise", law, weight)
    for _ in range(EPOCHS):
        for client in order:
            rows = slice(client * per_client, (client + 1) * per_client)
            gradient = clipped_gradient(parameters, records[rows], labels[rows], CLIP)
            noise = [sigma[client] * rng.standard_normal(part.shape) for part in parameters]
            parameters = [
                part - STEP * (weight / m * slope + added)
                for part, slope, added in zip(parameters, gradient, noise, strict=True)
            ]
        yield parameters


def training_table(path: Path | None, seed: int) -> pd.DataFrame:
    """Return the accuracy after each epoch for every law of budgets, and without noise (figure 5).

    Gradients grow with the number of images, the noise does not. If there are fewer images than
    paper D's 60,000, a second run therefore weights them as if there were as many. The columns are
    `COLUMNS`. See `load_images` for ``path`` and errors. It is an `InputError`, too, if there are
    too few images or pixels.
    """
    images = load_images(path, TEST_SHARE, stream(seed, _STREAM, "images"))
    per_client = len(images.train_labels) // CLIENTS
    if not per_client or not len(images.test_labels) or images.train.shape[1] < COMPONENTS:
        raise InputError(
            f"mnist: training needs {CLIENTS} images, 1 test image and {COMPONENTS} "
            f"pixels per image, got {len(images.train_labels)}, {len(images.test_labels)} and "
            f"{images.train.shape[1]}"
        )
    n = per_client * CLIENTS
    unused = len(images.train_labels) - n
    logger.info("%d clients have %d images each; %d images are unused", CLIENTS, per_client, unused)
    train, test = principal_components(images.train[:n], images.test, COMPONENTS)
    labels, test_labels = images.train_labels[:n], images.test_labels
    rows = []
    for counted in sorted({n, max(n, PAPER_N)}):
        for law in (NO_NOISE, *BUDGET_LAWS):
            sigma = np.zeros(CLIENTS)
            if law != NO_NOISE:
                budgets = sample_budgets(law, CLIENTS, stream(seed, _STREAM, "budgets", law))
                sigma = noise_scale(budgets, DELTA, CLIP, CLIENTS)
            iterates = descend(train, labels, sigma, counted / n, seed, law)
            for epoch, parameters in enumerate(iterates, start=1):
                sets = ((train, labels), (test, test_labels))
                reached = [accuracy(parameters, *each) for each in sets]
                rows.append((images.name, n, len(test), counted, law, epoch, *reached))
            logger.info("%d images counted as %d, %s: %.4f", n, counted, law, reached[1])
    return pd.DataFrame(rows, columns=list(COLUMNS))
