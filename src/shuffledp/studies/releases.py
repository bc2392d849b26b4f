"""Release a histogram at every point of a sweep, and measure the errors of the releases."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pandas as pd
from tqdm import tqdm

from shuffledp.accounting.setting import Setting
from shuffledp.mechanisms.catalogue import DISTRIBUTION, POSTERIOR, UNBIASED
from shuffledp.mechanisms.protocol import Calibration, Mechanism, P, participation_variance
from shuffledp.mechanisms.registry import get_mechanisms
from shuffledp.mechanisms.target_calibration import format_parameters, predicted
from shuffledp.numerics.arrays import Floats, Integers, sum_up
from shuffledp.pipeline.streams import stream
from shuffledp.pipeline.tables import GROUP_ROWS, RELEASES, UTILITY
from shuffledp.studies.sweeps import Point, Sweep

NOTICE: Final = (
    "Simulated releases for measuring errors. Their noise is determined by the seed, which is "
    "stored beside this notice: whoever knows it can remove the noise. Do not publish them as "
    "private."
)


@dataclass(frozen=True)
class Release:
    """Estimated shares by one estimator of a mechanism, with shape ``(repetitions, k)``."""

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
    estimate: str = DISTRIBUTION,
) -> Iterator[Release]:
    """Simulate releases, and yield their estimates for every calibration and estimator.

    The mechanism makes `repetitions` releases of the true histogram `counts`, shape ``(k,)``, for
    each of its calibrations; all estimators use the same observations. Seed and labels name the
    random stream. Mechanism and calibration are added to it, so that adding mechanisms or
    calibrations does not change the releases of others. Each user responds with probability
    `response`; below 1, estimates are shares of the respondents. `estimate` is ``posterior``, which
    adds posterior medians, of the mechanisms that have them, to the other estimates, or
    ``projected``, which leaves them out, because they take longest.
    """
    n = int(counts.sum())
    for calibration in calibrations:
        rng = stream(seed, *labels, mechanism.name, calibration.name, calibration.label)
        parameters = calibration.parameters
        if response == 1.0:
            observations = [(mechanism.observe(counts, parameters, rng, repetitions), n)]
        else:
            observations = [
                _observe_respondents(mechanism, counts, parameters, rng, response)
                for _ in range(repetitions)
            ]
        for name, estimator in mechanism.estimators.items():
            if name == POSTERIOR and estimate != POSTERIOR:
                continue
            estimates = [estimator(observed, users, parameters) for observed, users in observations]
            yield Release(mechanism.name, name, calibration, np.concatenate(estimates))


def _observe_respondents(
    mechanism: Mechanism[P], counts: Integers, parameters: P, rng: np.random.Generator, rate: float
) -> tuple[Floats, int]:
    """Draw the users who respond, and return what is observed and their number, at least 1."""
    while not (respondents := rng.binomial(counts, rate)).any():
        pass
    return mechanism.observe(respondents, parameters, rng), int(respondents.sum())


def release_sweep(
    samples: Mapping[int, Integers],
    sweep: Sweep,
    repetitions: int,
    mechanisms: Sequence[str],
    *,
    seed: int,
    region: str,
    grid: str,
    estimate: str = DISTRIBUTION,
) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    """Release every sample at every point of a sweep, and measure each release.

    `samples` are users per cell by sample size, shape ``(k,)`` each. The sweep has the calibrations
    of the mechanisms, and the participation of the users. Each mechanism, named as in the registry,
    makes `repetitions` independent releases at each point; it is an `InputError` if one is not
    there. Seed, region and grid name the random streams; see `releases` for `estimate`.

    Yields
    ------
    releases
        Columns of `pipeline.tables.RELEASES`, one estimator at one point and sample size at a time;
        tables of more than a million rows are split by repetition. Standard errors depend only on
        the release: they come from the variance at the unbiased estimate, with shares clipped to
        [0, 1]. Biased estimates have none, because an interval around them would miss the true
        share too often.
    utility
        Columns of `pipeline.tables.UTILITY`, one row for each of these releases. Expected errors
        are those of the unbiased estimate. A mechanism that cannot be calibrated has no releases,
        and one row of utility with a ``reason`` instead of errors.
    """
    chosen = get_mechanisms(mechanisms)
    for n, counts in tqdm(samples.items(), desc="n", disable=None):
        labels, setting = sweep.labels(region, grid, n), sweep.setting(counts)
        for point in sweep.points(chosen, counts):
            keys = _point_columns(point, n)
            if point.reason is not None:
                yield _failure(point, keys, setting)
                continue
            for release in releases(
                point.mechanism, counts, [point.calibration], repetitions,
                seed=seed, labels=labels, response=setting.response_rate, estimate=estimate,
            ):  # fmt: skip
                expected = _expected(
                    point, release, counts, setting, sweep.contributions.records_per_user
                )
                for first, part in _slices(release):
                    deviations = _deviations(point, part, setting)
                    yield (
                        pd.DataFrame(keys | _estimates(part, first, deviations)),
                        pd.DataFrame(keys | expected | _errors(part, first, counts)),
                    )


def _slices(release: Release) -> Iterator[tuple[int, Release]]:
    """Split a release into parts of up to `GROUP_ROWS` rows; yield first repetition and part."""
    repetitions, k = release.estimates.shape
    step = max(1, GROUP_ROWS // k)
    for first in range(0, repetitions, step):
        yield first, replace(release, estimates=release.estimates[first : first + step])


def _point_columns(point: Point, n: int) -> dict[str, Any]:
    """Return the columns that all releases at a point share."""
    return {
        "n": n,
        "eps0": point.eps0,
        "eps": point.calibration.eps,
        "delta": point.delta,
        "log10_delta": point.calibration.log_delta / np.log(10.0),
        "calibration": point.calibration.name,
        "mechanism": point.mechanism.name,
    }


def _failure(
    point: Point, keys: dict[str, Any], setting: Setting
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return no releases, and the row of utility that says why."""
    row = {
        **keys,
        "estimator": UNBIASED,
        "repetition": 0,
        "colluding": setting.colluding,
        "response_rate": setting.response_rate,
        "reason": point.reason,
    }
    return RELEASES.empty_table().to_pandas(), pd.DataFrame([row], columns=UTILITY.names)


