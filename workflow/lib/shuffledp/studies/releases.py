"""Releases of a histogram by every configured mechanism, at equal certified privacy."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
from tqdm import tqdm

from shuffledp.accounting.registry import BOUNDS
from shuffledp.accounting.setting import Setting
from shuffledp.arrays import Floats, Integers
from shuffledp.mechanisms.protocol import Budget, Calibration, Mechanism, P
from shuffledp.mechanisms.registry import get_mechanisms
from shuffledp.selection import DELTA_HAT
from shuffledp.streams import stream
from shuffledp.studies.privacy import other_counts

_log = logging.getLogger(__name__)

NOTICE: Final = (
    "Simulated releases, for measuring errors: their noise follows from the seed, which stands "
    "beside this. Whoever knows it can undo the noise. They are not to be published as private."
)


@dataclass(frozen=True)
class Release:
    """Estimates of one series: shares of shape ``(repetitions, k)``."""

    mechanism: str
    estimator: str
    calibration: Calibration[Any]
    estimates: Floats


def matched_budgets(
    setting: Setting, eps: Sequence[float], target_deltas: Sequence[float]
) -> list[Budget]:
    """Points on the certified curve (`upper`) of shuffled k-RR at a setting.

    One for each eps given, with its delta, and one for each target delta, with its eps. Points at
    eps = 0, or with delta 0 or 1, are left out: no Gaussian exists there.
    """
    upper = BOUNDS["upper"]
    budgets = [Budget(e, float(upper.log_delta(e, setting)), f"eps={e:g}") for e in eps]
    for delta in target_deltas:
        log_delta = float(np.log(delta))
        eps_there = float(upper.epsilon(log_delta, setting))
        budgets.append(Budget(eps_there, log_delta, f"delta={delta:g}"))
    usable = [b for b in budgets if 0.0 < b.eps < setting.eps0 and -np.inf < b.log_delta < 0.0]
    if len(usable) < len(budgets):
        _log.warning(
            "n=%d, eps0=%g: %d budgets left out, where no Gaussian exists",
            setting.n,
            setting.eps0,
            len(budgets) - len(usable),
        )
    return usable


def literal_budgets(matched: Sequence[Budget], setting: Setting, counts: Integers) -> list[Budget]:
    """The same eps with the delta-hat that paper A compares at (its eq. 10): NO guarantee.

    Delta-hat is the largest divergence of the count of a cell, over the cells that somebody holds.
    Whoever sees the histogram sees more than one count, so the shuffle model has a larger delta.
    It is computed as eq. 10 means it, without the misprint, in both directions.

    Parameters
    ----------
    matched
        Points on the setting's certified curve.
    setting, counts
        What is released; its true histogram, shape ``(k,)``.
    """
    over_counts = BOUNDS["single-bin"].over_counts
    assert over_counts is not None
    others = other_counts(counts)
    return [
        Budget(b.eps, float(over_counts(b.eps, setting, others).max()), b.asked, DELTA_HAT)
        for b in matched
    ]


def releases(
    mechanism: Mechanism[Any],
    counts: Integers,
    calibrations: Sequence[Calibration[Any]],
    repetitions: int,
    *,
    seed: int,
    labels: Sequence[object],
    response: float = 1.0,
) -> Iterator[Release]:
    """Every estimator of a mechanism, for every calibration, from the same observations.

    Parameters
    ----------
    mechanism, calibrations, repetitions
        What is released, and how often.
    counts
        True histogram, shape ``(k,)``.
    seed, labels
        Name the random stream, to whose name mechanism and calibration are added: more mechanisms,
        calibrations or repetitions change no other number.
    response
        Probability with which each user responds. Below 1 estimates are of those who do.
    """
    n = int(counts.sum())
    for calibration in calibrations:
        rng = stream(seed, *labels, mechanism.name, calibration.name, calibration.asked)
        parameters = calibration.parameters
        if response == 1.0:
            parts = [(mechanism.observe(counts, parameters, rng, repetitions), n)]
        else:
            parts = [
                _of_respondents(mechanism, counts, parameters, rng, response)
                for _ in range(repetitions)
            ]
        for estimator in mechanism.estimators:
            estimates = [estimator.estimate(seen, users, parameters) for seen, users in parts]
            yield Release(mechanism.name, estimator.name, calibration, np.concatenate(estimates))


def _of_respondents(
    mechanism: Mechanism[P], counts: Integers, parameters: P, rng: np.random.Generator, rate: float
) -> tuple[Floats, int]:
    """One observation of those who respond, who are somebody, and how many they are."""
    while not (present := rng.binomial(counts, rate)).any():
        pass
    return mechanism.observe(present, parameters, rng), int(present.sum())


def _tidy(release: Release, n: int, eps0: float) -> pd.DataFrame:
    repetitions, k = release.estimates.shape
    return pd.DataFrame(
        {
            "n": n,
            "eps0": eps0,
            "eps": release.calibration.eps,
            "log10_delta": release.calibration.log_delta / np.log(10.0),
            "calibration": release.calibration.name,
            "mechanism": release.mechanism,
            "estimator": release.estimator,
            "repetition": np.repeat(np.arange(repetitions), k),
            "cell": np.tile(np.arange(k), repetitions),
            "estimate": release.estimates.ravel(),
        }
    )


def release_parts(
    samples: Mapping[int, Integers],
    eps0: float,
    eps: Sequence[float],
    target_deltas: Sequence[float],
    repetitions: int,
    mechanisms: Sequence[str],
    *,
    seed: int,
    region: str,
    grid: str,
) -> Iterator[pd.DataFrame]:
    """Every mechanism's estimates for every sample, one series and sample at a time.

    Calibrations: ``none`` (the noise follows from eps0), ``matched`` (at the privacy that `upper`
    certifies for shuffled k-RR with eps0), ``delta-hat`` (at the eps of a target delta, with the
    delta of `literal_budgets`), and a mechanism's own, such as the Gaussian's ``as-published``.

    Parameters
    ----------
    samples
        Users per cell by sample size, shape ``(k,)`` each.
    eps0, eps, target_deltas
        Local budget; where on its certified curve mechanisms are matched.
    repetitions
        Independent releases of each.
    mechanisms
        Names in the registry.
    seed, region, grid
        Name the random streams.

    Yields
    ------
    Columns of `shuffledp.tables.RELEASES`; ``estimate`` is a share of n. Sizes increase.

    Raises
    ------
    InputError
        If there is no such mechanism.
    """
    chosen = get_mechanisms(mechanisms)
    for n, counts in tqdm(samples.items(), desc="n", disable=None):
        setting = Setting(n, counts.size, eps0)
        at_targets = matched_budgets(setting, [], target_deltas)
        budgets = [
            *matched_budgets(setting, eps, []),
            *at_targets,
            *literal_budgets(at_targets, setting, counts),
        ]
        labels = ("release", region, grid, n, f"eps0={eps0:g}")
        for mechanism in chosen:
            calibrations = mechanism.calibrations(setting, budgets)
            for release in releases(
                mechanism, counts, calibrations, repetitions, seed=seed, labels=labels
            ):
                yield _tidy(release, n, eps0)
