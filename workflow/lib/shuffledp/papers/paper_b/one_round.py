"""Paper B's figure 3: eps of one round against eps0."""

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import pandas as pd

from shuffledp.accounting import calibrate
from shuffledp.papers.literature import renyi
from shuffledp.accounting.one_round import single_bin
from shuffledp.accounting.registry import BOUNDS
from shuffledp.accounting.setting import Setting
from shuffledp.numerics.arrays import Floats
from shuffledp.papers.figure_specs import FigureSpec, curve, curves
from shuffledp.papers.paper_b.common import (
    EQUATION_9,
    ERLINGSSON,
    FIRST,
    ORDERS,
    UPPER,
    WORST,
    below_budget,
    erlingsson_rdp,
)

SINGLE_DELTA: Final = 1e-6

_FEW_ORDERS = ORDERS[::4]  # for the special pair, whose RDP is a sum over counts


def special_pair_epsilon(log_delta: float, setting: Setting) -> float:
    """Exact eps of B's special pair, the larger direction; a lower bound for the worst data set.

    Parameters
    ----------
    log_delta
        Natural log of delta.
    setting
        One round of 2-RR; all users are equal but one.
    """
    return calibrate.epsilon(
        lambda eps: float(single_bin.log_delta(eps, setting, setting.n - 1)),
        log_delta,
        setting.eps0,
        "lower",
    )


def _panel(letter: str, budgets: Floats, n: int) -> Iterator[pd.DataFrame]:
    panel = rf"{letter}: $n=10^{{{np.log10(n):.0f}}}$ (assumed)"
    log_delta = float(np.log(SINGLE_DELTA))
    settings = [Setting(n, 2, float(eps0)) for eps0 in budgets]

    def each(function: Callable[[Setting], float]) -> Floats:
        return np.array([function(setting) for setting in settings])

    def registered(*names: str) -> Floats:
        return each(lambda s: min(BOUNDS[name].curve(s).epsilon(log_delta).only for name in names))

    def converted(rdp: Callable[[Floats, Setting], Floats], orders: Floats) -> Floats:
        return each(lambda s: float(renyi.rdp_to_dp(orders, rdp(orders, s), log_delta)))

    yield curve(panel, UPPER, "upper", budgets, registered("any-randomiser"))
    lower = each(lambda s: special_pair_epsilon(log_delta, s))
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
    # Even steps of log eps0, as eps is drawn on a logarithmic axis: no kink where it is steep.
    low, high = np.geomspace(0.1, 1.0, 9), np.geomspace(1.0, 4.0, 9)
    panels = [("a", low, 10_000), ("b", high, 10_000), ("c", low, 10**6), ("d", high, 10**6)]
    return curves(part for panel in panels for part in _panel(*panel))


FIGURE: Final = FigureSpec(
    title=r"Girgis et al., figure 3: one round, $\delta=10^{-6}$",
    x_label=r"$\epsilon_0$",
    y_label=r"$\epsilon$",
    compute=eps_of_one_round,
    caption=(
        "delta = 1e-6 as stated; n and the ranges of eps0 are assumed, chosen so that b "
        "and d are the panels with eps0 > 1, as the text says. "
        + WORST
        + EQUATION_9
        + "Points no better than eps0 are left out. The privacy blanket is the smaller of "
        "Hoeffding's and Bennett's. Lemma 2.1 applied to the special pair, with which the "
        "paper argues, bounds nothing: an upper bound on a lower bound. Its exact eps is beside."
    ),
    x_scale="linear",
)
