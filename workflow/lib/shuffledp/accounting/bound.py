"""What every bound on the privacy of shuffled k-RR has in common, and the questions it answers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting import calibrate
from shuffledp.errors import InputError

LARGEST_N = 10_000_000_000
LARGEST_K = 1_000_000
Kind = Literal["upper", "lower", "exact", "approximate", "as printed"]


@dataclass(frozen=True)
class Setting:
    """n users, one report each in one of k cells, local budget eps0; optionally repeated.

    Attributes
    ----------
    n
        Number of users, at least 1.
    k
        Number of cells, at least 2.
    eps0
        Local budget of k-RR, positive and finite.
    rounds
        How often the same users report, each time with budget eps0.
    count
        How many of the other users hold the target's cell; None for the worst number.
    """

    n: int
    k: int
    eps0: float
    rounds: int = 1
    count: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.n <= LARGEST_N:
            raise InputError(f"n must lie in 1..{LARGEST_N:,} users (got n={self.n})")
        if not 2 <= self.k <= LARGEST_K:
            raise InputError(f"k must lie in 2..{LARGEST_K:,} cells (got k={self.k})")
        if not (0.0 < self.eps0 < np.inf):
            raise InputError(f"eps0 must be positive and finite (got eps0={self.eps0})")
        if self.rounds < 1:
            raise InputError(f"rounds must be at least 1 (got rounds={self.rounds})")
        if self.count is not None and not 0 <= self.count <= self.n - 1:
            raise InputError(
                f"count must lie in 0..n-1 = 0..{self.n - 1}, the other users (got {self.count})"
            )

    @property
    def budget(self) -> float:
        """Eps from which on delta is 0: that of releasing every report unshuffled."""
        return self.rounds * self.eps0


class NotApplicableError(InputError):
    """The bound says nothing for these parameters; the message gives the reason."""


LogDelta = Callable[[float, Setting], float]


def _always(setting: Setting, log_delta: float) -> str | None:
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
        neither is known.
    guarantee
        Whether (eps, delta)-DP follows for every data set.
    source
        Paper and theorem (letters as in docs/accounting.md), or docs/accounting.md.
    about
        What it is, in a line.
    log_delta_function, epsilon_function
        Natural log of delta at an eps, and eps at a natural log of delta; at least one.
    domain
        Reason why the bound does not apply at a setting and log delta, or None.
    composes
        Whether it takes more than one round.
    """

    name: str
    kind: Kind
    guarantee: bool
    source: str
    about: str
    log_delta_function: LogDelta | None = None
    epsilon_function: LogDelta | None = None
    domain: Callable[[Setting, float], str | None] = _always
    composes: bool = False
    uses_count: bool = False

    def why_not(self, setting: Setting, log_delta: float = -np.inf) -> str | None:
        """Reason why the bound says nothing here, or None if it does."""
        if setting.rounds > 1 and not self.composes:
            return f"{self.name} covers one round only (got rounds={setting.rounds})"
        return self.domain(setting, log_delta)

    def _require(self, setting: Setting, log_delta: float) -> None:
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
        self._require(setting, np.nan)
        function = self.log_delta_function
        if function is None:
            raise NotApplicableError(f"{self.name} gives eps for a delta, not delta for an eps")

        def one(eps: float) -> float:
            if not eps >= 0.0:
                raise InputError(f"eps must be at least 0 (got eps={eps})")
            return function(eps, setting)

        return np.vectorize(one, otypes=[np.float64])(eps)[()]

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

        def one(log_delta: float) -> float:
            if not log_delta <= 0.0:
                raise InputError(f"delta must lie in [0, 1] (got log delta={log_delta})")
            self._require(setting, log_delta)
            if self.epsilon_function is not None:
                return self.epsilon_function(log_delta, setting)
            return calibrate.epsilon(
                lambda eps: float(self.log_delta(eps, setting)),
                log_delta,
                setting.budget,
                round_up=self.kind != "lower",
            )

        return np.vectorize(one, otypes=[np.float64])(log_delta)[()]

    def eps0(self, eps: float, log_delta: float, setting: Setting) -> float:
        """Largest local budget whose delta at ``eps`` meets the target; ``setting.eps0`` is unused.

        Raises as `log_delta`.
        """

        def at(eps0: float) -> float:
            changed = Setting(setting.n, setting.k, eps0, setting.rounds, setting.count)
            return float(self.log_delta(eps, changed))

        return calibrate.eps0(at, log_delta, eps / setting.rounds)
