"""Paper D's Algorithm 1 (shuffled noisy SGD) and figure 5: training on images of digits."""

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd

from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Floats, Integers
from shuffledp.papers.paper_d.algorithms.descent import gdp_epsilon, noise_scale, record_mu
from shuffledp.personalised.groups import BudgetGroups
from shuffledp.papers.paper_d.published import mu_gdp
from shuffledp.papers.paper_d.budget_laws import BUDGET_LAWS, sample_budgets
from shuffledp.papers.paper_d.images import CLASSES, IMAGES, load_images, principal_components
from shuffledp.papers.paper_d.network import Network
from shuffledp.pipeline.streams import stream

logger = logging.getLogger(__name__)

# Paper D's Table 2.
CLIENTS: Final = 100
EPOCHS: Final = 50
CLIP: Final = 2.0
STEP: Final = 0.05
DELTA: Final = 1e-5
PAPER_N: Final = 60_000
COMPONENTS: Final = 60
# Paper D does not say.
HIDDEN: Final = 64
TEST_SHARE: Final = 0.2
# Instead of a law of budgets.
NO_NOISE: Final = "no noise"

COLUMNS: Final = (
    *("data", "n_train", "n_test", "counted_as", "law", "epoch", "train_accuracy"),
    "test_accuracy",
)
NOISE_COLUMNS: Final = (
    *("law", "client", "eps", "delta", "sigma", "mu_step", "eps_step", "mu_whole", "eps_whole"),
    *("mu_published", "eps_published"),
)
_STREAM: Final = "paper D, algorithm 1"


def client_budgets(law: str, seed: int) -> Floats:
    """Budgets of the clients: drawn from a law of paper D's Table 3."""
    return sample_budgets(law, CLIENTS, stream(seed, _STREAM, "budgets", law))


def descend(
    network: Network,
    records: Floats,
    labels: Integers,
    sigma: Floats,
    weight: float,
    seed: int,
    law: str,
) -> Iterator[Floats]:
    """Algorithm 1: the parameters after each epoch.

    Parameters
    ----------
    network
        What is trained.
    records, labels
        Of all clients, one after the other, as many of each.
    sigma
        Standard deviation of each client's noise, shape ``(m,)``.
    weight
        How often each record counts.
    seed, law
        Of the random streams. Start and order of the clients are the same for every law.
    """
    m = sigma.size
    own = len(labels) // m
    theta = network.initial(stream(seed, _STREAM, "start"))
    order = stream(seed, _STREAM, "order").permutation(m)
    rng = stream(seed, _STREAM, "noise", law, weight)
    for _ in range(EPOCHS):
        for client in order:
            rows = slice(client * own, (client + 1) * own)
            gradient = network.clipped_gradient(theta, records[rows], labels[rows], CLIP)
            noise = sigma[client] * rng.standard_normal(network.size)
            theta -= STEP * (weight / m * gradient + noise)
        yield theta


def training_table(files: Mapping[str, Path], key: str, seed: int) -> pd.DataFrame:
    """Accuracy after each epoch for every law of budgets, and without noise (figure 5).

    Once with the images as they are, and once with each counted so often that they are as many as
    paper D's 60,000: the noise does not depend on their number, the gradients do.

    Parameters
    ----------
    files
        IDX files by key, as `images.load_images`; none for scikit-learn's digits.
    key
        Of the configuration that names them.
    seed
        Of the run.

    Returns
    -------
    Columns `COLUMNS`.

    Raises
    ------
    InputError
        As `images.load_images`, and if there are too few images or pixels.
    """
    images = load_images(files, key, TEST_SHARE, stream(seed, _STREAM, "images"))
    own = len(images.train_labels) // CLIENTS
    if not own or not len(images.test_labels) or images.train.shape[1] < COMPONENTS:
        raise InputError(
            f"{key}.{IMAGES}: training needs {CLIENTS} images, and one for the test, of at least "
            f"{COMPONENTS} pixels (got {len(images.train_labels)}, {len(images.test_labels)} and "
            f"{images.train.shape[1]})"
        )
    n = own * CLIENTS
    left_over = len(images.train_labels) - n
    logger.info("%d clients have %d images each, %d are left over", CLIENTS, own, left_over)
    train, test = principal_components(images.train[:n], images.test, COMPONENTS)
    labels, test_labels = images.train_labels[:n], images.test_labels
    network = Network(COMPONENTS, HIDDEN, CLASSES)
    rows = []
    for counted in sorted({n, max(n, PAPER_N)}):
        for law in (NO_NOISE, *BUDGET_LAWS):
            every = descend(network, train, labels, _noise(law, seed), counted / n, seed, law)
            for epoch, theta in enumerate(every, start=1):
                right = network.accuracy(theta, train, labels)
                at_test = network.accuracy(theta, test, test_labels)
                rows.append(
                    (images.name, n, len(test), counted, law, epoch, right, at_test),
                )
            logger.info("%d images counted as %d, %s: %.4f", n, counted, law, at_test)
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _noise(law: str, seed: int) -> Floats:
    if law == NO_NOISE:
        return np.zeros(CLIENTS)
    return noise_scale(client_budgets(law, seed), DELTA, CLIP, CLIENTS)


def noise_table(seed: int) -> pd.DataFrame:
    """Noise of every client, and the privacy that one of its records has.

    Returns
    -------
    Columns `NOISE_COLUMNS`, clients by budget. ``eps`` and ``delta`` are what step 6 aims at.
    ``mu_step`` and ``eps_step`` are the exact Gaussian DP of one step and its eps at that delta,
    ``mu_whole`` and ``eps_whole`` those of all epochs: guarantees for the replacement of one
    record. ``mu_published`` is Theorem 4 read as sqrt(T) times the mu of Theorem 3 over the
    clients, ``eps_published`` its eps at that delta: no guarantee.
    """
    parts = []
    for law in BUDGET_LAWS:
        budgets = np.sort(client_budgets(law, seed))
        published = EPOCHS**0.5 * mu_gdp(BudgetGroups.of(budgets))
        sigma = noise_scale(budgets, DELTA, CLIP, CLIENTS)
        step, whole = (record_mu(sigma, CLIP, CLIENTS, epochs) for epochs in (1, EPOCHS))
        parts.append(
            pd.DataFrame(
                {
                    "law": law,
                    "client": np.arange(CLIENTS),
                    "eps": budgets,
                    "delta": DELTA,
                    "sigma": sigma,
                    "mu_step": step,
                    "eps_step": [gdp_epsilon(mu, DELTA) for mu in step],
                    "mu_whole": whole,
                    "eps_whole": [gdp_epsilon(mu, DELTA) for mu in whole],
                    "mu_published": published,
                    "eps_published": gdp_epsilon(published, DELTA),
                }
            )
        )
    return pd.concat(parts, ignore_index=True)
