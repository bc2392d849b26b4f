"""Recompute paper D's figures 2 to 4 and the numbers in its text.

Figures 2 and 3, which the paper takes from Dong, Roth and Su, show trade-off functions: the least
type II error of a test between two neighbouring data sets as a function of its type I error alpha.
Figure 4 compares bounds for users with personal budgets. For eq. (15) see `normal_distances`.
"""

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from functools import partial
from typing import Final

import numpy as np
import pandas as pd
from numpy.polynomial.legendre import leggauss
from numpy.typing import ArrayLike
from scipy.optimize import root_scalar
from scipy.special import ndtr, ndtri

from shuffledp.accounting.bound import Kind
from shuffledp.accounting.calibrate import epsilon
from shuffledp.accounting.krr import weak_adversary_log_delta
from shuffledp.accounting.laws.binomial import log_pmf
from shuffledp.accounting.rounds.tradeoff import tradeoff
from shuffledp.numerics.arrays import Floats
from shuffledp.papers.figure_specs import FigureSpec, curve, curves
from shuffledp.papers.literature import theorems
from shuffledp.papers.paper_d.estimation import BUDGET_LAWS, sample_budgets
from shuffledp.papers.paper_d.published import echoes_epsilon, mu_gdp_epsilon
from shuffledp.papers.verdicts import Answer, Published, Recompute, not_tried
from shuffledp.personalised.groups import BudgetGroups, split_target
from shuffledp.personalised.krr_reports import (
    divergence_log_delta,
    log_expm1,
    personalised_log_delta,
)
from shuffledp.pipeline.streams import stream

# --- Figures 2 and 3: trade-off functions ---------------------------------------------------------

ROUNDS: Final = 10
DELTA: Final = 0.001
# Parameters of the figures that paper D does not state.
_EPS, _EPS_DELTA, _MUS, _MU_DELTA = 1.0, 0.1, (0.5, 1.0, 3.0), 0.1
_ALPHAS: Final = np.linspace(0.0, 1.0, 401)


def gaussian_tradeoff(alpha: Floats, mu: float) -> Floats:
    """Return the trade-off function of mu-GDP, ``Phi(Phi^-1(1 - alpha) - mu)``."""
    return np.asarray(ndtr(-ndtri(alpha) - mu))


def composed_tradeoff(alpha: Floats) -> Floats:
    """Return the exact trade-off function of ten rounds of (1/sqrt(10), 0)-DP.

    It is piecewise linear, with slopes given by the privacy losses.
    """
    step = ROUNDS**-0.5
    losses = step * np.arange(ROUNDS, -1, -2)
    return tradeoff(alpha, losses, theorems.kov_log_delta(losses, step, -np.inf, ROUNDS))


def composed_epsilon() -> float:
    """Return the smallest eps at which ten rounds are (eps, 0.001)-DP; paper D prints 2.89."""
    return float(theorems.kov_epsilon(np.log(DELTA), ROUNDS**-0.5, -np.inf, ROUNDS))


def _eps_delta_tradeoff(eps: float, delta: float) -> Floats:
    with np.errstate(divide="ignore"):
        return tradeoff(_ALPHAS, eps, np.log(delta))


def figure_2() -> pd.DataFrame:
    """Return the curves of figure 2: trade-off functions of (eps, delta)-DP and of Gaussian DP."""
    left, right = r"$(\epsilon, \delta)$-DP", r"$\mu$-GDP"
    no_loss = r"no privacy loss, $1-\alpha$"
    lines = [(panel, no_loss, 1.0 - _ALPHAS) for panel in (left, right)]
    for delta in (0.0, _EPS_DELTA):
        name = rf"$\epsilon={_EPS:g}$, $\delta={delta:g}$"
        lines.append((left, name, _eps_delta_tradeoff(_EPS, delta)))
    lines += [(right, rf"$\mu={mu:g}$", gaussian_tradeoff(_ALPHAS, mu)) for mu in _MUS]
    return curves(curve(panel, name, "exact", _ALPHAS, y) for panel, name, y in lines)


