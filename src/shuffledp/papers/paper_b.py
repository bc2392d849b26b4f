"""Recompute paper B's figures 2 to 5, its simplified bounds, and the numbers in its text.

The available text of the paper lacks the figures, their captions and some formulas. Parameters that
it does not state are assumed, and the titles of the panels say so. B's bounds hold for every
eps0-LDP randomiser, so they are compared with certified curves for the worst of them, 2-RR.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache, partial
from itertools import product
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from shuffledp.accounting import calibrate, krr, pairs
from shuffledp.accounting.bound import Kind
from shuffledp.accounting.bound_registry import BOUNDS
from shuffledp.accounting.conventions import Side
from shuffledp.accounting.one_round import single_bin
from shuffledp.accounting.rounds.privacy_loss import default_step
from shuffledp.accounting.setting import Setting
from shuffledp.numerics.arrays import Floats
from shuffledp.papers.figure_specs import FigureSpec, curve, curves
from shuffledp.papers.literature import closed_forms, renyi, theorems
from shuffledp.papers.literature.renyi import shuffled_rdp_upper
from shuffledp.papers.verdicts import Answer, Published, Recompute

# --- Shared by several figures --------------------------------------------------------------------

# Functions of orders and a setting; of a log delta and a setting; composition theorems.
Rdp = Callable[[Floats, Setting], Floats]
OneRound = Callable[[float, Setting], float]
Composition = Callable[[Floats, Floats, Floats, Floats], Floats]

ORDERS: Final = np.unique(np.round(np.geomspace(2.0, 131072.0, 120)))

UPPER: Final = "certified upper bound"
THEOREM_3_1: Final = "Girgis et al., Theorem 3.1"
SPECIAL_PAIR: Final = "special pair of 2-RR, exact, larger direction"
ERLINGSSON: Final = "Erlingsson et al., Rényi (Girgis et al., eq. 9, reconstructed)"

CERTIFIED_NOTE: Final = (
    "The certified curves are those of 2-RR: the upper one bounds every eps0-LDP randomiser, the "
    "lower one is reached by data sets whose other users all agree."
)
EQUATION_9_NOTE: Final = (
    "Their eq. (9), missing from the available text, is reconstructed as 2 l exp(4 eps0) "
    "(exp(eps0) - 1)^2 / n from what the text says of it."
)


def below_budget(eps: Floats, budget: Floats) -> Floats:
    """Return eps, or NaN where it does not improve on the sum of the local budgets."""
    return np.where(eps < budget, eps, np.nan)


def erlingsson_rdp(order: Floats, setting: Setting) -> Floats:
    """Return the RDP of Erlingsson et al. by B's eq. (9): ``2 l E^4 (E-1)^2 / n``, E = exp(eps0).

    The formula is missing from the available text. It is reconstructed from the statement that it
    is E^4 times B's Corollary 3.2, which is 4 E times Corollary 3.5, the quadratic term of Theorem
    3.4: ``l (E-1)^2 / (2 n E)``. The order l may be any real number above 1.
    """
    n, eps0 = setting.n, setting.eps0
    return np.asarray(2.0 * order * np.exp(4.0 * eps0) * np.expm1(eps0) ** 2 / n)


# --- Simplified bounds: Corollaries 3.2 and 3.5, Remark 3 -----------------------------------------
#
# E = exp(eps0), l is the order. The formulas of the corollaries are missing from the available text
# and are reconstructed from its description: their ratio is about 4 E; 3.5 is Theorem 3.4 without
# the higher moments; 3.2 is Theorem 3.1 if no term exceeds the quadratic one, under a condition
# that is garbled in the text and read as l^4 E^5 < n / 9.

# Relative distances below the mean at which Chernoff's bound is evaluated.
SHORTFALLS: Final = np.geomspace(0.002, 0.98, 60)


def corollary_3_2(order: ArrayLike, setting: Setting) -> Floats:
    """Return Corollary 3.2's upper bound ``log(1 + C(l,2) 4 (E-1)^2 / n) / (l - 1)`` on RDP.

    It is inf where the condition ``l^4 E^5 < n / 9`` fails. The bound follows from Theorem 3.1 for
    large n only (docs/errata.md, B6). Orders are integers >= 2 of any shape.
    """
    orders = np.asarray(order, np.float64)
    holds = 4.0 * np.log(orders) + 5.0 * setting.eps0 < np.log(setting.n / 9.0)
    value = _quadratic(orders, 4.0 * np.expm1(setting.eps0) ** 2 / setting.n)
    return np.where(holds, value, np.inf)


def corollary_3_5(order: ArrayLike, setting: Setting) -> Floats:
    """Return Corollary 3.5's lower bound ``log(1 + C(l,2) (E-1)^2 / (n E)) / (l - 1)`` on RDP."""
    E = np.exp(setting.eps0)
    return _quadratic(np.asarray(order, np.float64), (E - 1.0) ** 2 / (setting.n * E))


