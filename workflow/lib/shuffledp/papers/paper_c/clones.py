"""Paper C's figures 2, 5 and 6: the clones pair (section 6), for randomisers of any kind."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import Final

import numpy as np
import pandas as pd

from shuffledp.accounting import pairs
from shuffledp.papers.literature import clones
from shuffledp.accounting.rounds import shuffled_krr
from shuffledp.accounting.rounds.privacy_loss import LossDistribution, default_step, rounded_up
from shuffledp.accounting.rounds.sums import deep_enough
from shuffledp.accounting.setting import Setting
from shuffledp.numerics.arrays import Floats
from shuffledp.papers.figure_specs import FigureSpec, Kind, curve, curves
from shuffledp.papers.paper_c import views
from shuffledp.papers.paper_c.printed import printed_clones_loss
from shuffledp.papers.profiles import LogDelta, delta_over_eps, end_of_profile

FOURIER_POINTS: Final = 15
_POINTS, _LOWER_POINTS = 16, 7

CLONES: Final = "clones pair, certified"
FOURIER_UPPER: Final = "clones pair, Fourier accountant, upper"
FOURIER_LOWER: Final = "clones pair, Fourier accountant, lower"
PRINTED: Final = "pair (6.1) as printed"
ANY: Final = "any-randomiser bound (2-RR's weak adversary)"
TWO_RR: Final = "2-RR, an explicit data set"


@lru_cache(maxsize=8)
def _clones_loss(setting: Setting, depth: float) -> LossDistribution:
    pair = pairs.clones(setting)
    return rounded_up(pair, default_step(pair), depth)


def clones_profile(setting: Setting) -> LogDelta:
    """Log delta of rounds of the clones pair: exact for one, else rounded up."""
    if setting.rounds == 1:
        return lambda eps: float(clones.clones_log_delta(eps, setting))
    once = replace(setting, rounds=1)
    return lambda eps: deep_enough(lambda depth: [(_clones_loss(once, depth), setting.rounds)], eps)


def fourier_curves(
    panel: str, setting: Setting, eps: Floats, smallest: float
) -> Iterator[pd.DataFrame]:
    """Algorithm 1 on the clones pair, upper and lower, at eps where delta reaches ``smallest``.

    Parameters
    ----------
    panel
        Title of the panel.
    setting
        Users, budget and number of rounds.
    eps
        Totals over the rounds, at least 0, shape ``(m,)``.
    smallest
        Points with a delta below it are left out.
    """
    bounds = views.on_grid(pairs.clones(setting), setting.rounds)
    found = [bounds.log_delta(float(one)) for one in eps]
    ends: tuple[tuple[str, Kind, list[float]], ...] = (
        (FOURIER_UPPER, "upper", [one.high for one in found]),
        (FOURIER_LOWER, "lower", [one.low for one in found]),
    )
    for name, kind, log_delta in ends:
        delta = np.exp(log_delta)
        yield curve(panel, name, kind, eps, np.where(delta >= smallest, delta, np.nan))


def _panel(setting: Setting, smallest: float) -> Iterator[pd.DataFrame]:
    """Delta over eps up to 1."""
    panel = f"$n_c = {setting.rounds}$"

    def profile(name: str, kind: Kind, log_delta: LogDelta, eps: Floats) -> pd.DataFrame:
        return delta_over_eps(panel, name, kind, log_delta, eps, smallest)

    eps = np.linspace(0.05, 1.0, _POINTS)
    yield profile(CLONES, "exact", clones_profile(setting), eps)
    few = np.linspace(0.05, 1.0, FOURIER_POINTS)
    yield from fourier_curves(panel, setting, few, smallest)
    printed = views.on_grid(printed_clones_loss(setting), setting.rounds)
    yield profile(PRINTED, "as printed", lambda x: printed.log_delta(x).high, few)

    def two_rr_upper(eps: float) -> float:
        return shuffled_krr.dominated_log_delta(eps, setting)

    end = end_of_profile(two_rr_upper, smallest, 1.0)
    yield profile(ANY, "upper", two_rr_upper, np.linspace(0.05, end, _POINTS))
    few = np.linspace(0.05, end, _LOWER_POINTS)
    yield profile(TWO_RR, "lower", views.histogram(setting), few)


def _general(eps0: float, n: int, smallest: float) -> pd.DataFrame:
    parts = (_panel(Setting(n, 2, eps0, rounds), smallest) for rounds in (1, 2, 3, 4))
    return curves(part for panel in parts for part in panel)


_CAPTION: Final = (
    "n_c = 1 to 4 rounds; all as stated. Clones pair, certified: exact for one round (this is "
    "the numeric method of Feldman et al.; not composable by itself) and certified to 1e-5 of eps "
    "for more. Fourier accountant: Algorithm 1 with L = 20 and m = 4e5 on the same pair (the "
    "paper has "
    "m = 1e7); the interval holds every error. Dashed: the pair (6.1) as printed, upper end of "
    "Algorithm 1. Above all of it is loose: the bound by 2-RR's weak adversary holds for every "
    "eps0-LDP randomiser shared by all users, too, and no such bound can be below what 2-RR leaks "
    "on an explicit data set."
)


def _spec(number: int, eps0: float, n: int, smallest: float) -> FigureSpec:
    return FigureSpec(
        title=f"Koskela et al., figure {number}: any shuffled randomiser, $n_c$ rounds, n = {n:,}, "
        rf"$\epsilon_0 = {eps0:g}$",
        x_label=r"total $\epsilon$",
        y_label=r"$\delta$",
        between="delta over eps",
        compute=lambda: _general(eps0, n, smallest),
        caption=f"n = {n:,} users, eps0 = {eps0:g}, {_CAPTION}",
        x_scale="linear",
    )


FIGURES: Final[Mapping[str, FigureSpec]] = MappingProxyType(
    {
        "figure-2": _spec(2, 4.0, 10_000, 1e-11),
        "figure-5": _spec(5, 7.0, 100_000, 1e-8),
        "figure-6": _spec(6, 9.0, 1_000_000, 1e-8),
    }
)
