"""Every bound under one name, with its kind, whether it is a guarantee, and its source.

`shuffledp.accounting.bound.Bound` says what a bound answers. Letters name papers as in
docs/accounting.md.
"""

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from shuffledp.accounting.bound import Bound, Kind, Setting
from shuffledp.accounting.one_round import (
    certified,
    clones,
    closed_forms,
    personalised,
    single_bin,
    worst_count,
)
from shuffledp.accounting.rounds import (
    composition,
    fourier,
    privacy_loss,
    renyi,
    theorems,
    tradeoff,
)
from shuffledp.errors import InputError

_FOURIER_GRID = 2_000_000


def _upper(eps: float, s: Setting) -> float:
    if s.rounds == 1:
        return float(certified.upper_log_delta(eps, s.eps0, s.n, s.k))
    return float(composition.composed_log_delta(eps, s.eps0, s.n, s.k, s.rounds, "upper"))


def _lower(eps: float, s: Setting) -> float:
    if s.rounds == 1:
        return float(certified.lower_log_delta(eps, s.eps0, s.n, s.k))
    return float(composition.composed_log_delta(eps, s.eps0, s.n, s.k, s.rounds, "lower"))


@lru_cache(maxsize=4)
def _fourier(n: int, k: int, eps0: float, rounds: int) -> fourier.FourierBounds:
    """One FFT answers every eps."""
    return fourier.fourier_bounds(
        privacy_loss.weak_pair(eps0, n, k), rounds, fourier.HALF_WIDTH, _FOURIER_GRID
    )


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


def _composed(name: str, composition: Callable[..., np.ndarray], source: str, about: str) -> Bound:
    """`upper` of one round, composed by a theorem that knows only its eps and delta."""

    def epsilon(log_delta: float, s: Setting) -> float:
        # Half of delta is spent on the rounds, half is the theorem's slack.
        step = log_delta - float(np.log(2 * s.rounds))
        step_eps = BOUNDS["upper"].epsilon(step, Setting(s.n, s.k, s.eps0))
        return min(float(composition(log_delta, step_eps, step, s.rounds)), s.budget)

    return Bound(
        name,
        "upper",
        True,
        source,
        about,
        epsilon_function=epsilon,
        domain=lambda s, _: "it is about several rounds (--rounds)" if s.rounds < 2 else None,
        composes=True,
    )


def _mu_gdp(eps: float, s: Setting) -> float:
    everyone = personalised.BudgetGroups(np.array([s.eps0]), np.array([s.n]))
    mu = personalised.mu_gdp(everyone) * np.sqrt(s.rounds)
    return float(tradeoff.gdp_to_log_delta(eps, mu)) if eps < s.budget else -np.inf


_BOUNDS = (
    Bound(
        "upper",
        "upper",
        True,
        "C, Theorem 10, corrected (docs/accounting.md)",
        "certified: exact against an adversary who also learns which others randomised",
        log_delta_function=_upper,
        composes=True,
    ),
    Bound(
        "lower",
        "lower",
        False,
        "docs/accounting.md",
        "certified: what the histogram leaks on an explicit data set",
        log_delta_function=_lower,
        composes=True,
    ),
    Bound(
        "exact-2rr",
        "exact",
        True,
        "docs/accounting.md",
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
        uses_count=True,
    ),
    Bound(
        "single-bin-as-printed",
        "as printed",
        False,
        "A, Theorem IV.1, as printed",
        "misprinted privacy loss: far too small; only to reproduce A's tables",
        log_delta_function=_as_printed,
        domain=_needs_count,
        uses_count=True,
    ),
    Bound(
        "fourier",
        "upper",
        True,
        "C, Algorithm 1 and Lemma 6, on the corrected pair",
        "the pair of `upper` on a grid, composed by FFT; stated error terms, floor about 1e-10",
        log_delta_function=lambda eps, s: float(
            min(_fourier(s.n, s.k, s.eps0, s.rounds).log_delta(eps).high, 0.0)
        ),
        composes=True,
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
        "docs/accounting.md",
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
    _composed(
        "basic-composition",
        theorems.basic_epsilon,
        "Dwork and Roth 2014, Theorem 3.16",
        "`upper` of a round, eps and delta added up over the rounds",
    ),
    _composed(
        "advanced-composition",
        theorems.advanced_epsilon,
        "Dwork and Roth 2014, Theorem 3.20",
        "`upper` of a round, composed with eps growing like the root of the rounds",
    ),
    _composed(
        "kov-composition",
        theorems.kov_epsilon,
        "Kairouz, Oh and Viswanath 2015, Theorem 3.3",
        "`upper` of a round, composed as well as its eps and delta allow",
    ),
    Bound(
        "mu-gdp",
        "approximate",
        False,
        "D, Theorem 3, for equal budgets",
        "mu-GDP value that drops a term of order 1/sqrt(n): no bound, too small near k = 2",
        log_delta_function=_mu_gdp,
        composes=True,
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
