"""Paper B's figure 4: Rényi DP over rounds against composition theorems."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Final

import numpy as np
import pandas as pd

from shuffledp.accounting import calibrate, pairs
from shuffledp.accounting.conventions import Side
from shuffledp.papers.literature import closed_forms, renyi, theorems
from shuffledp.accounting.registry import BOUNDS
from shuffledp.accounting.rounds import shuffled_krr
from shuffledp.accounting.rounds.privacy_loss import default_step
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

COMPOSED_DELTA: Final = 1e-8
ROUNDS: Final = np.round(np.geomspace(10.0, 1e5, 9))
FEW_ROUNDS: Final = ROUNDS[::2]
LOWER: Final = "certified lower bound"
SPLIT: Final = "In compositions half of delta goes to the rounds, half to the theorem. "

# Grid of the loss in units of the default: eps moves by some 1e-4 of itself, still certified.
_COARSER = 4.0

OneRound = Callable[[float, Setting], float]
Composition = Callable[[Floats, Floats, Floats, Floats], Floats]


@lru_cache(maxsize=256)
def numeric_clones_epsilon(log_delta: float, setting: Setting) -> float:
    """Eps of the numeric clones bound at a natural log of delta, rounded up."""
    return float(BOUNDS["clones"].curve(setting).epsilon(log_delta).promised)


def closed_clones_epsilon(log_delta: float, setting: Setting) -> float:
    """Eps of the closed-form clones bound; eps0, which always holds, where it says nothing."""
    found = float(closed_forms.clones_closed_form_epsilon(log_delta, setting))
    return min(found, setting.eps0)


def composed_dp(
    one_round: OneRound,
    compose: Composition,
    setting: Setting,
    rounds: Floats,
    rate: float = 1.0,
) -> Floats:
    """Eps at delta = 1e-8 from one round's (eps, delta) and a composition theorem.

    Half of delta goes to the rounds, in equal shares, half to the composition.

    Parameters
    ----------
    one_round
        Eps at ``(log delta, setting)``.
    compose
        One of the ``*_epsilon`` functions of `theorems`.
    setting
        One round, of the users who report in it.
    rounds
        Numbers of rounds, shape (m,).
    rate
        Probability of a user to take part in a round: (eps, delta) becomes
        ``(log(1 + rate (exp(eps) - 1)), rate delta)`` (Li, Qardaji and Su 2012). That theorem is
        about adding or removing a user; 1 is no sampling.
    """
    log_delta = np.log(COMPOSED_DELTA)
    shares = log_delta - np.log(2.0 * rounds)
    steps = np.array([one_round(float(s - np.log(rate)), setting) for s in shares])
    return compose(log_delta, np.log1p(rate * np.expm1(steps)), shares, rounds)


def certified_composition(setting: Setting, rounds: Floats, side: Side) -> Floats:
    """Eps of composed 2-RR at delta = 1e-8, certified.

    Parameters
    ----------
    setting
        Users, cells and budget; its rounds are not looked at.
    rounds
        Numbers of rounds, whole, shape ``(m,)``.
    side
        ``upper``, which holds for every randomiser, or ``lower``.

    Returns
    -------
    Shape ``(m,)``.
    """
    step = _COARSER * default_step(pairs.weak_adversary(setting))
    every = [replace(setting, rounds=int(count)) for count in rounds]
    log_delta = float(np.log(COMPOSED_DELTA))

    def epsilon(one: Setting) -> float:
        if side == "lower":
            return float(shuffled_krr.composed_epsilon(log_delta, one, side, step))
        # Of the weak adversary: it bounds every randomiser, not only 2-RR.
        return calibrate.led_epsilon(
            lambda eps: shuffled_krr.dominated_log_delta(eps, one, step),
            log_delta,
            one.budget,
            side,
            lambda eps: shuffled_krr.ceiling(eps, one),
        )

    return np.array([epsilon(one) for one in every])


def composed_renyi(rdp: Floats, orders: Floats, rounds: Floats) -> Floats:
    """Eps at delta = 1e-8 of each number of rounds, from one round's RDP.

    Parameters
    ----------
    rdp, orders
        RDP of one round and its orders, above 1, of one shape ``(m,)``.
    rounds
        Numbers of rounds, shape ``(l,)``.

    Returns
    -------
    Shape ``(l,)``.
    """
    every = [renyi.composed_rdp(rdp, count) for count in rounds]
    return np.array([renyi.rdp_to_dp(orders, one, np.log(COMPOSED_DELTA)) for one in every])


def _panel(title: str, setting: Setting) -> Iterator[pd.DataFrame]:
    def below(name: str, eps: Floats) -> pd.DataFrame:
        return curve(title, name, "upper", ROUNDS, below_budget(eps, ROUNDS * setting.eps0))

    def clones_curve(one_round: OneRound, compose: Composition) -> Floats:
        return composed_dp(one_round, compose, setting, ROUNDS)

    upper = certified_composition(setting, FEW_ROUNDS, "upper")
    yield curve(title, UPPER, "upper", FEW_ROUNDS, upper)
    lower = certified_composition(setting, FEW_ROUNDS, "lower")
    yield curve(title, LOWER, "lower", FEW_ROUNDS, lower)
    rdp = renyi.shuffled_rdp_upper(ORDERS, setting)
    yield below(FIRST, composed_renyi(rdp, ORDERS, ROUNDS))
    optimal, advanced = theorems.kov_epsilon, theorems.advanced_epsilon
    numeric, closed = numeric_clones_epsilon, closed_clones_epsilon
    yield below("numeric clones, optimal composition", clones_curve(numeric, optimal))
    yield below("numeric clones, advanced composition", clones_curve(numeric, advanced))
    yield below("closed-form clones, optimal composition", clones_curve(closed, optimal))
    other = erlingsson_rdp(ORDERS, setting)
    yield below(ERLINGSSON, composed_renyi(other, ORDERS, ROUNDS))


def eps_of_composition() -> pd.DataFrame:
    """Figure 4: eps at delta = 1e-8 against the number of rounds, columns `COLUMNS` of `curve`."""
    panels = [
        (r"a: $\epsilon_0=0.5$, $n=10^6$ (as stated)", 0.5, 10**6),
        (r"$\epsilon_0=0.5$, $n=10^4$ (assumed)", 0.5, 10**4),
        (r"$\epsilon_0=1$, $n=10^6$ (assumed)", 1.0, 10**6),
        (r"$\epsilon_0=3$, $n=10^6$ (assumed)", 3.0, 10**6),
    ]
    return curves(part for title, eps0, n in panels for part in _panel(title, Setting(n, 2, eps0)))


FIGURE: Final = FigureSpec(
    title=r"Girgis et al., figure 4: composition, $\delta=10^{-8}$",
    x_label="rounds",
    y_label=r"$\epsilon$",
    compute=eps_of_composition,
    caption=(
        "delta = 1e-8 and panel a, eps0 = 0.5, n = 1,000,000, as stated; other panels are "
        "assumed. " + WORST + SPLIT + EQUATION_9 + "Points that do not improve on adding "
        "up eps0 are left out. The factor 8 of the abstract is at 100,000 rounds of panel "
        "a, where Theorem 3.1 gives eps = 1.640: numeric clones with optimal composition "
        "need 4.5 times as much, with advanced composition 5.5 times, the closed form of "
        "clones 21 times. The certified upper bound is 0.905, 1.8 times smaller than "
        "Theorem 3.1 and 8.1 times smaller than numeric clones with optimal composition."
    ),
)
