"""What every bound on the privacy of shuffled k-RR has in common, and the questions it answers."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting import calibrate
from shuffledp.accounting.conventions import Side, over_eps, over_log_delta
from shuffledp.accounting.pairs import Pair
from shuffledp.accounting.setting import Setting
from shuffledp.arrays import Floats, Integers
from shuffledp.errors import InputError

Kind = Literal["upper", "lower", "exact", "approximate", "as printed"]


class NotApplicableError(InputError):
    """The bound says nothing for these parameters; the message gives the reason."""


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
    over_counts
        Of a bound for which ``setting.count`` matters: log deltas at several counts, at once.
    dominating_pair
        Pair of one round behind it, which composes, also with rounds of sampled users.
    ceiling
        Found at once, and never below the log of delta by more than rounding (and, over rounds, by
        what windows leave out): it leads the search for eps, and decides for one round.
    lead
        About the log of delta, found at once, too large or too small: where a search among
        settings of several rounds begins, and any search without a ceiling.
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
    over_counts: Callable[[float, Setting, Integers], Floats] | None = None
    dominating_pair: Callable[[Setting], Pair] | None = None
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
        if setting.rounds > 1 and not self.composes:
            return f"{self.name} covers one round only (got rounds={setting.rounds})"
        return self.domain(setting, log_delta)

    def upper_end(self, log_delta: LogDelta, lead: LogDelta | None = None) -> "Bound":
        """The same bound, asked something of which only an upper end of delta is known."""
        return replace(
            self,
            kind="upper",
            log_delta_function=log_delta,
            epsilon_function=None,
            dominating_pair=None,
            ceiling=None,
            lead=lead,
        )

    def _require(self, setting: Setting, log_delta: float | None = None) -> None:
        reason = self.why_not(setting, log_delta)
        if reason:
            raise NotApplicableError(f"{self.name} does not apply: {reason}")

    def log_delta(self, eps: ArrayLike, setting: Setting) -> Any:
        """Natural log of delta at ``eps``; -inf for 0.

        Parameters
        ----------
        eps
            Central budgets of at least 0, any shape.
        setting
            What is released.

        Returns
        -------
        Float or array of the shape of ``eps``.

        Raises
        ------
        NotApplicableError
            If the bound says nothing there.
        InputError
            If an eps is negative or no number.
        """
        self._require(setting)
        function = self.log_delta_function
        if function is None:
            raise NotApplicableError(f"{self.name} gives eps for a delta, not delta for an eps")
        return over_eps(function)(eps, setting)[()]

    def delta(self, eps: ArrayLike, setting: Setting) -> Any:
        """Delta at ``eps``, 0 where it underflows (`log_delta` does not); else as `log_delta`."""
        return np.exp(self.log_delta(eps, setting))

    def epsilon(self, log_delta: ArrayLike, setting: Setting) -> Any:
        """Smallest eps for a natural log of delta, rounded to the bound's safe side.

        Parameters
        ----------
        log_delta
            Natural logs of delta, at most 0, any shape.
        setting
            What is released.

        Returns
        -------
        Float or array in ``[0, rounds * eps0]``. Raises as `log_delta`.
        """
        return over_log_delta(self._epsilon)(log_delta, setting)[()]

    def _epsilon(self, log_delta: float, setting: Setting) -> float:
        self._require(setting, log_delta)
        if self.epsilon_function is not None:
            return self.epsilon_function(log_delta, setting)
        side: Side = "lower" if self.kind == "lower" else "upper"

        def at(eps: float) -> float:
            return float(self.log_delta(eps, setting))

        lead = self.lead if self.ceiling is None else self._ceiling
        if lead is None:
            return calibrate.epsilon(at, log_delta, setting.budget, side)
        return calibrate.led_epsilon(
            at, log_delta, setting.budget, side, lambda eps: lead(eps, setting)
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

    def surely_below(self, log_delta: float, eps: float, setting: Setting) -> bool:
        """Whether the ceiling alone shows that delta is below; False if it cannot tell."""
        if self.ceiling is None or setting.rounds > 1:
            return False
        return self._ceiling(eps, setting) <= log_delta

    def _ceiling(self, eps: float, setting: Setting) -> float:
        assert self.ceiling is not None
        # One more than what rounding can do to a sum over all users.
        return self.ceiling(eps, setting) + 1.0

    def eps0(self, eps: float, log_delta: float, setting: Setting) -> float:
        """Largest local budget whose delta at ``eps`` meets the target; ``setting.eps0`` is unused.

        Raises as `log_delta`.
        """

        def at(eps0: float) -> float:
            return float(self.log_delta(eps, replace(setting, eps0=eps0)))

        least = eps / setting.rounds
        decides = self.ceiling is not None and setting.rounds == 1
        lead = self._ceiling if decides else self.lead
        if lead is None:
            return calibrate.eps0(at, log_delta, least)
        return calibrate.led_eps0(
            at,
            log_delta,
            least,
            lambda eps0: lead(eps, replace(setting, eps0=eps0)),
            calibrate.XTOL if decides else calibrate.COARSE_XTOL,
        )
