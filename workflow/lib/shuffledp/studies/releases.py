"""Releases of a histogram at every point of a sweep, and how far they are off."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pandas as pd
from tqdm import tqdm

from shuffledp.accounting.setting import Setting
from shuffledp.mechanisms.catalogue import UNBIASED
from shuffledp.mechanisms.protocol import Calibration, Mechanism, P, drawing_variance
from shuffledp.mechanisms.registry import get_mechanisms
from shuffledp.mechanisms.target_calibration import format_parameters, predicted
from shuffledp.numerics.arrays import Floats, Integers
from shuffledp.pipeline.streams import stream
from shuffledp.pipeline.tables import GROUP_ROWS, RELEASES, UTILITY
from shuffledp.studies.sweeps import Point, Sweep

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
        for name, estimate in mechanism.estimators.items():
            estimates = [estimate(seen, users, parameters) for seen, users in parts]
            yield Release(mechanism.name, name, calibration, np.concatenate(estimates))


def _of_respondents(
    mechanism: Mechanism[P], counts: Integers, parameters: P, rng: np.random.Generator, rate: float
) -> tuple[Floats, int]:
    """One observation of those who respond, who are somebody, and how many they are."""
    while not (present := rng.binomial(counts, rate)).any():
        pass
    return mechanism.observe(present, parameters, rng), int(present.sum())


def swept(
    samples: Mapping[int, Integers],
    sweep: Sweep,
    repetitions: int,
    mechanisms: Sequence[str],
    *,
    seed: int,
    region: str,
    grid: str,
) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    """Release every sample at every point of a sweep, and measure each release.

    Parameters
    ----------
    samples
        Users per cell by sample size, shape ``(k,)`` each.
    sweep
        What the mechanisms are calibrated to, and who colludes or drops out.
    repetitions
        Independent releases of each.
    mechanisms
        Names in the registry.
    seed, region, grid
        Name the random streams.

    Yields
    ------
    releases
        Columns of `pipeline.tables.RELEASES`, of one series and sample, or of some repetitions of
        it where all would be more than a million rows. Sizes increase. The
        standard error is what whoever holds the release alone can tell: the variance at the
        unbiased estimate, below 0 taken for 0. Other estimates have none. They are biased, so that
        an interval round them would miss the truth too often.
    utility
        Columns of `pipeline.tables.UTILITY`, a row for each of these releases. What is expected is
        so of the unbiased estimate alone. Where a mechanism cannot be calibrated there are no
        releases but one such row without errors, and ``reason`` says why.

    Raises
    ------
    InputError
        If there is no such mechanism.
    """
    chosen = get_mechanisms(mechanisms)
    for n, counts in tqdm(samples.items(), desc="n", disable=None):
        labels, setting = sweep.labels(region, grid, n), sweep.setting(counts)
        for point in sweep.points(chosen, counts):
            named = _named(point, n)
            if point.reason is not None:
                yield _unable(point, named, setting)
                continue
            for release in releases(
                point.mechanism, counts, [point.calibration], repetitions,
                seed=seed, labels=labels, response=setting.response_rate,
            ):  # fmt: skip
                offered = _offered(point, release, counts, setting)
                for first, part in _slices(release):
                    deviations = _deviations(point, part, setting)
                    yield (
                        pd.DataFrame(named | _tidy(part, first, deviations)),
                        pd.DataFrame(named | offered | _measured(part, first, counts)),
                    )


def _slices(release: Release) -> Iterator[tuple[int, Release]]:
    """Cut a series in parts of about `GROUP_ROWS` rows, each with the number of its first one."""
    repetitions, k = release.estimates.shape
    step = max(1, GROUP_ROWS // k)
    for first in range(0, repetitions, step):
        yield first, replace(release, estimates=release.estimates[first : first + step])


def _named(point: Point, n: int) -> dict[str, Any]:
    """What stands beside everything that is released at a point."""
    return {
        "n": n,
        "eps0": point.eps0,
        "eps": point.calibration.eps,
        "delta": point.delta,
        "log10_delta": point.calibration.log_delta / np.log(10.0),
        "calibration": point.calibration.name,
        "mechanism": point.mechanism.name,
    }


def _unable(
    point: Point, named: dict[str, Any], setting: Setting
) -> tuple[pd.DataFrame, pd.DataFrame]:
    row = {
        **named,
        "estimator": UNBIASED,
        "repetition": 0,
        "colluding": setting.colluding,
        "response_rate": setting.response_rate,
        "reason": point.reason,
    }
    return RELEASES.empty_table().to_pandas(), pd.DataFrame([row], columns=UTILITY.names)


def _is_unbiased(point: Point, release: Release) -> bool:
    return release.estimator == UNBIASED


def _deviations(point: Point, release: Release, setting: Setting) -> Floats:
    """Standard errors of the shape of the estimates; NaN where they are biased."""
    if not _is_unbiased(point, release):
        return np.full(release.estimates.shape, np.nan)
    plausible = release.estimates.clip(0.0, 1.0)
    parameters, response = point.calibration.parameters, setting.response_rate
    variance = point.mechanism.variance(plausible, setting.n * response, parameters)
    return np.sqrt(variance + drawing_variance(plausible, setting.n, response))


def _tidy(release: Release, first: int, deviations: Floats) -> dict[str, Any]:
    repetitions, k = release.estimates.shape
    return {
        "estimator": release.estimator,
        "repetition": np.repeat(np.arange(first, first + repetitions), k),
        "cell": np.tile(np.arange(k), repetitions),
        "estimate": release.estimates.ravel(),
        "standard_error": deviations.ravel(),
    }


def _measured(release: Release, first: int, counts: Integers) -> dict[str, Any]:
    n = int(counts.sum())
    errors = release.estimates - counts / n
    return {
        "estimator": release.estimator,
        "repetition": np.arange(first, first + len(errors)),
        "tv_distance": 0.5 * np.abs(errors).sum(axis=1),
        "cell_error": n * np.sqrt((errors**2).mean(axis=1)),
    }


def _offered(point: Point, release: Release, counts: Integers, setting: Setting) -> dict[str, Any]:
    """What the mechanism asks for and is expected to give, the same for all its releases."""
    n, k, parameters = setting.n, setting.k, point.calibration.parameters
    distance, deviation = np.nan, np.nan
    if _is_unbiased(point, release):
        variance, distance = predicted(
            point.mechanism, counts / n, n, parameters, setting.response_rate
        )
        deviation = n * float(np.sqrt(variance.mean()))
    per_user = point.mechanism.per_user(round(setting.response_rate * n), k, parameters)
    return {
        "expected_tv_distance": distance,
        "expected_cell_error": deviation,
        "colluding": setting.colluding,
        "response_rate": setting.response_rate,
        "parameters": format_parameters(parameters),
        "local_eps0": per_user.local_eps0,
        "messages": per_user.messages,
        "reason": None,
    }