def remark_3(order: ArrayLike, setting: Setting) -> Floats:
    """Return Theorem 3.1's upper bound on RDP at the best of `SHORTFALLS` for each order.

    The share that the remark uses is missing from the available text; Theorem 3.1 itself uses 1/2.
    """
    bounds = [shuffled_rdp_upper(order, setting, float(share)) for share in SHORTFALLS]
    return np.asarray(np.min(bounds, axis=0))


def _quadratic(orders: Floats, variance: float) -> Floats:
    return np.asarray(np.log1p(orders * (orders - 1.0) / 2.0 * variance) / (orders - 1.0))


# --- Figure 2: Rényi divergence of one round over its order ---------------------------------------


def rdp_against_order() -> pd.DataFrame:
    """Return the curves of figure 2: Rényi divergence over its order."""
    orders, parts = ORDERS[ORDERS <= 2000.0], []
    lines: tuple[tuple[str, Kind, Rdp], ...] = (
        (ERLINGSSON, "upper", erlingsson_rdp),
        ("Girgis et al., Theorem 3.3", "upper", renyi.shuffled_rdp_upper_simple),
        (THEOREM_3_1, "upper", renyi.shuffled_rdp_upper),
        (SPECIAL_PAIR, "exact", renyi.special_pair_renyi),
        ("Girgis et al., Theorem 3.4", "lower", renyi.shuffled_rdp_lower),
    )
    for n, eps0 in product((10_000, 1_000_000), (0.5, 1.0, 3.0)):
        panel = rf"$\epsilon_0={eps0:g}$, $n=10^{{{np.log10(n):.0f}}}$ (assumed)"
        for name, kind, rdp in lines:
            parts.append(curve(panel, name, kind, orders, rdp(orders, Setting(n, 2, eps0))))
    return curves(parts)


# --- Figure 3: eps of one round over eps0 ---------------------------------------------------------

SINGLE_DELTA: Final = 1e-6
_FEW_ORDERS = ORDERS[::4]  # the special pair is slow: its RDP is a sum over counts


def special_pair_epsilon(log_delta: float, setting: Setting) -> float:
    """Return the exact eps of B's special pair in its worse direction, a lower bound for 2-RR.

    All users but one hold the same record.
    """
    return calibrate.epsilon(
        lambda eps: float(single_bin.log_delta(eps, setting, setting.n - 1)),
        log_delta,
        setting.eps0,
        "lower",
    )


