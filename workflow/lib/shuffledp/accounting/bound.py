"""What every bound on the privacy of shuffled k-RR has in common: a curve for each setting."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.curve import Curve, NotApplicableError
from shuffledp.accounting.pairs import Pair
from shuffledp.accounting.participation import of_crowd
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Floats, Integers

Kind = Literal["upper", "lower", "exact", "approximate", "as printed"]
LogDelta = Callable[[float, Setting], float]


def _always(setting: Setting, log_delta: float | None) -> str | None:
    """No condition: the bound applies everywhere."""
    del setting, log_delta
    return None


@dataclass(frozen=True)
class Bound:
    """One bound on the privacy of shuffled k-RR, for replacement of one report.

    Attributes
    ----------
    name
        Stable name for tables and the command line.
    kind
        ``upper``: never below the true delta; ``lower``: never above; ``exact``; ``approximate``:
        neither is known; ``as printed``: a formula that is wrong.
    source
        Paper, by its authors, and theorem; or docs/accounting.md.
    about
        What it is, in a line.
    log_delta_function, epsilon_function
        Natural log of delta at an eps, and eps at a natural log of delta; at least one.
    domain
        Reason why the bound does not apply at a setting and log delta (None: not known yet), or
        None.
    composes
        Whether it takes more than one round.
    knows_dummies
        Whether it takes ``setting.dummies``.
    over_counts
        Of a bound for which ``setting.count`` matters: log deltas at several counts, at once.
    dominating_pair
        Pair of one round behind it, which composes, also with rounds of drawn users.
    ceiling
        Found at once, and never below the log of delta by more than rounding (and, over rounds, by
        what windows leave out): it leads the search for eps, and decides for one round.
    lead
        About the log of delta, found at once, too large or too small: where a search among
        settings begins, and any search without a ceiling.
    rdp_function
        Renyi DP of each order, over all rounds, of a bound that is a conversion of it.
    """

    name: str
    kind: Kind
    source: str
    about: str
    log_delta_function: LogDelta | None = None
    epsilon_function: LogDelta | None = None
    domain: Callable[[Setting, float | None], str | None] = _always
    composes: bool = False
    knows_dummies: bool = False
    over_counts: Callable[[float, Setting, Integers], Floats] | None = None
    dominating_pair: Callable[[Setting], Pair | None] | None = None
    ceiling: LogDelta | None = None
    lead: LogDelta | None = None
    rdp_function: Callable[[Floats, Setting], Floats] | None = None

    @property
    def uses_count(self) -> bool:
        """Whether ``setting.count`` matters."""
        return self.over_counts is not None

    @property
    def guarantee(self) -> bool:
        """Whether (eps, delta)-DP follows for every data set."""
        return self.kind in ("upper", "exact")

    def why_not(self, setting: Setting, log_delta: float | None = None) -> str | None:
        """Reason why the bound says nothing here, or None if it does.

        Without a log delta, whatever depends on it is left out.
        """
        if setting.eps0 == np.inf:
            return "it is about k-RR, which needs eps0"
        if setting.rounds > 1 and not self.composes:
            return f"{self.name} covers one round only (got rounds={setting.rounds})"
        if setting.dummies and not self.knows_dummies:
            return f"{self.name} knows no dummies: only upper, the certified end, does"
        return self.domain(setting, log_delta)

    def _require(self, setting: Setting, log_delta: float | None = None) -> None:
        reason = self.why_not(setting, log_delta)
        if reason:
            raise NotApplicableError(f"{self.name} does not apply: {reason}")

    def curve(self, setting: Setting) -> Curve:
        """Delta over eps of a setting.

        The end that the bound gives; a bound that is none (``approximate``, ``as printed``) gives
        its value as the upper one: `kind` says so.

        Raises
        ------
        NotApplicableError
            If the bound says nothing there.
        InputError
            If users are drawn or drop out, and the bound is no guarantee.
        """
        if setting.part < 1.0 and not self.guarantee:
            what = "sampling" if setting.sampling_rate < 1.0 else "dropouts"
            raise InputError(
                f"{self.name} is no guarantee: with {what} only an upper end is certified"
            )
        return of_crowd(self._of_everybody, setting)

    def _of_everybody(self, setting: Setting) -> Curve:
        """Of a setting whose users are honest and all report."""
        self._require(setting)

        def log_delta(eps: float) -> float:
            if self.log_delta_function is None:
                raise NotApplicableError(f"{self.name} gives eps for a delta, not delta for an eps")
            return self.log_delta_function(eps, setting)

        def inverse(log_delta: float) -> float:
            self._require(setting, log_delta)
            assert self.epsilon_function is not None
            return self.epsilon_function(log_delta, setting)

        def above(eps: float) -> float:
            assert self.ceiling is not None
            # One more than what rounding can do to a sum over all users.
            return self.ceiling(eps, setting) + 1.0

        def lead(eps: float) -> float:
            assert self.lead is not None
            return self.lead(eps, setting)

        # Those leads know no dummies.
        alone = not setting.dummies
        once, scout = setting.rounds == 1, lead if self.lead and alone else None
        return Curve(
            budget=setting.budget,
            upper=None if self.kind == "lower" else log_delta,
            lower=log_delta if self.kind == "lower" else None,
            ceiling=above if self.ceiling and alone and once else None,
            lead=above if self.ceiling and alone else scout,
            scout=scout,
            inverse=inverse if self.epsilon_function else None,
            repeated=lambda rounds: self._of_everybody(replace(setting, rounds=rounds)),
            pair=None if self.dominating_pair is None else self.dominating_pair(setting),
        )

    def rdp(self, order: ArrayLike, setting: Setting) -> Any:
        """Renyi DP over all rounds of each order, a number above 1; shaped like ``order``.

        Raises
        ------
        NotApplicableError
            If the bound says nothing there, or is not one of Renyi DP.
        InputError
            If it does not take an order.
        """
        self._require(setting)
        if self.rdp_function is None:
            raise NotApplicableError(
                f"{self.name} is no bound on Renyi DP (those are renyi, renyi-simple and "
                "renyi-special-pair)"
            )
        return self.rdp_function(np.asarray(order, np.float64), setting)[()]
