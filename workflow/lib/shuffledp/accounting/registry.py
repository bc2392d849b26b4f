"""Every bound under one name, with its kind and its source.

`shuffledp.accounting.bound.Bound` says what a bound answers. Sources name papers by their
authors, as CITATION.cff does.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, lru_cache

import numpy as np
from scipy.special import expit

from shuffledp.accounting import composition, pairs
from shuffledp.accounting.bound import Bound, Kind
from shuffledp.accounting.central_limit import central_limit
from shuffledp.accounting.curve import Curve
from shuffledp.accounting.laws.multinomial import log_chernoff_bound
from shuffledp.accounting.literature import clones, closed_forms, fourier, renyi, theorems
from shuffledp.accounting.literature.strong_adversary import strong_adversary_log_delta
from shuffledp.accounting.one_round import certified, single_bin, two_cells, worst_count
from shuffledp.accounting.one_round.dummies import (
    krr_among_dummies_log_delta,
    loss_among_dummies,
)
from shuffledp.accounting.rounds import shuffled_krr, tradeoff
from shuffledp.accounting.rounds import two_cells as rounds_of_two_cells
from shuffledp.accounting.rounds.privacy_loss import Loss
from shuffledp.accounting.rounds.profile import loss_of_curve
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError, did_you_mean
from shuffledp.numerics.arrays import Floats

_FOURIER_GRID = 2_000_000
# Of points of a curve of two cells that composes: eps grows by some 3e-4 of itself, which is less
# than what the points' distance costs.
_SPARE = 2e-4
# Of two cells: so many rounds are looked at one by one, which takes seconds for each eps0. Of fewer
# the ends are nearly as close without.
_FEWEST_ROUNDS = 8


def _number(function: Callable[[float, Setting], Floats]) -> Callable[[float, Setting], float]:
    """Of a function of eps or log delta of any shape, that of one number."""
    return lambda x, setting: float(function(x, setting))


def _upper(eps: float, s: Setting) -> float:
    if s.rounds == 1 and s.dummies:
        return float(krr_among_dummies_log_delta(eps, s, s.dummies, int(np.ceil(s.dummies))))
    if s.rounds == 1:
        return float(certified.upper_log_delta(eps, s))
    if s.dummies:
        return _by_profile(s)(eps)
    high = float(shuffled_krr.composed_log_delta(eps, s, "upper"))
    # Of two cells more is known than the weak adversary's pair.
    return min(high, _by_profile(s)(eps)) if s.k == 2 else high


def _composing(once: Setting) -> Curve:
    """`upper` of one round as composes by itself."""
    curve = BOUNDS["upper"].curve(once)
    if once.dummies:
        return replace(curve, loss=lambda: loss_among_dummies(once, lambda: loss_of_curve(curve)))
    if once.k == 2 and once.n > two_cells.EXHAUSTIVE_N:
        return replace(curve, upper=lambda eps: two_cells.worst(eps, once, _SPARE).ends.high)
    return curve


def krr_loss(setting: Setting) -> Loss:
    """Loss of a round of k-RR among rounds that differ: with two cells, or dummies, by its curve.

    Users all honest, who report.
    """
    once = setting.once
    if once.dummies:
        composing = _composing(once).loss
        assert composing is not None
        return composing()
    found = shuffled_krr.loss_of(once)
    return replace(loss_of_curve(_composing(once)), down=found.down) if once.k == 2 else found


@lru_cache(maxsize=4)
def _by_profile(setting: Setting) -> Callable[[float], float]:
    """`upper` over rounds by its curve of one round; of two cells also round by round."""
    composed = composition.composed([(_composing(setting.once), setting.rounds)])
    upper = composed.upper
    assert upper is not None
    one_by_one = _FEWEST_ROUNDS <= setting.rounds <= rounds_of_two_cells.MOST_ROUNDS
    if setting.k > 2 or setting.dummies or not one_by_one:
        return upper

    @cache
    def worst() -> Curve:
        return rounds_of_two_cells.worst_rounds(setting, composed)

    def least(eps: float) -> float:
        high = upper(eps)
        if high < -rounds_of_two_cells.DEEPEST:
            return high
        return min(high, worst().log_delta(eps).promised)

    return least


def _lower(eps: float, s: Setting) -> float:
    if s.rounds == 1:
        return float(certified.lower_log_delta(eps, s))
    return float(shuffled_krr.composed_log_delta(eps, s, "lower"))


def _any_randomiser(eps: float, s: Setting) -> float:
    if s.rounds == 1:
        return float(clones.generic_log_delta(eps, s))
    return shuffled_krr.dominated_log_delta(eps, replace(s, k=2))


def _ceiling(eps: float, s: Setting) -> float:
    """Chernoff's bound on the weak adversary's delta, a few units above its log."""
    if s.rounds > 1:
        return shuffled_krr.ceiling(eps, s)
    if eps >= s.eps0:
        return -np.inf
    return log_chernoff_bound(pairs.weak_adversary(s).weighted_sum(eps))


@lru_cache(maxsize=4)
def _fourier(setting: Setting) -> fourier.FourierBounds:
    """One FFT answers every eps."""
    pair = pairs.weak_adversary(setting)
    return fourier.fourier_bounds(pair, setting.rounds, fourier.HALF_WIDTH, _FOURIER_GRID)


def _single_bin(eps: float, s: Setting) -> float:
    if s.count is None:
        return float(worst_count.lower_log_delta(eps, s))
    return float(single_bin.log_delta(eps, s, s.count))


def _as_printed(eps: float, s: Setting) -> float:
    assert s.count is not None
    return float(single_bin.log_delta_as_printed(eps, s, s.count))


def _needs_count(s: Setting, log_delta: float | None) -> str | None:
    del log_delta
    return "it needs a count (--count)" if s.count is None else None


def _third_cell(s: Setting, log_delta: float | None) -> str | None:
    del log_delta
    return "it needs a third cell, k >= 3" if s.k < 3 else None


def _renyi(
    name: str, rdp: Callable[..., Floats], source: str, about: str, *, kind: Kind = "upper"
) -> Bound:
    def composed(orders: Floats, s: Setting) -> Floats:
        return renyi.composed_rdp(rdp(orders, s), s.rounds)

    def orders(s: Setting) -> tuple[Floats, Floats]:
        every = renyi.default_orders()
        return every, composed(every, s)

    return Bound(
        name,
        kind,
        source,
        about,
        log_delta_function=lambda eps, s: float(renyi.rdp_to_log_delta(*orders(s), eps)),
        epsilon_function=lambda ld, s: min(float(renyi.rdp_to_dp(*orders(s), ld)), s.budget),
        domain=lambda s, _: renyi.shuffled_rdp_domain(s),
        composes=True,
        rdp_function=composed,
    )


def _blanket(inequality: closed_forms.Inequality, *, any_randomiser: bool) -> Bound:
    whose = "any randomiser" if any_randomiser else "k-RR"
    return Bound(
        f"blanket-{inequality}" + ("-generic" if any_randomiser else ""),
        "upper",
        "Balle, Bell, Gascón and Nissim 2019, section 5",
        f"privacy blanket of {whose} by {inequality.capitalize()}'s inequality",
        log_delta_function=lambda eps, s: float(
            closed_forms.blanket_log_delta(eps, s, inequality, any_randomiser=any_randomiser)
        ),
        domain=closed_forms.any_domain,
    )


def _composed(name: str, composition: Callable[..., Floats], source: str, about: str) -> Bound:
    """`upper` of one round, composed by a theorem that knows only its eps and delta."""

    def epsilon(log_delta: float, s: Setting) -> float:
        # Half of delta is spent on the rounds, half is the theorem's slack.
        step = log_delta - float(np.log(2 * s.rounds))
        step_eps = BOUNDS["upper"].curve(replace(s, rounds=1)).epsilon(step).promised
        return min(float(composition(log_delta, step_eps, step, s.rounds)), s.budget)

    return Bound(
        name,
        "upper",
        source,
        about,
        epsilon_function=epsilon,
        domain=lambda s, _: "it is about several rounds (--rounds)" if s.rounds < 2 else None,
        composes=True,
    )


def _mu_gdp(eps: float, s: Setting) -> float:
    others = (s.n - 1.0) * expit(-s.eps0)
    mu = np.sqrt(2.0 * s.rounds / others) if others > 0.0 else np.inf
    return float(tradeoff.gdp_to_log_delta(eps, mu)) if eps < s.budget else -np.inf


_BOUNDS = (
    Bound(
        "upper",
        "upper",
        "Koskela et al. 2021, Theorem 10, corrected (docs/accounting.md); the privacy blanket: "
        "Balle, Bell, Gascón and Nissim 2019",
        "certified: exact against an adversary who also learns which others randomised",
        log_delta_function=_upper,
        composes=True,
        knows_dummies=True,
        dominating_pair=lambda s: None if s.dummies else pairs.weak_adversary(s),
        ceiling=_ceiling,
        lead=lambda eps, s: central_limit(pairs.weak_adversary, eps, s),
    ),
    Bound(
        "lower",
        "lower",
        "docs/accounting.md",
        "certified: what the histogram leaks on an explicit data set",
        log_delta_function=_lower,
        composes=True,
        ceiling=_ceiling,
    ),
    Bound(
        "exact-2rr",
        "exact",
        "docs/accounting.md",
        "k = 2: the largest delta over all data sets",
        log_delta_function=_number(two_cells.two_rr_log_delta),
        domain=lambda s, _: two_cells.two_rr_domain(s),
    ),
    Bound(
        "single-bin",
        "lower",
        "Biswas et al. 2023, eqs. (6) and (10), corrected",
        "the count of one bin alone; at the worst count unless --count is given",
        log_delta_function=_single_bin,
        over_counts=single_bin.log_delta,
    ),
    Bound(
        "single-bin-as-printed",
        "as printed",
        "Biswas et al. 2023, Theorem IV.1, as printed",
        "misprinted privacy loss: far too small; only to reproduce the paper's tables",
        log_delta_function=_as_printed,
        domain=_needs_count,
        over_counts=single_bin.log_delta_as_printed,
    ),
    Bound(
        "fourier",
        "upper",
        "Koskela et al. 2021, Algorithm 1 and Lemma 6, on the corrected pair",
        "the pair of `upper` on a grid, composed by FFT; stated error terms, floor about 1e-10",
        log_delta_function=lambda eps, s: min(_fourier(s).log_delta(eps).high, 0.0),
        composes=True,
    ),
    Bound(
        "strong-adversary",
        "upper",
        "Koskela et al. 2021, Definition 8 and eq. (5.1)",
        "against an adversary who knows every other report's origin but for the blanket's",
        log_delta_function=_number(strong_adversary_log_delta),
    ),
    Bound(
        "any-randomiser",
        "upper",
        "Feldman, McMillan and Talwar 2023 (stronger clones); proof here: docs/accounting.md",
        "holds for every eps0-LDP randomiser: the weak adversary of 2-RR",
        log_delta_function=_any_randomiser,
        composes=True,
        dominating_pair=lambda s: pairs.weak_adversary(replace(s, k=2)),
    ),
    Bound(
        "clones",
        "upper",
        "Feldman, McMillan and Talwar 2021, Theorem 3.1; Koskela et al. 2021, section 6",
        "numeric clones bound for every eps0-LDP randomiser",
        log_delta_function=_number(clones.clones_log_delta),
    ),
    Bound(
        "clones-closed-form",
        "upper",
        "Feldman, McMillan and Talwar 2021, Theorem 3.1",
        "closed form of the clones bound",
        log_delta_function=_number(closed_forms.clones_closed_form_log_delta),
        epsilon_function=_number(closed_forms.clones_closed_form_epsilon),
        domain=closed_forms.clones_closed_form_domain,
    ),
    Bound(
        "variation-ratio",
        "lower",
        "Wang et al. 2023 (variation ratios), at k-RR's parameters; docs/accounting.md",
        "variation-ratio pair with k-RR parameters: no upper bound for k >= 3",
        log_delta_function=_number(clones.variation_ratio_log_delta),
        domain=_third_cell,
    ),
    Bound(
        "erlingsson",
        "upper",
        "Erlingsson et al. 2019, Corollary 9",
        "12 eps0 sqrt(log(1/delta) / n), for n >= 1000, eps0 < 1/2, delta < 1/100",
        log_delta_function=_number(closed_forms.erlingsson_log_delta),
        epsilon_function=_number(closed_forms.erlingsson_epsilon),
        domain=closed_forms.erlingsson_domain,
    ),
    Bound(
        "balle-krr",
        "upper",
        "Balle et al. 2019, Theorem 3.1; Koskela et al. 2021, Theorem C.1",
        "closed form for k-RR",
        log_delta_function=_number(closed_forms.balle_krr_log_delta),
        epsilon_function=_number(closed_forms.balle_krr_epsilon),
        domain=closed_forms.balle_krr_domain,
    ),
    _blanket("hoeffding", any_randomiser=False),
    _blanket("bennett", any_randomiser=False),
    _blanket("hoeffding", any_randomiser=True),
    _blanket("bennett", any_randomiser=True),
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
        "Chen et al. 2023, Theorem 3, for equal budgets",
        "mu-GDP value that drops a term of order 1/sqrt(n): no bound, too small near k = 2",
        log_delta_function=_mu_gdp,
        composes=True,
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

BOUNDS: dict[str, Bound] = {bound.name: bound for bound in _BOUNDS}


def get_bound(name: str) -> Bound:
    """Look up a bound by its name.

    Raises
    ------
    InputError
        If there is none; the message says which was meant, or lists those there are.
    """
    try:
        return BOUNDS[name]
    except KeyError:
        meant = did_you_mean(name, BOUNDS) or f" (bounds: {', '.join(BOUNDS)})"
        raise InputError(f"there is no bound {name!r}{meant}") from None