def eps_of_one_round() -> pd.DataFrame:
    """Return the curves of figure 3: eps at delta = 1e-6 over eps0."""
    log_delta = float(np.log(SINGLE_DELTA))

    def registered(*names: str) -> Callable[[Setting], float]:
        return lambda s: min(BOUNDS[name].curve(s).epsilon(log_delta).only for name in names)

    def converted(rdp: Rdp, orders: Floats = ORDERS) -> Callable[[Setting], float]:
        return lambda s: float(renyi.rdp_to_dp(orders, rdp(orders, s), log_delta))

    blanket = registered("blanket-hoeffding-generic", "blanket-bennett-generic")
    divergence = converted(renyi.special_pair_renyi, _FEW_ORDERS)
    # Curves that are shown only where they improve on eps0 are marked True.
    lines: tuple[tuple[str, Kind, Callable[[Setting], float], bool], ...] = (
        (UPPER, "upper", registered("any-randomiser"), False),
        ("special pair, exact", "lower", partial(special_pair_epsilon, log_delta), False),
        ("clones, numeric", "upper", registered("clones"), True),
        ("privacy blanket, smaller of two inequalities", "upper", blanket, True),
        (THEOREM_3_1, "upper", converted(renyi.shuffled_rdp_upper), True),
        ("special pair, by its Rényi divergence", "approximate", divergence, False),
        (ERLINGSSON, "upper", converted(erlingsson_rdp), True),
    )
    # Steps are even in log eps0, so that curves on the logarithmic axis of eps have no kinks.
    low, high = np.geomspace(0.1, 1.0, 9), np.geomspace(1.0, 4.0, 9)
    parts = []
    for letter, budgets, n in (
        *(("a", low, 10_000), ("b", high, 10_000)),
        *(("c", low, 10**6), ("d", high, 10**6)),
    ):
        panel = rf"{letter}: $n=10^{{{np.log10(n):.0f}}}$ (assumed)"
        for name, kind, epsilon, improving in lines:
            eps = np.array([epsilon(Setting(n, 2, float(eps0))) for eps0 in budgets])
            shown = below_budget(eps, budgets) if improving else eps
            parts.append(curve(panel, name, kind, budgets, shown))
    return curves(parts)


# --- Figure 4: composition ------------------------------------------------------------------------

COMPOSED_DELTA: Final = 1e-8
ROUNDS: Final = np.round(np.geomspace(10.0, 1e5, 9))
FEW_ROUNDS: Final = ROUNDS[::2]
LOWER: Final = "certified lower bound"
SPLIT_NOTE: Final = (
    "Composition theorems spend half of delta on the rounds and half on their slack."
)

# Step of the privacy-loss grid relative to the default. It changes eps by a relative 1e-4 or so,
# and the result is still certified.
_GRID_COARSENING: Final = 4.0


@lru_cache(maxsize=256)
def numeric_clones_epsilon(log_delta: float, setting: Setting) -> float:
    """Return the eps of the numeric clones bound at a natural log of delta, rounded up."""
    return float(BOUNDS["clones"].curve(setting).epsilon(log_delta).promised)


def closed_clones_epsilon(log_delta: float, setting: Setting) -> float:
    """Return the eps of the closed-form clones bound, or eps0 if that is smaller."""
    return min(float(closed_forms.clones_closed_form_epsilon(log_delta, setting)), setting.eps0)


def composed_dp(
    one_round: OneRound, compose: Composition, setting: Setting, rounds: Floats, rate: float = 1.0
) -> Floats:
    """Return the total eps at delta = 1e-8 from one round's (eps, delta) and a composition theorem.

    Half of delta is spent on the rounds, in equal shares, and half on the slack of the theorem.
    `one_round` returns eps at ``(log delta, setting)``, and `compose` is one of the ``*_epsilon``
    functions of `theorems`. The setting has one round and the users who report in it. A user takes
    part in a round with probability `rate`. (eps, delta) then becomes
    ``(log(1 + rate (exp(eps) - 1)), rate delta)`` (Li, Qardaji and Su 2012, about adding or
    removing a user).
    """
    log_delta = np.log(COMPOSED_DELTA)
    step_log_delta = log_delta - np.log(2.0 * rounds)
    step_eps = np.array([one_round(float(x - np.log(rate)), setting) for x in step_log_delta])
    return compose(log_delta, np.log1p(rate * np.expm1(step_eps)), step_log_delta, rounds)


def certified_composition(setting: Setting, rounds: Floats, side: Side) -> Floats:
    """Return the certified total eps of composed 2-RR at delta = 1e-8 for each number of rounds.

    The side ``upper`` holds for every randomiser. The setting's number of rounds is ignored.
    """
    step = _GRID_COARSENING * default_step(pairs.weak_adversary(setting))
    log_delta = float(np.log(COMPOSED_DELTA))

    def epsilon(composed: Setting) -> float:
        if side == "lower":
            return float(krr.composed_epsilon(log_delta, composed, side, step))
        # The bound against the weak adversary holds for every randomiser, not only 2-RR.
        return calibrate.guided_epsilon(
            lambda eps: krr.dominating_log_delta(eps, composed, step),
            log_delta,
            composed.budget,
            side,
            lambda eps: krr.chernoff_estimate(eps, composed),
        )

    return np.array([epsilon(replace(setting, rounds=int(count))) for count in rounds])


