"""Releases of a histogram: the shuffle model's estimators against the central Gaussian."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from tqdm import tqdm

from shuffledp import central, estimation, krr
from shuffledp.accounting import calibrate
from shuffledp.accounting.one_round import certified
from shuffledp.accounting.setting import Setting
from shuffledp.arrays import Floats, Integers
from shuffledp.streams import stream
from shuffledp.studies.sampling import sample_counts, sample_sizes

# Paper A's Gaussian is what diffprivlib returns for any delta in 1e-17..1e-40 (docs/accounting.md).
PUBLISHED_DELTA = 1e-20
PUBLISHED_SENSITIVITY = 1.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Release:
    """One mechanism's estimates: shares of shape ``(repetitions, k)``.

    ``eps`` and ``log_delta`` are what the Gaussian was calibrated to; NaN for the shuffle model,
    whose noise follows from eps0 alone.
    """

    mechanism: str
    calibration: str
    eps: float
    log_delta: float
    estimates: Floats


def matched_pairs(
    n: int, k: int, eps0: float, eps: Sequence[float], target_deltas: Sequence[float]
) -> list[tuple[float, float]]:
    """Pairs (eps, log delta) on the certified upper bound of the shuffle model.

    One for each eps given, with its delta, and one for each target delta, with its eps. Pairs
    with eps = eps0 are left out: delta is 0 there and no Gaussian exists.
    """
    setting = Setting(n, k, eps0)

    def upper(e: float) -> float:
        return float(certified.upper_log_delta(e, setting))

    pairs = [(e, upper(e)) for e in eps]
    for delta in target_deltas:
        pairs.append((calibrate.epsilon(upper, float(np.log(delta)), eps0, "upper"), np.log(delta)))
    usable = [(e, d) for e, d in pairs if 0.0 < e < eps0 and d < 0.0]
    if len(usable) < len(pairs):
        _log.warning(
            "n=%d, eps0=%g: %d pairs without a Gaussian", n, eps0, len(pairs) - len(usable)
        )
    return usable


def shuffle_releases(
    counts: Integers, eps0: float, repetitions: int, rng: np.random.Generator
) -> Iterator[Release]:
    """Shuffled k-RR reports and three estimators computed from the same reports."""
    reports = krr.randomise(counts, eps0, rng, repetitions)
    inverted = krr.invert(reports, eps0)
    for mechanism, estimates in [
        ("shuffle", reports / counts.sum()),
        ("shuffle+INV", estimation.project_simplex(inverted)),
        ("shuffle+INV raw", inverted),
        ("shuffle+IBU", estimation.iterative_bayesian_update(reports, eps0)),
    ]:
        yield Release(mechanism, "none", np.nan, np.nan, estimates)


def _gaussian(calibration: str, eps: float, log_delta: float, noisy: Floats) -> Iterator[Release]:
    yield Release("gaussian", calibration, eps, log_delta, noisy)
    projected = estimation.project_simplex(noisy)
    yield Release("gaussian projected", calibration, eps, log_delta, projected)


def gaussian_releases(
    counts: Integers,
    eps0: float,
    pairs: Sequence[tuple[float, float]],
    repetitions: int,
    rng: np.random.Generator,
) -> Iterator[Release]:
    """The central Gaussian, raw and projected, at each matched pair and as paper A published it."""
    n = counts.sum()
    for eps, log_delta in pairs:
        noisy = central.gaussian_release(counts, eps, log_delta, rng, repetitions)
        yield from _gaussian("matched", eps, log_delta, noisy / n)
    noisy = central.diffprivlib_release(
        counts, eps0, PUBLISHED_DELTA, rng, repetitions, PUBLISHED_SENSITIVITY
    )
    yield from _gaussian("as-published", eps0, float(np.log(PUBLISHED_DELTA)), noisy / n)


def _tidy(release: Release, n: int, eps0: float) -> pd.DataFrame:
    repetitions, k = release.estimates.shape
    return pd.DataFrame(
        {
            "n": n,
            "eps0": eps0,
            "eps": release.eps,
            "log10_delta": release.log_delta / np.log(10.0),
            "calibration": release.calibration,
            "mechanism": release.mechanism,
            "repetition": np.repeat(np.arange(repetitions), k),
            "cell": np.tile(np.arange(k), repetitions),
            "estimate": release.estimates.ravel(),
        }
    )


def release_parts(
    counts: Integers,
    sizes: Sequence[int | str],
    eps0: float,
    eps: Sequence[float],
    target_deltas: Sequence[float],
    repetitions: int,
    *,
    seed: int,
    region: str,
    grid: str,
) -> Iterator[pd.DataFrame]:
    """Every mechanism's estimates for every sample size, one mechanism and size at a time.

    Parameters as in `shuffledp.studies.privacy.privacy_table`; ``target_deltas`` adds matched
    pairs at given deltas. Calibrations: ``none`` (shuffle model), ``matched`` (Gaussian at the
    privacy that `upper` certifies for the shuffle model, sensitivity sqrt 2), ``as-published``
    (paper A's: eps = eps0, sensitivity 1, diffprivlib's sigma for delta = 1e-20, which is not the
    shuffle model's privacy).

    Yields
    ------
    Columns of `shuffledp.tables.RELEASES`; ``estimate`` is a share of n. Sizes increase.
    """
    for n in tqdm(
        sample_sizes(sizes, int(counts.sum()), f"region {region}, grid {grid}"),
        desc="n",
        disable=None,
    ):
        sample = sample_counts(counts, n, seed, region, grid)
        rng = stream(seed, "release", region, grid, eps0, n)
        pairs = matched_pairs(n, counts.size, eps0, eps, target_deltas)
        for release in shuffle_releases(sample, eps0, repetitions, rng):
            yield _tidy(release, n, eps0)
        for release in gaussian_releases(sample, eps0, pairs, repetitions, rng):
            yield _tidy(release, n, eps0)
