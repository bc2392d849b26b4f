"""Paper C's figures 7 to 9: the clones pair against its closed form, composed by a theorem."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import numpy as np
import pandas as pd

from shuffledp.papers.literature import closed_forms, theorems
from shuffledp.accounting.setting import Setting
from shuffledp.numerics.arrays import Floats
from shuffledp.papers.figure_specs import FigureSpec, Kind, curve, curves
from shuffledp.papers.paper_c import views
from shuffledp.papers.paper_c.clones import (
    CLONES,
    FOURIER_POINTS,
    clones_profile,
    fourier_curves,
)
from shuffledp.papers.profiles import delta_over_eps, end_of_profile

StepLogDelta = Callable[[Floats], Floats]
Composition = Callable[[StepLogDelta, Floats, int], Floats]

_STEPS_OF_A_ROUND = 400
# Where C's axis ends.
_SMALLEST = 1e-15

CLOSED: Final = "Feldman et al. Theorem 3.1 where proved"
CLOSED_PRINTED: Final = "Feldman et al. Theorem 3.1, formula (C.2) beyond"


def printed_closed_form_log_delta(eps: Floats, setting: Setting) -> Floats:
    """Paper C's eq. (C.2) solved for log delta, whether or not the theorem covers it.

    ``log 4 - (e - 1 - 8E/n)^2 n / (64 E)``, 0 where the bracket is negative; no guarantee where
    the condition ``eps0 <= log(n / (16 log(2/delta)))`` fails. ``eps`` of any shape.
    """
    rate = setting.n * np.exp(-setting.eps0)
    bracket = np.maximum(np.expm1(eps) - 8.0 / rate, 0.0)
    return np.asarray(np.minimum(np.log(4.0) - bracket**2 * rate / 64.0, 0.0))


def advanced(step_log_delta: StepLogDelta, eps: Floats, rounds: int) -> Floats:
    """Log delta by advanced composition, at the best eps of a round; one round as it is.

    Parameters
    ----------
    step_log_delta
        Natural log of one round's delta as a function of eps, of any shape.
    eps
        Totals over the rounds, at least 0, shape ``(m,)``.
    rounds
        Their number, at least 1.

    Returns
    -------
    Natural logarithms, shape ``(m,)``.
    """
    if rounds == 1:
        return step_log_delta(eps)
    steps = np.geomspace(1e-3, 1.0, _STEPS_OF_A_ROUND) * eps[:, None]
    every = theorems.advanced_log_delta(eps[:, None], steps, step_log_delta(steps), rounds)
    return np.asarray(every.min(axis=1))


def basic(step_log_delta: StepLogDelta, eps: Floats, rounds: int) -> Floats:
    """Log delta by basic composition of rounds of equal eps.

    Parameters
    ----------
    step_log_delta, eps, rounds
        As for `advanced`; the result, too.
    """
    return np.asarray(np.minimum(step_log_delta(eps / rounds) + np.log(rounds), 0.0))


def _closed_forms(
    panel: str, setting: Setting, eps: Floats, compose: Composition
) -> Iterator[pd.DataFrame]:
    """The theorem as far as it is proved, and its formula as printed, composed."""
    one = replace(setting, rounds=1)
    formulas: tuple[tuple[str, Kind, StepLogDelta], ...] = (
        (CLOSED, "upper", lambda x: closed_forms.clones_closed_form_log_delta(x, one)),
        (CLOSED_PRINTED, "as printed", lambda x: printed_closed_form_log_delta(x, one)),
    )
    for name, kind, step in formulas:
        delta = np.exp(compose(step, eps, setting.rounds))
        shown = (delta >= _SMALLEST) & (delta < 1.0)
        yield curve(panel, name, kind, eps, np.where(shown, delta, np.nan))


def against_theorem(
    setting: Setting, largest_eps: float, compose: Composition
) -> Iterator[pd.DataFrame]:
    """One panel: the clones pair against the closed form, composed by a theorem.

    Parameters
    ----------
    setting
        Users, budget and number of rounds.
    largest_eps
        Where the axis of eps ends.
    compose
        `basic` or `advanced`.
    """
    panel = f"$n_c = {setting.rounds}$"
    exact = clones_profile(setting)
    end = end_of_profile(exact, _SMALLEST, largest_eps)
    own = np.geomspace(0.1, end, 48)
    yield delta_over_eps(panel, CLONES, "exact", exact, own, _SMALLEST / 2.0)
    few = np.geomspace(0.1, min(largest_eps, 0.99 * views.HALF_WIDTH), 4 * FOURIER_POINTS)
    yield from fourier_curves(panel, setting, few, _SMALLEST)
    yield from _closed_forms(panel, setting, np.geomspace(0.1, largest_eps, 60), compose)


_CAPTION: Final = (
    "Clones pair, certified: exact for one round and certified to 1e-5 of eps for more. Fourier "
    "accountant: Algorithm 1 with L = 20 and m = 4e5 (the paper has m = 1e7) and all its errors: "
    "in double "
    "precision it cannot resolve delta below some 1e-11, where the paper's axis goes on to "
    "1e-15. Theorem "
    "3.1 of Feldman et al. holds for eps0 <= log(n / (16 log(2/delta))), which ends here at delta "
    "= {end} per round; dashed: its formula (C.2) used below that as well, and without the factor "
    "(E-1)/(E+1). It is not true there: at small delta it falls below the pair that it bounds."
)


def _spec(number: int, eps0: float, n: int, compose: Composition) -> FigureSpec:
    advances = compose is advanced
    end = 2.0 * np.exp(-n * np.exp(-eps0) / 16.0)
    name = "advanced" if advances else "basic"
    all_rounds = (1, 8, 64) if advances else (1, 2, 4)
    largest = 200.0 if advances else 8.0
    how = (
        "Advanced composition at the best eps per round (the paper does not say how it splits "
        "delta)."
        if advances
        else "Basic composition: n_c rounds of (eps, delta) are (n_c eps, n_c delta)."
    )

    def compute() -> pd.DataFrame:
        settings = (Setting(n, 2, eps0, rounds) for rounds in all_rounds)
        return curves(part for one in settings for part in against_theorem(one, largest, compose))

    return FigureSpec(
        title=f"Koskela et al., figure {number}: clones, $n_c$ rounds, {name} composition, "
        rf"n = {n:,}, $\epsilon_0 = {eps0:g}$",
        x_label=r"total $\epsilon$",
        y_label=r"$\delta$",
        between="delta over eps",
        compute=compute,
        caption=(
            f"n = {n:,} users, eps0 = {eps0:g}, n_c = {', '.join(map(str, all_rounds))}; all "
            f"as stated. {_CAPTION.format(end=f'{end:.1e}')} {how}"
        ),
    )


FIGURES: Final[Mapping[str, FigureSpec]] = MappingProxyType(
    {
        "figure-7": _spec(7, 4.0, 10_000, basic),
        "figure-8": _spec(8, 9.0, 1_000_000, basic),
        "figure-9": _spec(9, 9.0, 1_000_000, advanced),
    }
)