def composed_renyi(rdp: Floats, orders: Floats, rounds: Floats) -> Floats:
    """Return the total eps at delta = 1e-8 for each number of rounds, from one round's RDP."""
    totals = [renyi.composed_rdp(rdp, count) for count in rounds]
    return np.array([renyi.rdp_to_dp(orders, total, np.log(COMPOSED_DELTA)) for total in totals])


def _clones_curves(setting: Setting, rounds: Floats, rate: float = 1.0) -> dict[str, Floats]:
    """Return the total eps of clones for each number of rounds, by bound and theorem."""
    sampled = ", sampled" if rate < 1.0 else ""
    return {
        f"{name} clones{sampled}, {theorem} composition": composed_dp(
            one_round, compose, setting, rounds, rate
        )
        for name, one_round, theorem, compose in (
            ("numeric", numeric_clones_epsilon, "optimal", theorems.kov_epsilon),
            ("numeric", numeric_clones_epsilon, "advanced", theorems.advanced_epsilon),
            ("closed-form", closed_clones_epsilon, "optimal", theorems.kov_epsilon),
        )
    }


def eps_of_composition() -> pd.DataFrame:
    """Return the curves of figure 4: eps at delta = 1e-8 over the number of rounds."""
    sides: tuple[tuple[str, Side], ...] = ((UPPER, "upper"), (LOWER, "lower"))
    parts = []
    for panel, eps0, n in (
        (r"a: $\epsilon_0=0.5$, $n=10^6$ (as stated)", 0.5, 10**6),
        (r"$\epsilon_0=0.5$, $n=10^4$ (assumed)", 0.5, 10**4),
        (r"$\epsilon_0=1$, $n=10^6$ (assumed)", 1.0, 10**6),
        (r"$\epsilon_0=3$, $n=10^6$ (assumed)", 3.0, 10**6),
    ):
        setting = Setting(n, 2, eps0)
        for name, side in sides:
            certified = certified_composition(setting, FEW_ROUNDS, side)
            parts.append(curve(panel, name, side, FEW_ROUNDS, certified))
        theorem, erlingsson = (
            composed_renyi(rdp(ORDERS, setting), ORDERS, ROUNDS)
            for rdp in (renyi.shuffled_rdp_upper, erlingsson_rdp)
        )
        others = {THEOREM_3_1: theorem, **_clones_curves(setting, ROUNDS), ERLINGSSON: erlingsson}
        for name, eps in others.items():
            parts.append(curve(panel, name, "upper", ROUNDS, below_budget(eps, ROUNDS * eps0)))
    return curves(parts)


# --- Figure 5: Poisson sampling of users before each round ----------------------------------------

_SAMPLED_ORDERS = ORDERS[ORDERS <= 1000.0]  # the sampling theorem sums over all smaller orders


def known_sample_epsilon(setting: Setting, rate: float) -> float:
    """Return the certified eps at delta = 1e-8 of sampled 2-RR if the adversary knows the sample.

    It holds for replacement neighbours and for every eps0-LDP randomiser. The setting has the users
    before sampling, each of whom takes part in a round with a probability of ``rate``.
    """
    sampled = BOUNDS["any-randomiser"].curve(replace(setting, sampling_rate=rate))
    return float(sampled.epsilon(np.log(COMPOSED_DELTA)).promised)


def mean_sample(setting: Setting, rate: float) -> Setting:
    """Return a setting with the mean number of users who take part."""
    return replace(setting, n=round(rate * setting.n))


def sampled_renyi(setting: Setting, rate: float, rounds: Floats) -> Floats:
    """Return the eps that B plots in figure 5, from Theorem 3.1 for ``rate * n`` users.

    The RDP is subsampled, composed and converted at delta = 1e-8. The result is no guarantee for
    replacement neighbours (`renyi.subsampled_rdp`). See `known_sample_epsilon` for the parameters.
    """
    participants = mean_sample(setting, rate)
    rdp = renyi.subsampled_rdp(
        _SAMPLED_ORDERS, rate, lambda order: renyi.shuffled_rdp_upper(order, participants)
    )
    return composed_renyi(rdp, _SAMPLED_ORDERS, rounds)


