"""Bounds on the privacy of shuffled k-RR: each returns a curve for the settings it applies to."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.curve import (
    Composable,
    Curve,
    LogDelta,
    NotApplicableError,
    SearchHints,
    UpperCurve,
)
from shuffledp.accounting.pairs import Pair
from shuffledp.accounting.participation import with_participation
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Floats, Integers

Kind = Literal["upper", "lower", "exact", "approximate", "as printed"]
# Function (eps, setting) that returns the natural log of delta, or (log delta, setting) that
# returns eps.
Formula = Callable[[float, Setting], float]


def _no_objection(setting: Setting, log_delta: float | None) -> str | None:
    """Return None: the bound applies to every setting (default of `Scope.objection`)."""
    del setting, log_delta
    return None


def _at_setting(setting: Setting, formula: Formula, added: float = 0.0) -> LogDelta:
    return lambda eps: formula(eps, setting) + added


@dataclass(frozen=True)
class Formulas:
    """The functions that a bound provides; at least one of ``log_delta`` and ``epsilon``.

    Attributes
    ----------
    log_delta
        Natural log of delta as a function of eps and a setting.
    epsilon
        Eps as a function of the natural log of delta and a setting.
    over_counts
        Function ``(eps, setting, counts)`` that returns the log deltas for several values of
        ``setting.count``, for a bound that depends on it.
    rdp
        Function ``(orders, setting)`` that returns the Renyi DP of all rounds together, for a bound
        that is derived from it.
    """

    log_delta: Formula | None = None
    epsilon: Formula | None = None
    over_counts: Callable[[float, Setting, Integers], Floats] | None = None
    rdp: Callable[[Floats, Setting], Floats] | None = None


@dataclass(frozen=True)
class Scope:
    """The settings that a bound applies to.

    Attributes
    ----------
    objection
        Function ``(setting, log_delta)`` that returns the reason why the bound does not apply, or
        None if it applies. ``log_delta`` is None if there is no target delta.
    covers_rounds
        Whether the bound covers more than one round.
    covers_dummies
        Whether the bound covers ``setting.dummies > 0``.
    """

    objection: Callable[[Setting, float | None], str | None] = _no_objection
    covers_rounds: bool = False
    covers_dummies: bool = False


@dataclass(frozen=True)
class Structure:
    """Dominating pair of a bound, and estimates that speed up searches.

    Attributes
    ----------
    pair
        Function of a setting that returns the dominating pair of one round, or None if there is
        none. Several rounds with sampled users or dropouts require it.
    ceiling
        Cheap upper bound on log delta, without an allowance for rounding, from which a search for
        eps starts. For several rounds it omits the truncated mass, so it is only an estimate.
    estimate
        Cheap approximation of log delta. Searches for n and k start from it, and so do searches for
        eps0 over several rounds; without a ceiling, all searches do.
    """

    pair: Callable[[Setting], Pair | None] | None = None
    ceiling: Formula | None = None
    estimate: Formula | None = None


@dataclass(frozen=True)
class Bound:
    """A bound on the privacy of shuffled k-RR, for the replacement of one record.

    Attributes
    ----------
    name
        Stable name for tables and the command line.
    kind
        ``upper``: never below the true delta; ``lower``: never above it; ``exact``: equal, rounded
        up; ``approximate``: neither is proven; ``as printed``: a paper's formula with its mistakes.
    source
        Authors and theorem of a paper, or docs/accounting.md.
    about
        Description in one line, for ``shuffledp list``.
    formulas, scope, structure
        Functions of the bound; the settings it applies to; a dominating pair and estimates.
    """

    name: str
    kind: Kind
    source: str
    about: str
    formulas: Formulas
    scope: Scope = Scope()
    structure: Structure = Structure()

    @property
    def uses_count(self) -> bool:
        """Whether the bound depends on ``setting.count``."""
        return self.formulas.over_counts is not None

    @property
    def guarantee(self) -> bool:
        """Whether the bound implies (eps, delta)-DP, that is, holds for every data set."""
        return self.kind in ("upper", "exact")

    def why_not(self, setting: Setting, log_delta: float | None = None) -> str | None:
        """Return the reason why the bound does not apply, or None if it applies.

        Conditions on the target log delta are checked only if it is not None.
        """
        if setting.eps0 == np.inf:
            return "it bounds k-RR only, and this setting has no eps0"
        if setting.rounds > 1 and not self.scope.covers_rounds:
            return f"it covers one round only, got rounds={setting.rounds}"
        if setting.dummies and not self.scope.covers_dummies:
            return "it does not cover dummies; use the bound named 'upper'"
        return self.scope.objection(setting, log_delta)

    def _require(self, setting: Setting, log_delta: float | None = None) -> None:
        reason = self.why_not(setting, log_delta)
        if reason:
            raise NotApplicableError(f"{self.name} does not apply: {reason}")

    def curve(self, setting: Setting) -> Curve:
        """Return the curve of a setting, which has only the end that the bound provides.

        The upper end of an ``approximate`` or ``as printed`` bound is its value, which is not a
        guarantee.

        Raises
        ------
        NotApplicableError
            If the bound does not apply to the setting.
        InputError
            If users are sampled or drop out, and the bound is not a guarantee.
        """
        if setting.participation_rate < 1.0 and not self.guarantee:
            what = "sampling" if setting.sampling_rate < 1.0 else "dropouts"
            raise InputError(
                f"{self.name} is no guarantee: with {what}, use a bound of kind upper or exact"
            )
        return with_participation(self._curve_if_all_report, setting)

    def _curve_if_all_report(self, setting: Setting) -> Curve:
        """Return the curve of a setting whose users are honest and all report."""
        self._require(setting)
        if self.kind == "lower":
            return Curve(
                setting.budget,
                lower=lambda eps: self._log_delta(eps, setting),
                hints=self._hints(setting),
            )
        return self._upper_if_all_report(setting)

    def _upper_if_all_report(self, setting: Setting) -> UpperCurve:
        self._require(setting)
        pair = self.structure.pair
        return UpperCurve(
            setting.budget,
            upper=lambda eps: self._log_delta(eps, setting),
            hints=self._hints(setting),
            composable=Composable(
                repeated=lambda rounds: self._upper_if_all_report(replace(setting, rounds=rounds)),
                pair=None if pair is None else pair(setting),
            ),
        )

    def _log_delta(self, eps: float, setting: Setting) -> float:
        if self.formulas.log_delta is None:
            raise NotApplicableError(f"{self.name} provides eps for a delta, not delta for an eps")
        return self.formulas.log_delta(eps, setting)

    def _hints(self, setting: Setting) -> SearchHints:
        epsilon, ceiling, estimate = self.formulas.epsilon, None, None
        # The estimates do not cover dummies.
        if self.structure.ceiling is not None and not setting.dummies:
            # The rounding error of the ceiling, a sum over all users, is below 1.
            ceiling = _at_setting(setting, self.structure.ceiling, added=1.0)
        if self.structure.estimate is not None and not setting.dummies:
            estimate = _at_setting(setting, self.structure.estimate)

        def inverse(log_delta: float) -> float:
            self._require(setting, log_delta)
            assert epsilon is not None
            return epsilon(log_delta, setting)

        return SearchHints(
            ceiling=ceiling if setting.rounds == 1 else None,
            estimate=ceiling or estimate,
            setting_estimate=estimate,
            inverse=None if epsilon is None else inverse,
        )

    def log_deltas_over_counts(self, eps: float, setting: Setting, counts: Integers) -> Floats:
        """Return log delta of one round for each number of other users in the target's cell.

        Raises `NotApplicableError` if the bound does not depend on this number.
        """
        if self.formulas.over_counts is None:
            raise NotApplicableError(f"{self.name} does not depend on a count")
        return self.formulas.over_counts(eps, setting, counts)

    def rdp(self, order: ArrayLike, setting: Setting) -> Any:
        """Return the Renyi DP of all rounds together at each order > 1, shaped like ``order``.

        Raises `NotApplicableError` if the bound does not apply to the setting, or is not derived
        from Renyi DP.
        """
        self._require(setting)
        if self.formulas.rdp is None:
            raise NotApplicableError(
                f"{self.name} is not a bound on Renyi DP: use renyi, renyi-simple or "
                "renyi-special-pair"
            )
        return self.formulas.rdp(np.asarray(order, np.float64), setting)[()]
