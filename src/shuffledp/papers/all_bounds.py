"""Compute the figure that compares all bounds on one release of shuffled k-RR in one setting."""

from collections.abc import Mapping
from typing import Final

import numpy as np
import pandas as pd

from shuffledp.accounting.bound import Bound
from shuffledp.accounting.bound_registry import BOUNDS
from shuffledp.accounting.curve import NotApplicableError
from shuffledp.accounting.setting import Setting
from shuffledp.numerics.arrays import Floats
from shuffledp.papers.figure_specs import FigureSpec, curve, curves

# eps0 as in paper A, below the limit of 1/2 of Erlingsson et al. With 1e5 users every closed form
# improves on local privacy. With count = 0 no other user holds the target's cell, the worst case of
# single-bin.
SETTING: Final = Setting(n=100_000, k=16, eps0=0.49, count=0)
# So close that the bounds drawn between these points cannot be told from the curve; denser at large
# delta, where eps approaches 0 and curves bend on a logarithmic axis.
LOG10_DELTAS: Final = -np.append(np.arange(2.0, 5.0, 1.0 / 6.0), np.linspace(5.0, 12.0, 22))
EPS_POINTS: Final = np.geomspace(1e-4, 0.4, 15)
# Panels of the figure, each with its bounds.
GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "k-RR, computed": (
        "upper",
        "lower",
        "fourier",
        "strong-adversary",
        "variation-ratio",
        "single-bin",
        "single-bin-as-printed",
    ),
    "privacy blanket": (
        "blanket-bennett",
        "blanket-hoeffding",
        "blanket-bennett-generic",
        "blanket-hoeffding-generic",
        "balle-krr",
    ),
    "any randomiser: clones, swaps": (
        "any-randomiser",
        "clones",
        "clones-closed-form",
        "erlingsson",
    ),
    "Rényi and Gaussian privacy": ("renyi", "renyi-simple", "renyi-special-pair", "mu-gdp"),
}
OTHERS: Final = "other bounds"
_REFERENCE: Final = "upper"


def _epsilon(bound: Bound, log10_delta: float) -> float:
    """Return eps at a delta, or NaN if the bound does not apply there."""
    try:
        return float(bound.curve(SETTING).epsilon(log10_delta * np.log(10.0)).only)
    except NotApplicableError:
        return np.nan


def _points(bound: Bound) -> tuple[Floats, Floats]:
    """Return eps at `LOG10_DELTAS`, or delta at `EPS_POINTS` if eps is 0 at all of these."""
    eps = np.array([_epsilon(bound, log10_delta) for log10_delta in LOG10_DELTAS])
    if np.any(eps > 0.0):
        # A logarithmic axis cannot show eps = 0, and eps = eps0 holds without any bound.
        eps = np.where((eps > 0.0) & (eps < SETTING.eps0), eps, np.nan)
        return eps, 10.0**LOG10_DELTAS
    log_delta = np.asarray(bound.curve(SETTING).log_delta(EPS_POINTS).only)
    delta = np.exp(log_delta)
    return EPS_POINTS, np.where(delta >= 10.0 ** LOG10_DELTAS[-1], delta, np.nan)


def all_bounds() -> pd.DataFrame:
    """Return the curves of all bounds that apply: delta over eps, down to 1e-12.

    The panels are those of `GROUPS`, followed by `OTHERS`, and each has the bound ``upper``.
    """
    listed = {name for names in GROUPS.values() for name in names}
    groups = {**GROUPS, OTHERS: tuple(name for name in BOUNDS if name not in listed)}
    applying = {name for name in BOUNDS if BOUNDS[name].why_not(SETTING) is None}
    points = {name: _points(BOUNDS[name]) for name in applying}
    return curves(
        curve(group, name, BOUNDS[name].kind, *points[name])
        for group, names in groups.items()
        if applying.intersection(names)
        for name in dict.fromkeys((_REFERENCE, *names))
        if name in applying
    )


FIGURES: Final[Mapping[str, FigureSpec]] = {
    "all-bounds": FigureSpec(
        title=(
            "Bounds of the literature on one release of shuffled k-RR: "
            r"$n=10^5$, $k=16$, $\epsilon_0=0.49$"
        ),
        x_label=r"$\epsilon$",
        y_label=r"$\delta$",
        compute=all_bounds,
        caption=(
            "One release by n = 100,000 users, k = 16 cells, eps0 = 0.49: the setting at which the "
            "most bounds apply; of those that `shuffledp list` prints, exact-2rr (k = 2) and the "
            "three theorems on composition (more than one round) are missing. Each panel has one "
            "group of bounds, and `upper` for comparison. The true curve lies between `lower` and "
            "`upper`: a band thinner than the line. Upper bounds hold for every data set; "
            "`clones`, `renyi` and the bounds called generic hold for every local randomiser and "
            "cannot be tight for 16 cells; `strong-adversary` is exact against an adversary who "
            "knows far more. Lower bounds and approximate curves are no guarantee. `single-bin` is "
            "the divergence of one cell's count if no other user is in that cell, the worst case. "
            "`single-bin-as-printed`, the theorem of Biswas, Jung and Palamidessi with its "
            "misprint, is off the plot, thousands of orders of magnitude below the truth. "
            "`fourier` ends at its floor; bounds begin where eps is above 0 and end at eps0."
        ),
        between="delta over eps",
    )
}