def eps_of_sampling() -> pd.DataFrame:
    """Return the curves of figure 5: eps at delta = 1e-8 with Poisson sampling."""
    parts = []
    for panel, eps0, n, rate in (
        (r"a: $\epsilon_0=3$, $n=10^6$, rate .001 (assumed)", 3.0, 10**6, 1e-3),
        (r"$\epsilon_0=1$, $n=10^6$, rate .001 (all assumed)", 1.0, 10**6, 1e-3),
        (r"$\epsilon_0=3$, $n=10^6$, rate .01 (all assumed)", 3.0, 10**6, 1e-2),
        (r"$\epsilon_0=3$, $n=10^7$, rate .001 (all assumed)", 3.0, 10**7, 1e-3),
    ):
        setting = Setting(n, 2, eps0)
        composed = [replace(setting, rounds=int(count)) for count in FEW_ROUNDS]
        certified = [known_sample_epsilon(one, rate) for one in composed]
        parts.append(curve(panel, "certified, known sample", "upper", FEW_ROUNDS, certified))
        theorem = {"Girgis et al., Theorem 3.1, sampled": sampled_renyi(setting, rate, ROUNDS)}
        others = theorem | _clones_curves(mean_sample(setting, rate), ROUNDS, rate)
        for name, eps in others.items():
            shown = below_budget(eps, ROUNDS * eps0)
            parts.append(curve(panel, name, "approximate", ROUNDS, shown))
    return curves(parts)


FIGURES: Final[Mapping[str, FigureSpec]] = {
    "figure-2": FigureSpec(
        title="Girgis et al., figure 2: Rényi divergence of the shuffle model",
        x_label=r"order $\lambda$",
        y_label="Rényi divergence",
        between="next",
        compute=rdp_against_order,
        caption=(
            "All eps0 and n are assumed; the available text does not state them. "
            f"{EQUATION_9_NOTE} The paper's bounds never exceed eps0; eq. (9) is drawn without "
            "that limit. The special pair is that of Theorem 3.4 (2-RR, all users equal against "
            "one flipped) in the direction with the larger divergence; Theorem 3.4 is the other "
            "direction, which is much smaller at high orders."
        ),
    ),
    "figure-3": FigureSpec(
        title=r"Girgis et al., figure 3: one round, $\delta=10^{-6}$",
        x_label=r"$\epsilon_0$",
        y_label=r"$\epsilon$",
        compute=eps_of_one_round,
        caption=(
            "delta = 1e-6 as stated; n and the ranges of eps0 are assumed, chosen so that b and "
            f"d are the panels with eps0 > 1, as the text says. {CERTIFIED_NOTE} "
            f"{EQUATION_9_NOTE} Points that do not improve on eps0 are omitted. The privacy "
            "blanket is the smaller of the bounds by Hoeffding's and by Bennett's inequality. "
            "The paper argues with Lemma 2.1 applied to the special pair. This bounds the eps of "
            "one pair from above, and so the eps of the randomiser neither from above nor from "
            "below. The exact eps of the pair is shown as well."
        ),
        x_scale="linear",
    ),
    "figure-4": FigureSpec(
        title=r"Girgis et al., figure 4: composition, $\delta=10^{-8}$",
        x_label="rounds",
        y_label=r"$\epsilon$",
        compute=eps_of_composition,
        caption=(
            "delta = 1e-8 and panel a, eps0 = 0.5, n = 1,000,000, as stated; other panels are "
            f"assumed. {CERTIFIED_NOTE} {SPLIT_NOTE} {EQUATION_9_NOTE} Points that do not improve "
            "on the sum of the eps0 are omitted. The factor of 8 in the abstract refers to "
            "100,000 rounds in panel a (docs/errata.md, B1)."
        ),
    ),
    "figure-5": FigureSpec(
        title=r"Girgis et al., figure 5: Poisson sampling before each round, $\delta=10^{-8}$",
        x_label="rounds",
        y_label=r"$\epsilon$",
        compute=eps_of_sampling,
        caption=(
            "In panel a, eps0 = 3 and n = 1,000,000 users before sampling are as stated. The "
            "sampling rate is assumed in all panels, and so is delta = 1e-8, which is stated for "
            "figure 4. Only the certified curve is a guarantee for the replacement of a record: "
            "it holds even if the sample is known, and its number of users per round is a lower "
            "bound that fails with probability 1e-14. The dotted curves take the mean number of "
            "users, and use theorems (Zhu and Wang; Li, Qardaji and Su) about adding or removing "
            f"a record: they are no guarantee for replacement. {SPLIT_NOTE} The factor of at "
            "least 10 in the abstract refers to 10,000 rounds of panel a (docs/errata.md, B2)."
        ),
    ),
}


