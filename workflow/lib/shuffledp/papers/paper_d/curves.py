"""Paper D's figures 2 to 4, recomputed; the fourth is of users with budgets of their own."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
import pandas as pd
from scipy.optimize import root_scalar

from shuffledp.accounting.calibrate import epsilon
from shuffledp.personalised.groups import BudgetGroups
from shuffledp.personalised.krr import (
    largest_budget_log_delta,
    personalised_clones_log_delta,
    personalised_log_delta,
)
from shuffledp.papers.paper_d.published import echoes_epsilon, mu_gdp_epsilon
from shuffledp.papers.paper_d.budget_laws import BUDGET_LAWS, sample_budgets
from shuffledp.pipeline.streams import stream
from shuffledp.papers.figure_specs import FigureSpec, Kind, curve, curves
from shuffledp.papers.paper_d.tradeoff_curves import figure_2, figure_3

# Paper D draws 1,000 budgets and repeats them for more users.
N_DRAWN: Final = 1000
N_USERS: Final = (1_000, 3_000, 10_000, 30_000, 100_000, 1_000_000)
# Binary reports, as in D's frequency estimation (Algorithm 3); figure 4 does not say.
K: Final = 2
# Budgets are rounded up to multiples of this: few groups, and never less private than drawn.
BUDGET_STEP: Final = 0.05
_SEED = 4
# Of a secant step in log eps: the last one's error is the square of this, or so.
_TOLERANCE = 1e-3
# Where the searches start: eps sqrt(n), and the clones bound relative to the exact one.
_FIRST_GUESS, _CLONES_SHARE = 3.0, 1.15

PERSONALISED: Final = "personalised k-RR, exact"
CLONES: Final = "personalised clones (Chen et al., Theorem 1, corrected)"
MU_GDP: Final = r"$\mu$-GDP (Chen et al., Theorem 3 without its error term)"
ECHOES: Final = "echoes (Liu et al.), of Laplace reports, not checked"
LARGEST: Final = "all at the largest budget, certified"


def budget_groups(law: str, n: int) -> BudgetGroups:
    """Budgets of n users (a multiple of 1,000): 1,000 drawn from a law of Table 3, repeated."""
    drawn = sample_budgets(law, N_DRAWN, stream(_SEED, "paper D, figure 4", law))
    # The second rounding takes off what ceil's product has in its last digit.
    once = BudgetGroups.of(np.round(np.ceil(drawn / BUDGET_STEP) * BUDGET_STEP, 6))
    return BudgetGroups(once.values, once.counts * (n // N_DRAWN))


def _solved(log_delta: Callable[[float], float], target: float, guess: float) -> float:
    """Eps, to 1e-5 of itself, where a smooth log delta meets the target; few evaluations."""
    found = root_scalar(
        lambda log_eps: log_delta(float(np.exp(log_eps))) - target,
        x0=np.log(guess),
        x1=np.log(0.98 * guess),
        method="secant",
        xtol=_TOLERANCE,
    )
    if not found.converged:
        raise RuntimeError(f"no eps found for log delta {target} ({found.flag})")
    return float(np.exp(found.root))


def bounds_on_epsilon(groups: BudgetGroups, log_delta: float, guess: float) -> dict[str, float]:
    """Every curve of figure 4 at one number of users.

    Parameters
    ----------
    groups
        Budgets of all users.
    log_delta
        Natural log of the target delta.
    guess
        Eps to start from for the two personalised bounds, which are costly.

    Returns
    -------
    Eps by name.
    """
    personalised = _solved(
        lambda eps: float(personalised_log_delta(eps, groups, K)), log_delta, guess
    )
    return {
        PERSONALISED: personalised,
        CLONES: _solved(
            lambda eps: float(personalised_clones_log_delta(eps, groups)),
            log_delta,
            _CLONES_SHARE * personalised,
        ),
        MU_GDP: mu_gdp_epsilon(log_delta, groups),
        ECHOES: np.nan if (echoes := echoes_epsilon(log_delta, groups)) is None else echoes,
        LARGEST: epsilon(
            lambda eps: float(largest_budget_log_delta(eps, groups, K)),
            log_delta,
            float(groups.values.max()),
            "upper",
        ),
    }


def _law(law: str) -> Iterator[pd.DataFrame]:
    """All curves of one law of budgets: eps sqrt(n) at delta = 1/n."""
    scaled: list[dict[str, float]] = []
    for n in N_USERS:
        guess = scaled[-1][PERSONALISED] if scaled else _FIRST_GUESS
        found = bounds_on_epsilon(budget_groups(law, n), -float(np.log(n)), guess / n**0.5)
        scaled.append({name: eps * n**0.5 for name, eps in found.items()})
    kinds: dict[str, Kind] = {
        PERSONALISED: "exact",
        MU_GDP: "approximate",
        ECHOES: "approximate",
    }
    for name in scaled[0]:
        y = [one[name] for one in scaled]
        yield curve(law, name, kinds.get(name, "upper"), N_USERS, y)


def _figure_4() -> pd.DataFrame:
    return curves(part for law in BUDGET_LAWS for part in _law(law))


FIGURES: Final[Mapping[str, FigureSpec]] = MappingProxyType(
    {
        "figure-2": FigureSpec(
            title="Chen et al., figure 2: trade-off functions",
            x_label=r"type I error $\alpha$",
            y_label="type II error",
            between="next",
            compute=figure_2,
            caption=(
                "Least type II error of a test between neighbouring data sets, against its type I "
                "error. Left: (eps, delta)-DP; the slopes are -exp(eps) and -exp(-eps). Right: "
                "mu-GDP. The figure is of Dong, Roth and Su; its parameters are not stated."
            ),
            x_scale="linear",
            y_scale="linear",
        ),
        "figure-3": FigureSpec(
            title="Chen et al., figure 3: a delta, and ten rounds",
            x_label=r"type I error $\alpha$",
            y_label="type II error",
            between="next",
            compute=figure_3,
            caption=(
                "Left: mu-GDP and, independently, (0, delta)-DP; the curve is drawn towards the "
                "origin by 1 - delta, which is not stated. Right: ten rounds of (1/sqrt(10), "
                "0)-DP, exactly; the normal law in their place; and the smallest eps with which "
                "they are (eps, 0.001)-DP, by optimal composition. The paper prints 2.89."
            ),
            x_scale="linear",
            y_scale="linear",
        ),
        "figure-4": FigureSpec(
            title=r"Chen et al., figure 4: personalised budgets, $\epsilon$ at $\delta = 1/n$",
            x_label="number of users n",
            y_label=r"$\epsilon\,\sqrt{n}$",
            compute=_figure_4,
            caption=(
                "The five laws of the paper's Table 3; delta = 1/n; 1,000 budgets are drawn and "
                "repeated "
                "for more users, all as stated. The paper draws eps; drawn here is eps sqrt(n), "
                "which "
                "grows only as delta falls. Assumed: binary reports (k = 2), the seed, the second "
                "number of N(m, s) as a standard deviation (its caption makes it a variance), "
                "budgets rounded up to multiples of 0.05, which makes nobody's report more "
                "private. Personalised k-RR: exact against the weak adversary, to 1e-5 of eps, "
                "for the user "
                "with the largest budget. Clones: decoys with probability exp(-eps_i), a guarantee "
                "for 2-RR or if all share one randomiser. mu-GDP is neither an upper nor a lower "
                "bound: Theorem 3 has an error term without a value, dropped here as in the "
                "paper. It "
                "treats the target's report as if it were not randomised; at budgets up to 1 it "
                "gives twice what all users at the largest budget have. Echoes: the bound of Liu "
                "et al. on Laplace reports, as its authors compute it."
            ),
        ),
    }
)
