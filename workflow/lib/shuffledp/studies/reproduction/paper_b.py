"""Paper B's figures 2 and 3: Rényi DP of one round, and its eps (4 and 5: `paper_b_composition`).

The available text of the paper lacks the figures and their captions. What it states is used; every
other parameter is assumed, and its panel's title says so. B's bounds hold for every eps0-LDP
randomiser, so they stand beside what is certified for the worst of them, 2-RR.
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

import numpy as np
import pandas as pd

from shuffledp.accounting import calibrate
from shuffledp.accounting.bound import Setting
from shuffledp.accounting.one_round import single_bin
from shuffledp.accounting.registry import BOUNDS
from shuffledp.accounting.rounds import renyi
from shuffledp.arrays import Floats
from shuffledp.curve import FigureSpec, curve, curves
from shuffledp.studies.reproduction import paper_b_composition
from shuffledp.studies.reproduction.paper_b_composition import (
    EQUATION_9,
    ERLINGSSON,
    FIRST,
    ORDERS,
    UPPER,
    WORST,
    below_budget,
    erlingsson_rdp,
)

SINGLE_DELTA = 1e-6

_FEW_ORDERS = ORDERS[::4]  # for the special pair, whose RDP is a sum over counts


# --- Figure 2 -----------------------------------------------------------------------------------


def _rdp_panel(eps0: float, n: int) -> Iterator[pd.DataFrame]:
    panel = rf"$\epsilon_0={eps0:g}$, $n=10^{{{np.log10(n):.0f}}}$ (assumed)"
    orders = ORDERS[ORDERS <= 2000.0][::2]
    exact = renyi.special_pair_renyi(orders, eps0, n)
    yield curve(panel, ERLINGSSON, "upper", orders, erlingsson_rdp(orders, eps0, n))
    second = renyi.shuffled_rdp_upper_simple(orders, eps0, n)
    yield curve(panel, "B, Theorem 3.3", "upper", orders, second)
    yield curve(panel, FIRST, "upper", orders, renyi.shuffled_rdp_upper(orders, eps0, n))
    yield curve(panel, "special pair of 2-RR, exact, larger direction", "exact", orders, exact)
    third = renyi.shuffled_rdp_lower(orders, eps0, n)
    yield curve(panel, "B, Theorem 3.4", "lower", orders, third)


def rdp_against_order() -> pd.DataFrame:
    """Figure 2: Rényi divergence against its order, columns `COLUMNS` of `curve`."""
    settings = [(eps0, n) for n in (10_000, 1_000_000) for eps0 in (0.5, 1.0, 3.0)]
    return curves(part for setting in settings for part in _rdp_panel(*setting))


# --- Figure 3 -----------------------------------------------------------------------------------


def special_pair_epsilon(log_delta: float, eps0: float, n: int) -> float:
    """Exact eps of B's special pair, the larger direction; a lower bound for the worst data set.

    Parameters
    ----------
    log_delta
        Natural log of delta.
    eps0, n
        Local budget of 2-RR and number of users, all equal but one.
    """
    return calibrate.epsilon(
        lambda eps: float(single_bin.log_delta(eps, eps0, n, 2, n - 1)),
        log_delta,
        eps0,
        round_up=False,
    )


def _dp_panel(letter: str, budgets: Floats, n: int) -> Iterator[pd.DataFrame]:
    panel = rf"{letter}: $n=10^{{{np.log10(n):.0f}}}$ (assumed)"
    log_delta = float(np.log(SINGLE_DELTA))

    def each(function: Callable[[float], float]) -> Floats:
        return np.array([function(float(eps0)) for eps0 in budgets])

    def registered(*names: str) -> Floats:
        return each(
            lambda eps0: min(BOUNDS[name].epsilon(log_delta, Setting(n, 2, eps0)) for name in names)
        )

    def converted(rdp: Callable[..., Floats], orders: Floats) -> Floats:
        return each(lambda eps0: float(renyi.rdp_to_dp(orders, rdp(orders, eps0, n), log_delta)))

    yield curve(panel, UPPER, "upper", budgets, registered("upper"))
    lower = each(lambda eps0: special_pair_epsilon(log_delta, eps0, n))
    yield curve(panel, "special pair, exact", "lower", budgets, lower)
    clones = registered("clones")
    yield curve(panel, "clones, numeric", "upper", budgets, below_budget(clones, budgets))
    blanket = registered("blanket-hoeffding-generic", "blanket-bennett-generic")
    name = "privacy blanket, smaller of two inequalities"
    yield curve(panel, name, "upper", budgets, below_budget(blanket, budgets))
    first = below_budget(converted(renyi.shuffled_rdp_upper, ORDERS), budgets)
    yield curve(panel, FIRST, "upper", budgets, first)
    special = converted(renyi.special_pair_renyi, _FEW_ORDERS)
    yield curve(panel, "special pair, by its Rényi divergence", "approximate", budgets, special)
    other = converted(erlingsson_rdp, ORDERS)
    yield curve(panel, ERLINGSSON, "upper", budgets, below_budget(other, budgets))


def eps_of_one_round() -> pd.DataFrame:
    """Figure 3: eps at delta = 1e-6 against eps0, columns `COLUMNS` of `curve`."""
    low, high = np.linspace(0.1, 1.0, 8), np.linspace(1.0, 4.0, 8)
    panels = [("a", low, 10_000), ("b", high, 10_000), ("c", low, 10**6), ("d", high, 10**6)]
    return curves(part for panel in panels for part in _dp_panel(*panel))


FIGURES: Mapping[str, FigureSpec] = MappingProxyType(
    {
        "figure-2": FigureSpec(
            title="Paper B, figure 2: Rényi divergence of the shuffle model",
            x_label=r"order $\lambda$",
            y_label="Rényi divergence",
            compute=rdp_against_order,
            caption=(
                "Every panel is at assumed eps0 and n, which the available text does not give. "
                + EQUATION_9
                + "B's bounds never exceed eps0; eq. (9) is drawn as it is. The special pair is "
                "that of Theorem 3.4 (2-RR, all users equal against one flipped) in the larger of "
                "its two directions; Theorem 3.4 is the other direction, and falls behind at high "
                "orders: at order 1,802, n = 10,000, eps0 = 3 it is a quarter of the larger."
            ),
        ),
        "figure-3": FigureSpec(
            title=r"Paper B, figure 3: one round, $\delta=10^{-6}$",
            x_label=r"$\epsilon_0$",
            y_label=r"$\epsilon$",
            compute=eps_of_one_round,
            caption=(
                "delta = 1e-6 as stated; n and the ranges of eps0 are assumed, chosen so that b "
                "and d are the panels with eps0 > 1, as the text says. "
                + WORST
                + EQUATION_9
                + "Points no better than eps0 are left out. The privacy blanket is the smaller of "
                "Hoeffding's and Bennett's. Lemma 2.1 applied to the special pair, with which B "
                "argues, bounds nothing: an upper bound on a lower bound. Its exact eps is beside."
            ),
            x_scale="linear",
        ),
        **paper_b_composition.FIGURES,
    }
)
