"""Release a histogram at points of k-RR's certified curve or at targets, and measure the errors.

A sweep is a list of calibrations at which a histogram is released.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
from tqdm import tqdm

from shuffledp.accounting.bound_registry import BOUNDS
from shuffledp.accounting.contributions import (
    ONE_RECORD,
    Contributions,
    group_curve,
    group_log_delta,
)
from shuffledp.accounting.conventions import log_of_delta
from shuffledp.accounting.krr import upper_curve
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.mechanisms.catalogue import DELTA_HAT, DISTRIBUTION, POSTERIOR, UNBIASED
from shuffledp.mechanisms.protocol import Budget, Calibration, Mechanism, P, participation_variance
from shuffledp.mechanisms.registry import get_mechanisms
from shuffledp.mechanisms.target_calibration import (
    calibrated,
    calibrations,
    format_parameters,
    predicted,
)
from shuffledp.numerics.arrays import Floats, Integers, sum_up
from shuffledp.pipeline.selection import TARGET
from shuffledp.pipeline.streams import stream
from shuffledp.pipeline.tables import GROUP_ROWS, RELEASES, UTILITY
from shuffledp.studies.privacy import log_delta_of_worst_count, other_counts

_log = logging.getLogger(__name__)

_LOG_10: Final = float(np.log(10.0))


@dataclass(frozen=True)
class Point:
    """A calibrated mechanism, or the reason why it cannot be calibrated.

    The calibration has this ``delta``, and its parameters are None if there is a ``reason``.
    ``eps0`` is the local budget that determines the calibration; it is NaN for a target.
    """

    mechanism: Mechanism[Any]
    calibration: Calibration[Any]
    eps0: float
    delta: float
    reason: str | None = None


@dataclass(frozen=True)
class BudgetSweep:
    """Calibrations to the certified curve of shuffled k-RR with one local budget.

    The calibrations are ``none`` (the noise follows from eps0), ``matched`` (at the privacy that
    `upper` certifies for shuffled k-RR with eps0), ``delta-hat`` (at the eps of the target delta,
    with the delta of `delta_hat_budgets`), and those that a mechanism defines, such as the
    Gaussian's ``as-published``.

    ``eps`` and ``target_delta`` are the points of the certified curve at which mechanisms are
    matched; ``contributions`` bounds the records of the unit that is protected.
    """

    eps0: float
    eps: Sequence[float]
    target_delta: float
    contributions: Contributions = ONE_RECORD

    def setting(self, counts: Integers) -> Setting:
        """Return the setting in which all users take part with the local budget."""
        return Setting(int(counts.sum()), counts.size, self.eps0)

    def labels(self, region: str, grid: str, n: int) -> tuple[object, ...]:
        """Return the names of the random streams, without mechanism and calibration."""
        return ("release", region, grid, n, f"eps0={self.eps0:g}")

    def points(self, mechanisms: Sequence[Mechanism[Any]], counts: Integers) -> Iterator[Point]:
        """Yield each mechanism with each of its `target_calibration.calibrations`."""
        setting, records = self.setting(counts), self.contributions.records_per_user
        at_target = matched_budgets(setting, [], [self.target_delta], records)
        budgets = [
            *matched_budgets(setting, self.eps, [], records),
            *at_target,
            *delta_hat_budgets(at_target, setting, counts, records),
        ]
        for mechanism in mechanisms:
            for calibration in calibrations(mechanism, setting, budgets, self.contributions):
                delta = float(10.0 ** (calibration.log_delta / _LOG_10))
                yield Point(mechanism, calibration, self.eps0, delta)


@dataclass(frozen=True)
class TargetSweep:
    """Calibrations to target (eps, delta), with one delta for all eps.

    ``colluding`` and ``response_rate`` are those of `Setting`. Colluding users report honestly, and
    errors are over all users. ``contributions`` bounds the records of the unit that is protected.
    """

    eps: Sequence[float]
    delta: float
    colluding: int = 0
    response_rate: float = 1.0
    contributions: Contributions = ONE_RECORD

    def setting(self, counts: Integers) -> Setting:
        """Return the setting in which some users collude or do not respond."""
        return Setting(
            int(counts.sum()),
            counts.size,
            colluding=self.colluding,
            response_rate=self.response_rate,
        )

    def labels(self, region: str, grid: str, n: int) -> tuple[object, ...]:
        """Return the names of the random streams, without mechanism and target."""
        return ("target", region, grid, n)

    def points(self, mechanisms: Sequence[Mechanism[Any]], counts: Integers) -> Iterator[Point]:
        """Yield each mechanism at every target, with a reason if it cannot be calibrated."""
        setting, log_delta = self.setting(counts), log_of_delta(self.delta)
        for mechanism in mechanisms:
            for eps in self.eps:
                parameters, reason = None, None
                try:
                    parameters = calibrated(mechanism, eps, log_delta, setting, self.contributions)
                except InputError as error:
                    reason = str(error)
                    _log.warning("n=%d, eps=%g, %s: %s", setting.n, eps, mechanism.name, reason)
                target = f"eps={eps:g}, delta={self.delta:g}"
                calibration = Calibration(TARGET, eps, log_delta, target, parameters)
                yield Point(mechanism, calibration, np.nan, self.delta, reason)


Sweep = BudgetSweep | TargetSweep  # calibrations at which a histogram is released


def matched_budgets(
    setting: Setting, eps: Sequence[float], target_deltas: Sequence[float], records: int = 1
) -> list[Budget]:
    """Return the points of the certified curve `upper` at each eps and at each target delta.

    The curve is that of shuffled k-RR in the setting, for all records of one user, whose number is
    `records`. Points with eps = 0 or with delta 0 or 1 are left out, because no Gaussian mechanism
    exists there.
    """
    upper = group_curve(upper_curve(setting), records)
    budgets = [Budget(e, upper.log_delta(e).promised, f"eps={e:g}") for e in eps]
    for delta in target_deltas:
        log_delta = log_of_delta(delta)
        target_eps = upper.epsilon(log_delta).promised
        budgets.append(Budget(target_eps, log_delta, f"delta={delta:g}"))
    usable = [b for b in budgets if 0.0 < b.eps < upper.budget and -np.inf < b.log_delta < 0.0]
    if len(usable) < len(budgets):
        _log.warning(
            "n=%d, eps0=%g: %d points left out because no Gaussian mechanism exists there",
            setting.n,
            setting.eps0,
            len(budgets) - len(usable),
        )
    return usable


def delta_hat_budgets(
    matched: Sequence[Budget], setting: Setting, counts: Integers, records: int = 1
) -> list[Budget]:
    """Return the matched points with paper A's delta-hat (eq. 10) as their delta: NOT guarantees.

    Delta-hat is the largest divergence of one cell's count, over the occupied cells and both
    directions, computed with the misprint of eq. 10 corrected. The analyst sees the whole
    histogram, not one count, so the true delta of the shuffle model is larger.

    `matched` are points on the setting's certified curve; `counts` is the true histogram. Delta-hat
    of several records of one user follows from that of one as in `group_log_delta`.
    """
    bound, others = BOUNDS["single-bin"], other_counts(counts)
    log_delta = group_log_delta(
        lambda eps: log_delta_of_worst_count(bound, eps, setting, others), records
    )
    return [Budget(b.eps, log_delta(b.eps), b.label, DELTA_HAT) for b in matched]


# --- Releases at every point of a sweep -----------------------------------------------------------

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
                step = max(1, GROUP_ROWS // setting.k)  # large tables are split by repetition
                for first in range(0, len(release.estimates), step):
                    shares = release.estimates[first : first + step]
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