# --- Numbers in the text --------------------------------------------------------------------------

_RATE: Final = 0.001  # sampling rate of figure 5, assumed because the text does not state it
_ASSUMED: Final = f"delta={COMPOSED_DELTA:g}, as in figure 4; sampling rate {_RATE:g}"
# Factors by which the stated number of rounds is multiplied or divided in the search.
_ROUND_FACTORS: Final = np.geomspace(1.0, 30.0, 13)
_ADD_OR_REMOVE: Final = (
    "The theorem on subsampling is about adding or removing a record; it is no guarantee for "
    "replacing one."
)


def headline(row: Published) -> Answer:
    """Recompute one of the two factors in B's abstract by which it improves on composed clones."""
    all_users, rounds = Setting(int(row.n), 2, float(row.eps0)), np.array([float(row.rounds)])
    sampling = "subsampling" in row.quantity
    rate = _RATE if sampling else 1.0
    setting = mean_sample(all_users, rate)
    if sampling:
        eps = sampled_renyi(all_users, rate, rounds)[0]
    else:
        eps = composed_renyi(renyi.shuffled_rdp_upper(ORDERS, setting), ORDERS, rounds)[0]
    numeric_gain, advanced_gain, closed_gain = (
        clones[0] / eps for clones in _clones_curves(setting, rounds, rate).values()
    )
    return Answer(
        as_printed=Decimal(float(numeric_gain)),
        recovered=f"{_ASSUMED}, {setting.n:,} users in a round (assumed)" if sampling else "",
        note=(
            f"Theorem 3.1 gives eps={eps:.4g}. Against it, clones computed numerically (the code "
            f"that paper B's footnote 2 names) with optimal composition: {numeric_gain:.3g}, with "
            f"advanced composition {advanced_gain:.3g}; closed form of clones with optimal "
            f"composition: {closed_gain:.3g}. "
            + (
                f"At least 10 holds against the closed form only. {_ADD_OR_REMOVE}"
                if sampling
                else "The size of the factor depends on the bound that one compares with."
            )
        ),
    )


def interactions(row: Published) -> Answer:
    """Recompute the factor by which B allows more rounds than clones, sampled and at equal eps."""
    all_users, stated = Setting(int(row.n), 2, float(row.eps0)), float(row.rounds)
    setting = mean_sample(all_users, _RATE)
    more, fewer = np.round(stated * _ROUND_FACTORS), np.round(stated / _ROUND_FACTORS)
    eps = sampled_renyi(all_users, _RATE, more)
    clones_eps = composed_dp(numeric_clones_epsilon, theorems.kov_epsilon, setting, fewer, _RATE)
    gain = _rounds_at(clones_eps[0], more, eps) / stated
    other_gain = stated / _rounds_at(eps[0], fewer[::-1], clones_eps[::-1])
    return Answer(
        as_printed=Decimal(gain),
        recovered=f"{_ASSUMED}, {setting.n:,} users in a round (assumed)",
        note=(
            "Factor by which Theorem 3.1 allows more rounds than numeric clones with optimal "
            f"composition, at the eps at which clones allow {stated:,.0f} rounds. At the eps at "
            f"which Theorem 3.1 allows {stated:,.0f} rounds, the factor is {other_gain:.2g}, below "
            f"the paper's value. {_ADD_OR_REMOVE}"
        ),
    )


def _rounds_at(eps: float, rounds: Floats, needed: Floats) -> float:
    """Return the interpolated number of rounds at which ``needed`` is eps; both arrays increase."""
    return float(np.exp(np.interp(np.log(eps), np.log(needed), np.log(rounds))))


NUMBERS: Final[Mapping[str, Recompute]] = {
    "Fig 4a headline": headline,
    "Fig 5a headline": headline,
    "text 1": interactions,
}
