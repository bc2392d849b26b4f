"""Paper C's figures 1, 3 and 4: shuffled k-RR by what the adversary knows."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final, Literal

import numpy as np
import pandas as pd

from shuffledp.accounting import pairs
from shuffledp.papers.literature import closed_forms
from shuffledp.accounting.setting import Setting
from shuffledp.numerics.arrays import Floats
from shuffledp.papers.figure_specs import FigureSpec, Kind, curve, curves
from shuffledp.papers.paper_c import views
from shuffledp.papers.profiles import LogDelta, eps_grid, eps_over_delta

_POINTS, _FOURIER_POINTS, _LOWER_POINTS = 16, 13, 8

WEAK: Final = "weak adversary, certified"
WEAK_UPPER: Final = "weak adversary, Fourier accountant, upper"
WEAK_LOWER: Final = "weak adversary, Fourier accountant, lower"
STRONG: Final = "strong adversary, upper"
HISTOGRAM: Final = "histogram only, an explicit data set"
STRONG_PRINTED: Final = "strong pair (5.1) as printed"
WEAK_PRINTED: Final = "weak pair (Theorem 10) as printed"
BALLE: Final = r"Balle et al. Theorem 3.1 where proved ($\epsilon \leq 1$ per round)"
BALLE_PRINTED: Final = r"Balle et al. Theorem 3.1, formula beyond $\epsilon = 1$"


def balle_curves(panel: str, setting: Setting, deltas: Floats) -> Iterator[pd.DataFrame]:
    """Theorem C.1 with basic composition, ``(n_c eps, n_c delta)``; (C.1) where that ends.

    Parameters
    ----------
    panel, setting
        Title of the panel, and what is released.
    deltas
        Total deltas, any number.
    """
    log_delta = np.log(deltas / setting.rounds)
    proved = closed_forms.balle_krr_epsilon(log_delta, replace(setting, rounds=1))
    formula = np.sqrt(
        14.0 * setting.k * (np.log(2.0) - log_delta) / ((setting.n - 1.0) * views.gamma(setting))
    )
    beyond = np.where(np.isfinite(proved), np.nan, formula)
    if np.isfinite(proved).any():
        yield curve(panel, BALLE, "upper", deltas, setting.rounds * proved)
    if np.isfinite(beyond).any():
        yield curve(panel, BALLE_PRINTED, "as printed", deltas, setting.rounds * beyond)


def _krr_panel(
    panel: str,
    setting: Setting,
    deltas: tuple[float, float],
    printed: tuple[Literal["strong", "weak"], ...],
    *,
    balle: bool,
) -> Iterator[pd.DataFrame]:
    """All curves of one panel of eps over delta."""
    largest = 2.0 * setting.rounds * setting.eps0
    bounds = views.on_grid(pairs.weak_adversary(setting), setting.rounds)
    # Where curves end is found with the cheap bound, which is the certified one to 1e-4.
    eps = eps_grid(lambda x: bounds.log_delta(x).high, deltas, largest, _POINTS)
    yield eps_over_delta(panel, WEAK, "exact", views.weak(setting), eps)
    few = np.linspace(eps[0], eps[-1], _FOURIER_POINTS)
    yield eps_over_delta(panel, WEAK_UPPER, "upper", lambda x: bounds.log_delta(x).high, few)
    yield eps_over_delta(panel, WEAK_LOWER, "lower", lambda x: bounds.log_delta(x).low, few)
    few = np.linspace(eps[0], eps[-1], _LOWER_POINTS)
    yield eps_over_delta(panel, HISTOGRAM, "lower", views.histogram(setting), few)
    others: list[tuple[str, Kind, LogDelta]] = [(STRONG, "upper", views.strong(setting))]
    for adversary in printed:
        name = STRONG_PRINTED if adversary == "strong" else WEAK_PRINTED
        others.append((name, "as printed", views.printed(setting, adversary)))
    for name, kind, log_delta in others:
        grid = eps_grid(log_delta, deltas, largest, _POINTS)
        yield eps_over_delta(panel, name, kind, log_delta, grid)
    if balle:
        yield from balle_curves(panel, setting, np.geomspace(*deltas, 60))


def _figure_1() -> pd.DataFrame:
    return curves(
        part
        for rounds in (1, 4, 16)
        for part in _krr_panel(
            f"$n_c = {rounds}$",
            views.of_gamma(1000, 4, 0.25, rounds),
            (1e-7, 1e-3),
            ("strong", "weak"),
            balle=rounds == 1,
        )
    )


def _figure_3() -> pd.DataFrame:
    return curves(
        part
        for letter, n in (("a", 1000), ("b", 10_000))
        for part in _krr_panel(
            f"({letter}) n = {n:,}",
            views.of_gamma(n, 5, 0.1),
            (1e-7, 1e-2),
            ("strong",),
            balle=True,
        )
    )


def _figure_4() -> pd.DataFrame:
    return curves(
        part
        for rounds in (1, 2, 4)
        for part in _krr_panel(
            f"$n_c = {rounds}$",
            views.of_gamma(10_000, 5, 0.1, rounds),
            (1e-7, 1e-2),
            ("strong",),
            balle=True,
        )
    )


_LEGEND: Final = (
    "Weak adversary, certified: exact against the weak adversary for one round, certified to "
    "1e-5 of eps for more. Fourier accountant: Algorithm 1 with L = 20 and m = 4e5 on the same "
    "pair (the paper has m = 1e7); the interval holds every error. Strong adversary: for one round "
    "his exact delta, (1 - gamma) times that of the pair (N1 + 1, N2) against (N1, N2 + 1), for "
    "more Algorithm 1's upper end. "
    "Histogram only: what the histogram of an explicit data set leaks (lower by some 1e-4 of eps "
    "for more than one round); no bound can be below it. Dashed: no guarantee. Pairs as printed "
    "are one-dimensional; the larger delta of the two directions is drawn (Algorithm 1), as the "
    "paper's Definition 1 asks."
)
_BALLE_NOTE: Final = (
    "Balle et al.'s theorem is proved for eps <= 1 per round; the paper draws its formula beyond "
    "as well."
)

FIGURES: Final[Mapping[str, FigureSpec]] = MappingProxyType(
    {
        "figure-1": FigureSpec(
            title=(
                "Koskela et al., figure 1: $n_c$ rounds of shuffled k-RR, by what the adversary "
                "knows"
            ),
            x_label=r"$\delta$",
            y_label=r"total $\epsilon$",
            between="eps over delta",
            compute=_figure_1,
            caption=(
                "n = 1,000 users, k = 4 cells, gamma = 0.25 (eps0 = log 13 = 2.565), n_c = 1, 4, "
                f"16 rounds; all as stated. {_LEGEND} {_BALLE_NOTE} Here it gives eps >= 1.3 for "
                "every delta shown, so that the theorem itself says nothing."
            ),
            y_scale="linear",
        ),
        "figure-3": FigureSpec(
            title="Koskela et al., figure 3: shuffled k-RR, one round",
            x_label=r"$\delta$",
            y_label=r"$\epsilon$",
            between="eps over delta",
            compute=_figure_3,
            caption=(
                "k = 5 cells, gamma = 0.1 (eps0 = log 46 = 3.829), n = 1,000 (a) and 10,000 (b); "
                f"all as stated. {_LEGEND} {_BALLE_NOTE} In (a) all of its curve lies beyond."
            ),
            y_scale="linear",
        ),
        "figure-4": FigureSpec(
            title=(
                "Koskela et al., figure 4: $n_c$ rounds of shuffled k-RR against basic composition"
            ),
            x_label=r"$\delta$",
            y_label=r"total $\epsilon$",
            between="eps over delta",
            compute=_figure_4,
            caption=(
                "n = 10,000 users, k = 5 cells, gamma = 0.1 (eps0 = log 46 = 3.829), n_c = 1, 2, 4 "
                f"rounds; all as stated. {_LEGEND} {_BALLE_NOTE} Basic composition: n_c rounds "
                "of (eps, delta) are (n_c eps, n_c delta)."
            ),
            y_scale="linear",
        ),
    }
)