def figure_3() -> pd.DataFrame:
    """Return the curves of figure 3: mu-GDP with a delta, and ten rounds with approximations."""
    left = rf"with $f_{{0,\delta}}$, $\delta={_MU_DELTA:g}$"
    right = r"10 rounds of $(1/\sqrt{10}, 0)$-DP"
    eps, gaussian = composed_epsilon(), gaussian_tradeoff(_ALPHAS, 1.0)
    # Together with an independent (0, delta)-DP, mu-GDP is scaled towards the origin.
    kept = 1.0 - _MU_DELTA
    both = kept * gaussian_tradeoff(np.minimum(_ALPHAS / kept, 1.0), 1.0)
    with_delta = rf"$\epsilon={eps:.4f}$, $\delta={DELTA:g}$"
    lines: list[tuple[str, str, Kind, Floats]] = [
        (left, r"$\mu=1$", "exact", gaussian),
        (left, rf"$\mu=1$ and $\delta={_MU_DELTA:g}$", "exact", both),
        (right, "10 rounds, exact", "exact", composed_tradeoff(_ALPHAS)),
        (right, r"central limit, $\mu=1$", "approximate", gaussian),
        (right, with_delta, "upper", _eps_delta_tradeoff(eps, DELTA)),
    ]
    return curves(curve(panel, name, kind, _ALPHAS, y) for panel, name, kind, y in lines)


# --- Eq. (15): distance of reported counts from a normal law --------------------------------------

_QUADRATURE_NODES: Final = 12
_WINDOW_DEVIATIONS: Final = 8.0  # the mass outside the window is below 1e-14


def normal_distances(n: int, eps0: float) -> tuple[float, float]:
    """Return two distances of reported counts from a normal law, in D's example (delta0 = 1/n).

    The n - 1 other users each fall into the first, the second or neither of two classes. Paper D
    replaces the law of the first two counts by the normal law of the same mean and covariance. The
    number n of users is at least 2, and eps0 is the budget of each.

    The first distance is eq. (15) as printed: the largest difference between the probability of a
    point and the normal law's mass of a quarter of the unit square around it. The second one is the
    total variation distance from the normal law rounded to integers.
    """
    others, share = n - 1, (1.0 - 1.0 / n) / (1.0 + np.exp(eps0))
    mean, variance = others * share, others * share * (1.0 - share)
    reach = _WINDOW_DEVIATIONS * np.sqrt(variance)
    counts = np.arange(max(0.0, np.floor(mean - reach)), min(others, np.ceil(mean + reach)) + 1.0)
    first, second = counts[:, np.newaxis], counts
    law = np.exp(
        log_pmf(first, others, share) + log_pmf(second, others - first, share / (1.0 - share))
    )
    covariance = -others * share**2
    quarter = _square_masses(counts, 0.0, 0.5, mean, variance, covariance)
    whole = _square_masses(counts, -0.5, 0.5, mean, variance, covariance)
    return float(np.abs(law - quarter).max()), float(np.maximum(law - whole, 0.0).sum())


def _square_masses(
    counts: Floats, low: float, high: float, mean: float, variance: float, covariance: float
) -> Floats:
    """Return the normal mass of the squares ``count + [low, high]``, shape ``(m, m)``."""
    nodes, weights = leggauss(_QUADRATURE_NODES)
    at = counts[:, np.newaxis] + low + (high - low) * (nodes + 1.0) / 2.0
    density = np.exp(-0.5 * (at - mean) ** 2 / variance) / np.sqrt(2.0 * np.pi * variance)
    slope = covariance / variance
    middle = (mean + slope * (at - mean))[..., np.newaxis]
    deviation = np.sqrt(variance - slope * covariance)
    inside = ndtr((counts + high - middle) / deviation) - ndtr((counts + low - middle) / deviation)
    return np.asarray(np.einsum("ij,ijk->ik", density * weights * (high - low) / 2.0, inside))


# --- Figure 4: eps over the number of users -------------------------------------------------------

# Paper D draws 1,000 budgets and repeats them for more users.
N_DRAWN: Final = 1000
N_USERS: Final = (1_000, 3_000, 10_000, 30_000, 100_000, 1_000_000)
# Binary reports, as in D's frequency estimation (Algorithm 3); not stated for figure 4.
K: Final = 2
# Budgets are rounded up to multiples of this step, so that there are few groups.
BUDGET_STEP: Final = 0.05
_SEED = 4
# Tolerance of a secant step in log eps; the error of the result is about its square.
_STEP_TOL: Final = 1e-3
# Initial guesses: eps sqrt(n) of personalised k-RR, and the ratio of the clones eps to its eps.
_FIRST_GUESS, _CLONES_RATIO = 3.0, 1.15

PERSONALISED: Final = "personalised k-RR, exact"
CLONES: Final = "personalised clones (Chen et al., Theorem 1, corrected)"
MU_GDP: Final = r"$\mu$-GDP (Chen et al., Theorem 3 without its error term)"
ECHOES: Final = "echoes (Liu et al.), of Laplace reports, not checked"
LARGEST: Final = "all at the largest budget, certified"


