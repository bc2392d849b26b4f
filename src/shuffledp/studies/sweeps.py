"""Calibrate mechanisms to points of k-RR's certified curve, or to target (eps, delta).

A sweep is a list of such calibrations at which a histogram is released.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

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
from shuffledp.mechanisms.catalogue import DELTA_HAT
from shuffledp.mechanisms.protocol import Budget, Calibration, Mechanism
from shuffledp.mechanisms.target_calibration import calibrated, calibrations
from shuffledp.numerics.arrays import Integers
from shuffledp.pipeline.selection import TARGET
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
