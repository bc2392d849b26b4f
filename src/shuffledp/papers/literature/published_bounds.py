"""Define the bounds of the literature as entries of `shuffledp.accounting.bound_registry`.

`shuffledp.accounting.bound.Bound` defines what a bound provides. The domain functions of a bound
return why it does not apply, or None. Sources name papers by their authors, as CITATION.cff does.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Final

import numpy as np
from scipy.special import expit

from shuffledp.accounting import krr, pairs
from shuffledp.accounting.bound import Bound, Formulas, Kind, Scope, Structure
from shuffledp.accounting.krr import upper_curve
from shuffledp.accounting.rounds import tradeoff
from shuffledp.accounting.setting import Setting
from shuffledp.numerics.arrays import Floats
from shuffledp.papers.literature import as_printed, clones, closed_forms, fourier, renyi, theorems

FOURIER_GRID_POINTS: Final = 2_000_000
INEQUALITIES: Final[tuple[closed_forms.Inequality, ...]] = ("hoeffding", "bennett")


def _scalar(function: Callable[[float, Setting], Floats]) -> Callable[[float, Setting], float]:
    """Restrict a function of eps or log delta of any shape to one number."""
    return lambda x, setting: float(function(x, setting))


def _any_randomiser(eps: float, s: Setting) -> float:
    if s.rounds == 1:
        return float(clones.generic_log_delta(eps, s))
    return krr.dominating_log_delta(eps, replace(s, k=2))


@lru_cache(maxsize=4)
def _fourier(setting: Setting) -> fourier.FourierBounds:
    """Return the bounds for every eps, from one FFT."""
    pair = pairs.weak_adversary(setting)
    return fourier.fourier_bounds(pair, setting.rounds, n_grid=FOURIER_GRID_POINTS)


def _as_printed(eps: float, s: Setting) -> float:
    assert s.count is not None
    return float(as_printed.log_delta_as_printed(eps, s, s.count))


def _renyi(
    name: str, rdp: Callable[..., Floats], source: str, about: str, *, kind: Kind = "upper"
) -> Bound:
    def composed(orders: Floats, s: Setting) -> Floats:
        return renyi.composed_rdp(rdp(orders, s), s.rounds)

    def orders_and_rdp(s: Setting) -> tuple[Floats, Floats]:
        orders = renyi.default_orders()
        return orders, composed(orders, s)

    return Bound(
        name,
        kind,
        source,
        about,
        Formulas(
            log_delta=lambda eps, s: float(renyi.rdp_to_log_delta(*orders_and_rdp(s), eps)),
            epsilon=lambda ld, s: min(float(renyi.rdp_to_dp(*orders_and_rdp(s), ld)), s.budget),
            rdp=composed,
        ),
        scope=Scope(objection=lambda s, _: renyi.shuffled_rdp_objection(s), covers_rounds=True),
    )


def _blanket(inequality: closed_forms.Inequality, *, any_randomiser: bool) -> Bound:
    randomiser = "any randomiser" if any_randomiser else "k-RR"
    return Bound(
        f"blanket-{inequality}" + ("-generic" if any_randomiser else ""),
        "upper",
        "Balle, Bell, Gascón and Nissim 2019, section 5",
        f"privacy blanket of {randomiser} by {inequality.capitalize()}'s inequality",
        Formulas(
            log_delta=lambda eps, s: float(
                closed_forms.blanket_log_delta(eps, s, inequality, any_randomiser=any_randomiser)
            )
        ),
        scope=Scope(objection=closed_forms.any_domain),
    )


def _composed(name: str, composition: Callable[..., Floats], source: str, about: str) -> Bound:
    """Return the bound that composes one (eps, delta) of `upper` by a composition theorem."""

    def epsilon(log_delta: float, s: Setting) -> float:
        # The rounds take half of delta, the theorem's slack the other half.
        step_log_delta = log_delta - float(np.log(2 * s.rounds))
        step_eps = upper_curve(replace(s, rounds=1)).epsilon(step_log_delta).promised
        return min(float(composition(log_delta, step_eps, step_log_delta, s.rounds)), s.budget)

    return Bound(
        name,
        "upper",
        source,
        about,
        Formulas(epsilon=epsilon),
        scope=Scope(
            objection=lambda s, _: "it needs several rounds (--rounds)" if s.rounds < 2 else None,
            covers_rounds=True,
        ),
    )


def _mu_gdp(eps: float, s: Setting) -> float:
    others = (s.n - 1.0) * expit(-s.eps0)
    mu = np.sqrt(2.0 * s.rounds / others) if others > 0.0 else np.inf
    return float(tradeoff.gdp_to_log_delta(eps, mu)) if eps < s.budget else -np.inf


_ENTRIES: Final = (
    Bound(
        "single-bin-as-printed",
        "as printed",
        "Biswas et al. 2023, Theorem IV.1, as printed",
        "the misprinted theorem, far too small; only to reproduce the paper's tables",
        Formulas(log_delta=_as_printed, over_counts=as_printed.log_delta_as_printed),
        scope=Scope(lambda s, _: "it needs a count (--count)" if s.count is None else None),
    ),
    Bound(
        "fourier",
        "upper",
        "Koskela et al. 2021, Algorithm 1 and Lemma 6, on the corrected pair",
        "the pair of `upper` composed by FFT on a grid, with bounded errors; floor about 1e-10",
        Formulas(log_delta=lambda eps, s: min(_fourier(s).log_delta(eps).high, 0.0)),
        scope=Scope(covers_rounds=True),
    ),
    Bound(
        "strong-adversary",
        "upper",
        "Koskela et al. 2021, Definition 8 and eq. (5.1)",
        "against an adversary who learns who reported a uniform cell, the target included",
        Formulas(log_delta=_scalar(clones.strong_adversary_log_delta)),
    ),
    Bound(
        "any-randomiser",
        "upper",
        "Feldman, McMillan and Talwar 2023 (stronger clones); proof here: docs/accounting.md",
        "holds for every eps0-LDP randomiser: the weak adversary of 2-RR",
        Formulas(log_delta=_any_randomiser),
        scope=Scope(covers_rounds=True),
        structure=Structure(pair=lambda s: pairs.weak_adversary(replace(s, k=2))),
    ),
    Bound(
        "clones",
        "upper",
        "Feldman, McMillan and Talwar 2021, Theorem 3.1; Koskela et al. 2021, section 6",
        "numeric clones bound for every eps0-LDP randomiser",
        Formulas(log_delta=_scalar(clones.clones_log_delta)),
    ),
    Bound(
        "clones-closed-form",
        "upper",
        "Feldman, McMillan and Talwar 2021, Theorem 3.1",
        "closed form of the clones bound",
        Formulas(
            log_delta=_scalar(closed_forms.clones_closed_form_log_delta),
            epsilon=_scalar(closed_forms.clones_closed_form_epsilon),
        ),
        scope=Scope(objection=closed_forms.clones_closed_form_domain),
    ),
    Bound(
        "variation-ratio",
        "lower",
        "Wang et al. 2023 (variation ratios), at k-RR's parameters; docs/accounting.md",
        "variation-ratio pair with k-RR parameters: no upper bound for k >= 3",
        Formulas(log_delta=_scalar(clones.variation_ratio_log_delta)),
        scope=Scope(lambda s, _: "it needs a third cell, k >= 3" if s.k < 3 else None),
    ),
    Bound(
        "erlingsson",
        "upper",
        "Erlingsson et al. 2019, Corollary 9",
        "12 eps0 sqrt(log(1/delta) / n), for n >= 1000, eps0 < 1/2, delta < 1/100",
        Formulas(
            log_delta=_scalar(closed_forms.erlingsson_log_delta),
            epsilon=_scalar(closed_forms.erlingsson_epsilon),
        ),
        scope=Scope(objection=closed_forms.erlingsson_domain),
    ),
    Bound(
        "balle-krr",
        "upper",
        "Balle et al. 2019, Theorem 3.1; Koskela et al. 2021, Theorem C.1",
        "closed form for k-RR",
        Formulas(
            log_delta=_scalar(closed_forms.balle_krr_log_delta),
            epsilon=_scalar(closed_forms.balle_krr_epsilon),
        ),
        scope=Scope(objection=closed_forms.balle_krr_domain),
    ),
    *(_blanket(by, any_randomiser=generic) for generic in (False, True) for by in INEQUALITIES),
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
        "`upper` of a round, with eps growing like the square root of the number of rounds",
    ),
    _composed(
        "kov-composition",
        theorems.kov_epsilon,
        "Kairouz, Oh and Viswanath 2015, Theorem 3.3",
        "`upper` of a round, optimally composed given only its eps and delta",
    ),
    Bound(
        "mu-gdp",
        "approximate",
        "Chen et al. 2023, Theorem 3, for equal budgets",
        "mu-GDP without an error term of order 1/sqrt(n): no bound, too small near k = 2",
        Formulas(log_delta=_mu_gdp),
        scope=Scope(covers_rounds=True),
    ),
    _renyi(
        "renyi",
        renyi.shuffled_rdp_upper,
        "Girgis et al. 2021, Theorem 3.1 and Lemma 2.1",
        "Renyi DP of any shuffled randomiser, converted",
    ),
    _renyi(
        "renyi-simple",
        renyi.shuffled_rdp_upper_simple,
        "Girgis et al. 2021, Theorem 3.3 and Lemma 2.1",
        "simpler Renyi bound, converted",
    ),
    _renyi(
        "renyi-special-pair",
        renyi.special_pair_renyi,
        "Girgis et al. 2021, section 3.4 (special pair), exactly; Lemma 2.1",
        "Renyi DP of one pair of 2-RR, converted: no bound on delta in either direction",
        kind="approximate",
    ),
)

BOUNDS: Final[Mapping[str, Bound]] = {bound.name: bound for bound in _ENTRIES}