def budget_groups(law: str, n: int) -> BudgetGroups:
    """Return the budgets of n users, a multiple of 1,000: 1,000 draws from a law, repeated."""
    drawn = sample_budgets(law, N_DRAWN, stream(_SEED, "paper D, figure 4", law))
    # The second rounding removes the rounding error of the product.
    once = BudgetGroups.of(np.round(np.ceil(drawn / BUDGET_STEP) * BUDGET_STEP, 6))
    return BudgetGroups(once.values, once.counts * (n // N_DRAWN))


def _solved(log_delta: Callable[[float], float], target: float, guess: float) -> float:
    """Return the eps at which a smooth log delta meets the target, to a relative 1e-5."""
    solution = root_scalar(
        lambda log_eps: log_delta(float(np.exp(log_eps))) - target,
        x0=np.log(guess),
        x1=np.log(0.98 * guess),
        method="secant",
        xtol=_STEP_TOL,
    )
    if not solution.converged:
        raise RuntimeError(f"the search for log delta {target} failed: {solution.flag}")
    return float(np.exp(solution.root))


def personalised_clones_log_delta(
    eps: ArrayLike, budgets: ArrayLike | BudgetGroups, target: int | None = None
) -> Floats:
    """Return the log of paper D's clones delta, with corrected weights: a conditional guarantee.

    Each other user is a decoy with probability ``exp(-eps_i)``, and the target's randomiser is 2-RR
    with the target's budget; the value is exact and rounded up. It is a guarantee if every other
    user's randomiser satisfies ``R_i(x) >= exp(-eps_i) (R_t(x0) + R_t(x1)) / 2`` for all x, R_t
    being the target's. This holds if all randomisers are 2-RR, or all are the same. LDP alone does
    not imply it, since R_t and R_i may be unrelated; unrelated randomisers get no amplification at
    all. k-RR with k >= 3 and unequal budgets violates it, and there are data sets with a larger
    delta than this value.

    See `personalised_log_delta` for parameters, return value and errors. Without a target the value
    covers every target: the target has the largest budget, and a user of the smallest is no decoy.

    Source: paper D, Theorem 1 with delta_i = 0; eqs. (7), (8) and Lemma 2 corrected.
    """
    budget, groups, others = split_target(budgets, target)
    if target is None:
        others = groups.without(int(np.argmin(groups.values)))
    log_odds = -log_expm1(others.values)
    return divergence_log_delta(eps, budget, log_odds, others, 2)


def bounds_on_epsilon(groups: BudgetGroups, log_delta: float, guess: float) -> dict[str, float]:
    """Return eps of every curve of figure 4 at one number of users, by the name of the curve.

    An eps is NaN if its bound does not apply. ``guess`` starts the slow search for the eps of
    personalised k-RR, and the result starts that for personalised clones.
    """
    personalised = _solved(
        lambda eps: float(personalised_log_delta(eps, groups, K)), log_delta, guess
    )
    alike = groups.setting(groups.values.max(), K)  # as if all had the largest budget
    return {
        PERSONALISED: personalised,
        CLONES: _solved(
            lambda eps: float(personalised_clones_log_delta(eps, groups)),
            log_delta,
            _CLONES_RATIO * personalised,
        ),
        MU_GDP: mu_gdp_epsilon(log_delta, groups),
        ECHOES: np.nan if (echoes := echoes_epsilon(log_delta, groups)) is None else echoes,
        LARGEST: epsilon(
            lambda eps: float(weak_adversary_log_delta(eps, alike)), log_delta, alike.eps0, "upper"
        ),
    }


def _law_curves(law: str) -> Iterator[pd.DataFrame]:
    """Yield all curves of one law of budgets: eps sqrt(n) at delta = 1/n."""
    scaled: list[dict[str, float]] = []
    for n in N_USERS:
        guess = scaled[-1][PERSONALISED] if scaled else _FIRST_GUESS
        bounds = bounds_on_epsilon(budget_groups(law, n), -float(np.log(n)), guess / n**0.5)
        scaled.append({name: eps * n**0.5 for name, eps in bounds.items()})
    kinds: dict[str, Kind] = {PERSONALISED: "exact", MU_GDP: "approximate", ECHOES: "approximate"}
    for name in scaled[0]:
        y = [bounds[name] for bounds in scaled]
        yield curve(law, name, kinds.get(name, "upper"), N_USERS, y)


_tradeoff_spec = partial(
    FigureSpec,
    x_label=r"type I error $\alpha$",
    y_label="type II error",
    between="next",
    x_scale="linear",
    y_scale="linear",
)
FIGURES: Final[Mapping[str, FigureSpec]] = {
    "figure-2": _tradeoff_spec(
        title="Chen et al., figure 2: trade-off functions",
        compute=figure_2,
        caption=(
            "Least type II error of a test between neighbouring data sets as a function of its "
            "type I error. Left: (eps, delta)-DP; the slopes are -exp(eps) and -exp(-eps). "
            "Right: mu-GDP. The figure is by Dong, Roth and Su; its parameters are not stated."
        ),
    ),
    "figure-3": _tradeoff_spec(
        title="Chen et al., figure 3: a delta, and ten rounds",
        compute=figure_3,
        caption=(
            "Left: mu-GDP, and the same with an independent (0, delta)-DP, which scales the "
            "curve towards the origin by 1 - delta (delta is not stated). Right: ten rounds of "
            "(1/sqrt(10), 0)-DP, exact; the normal approximation; and the smallest eps for "
            "which they are (eps, 0.001)-DP, by optimal composition. The paper prints 2.89."
        ),
    ),
    "figure-4": FigureSpec(
        title=r"Chen et al., figure 4: personalised budgets, $\epsilon$ at $\delta = 1/n$",
        x_label="number of users n",
        y_label=r"$\epsilon\,\sqrt{n}$",
        compute=lambda: curves(part for law in BUDGET_LAWS for part in _law_curves(law)),
        caption=(
            "The five laws of the paper's Table 3; delta = 1/n; 1,000 budgets are drawn and "
            "repeated for more users, all as stated. The paper shows eps; this figure shows "
            "eps sqrt(n), which grows only because delta decreases. Assumed: binary reports (k "
            "= 2), the seed, the second number of N(m, s) as a standard deviation (the caption "
            "makes it a variance), and budgets rounded up to multiples of 0.05, which makes no "
            "report more private. Personalised k-RR: exact against the weak adversary, to a "
            "relative 1e-5 of eps, for the user with the largest budget. Clones: decoys with "
            "probability exp(-eps_i), a guarantee for 2-RR or if all users share one "
            "randomiser. mu-GDP is neither an upper nor a lower bound: Theorem 3 has an error "
            "term without a value, dropped here as in the paper. It treats the target's report "
            "as if it were not randomised; at budgets up to 1 it gives twice the eps of all "
            "users at the largest budget. Echoes: the bound of Liu et al. on Laplace reports, "
            "as its authors compute it."
        ),
    ),
}


# --- Numbers in the text --------------------------------------------------------------------------

# Number of users in eq. (15), which is not stated; 49 gives the same digits, no other n does.
_N_NORMAL: Final = 50


def optimal_composition(row: Published) -> Answer:
    """Recompute the eps in figure 3: 10 rounds of (1/sqrt(10), 0)-DP, composed optimally."""
    del row
    eps = Decimal(composed_epsilon())
    note = "Optimal composition (Kairouz, Oh and Viswanath); the figure is Dong et al.'s."
    return Answer(as_printed=eps, correct=eps, note=note)


def normal_law(row: Published) -> Answer:
    """Recompute eq. (15), and the total variation distance that it is claimed to be."""
    eps0 = float(row.eps0)
    printed, distance = normal_distances(_N_NORMAL, eps0)
    _, larger_n = normal_distances(20 * _N_NORMAL, eps0)
    return Answer(
        as_printed=Decimal(printed),
        correct=Decimal(distance),
        recovered=f"n={_N_NORMAL} (recovered; 49 gives the same digits)",
        note=(
            "As printed, the largest difference at one point from a quarter of the normal law's "
            f"mass there. The total variation distance is {larger_n:.2g} at n={20 * _N_NORMAL}: it "
            "falls like 1/sqrt(n), not 1/n."
        ),
    )


NUMBERS: Final[Mapping[str, Recompute]] = {
    "Fig 3 caption": optimal_composition,
    "eq. (15)": normal_law,
    "text 4.1": not_tried(
        "Not tried on MNIST's 60,000 training images, which do not come with the project. On "
        "8,000 counted as 60,000, with the budgets of Uniform 1, the test set ends at .72 with the "
        "noise as printed, at .91 with a sixth of it (by a client's 600 records in place of "
        "m = 100), at .95 with a hundredth. Not stated: the width of the hidden layer, the law of "
        "the budgets, the seed."
    ),
}
