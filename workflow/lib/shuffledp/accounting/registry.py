"""Every bound under one name, with its kind, whether it is a guarantee, and its source.

A bound is asked ``log_delta``, ``epsilon`` or ``eps0`` of a `Setting`; what it has no formula for
is found by root finding. Outside its domain of validity a bound says why instead.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting import (
    calibrate,
    certified,
    clones,
    closed_forms,
    composition,
    fourier,
    renyi,
    single_bin,
    worst_count,
)
from shuffledp.errors import InputError

Kind = Literal["upper", "lower", "exact", "approximate"]


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
        if self.n < 1:
            raise InputError(f"n must be at least 1 user (got n={self.n})")
        if self.k < 2:
            raise InputError(f"k must be at least 2 cells (got k={self.k})")
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
        Paper and theorem (letters as in docs/accounting.md), or the section of the design.
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


def _upper(eps: float, s: Setting) -> float:
    if s.rounds == 1:
        return float(certified.upper_log_delta(eps, s.eps0, s.n, s.k))
    return float(composition.composed_log_delta(eps, s.eps0, s.n, s.k, s.rounds, "upper"))


def _lower(eps: float, s: Setting) -> float:
    if s.rounds == 1:
        return float(certified.lower_log_delta(eps, s.eps0, s.n, s.k))
    return float(composition.composed_log_delta(eps, s.eps0, s.n, s.k, s.rounds, "lower"))


def _single_bin(eps: float, s: Setting) -> float:
    if s.count is None:
        return float(worst_count.lower_log_delta(eps, s.eps0, s.n, s.k))
    return float(single_bin.log_delta(eps, s.eps0, s.n, s.k, s.count))


def _as_printed(eps: float, s: Setting) -> float:
    return float(single_bin.log_delta_as_printed(eps, s.eps0, s.n, s.k, s.count or 0))


def _two_rr_domain(s: Setting, log_delta: float) -> str | None:
    del log_delta
    if s.k != 2:
        return f"it covers k = 2 only (got k={s.k})"
    if s.n > worst_count.EXHAUSTIVE_N:
        return f"it tries every data set, up to n = {worst_count.EXHAUSTIVE_N:,} (got n={s.n:,})"
    return None


def _needs_count(s: Setting, log_delta: float) -> str | None:
    del log_delta
    return "it needs a count (--count)" if s.count is None else None


def _third_cell(s: Setting, log_delta: float) -> str | None:
    del log_delta
    return "it needs a third cell, k >= 3" if s.k < 3 else None


def _closed_form(domain: Callable[..., str | None], *, cells: bool) -> Callable[..., str | None]:
    def check(s: Setting, log_delta: float) -> str | None:
        # NaN stands for "delta is not known yet": its own condition is then left to the formula.
        at = -20.0 if np.isnan(log_delta) else log_delta
        return domain(at, s.eps0, s.n, s.k) if cells else domain(at, s.eps0, s.n)

    return check


def _renyi(
    name: str, rdp: Callable[..., np.ndarray], source: str, about: str, *, kind: Kind = "upper"
) -> Bound:
    def orders(s: Setting) -> tuple[np.ndarray, np.ndarray]:
        every = renyi.default_orders()
        if rdp is renyi.shuffled_rdp_upper:
            every = every[(every >= 2) & (every == np.floor(every))]
        return every, renyi.composed_rdp(rdp(every, s.eps0, s.n), s.rounds)

    return Bound(
        name,
        kind,
        kind == "upper",
        source,
        about,
        log_delta_function=lambda eps, s: float(renyi.rdp_to_log_delta(*orders(s), eps)),
        epsilon_function=lambda ld, s: min(float(renyi.rdp_to_dp(*orders(s), ld)), s.budget),
        domain=lambda s, _: renyi.shuffled_rdp_domain(s.eps0, s.n),
        composes=True,
    )


def _blanket(name: str, log_delta: Callable[..., np.ndarray], *, cells: bool, about: str) -> Bound:
    def k(s: Setting) -> int | None:
        return s.k if cells else None

    return Bound(
        name,
        "upper",
        True,
        "Balle, Bell, Gascon and Nissim 2019, section 5",
        about,
        log_delta_function=lambda eps, s: float(log_delta(eps, s.eps0, s.n, k(s))),
        domain=lambda s, _: closed_forms.blanket_domain(s.eps0, s.n, k(s)),
    )


_BOUNDS = (
    Bound(
        "upper",
        "upper",
        True,
        "C, Theorem 10, corrected (design, section 2.3)",
        "certified: exact against an adversary who also learns which others randomised",
        log_delta_function=_upper,
        composes=True,
    ),
    Bound(
        "lower",
        "lower",
        False,
        "design, section 2.4",
        "certified: what the histogram leaks on an explicit data set",
        log_delta_function=_lower,
        composes=True,
    ),
    Bound(
        "exact-2rr",
        "exact",
        True,
        "design, section 2.4",
        "k = 2: the largest delta over all data sets",
        log_delta_function=lambda eps, s: float(worst_count.two_rr_log_delta(eps, s.eps0, s.n)),
        domain=_two_rr_domain,
    ),
    Bound(
        "single-bin",
        "lower",
        False,
        "A, eqs. (6) and (10), corrected",
        "the count of one bin alone; at the worst count unless --count is given",
        log_delta_function=_single_bin,
    ),
    Bound(
        "single-bin-as-printed",
        "approximate",
        False,
        "A, Theorem IV.1, as printed",
        "misprinted privacy loss: far too small; only to reproduce A's tables",
        log_delta_function=_as_printed,
        domain=_needs_count,
    ),
    Bound(
        "strong-adversary",
        "upper",
        True,
        "C, Definition 8 and eq. (5.1)",
        "against an adversary who knows every other report's origin but for the blanket's",
        log_delta_function=lambda eps, s: min(
            fourier.strong_adversary_log_delta(eps, s.eps0, s.n, s.k).high, 0.0
        ),
    ),
    Bound(
        "any-randomiser",
        "upper",
        True,
        "docs/accounting.md",
        "holds for every eps0-LDP randomiser: the weak adversary of 2-RR",
        log_delta_function=lambda eps, s: float(clones.generic_log_delta(eps, s.eps0, s.n)),
    ),
    Bound(
        "clones",
        "upper",
        True,
        "Feldman, McMillan and Talwar 2021, Theorem 3.1; C, section 6",
        "numeric clones bound for every eps0-LDP randomiser",
        log_delta_function=lambda eps, s: float(clones.clones_log_delta(eps, s.eps0, s.n)),
    ),
    Bound(
        "clones-closed-form",
        "upper",
        True,
        "Feldman, McMillan and Talwar 2021, Theorem 3.1",
        "closed form of the clones bound",
        log_delta_function=lambda eps, s: float(
            closed_forms.clones_closed_form_log_delta(eps, s.eps0, s.n)
        ),
        epsilon_function=lambda ld, s: float(
            closed_forms.clones_closed_form_epsilon(ld, s.eps0, s.n)
        ),
        domain=_closed_form(closed_forms.clones_closed_form_domain, cells=False),
    ),
    Bound(
        "variation-ratio",
        "lower",
        False,
        "design, section 3",
        "variation-ratio pair with k-RR parameters: no upper bound for k >= 3",
        log_delta_function=lambda eps, s: float(
            clones.variation_ratio_log_delta(eps, s.eps0, s.n, s.k)
        ),
        domain=_third_cell,
    ),
    Bound(
        "erlingsson",
        "upper",
        True,
        "Erlingsson et al. 2019, Corollary 9",
        "12 eps0 sqrt(log(1/delta) / n), for n >= 1000, eps0 < 1/2, delta < 1/100",
        log_delta_function=lambda eps, s: float(
            closed_forms.erlingsson_log_delta(eps, s.eps0, s.n)
        ),
        epsilon_function=lambda ld, s: float(closed_forms.erlingsson_epsilon(ld, s.eps0, s.n)),
        domain=_closed_form(closed_forms.erlingsson_domain, cells=False),
    ),
    Bound(
        "balle-krr",
        "upper",
        True,
        "Balle et al. 2019, Theorem 3.1; C, Theorem C.1",
        "closed form for k-RR",
        log_delta_function=lambda eps, s: float(
            closed_forms.balle_krr_log_delta(eps, s.eps0, s.n, s.k)
        ),
        epsilon_function=lambda ld, s: float(closed_forms.balle_krr_epsilon(ld, s.eps0, s.n, s.k)),
        domain=_closed_form(closed_forms.balle_krr_domain, cells=True),
    ),
    _blanket(
        "blanket-hoeffding",
        closed_forms.blanket_hoeffding_log_delta,
        cells=True,
        about="privacy blanket of k-RR by Hoeffding's inequality",
    ),
    _blanket(
        "blanket-bennett",
        closed_forms.blanket_bennett_log_delta,
        cells=True,
        about="privacy blanket of k-RR by Bennett's inequality",
    ),
    _blanket(
        "blanket-hoeffding-generic",
        closed_forms.blanket_hoeffding_log_delta,
        cells=False,
        about="privacy blanket of any randomiser by Hoeffding's inequality",
    ),
    _blanket(
        "blanket-bennett-generic",
        closed_forms.blanket_bennett_log_delta,
        cells=False,
        about="privacy blanket of any randomiser by Bennett's inequality",
    ),
    _renyi(
        "renyi",
        renyi.shuffled_rdp_upper,
        "B, Theorem 3.1 and Lemma 2.1",
        "Renyi DP of any shuffled randomiser, converted",
    ),
    _renyi(
        "renyi-simple",
        renyi.shuffled_rdp_upper_simple,
        "B, Theorem 3.3 and Lemma 2.1",
        "simpler Renyi bound, converted",
    ),
    _renyi(
        "renyi-special-pair",
        renyi.special_pair_renyi,
        "B, section 3.4 (special pair), computed exactly; Lemma 2.1",
        "Renyi DP of one pair of 2-RR, converted: no bound on delta in either direction",
        kind="approximate",
    ),
)

BOUNDS: dict[str, Bound] = {bound.name: bound for bound in _BOUNDS}


def get_bound(name: str) -> Bound:
    """Look up a bound by its name.

    Raises
    ------
    InputError
        If there is none; the message lists those there are.
    """
    try:
        return BOUNDS[name]
    except KeyError:
        raise InputError(f"there is no bound {name!r} (bounds: {', '.join(BOUNDS)})") from None