def _deviations(point: Point, release: Release, setting: Setting) -> Floats:
    """Return the standard error of each estimate; NaN for a biased estimator."""
    if release.estimator != UNBIASED:
        return np.full(release.estimates.shape, np.nan)
    plausible = release.estimates.clip(0.0, 1.0)
    parameters, response = point.calibration.parameters, setting.response_rate
    variance = point.mechanism.variance(plausible, setting.n * response, parameters)
    return np.sqrt(variance + participation_variance(plausible, setting.n, response))


def _estimates(release: Release, first: int, deviations: Floats) -> dict[str, Any]:
    repetitions, k = release.estimates.shape
    return {
        "estimator": release.estimator,
        "repetition": np.repeat(np.arange(first, first + repetitions), k),
        "cell": np.tile(np.arange(k), repetitions),
        "estimate": release.estimates.ravel(),
        "standard_error": deviations.ravel(),
    }


def _errors(release: Release, first: int, counts: Integers) -> dict[str, Any]:
    n = int(counts.sum())
    errors = release.estimates - counts / n
    return {
        "estimator": release.estimator,
        "repetition": np.arange(first, first + len(errors)),
        "tv_distance": 0.5 * np.abs(errors).sum(axis=1),
        "cell_error": n * np.sqrt((errors**2).mean(axis=1)),
    }


def _expected(
    point: Point, release: Release, counts: Integers, setting: Setting, records: int
) -> dict[str, Any]:
    """Return the columns of expected errors and costs, which all repetitions share.

    The costs are those of a user who has the given number of records.
    """
    n, k, parameters = setting.n, setting.k, point.calibration.parameters
    distance, deviation = np.nan, np.nan
    if release.estimator == UNBIASED:
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
        "local_eps0": sum_up([(records, per_user.local_eps0)]),
        "messages": records * per_user.messages,
        "reason": None,
    }
