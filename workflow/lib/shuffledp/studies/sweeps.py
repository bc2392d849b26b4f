"""What mechanisms are calibrated to: points of a certified curve, or a target (eps, delta)."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

import numpy as np
import pandas as pd

from shuffledp.accounting.participation import with_participation
from shuffledp.accounting.registry import BOUNDS, upper_curve
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.mechanisms.protocol import Budget, Calibration, Mechanism
from shuffledp.mechanisms.registry import MECHANISMS
from shuffledp.mechanisms.target_calibration import calibrated, calibrations, read_parameters
from shuffledp.numerics.arrays import Integers
from shuffledp.pipeline.selection import DELTA_HAT, TARGET, at_targets
from shuffledp.pipeline.tables import PROMISES
from shuffledp.studies.privacy import other_counts

_log = logging.getLogger(__name__)

_LOG_10: Final = float(np.log(10.0))
# A mechanism's own curve has points at multiples of a part of the eps that it promises.
_PARTS: Final = 16
_POINTS: Final = 25


@dataclass(frozen=True)
class Point:
    """A mechanism calibrated to something, or the reason why it cannot be.

    Attributes
    ----------
    mechanism, calibration
        What is released, and with which parameters: None where ``reason`` says why there are none.
    eps0
        Local budget that the calibration follows from; NaN for a target.
    delta
        That of the calibration, as it was asked for.
    """

    mechanism: Mechanism[Any]
    calibration: Calibration[Any]
    eps0: float
    delta: float
    reason: str | None = None


class Sweep(Protocol):
    """Points to release a histogram at."""

    def setting(self, counts: Integers) -> Setting:
        """From whom a histogram, shape ``(k,)``, is collected."""
        ...

    def labels(self, region: str, grid: str, n: int) -> tuple[object, ...]:
        """Name the random streams, with mechanism and calibration.

        Parameters
        ----------
        region, grid
            Names of the place.
        n
            Number of users.
        """
        ...

    def points(self, mechanisms: Sequence[Mechanism[Any]], counts: Integers) -> Iterator[Point]:
        """Calibrate each mechanism for a histogram, shape ``(k,)``."""
        ...


@dataclass(frozen=True)
class BudgetSweep:
    """The certified curve of shuffled k-RR with a local budget, and what papers made of it.

    Calibrations: ``none`` (the noise follows from eps0), ``matched`` (at the privacy that `upper`
    certifies for shuffled k-RR with eps0), ``delta-hat`` (at the eps of the target delta, with the
    delta of `literal_budgets`), and a mechanism's own, such as the Gaussian's ``as-published``.

    Attributes
    ----------
    eps0, eps, target_delta
        Local budget; where on its certified curve mechanisms are matched.
    """

    eps0: float
    eps: Sequence[float]
    target_delta: float

    def setting(self, counts: Integers) -> Setting:
        """From all users, with the local budget."""
        return Setting(int(counts.sum()), counts.size, self.eps0)

    def labels(self, region: str, grid: str, n: int) -> tuple[object, ...]:
        """Place, n and the local budget.

        Parameters
        ----------
        region, grid
            Names of the place.
        n
            Number of users.
        """
        return ("release", region, grid, n, f"eps0={self.eps0:g}")

    def points(self, mechanisms: Sequence[Mechanism[Any]], counts: Integers) -> Iterator[Point]:
        """Calibrate each mechanism to every budget; see `target_calibration.calibrations`."""
        setting = self.setting(counts)
        at_target = matched_budgets(setting, [], [self.target_delta])
        budgets = [
            *matched_budgets(setting, self.eps, []),
            *at_target,
            *literal_budgets(at_target, setting, counts),
        ]
        for mechanism in mechanisms:
            for one in calibrations(mechanism, setting, budgets):
                yield Point(mechanism, one, self.eps0, float(10.0 ** (one.log_delta / _LOG_10)))


@dataclass(frozen=True)
class TargetSweep:
    """Targets that each mechanism calibrates itself to: each eps with the one delta.

    Attributes
    ----------
    eps, delta
        The targets.
    colluding, response_rate
        As of `Setting`. Colluders report as they should; errors are about all users.
    """

    eps: Sequence[float]
    delta: float
    colluding: int = 0
    response_rate: float = 1.0

    def setting(self, counts: Integers) -> Setting:
        """From users of whom some collude or drop out."""
        return Setting(
            int(counts.sum()),
            counts.size,
            colluding=self.colluding,
            response_rate=self.response_rate,
        )

    def labels(self, region: str, grid: str, n: int) -> tuple[object, ...]:
        """Place and n: the calibration names the target.

        Parameters
        ----------
        region, grid
            Names of the place.
        n
            Number of users.
        """
        return ("target", region, grid, n)

    def points(self, mechanisms: Sequence[Mechanism[Any]], counts: Integers) -> Iterator[Point]:
        """Calibrate each mechanism to every target, with a reason where it cannot be met."""
        setting, log_delta = self.setting(counts), float(np.log(self.delta))
        for mechanism in mechanisms:
            for eps in self.eps:
                parameters, reason = None, None
                try:
                    parameters = calibrated(mechanism, eps, log_delta, setting)
                except InputError as error:
                    reason = str(error)
                    _log.warning("n=%d, eps=%g, %s: %s", setting.n, eps, mechanism.name, reason)
                asked = f"eps={eps:g}, delta={self.delta:g}"
                one = Calibration(TARGET, eps, log_delta, asked, parameters)
                yield Point(mechanism, one, np.nan, self.delta, reason)


def matched_budgets(
    setting: Setting, eps: Sequence[float], target_deltas: Sequence[float]
) -> list[Budget]:
    """Points on the certified curve (`upper`) of shuffled k-RR at a setting.

    One for each eps given, with its delta, and one for each target delta, with its eps. Points at
    eps = 0, or with delta 0 or 1, are left out: no Gaussian exists there.

    Parameters
    ----------
    setting
        n, k and the local budget eps0.
    eps
        Whose deltas are sought, at least 0 each.
    target_deltas
        Whose eps are sought, in (0, 1) each.
    """
    upper = upper_curve(setting)
    budgets = [Budget(e, upper.log_delta(e).promised, f"eps={e:g}") for e in eps]
    for delta in target_deltas:
        log_delta = float(np.log(delta))
        eps_there = upper.epsilon(log_delta).promised
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
    log_deltas = BOUNDS["single-bin"].log_deltas_over_counts
    others = other_counts(counts)
    return [
        Budget(b.eps, float(log_deltas(b.eps, setting, others).max()), b.asked, DELTA_HAT)
        for b in matched
    ]


def promises_table(summary: pd.DataFrame, k: int) -> pd.DataFrame:
    """The certified curve of each mechanism at what it was calibrated to, up to 1.5 times its eps.

    Parameters
    ----------
    summary
        Columns of the summary of `shuffledp.studies.utility`, of one region.
    k
        Number of cells.

    Returns
    -------
    Columns of `pipeline.tables.PROMISES`: upper ends; the eps that is promised is among the points.
    Nothing where people drop out: each delta is then a mean over how many take part.
    """
    met = at_targets(summary)
    met = met[met["reason"].isna() & (met["response_rate"] == 1.0)]
    asked = ["n", "eps", "mechanism", "parameters", "colluding"]
    rows = []
    for n, promised, name, words, colluding in (
        met[asked].drop_duplicates().itertuples(index=False, name=None)
    ):
        # What is promised, not what all n got if it is for fewer of them.
        of = partial(MECHANISMS[name].curve, read_parameters(MECHANISMS[name], words))
        own = with_participation(of, Setting(n, k, colluding=colluding))
        for i in range(_POINTS):
            eps = promised * i / _PARTS
            rows.append((n, k, name, words, eps, own.log_delta(eps).promised))
    names = ["n", "k", "mechanism", "parameters", "eps", "log_delta"]
    table = pd.DataFrame(rows, columns=names)
    table["delta"] = np.exp(table["log_delta"])
    table["log10_delta"] = table["log_delta"] / _LOG_10
    return table.reindex(columns=PROMISES.names)
