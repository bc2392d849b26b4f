"""Release a histogram at every point of a sweep, and measure the errors of the releases."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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

    The pairs have the columns of `pipeline.tables.RELEASES` and `UTILITY`, for one estimator at one
    point and sample size; large tables are split by repetition. Standard errors depend only on the
    release: they come from the variance at the unbiased estimate, with shares clipped to [0, 1].
    Biased estimates have none, because an interval around them would miss the true share too often.
    Expected errors are those of the unbiased estimate. A mechanism that cannot be calibrated has no
    releases, and one row of utility with a ``reason`` instead of errors.
    """
    chosen = get_mechanisms(mechanisms)
    for n, counts in tqdm(samples.items(), desc="n", disable=None):
        labels, setting = sweep.labels(region, grid, n), sweep.setting(counts)
        participation = {"colluding": setting.colluding, "response_rate": setting.response_rate}
        for point in sweep.points(chosen, counts):
            keys = {
                "n": n,
                "eps0": point.eps0,
                "eps": point.calibration.eps,
                "delta": point.delta,
                "log10_delta": point.calibration.log_delta / np.log(10.0),
                "calibration": point.calibration.name,
                "mechanism": point.mechanism.name,
            }
            if point.reason is not None:
                row = keys | participation
                row |= {"estimator": UNBIASED, "repetition": 0, "reason": point.reason}
                table = pd.DataFrame([row], columns=UTILITY.names)
                yield RELEASES.empty_table().to_pandas(), table
                continue
            for release in releases(
                point.mechanism, counts, [point.calibration], repetitions,
                seed=seed, labels=labels, response=setting.response_rate, estimate=estimate,
            ):  # fmt: skip
                same = keys | {"estimator": release.estimator}
                records = sweep.contributions.records_per_user
                expected = _expected(point, release.estimator, counts, setting, records)
                for first, shares in _slices(release.estimates):
                    numbers, errors = np.arange(first, first + len(shares)), shares - counts / n
                    deviations = _deviations(point, release.estimator, shares, setting)
                    estimates = {
                        "repetition": np.repeat(numbers, counts.size),
                        "cell": np.tile(np.arange(counts.size), len(shares)),
                        "estimate": shares.ravel(),
                        "standard_error": deviations.ravel(),
                    }
                    measured = {
                        "repetition": numbers,
                        "tv_distance": 0.5 * np.abs(errors).sum(axis=1),
                        "cell_error": n * np.sqrt((errors**2).mean(axis=1)),
                    }
                    yield (
                        pd.DataFrame(same | estimates),
                        pd.DataFrame(same | participation | expected | measured),
                    )


def _slices(estimates: Floats) -> Iterator[tuple[int, Floats]]:
    """Split estimates into parts of up to `GROUP_ROWS` rows; yield first repetition and part."""
    step = max(1, GROUP_ROWS // estimates.shape[1])
    for first in range(0, len(estimates), step):
        yield first, estimates[first : first + step]


def _deviations(point: Point, estimator: str, shares: Floats, setting: Setting) -> Floats:
    """Return the standard error of each estimate; NaN for a biased estimator."""
    if estimator != UNBIASED:
        return np.full(shares.shape, np.nan)
    plausible, response = shares.clip(0.0, 1.0), setting.response_rate
    variance = point.mechanism.variance(
        plausible, setting.n * response, point.calibration.parameters
    )
    return np.sqrt(variance + participation_variance(plausible, setting.n, response))


def _expected(
    point: Point, estimator: str, counts: Integers, setting: Setting, records: int
) -> dict[str, Any]:
    """Return the columns of expected errors and costs, which all repetitions share.

    The costs are those of a user who has the given number of records.
    """
    n, k, parameters = setting.n, setting.k, point.calibration.parameters
    distance, deviation = np.nan, np.nan
    if estimator == UNBIASED:
        variance, distance = predicted(
            point.mechanism, counts / n, n, parameters, setting.response_rate
        )
        deviation = n * float(np.sqrt(variance.mean()))
    per_user = point.mechanism.per_user(round(setting.response_rate * n), k, parameters)
    return {
        "expected_tv_distance": distance,
        "expected_cell_error": deviation,
        "parameters": format_parameters(parameters),
        "local_eps0": sum_up([(records, per_user.local_eps0)]),
        "messages": records * per_user.messages,
        "reason": None,
    }
