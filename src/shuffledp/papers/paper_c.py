"""Recompute paper C's figures 1 to 10.

A pair is two laws whose hockey-stick divergence is delta. The pairs that paper C prints have too
small a divergence; the corrected pairs are in `shuffledp.accounting.pairs`. Figures 1, 3, 4 and 10
are about shuffled k-RR, the others about the clones pair, for eps0-LDP randomisers of any kind.
n_c is the paper's number of rounds, gamma the probability that a k-RR user reports a uniformly
drawn cell. A profile is log delta as a function of the total eps.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from itertools import chain
from typing import Final, Literal

import numpy as np
import pandas as pd

from shuffledp.accounting import krr, pairs
from shuffledp.accounting.bound import Kind
from shuffledp.accounting.bound_registry import BOUNDS
from shuffledp.accounting.laws.binomial import log_pmf
from shuffledp.accounting.rounds.privacy_loss import LossDistribution, default_step, rounded_up
from shuffledp.accounting.rounds.sums import upper_log_hockey_stick
from shuffledp.accounting.setting import Setting, probabilities
from shuffledp.numerics.arrays import Floats
from shuffledp.papers.figure_specs import (
    FigureSpec,
    LogDelta,
    curve,
    curves,
    deltas_of,
    end_of_profile,
    eps_grid,
)
from shuffledp.papers.literature import clones, closed_forms, fourier, theorems
from shuffledp.papers.literature.clones import strong_adversary_log_delta
from shuffledp.papers.literature.fourier import FourierBounds, LossAtoms
from shuffledp.papers.verdicts import Recompute, not_tried

Adversary = Literal["strong", "weak"]

# --- Pairs as printed: no guarantee, only for reproducing C's figures -----------------------------

# Half-width of the windows of counts: in standard deviations, plus a number of counts.
_WINDOW_DEVIATIONS, _WINDOW_MARGIN = 9.3, 20.0


def _window(mean: float, variance: float, largest: float = np.inf) -> Floats:
    """Return the counts around a mean with all but negligible mass, from 0 to ``largest``."""
    half = _WINDOW_DEVIATIONS * np.sqrt(variance) + _WINDOW_MARGIN
    return np.arange(max(np.floor(mean - half), 0.0), min(np.ceil(mean + half), largest) + 1.0)


def _loss(first: Floats, second: Floats) -> LossAtoms:
    """Return the privacy loss of two laws, given the logs of their probabilities."""
    first, second = first.ravel(), second.ravel()
    used, infinite = np.isfinite(first) & np.isfinite(second), np.isneginf(second)
    losses, masses = first[used] - second[used], np.exp(first)
    return LossAtoms(losses, masses[used], float(masses[infinite].sum()))


def printed_pair_loss(
    setting: Setting, adversary: Adversary, direction: Literal["forward", "backward"] = "forward"
) -> LossAtoms:
    """Return the privacy loss of a pair of section 5 as printed.

    ``"strong"`` is eq. (5.1), ``Bin(n-1, gamma/k) + 1`` against ``Bin(n-1, gamma/k)``. ``"weak"``
    is Theorem 10, the counts ``N1|B`` against ``N2|B`` together with B. Both omit the count of one
    of the two cells that are compared, so their divergence is too small. The correct pairs are
    `pairs.strong_adversary` and `pairs.weak_adversary`. The direction ``"forward"`` is P against Q
    as the paper names them, and ``"backward"`` Q against P.
    """
    n, k = setting.n, setting.k
    p, q = probabilities(setting.eps0, k)
    if adversary == "strong":
        count = _window((n - 1) * q, (n - 1) * q * (1.0 - q), n)
        first, second = log_pmf(count - 1.0, n - 1, q), log_pmf(count, n - 1, q)
    else:
        gamma = k * q
        blanket = _window((n - 1) * gamma, (n - 1) * gamma * (1.0 - gamma), n - 1)[:, None]
        low, high = (_window(b / k, b / k) for b in (blanket[0, 0], blanket[-1, 0]))
        count = np.arange(low[0], high[-1] + 1.0)
        log_blanket = log_pmf(blanket, n - 1, gamma)
        with np.errstate(divide="ignore"):
            without_target = log_blanket + log_pmf(count, blanket, 1.0 / k)
            with_target = log_blanket + log_pmf(count - 1.0, blanket, 1.0 / k)
        first, second = (
            np.logaddexp(np.log(share) + with_target, np.log1p(-share) + without_target)
            for share in (p, q)
        )
    return _loss(first, second) if direction == "forward" else _loss(second, first)


def printed_clones_loss(setting: Setting) -> LossAtoms:
    """Return the privacy loss of paper C's eq. (6.1) as printed.

    It compares ``(A + D, C - A)`` with ``(A, C - A + D)``, where C ~ Bin(n-1, 1/E), A ~ Bin(C, 1/2)
    and D ~ Bern(E/(E+1)). If D = 0, the target adds nothing here; in the correct clones pair it
    adds the other of the two reports. Exchanging the coordinates exchanges the two laws, so one
    direction is enough.
    """
    n, decoy, truth = setting.n, np.exp(-setting.eps0), 1.0 / (1.0 + np.exp(-setting.eps0))
    mean = (n - 1) * decoy
    total = _window(mean, mean, n)[:, None]
    half = _WINDOW_DEVIATIONS * np.sqrt(mean) + _WINDOW_MARGIN
    a = np.arange(max(np.floor(0.5 * total[0, 0] - half), 0.0), 0.5 * total[-1, 0] + half + 1.0)

    def log_clones(first: Floats, both: Floats) -> Floats:
        return log_pmf(both, n - 1, decoy) + log_pmf(first, np.maximum(both, 0.0), 0.5)

    no_report = np.log1p(-truth) + log_clones(a, total)
    return _loss(
        np.logaddexp(np.log(truth) + log_clones(a - 1.0, total - 1.0), no_report),
        np.logaddexp(np.log(truth) + log_clones(a, total - 1.0), no_report),
    )


# --- Profiles by what an adversary knows ----------------------------------------------------------
#
# The strong adversary learns which users reported a uniform cell, the target included; the weak
# adversary learns it for the other users only; a reader of the histogram does not learn it.

# Grid of Algorithm 1; paper C has L = 20 and m = 1e7. A step changes eps by at most 1e-4 per round.
HALF_WIDTH, N_GRID = 20.0, 400_000
_PRINTED_HALF_WIDTH, _PRINTED_N_GRID = 10.0, 200_000
# The grid of the lower bound is finer than the default by this factor, so that eps is too small by
# a relative 1e-4 or so only.
_LOWER_GRID_REFINEMENT: Final = 4


def setting_of_gamma(n: int, k: int, gamma: float, rounds: int = 1) -> Setting:
    """Return the setting in which users report a uniformly drawn cell with probability gamma."""
    return Setting(n, k, float(np.log(k / gamma - k + 1.0)), rounds)


def fourier_on_grid(loss: pairs.Pair | LossAtoms, rounds: int) -> FourierBounds:
    """Run Algorithm 1 on the grid of the figures."""
    return fourier.fourier_bounds(loss, rounds, HALF_WIDTH, N_GRID)


def weak_adversary_profile(setting: Setting) -> LogDelta:
    """Return log delta against the weak adversary, or the bound ``upper`` if rounds > 1."""
    if setting.rounds == 1:
        return lambda eps: float(krr.weak_adversary_log_delta(eps, setting))
    return lambda eps: BOUNDS["upper"].curve(setting).log_delta(eps).promised


def histogram_profile(setting: Setting) -> LogDelta:
    """Return the certified lower bound: log delta of the histogram of an explicit data set."""
    if setting.rounds == 1:
        return lambda eps: float(krr.lower_log_delta(eps, setting))
    pair = pairs.weak_adversary(setting) if setting.k == 2 else pairs.all_hold_third_cell(setting)
    step = default_step(pair) / _LOWER_GRID_REFINEMENT
    return lambda eps: float(krr.composed_log_delta(eps, setting, "lower", step))


def strong_adversary_profile(setting: Setting) -> LogDelta:
    """Return log delta against the strong adversary, or Algorithm 1's upper bound if rounds > 1.

    With probability gamma the adversary of Definition 8 sees that the target randomised, and the
    loss is 0; otherwise it is the loss of `pairs.strong_adversary`.
    """
    if setting.rounds == 1:
        return lambda eps: float(strong_adversary_log_delta(eps, setting))
    pair = pairs.strong_adversary(setting)
    loss = rounded_up(pair, default_step(pair))
    truth = float(np.expm1(setting.eps0)) * probabilities(setting.eps0, setting.k)[1]
    atoms = LossAtoms(
        np.append(loss.losses, 0.0),
        np.append(truth * loss.mass, 1.0 - truth),
        truth * loss.infinite,
    )
    bounds = fourier_on_grid(atoms, setting.rounds)
    return lambda eps: bounds.log_delta(eps).high


def printed_pair_profile(setting: Setting, adversary: Adversary) -> LogDelta:
    """Return log delta of a pair as printed, in its worse direction, by Algorithm 1."""
    losses = [printed_pair_loss(setting, adversary, way) for way in ("forward", "backward")]
    grid = _PRINTED_HALF_WIDTH, _PRINTED_N_GRID
    laws = [fourier.fourier_bounds(loss, setting.rounds, *grid).right for loss in losses]
    # Where delta is about 1e-13, rounding can make Algorithm 1's value negative.
    return lambda eps: float(np.log(max(1e-30, *(law.delta(eps)[0] for law in laws))))


@lru_cache(maxsize=8)
def _clones_loss(setting: Setting, depth: float) -> LossDistribution:
    pair = pairs.clones(setting)
    return rounded_up(pair, default_step(pair), depth)


def clones_profile(setting: Setting) -> LogDelta:
    """Return log delta of the clones pair over all rounds, exact for one and else rounded up."""
    if setting.rounds == 1:
        return lambda eps: float(clones.clones_log_delta(eps, setting))
    once = replace(setting, rounds=1)
    return lambda eps: upper_log_hockey_stick(
        lambda depth: [(_clones_loss(once, depth), setting.rounds)], eps
    )


# --- Figures 1, 3 and 4: shuffled k-RR by what the adversary knows --------------------------------

_KRR_POINTS, _KRR_FOURIER_POINTS, _KRR_LOWER_POINTS = 16, 13, 8

BALLE: Final = r"Balle et al. Theorem 3.1 where proved ($\epsilon \leq 1$ per round)"
BALLE_PRINTED: Final = r"Balle et al. Theorem 3.1, formula beyond $\epsilon = 1$"


def balle_curves(panel: str, setting: Setting, deltas: Floats) -> Iterator[pd.DataFrame]:
    """Yield eps by Theorem C.1 and, beyond its range, by the printed formula (C.1).

    Rounds are composed by basic composition: n_c of them are ``(n_c eps, n_c delta)``-DP.
    ``deltas`` are totals over the rounds.
    """
    log_delta = np.log(deltas / setting.rounds)
    proved = closed_forms.balle_krr_epsilon(log_delta, replace(setting, rounds=1))
    gamma = setting.k * probabilities(setting.eps0, setting.k)[1]
    formula = np.sqrt(14.0 * setting.k * (np.log(2.0) - log_delta) / ((setting.n - 1.0) * gamma))
    beyond = np.where(np.isfinite(proved), np.nan, formula)
    if np.isfinite(proved).any():
        yield curve(panel, BALLE, "upper", deltas, setting.rounds * proved)
    if np.isfinite(beyond).any():
        yield curve(panel, BALLE_PRINTED, "as printed", deltas, setting.rounds * beyond)


def _krr_panel(
    panel: str, setting: Setting, deltas: tuple[float, float], printed: tuple[Adversary, ...]
) -> Iterator[pd.DataFrame]:
    """Yield all curves of one panel of eps over delta, from the first to the last of ``deltas``."""

    def profile(name: str, kind: Kind, log_delta: LogDelta, eps: Floats) -> pd.DataFrame:
        return curve(panel, name, kind, deltas_of(log_delta, eps), eps)

    max_eps = 2.0 * setting.rounds * setting.eps0
    bounds = fourier_on_grid(pairs.weak_adversary(setting), setting.rounds)
    upper, lower = (lambda x: bounds.log_delta(x).high), (lambda x: bounds.log_delta(x).low)
    # The ends of the curves come from the cheap bound, which agrees with the certified one to 1e-4.
    eps = eps_grid(upper, deltas, max_eps, _KRR_POINTS)
    few, fewest = (
        np.linspace(eps[0], eps[-1], points) for points in (_KRR_FOURIER_POINTS, _KRR_LOWER_POINTS)
    )
    yield profile("weak adversary, certified", "exact", weak_adversary_profile(setting), eps)
    yield profile("weak adversary, Fourier accountant, upper", "upper", upper, few)
    yield profile("weak adversary, Fourier accountant, lower", "lower", lower, few)
    name = "histogram only, an explicit data set"
    yield profile(name, "lower", histogram_profile(setting), fewest)
    others: list[tuple[str, Kind, LogDelta]] = [
        ("strong adversary, upper", "upper", strong_adversary_profile(setting))
    ]
    names = {"strong": "strong pair (5.1) as printed", "weak": "weak pair (Theorem 10) as printed"}
    others += [(names[one], "as printed", printed_pair_profile(setting, one)) for one in printed]
    for name, kind, log_delta in others:
        grid = eps_grid(log_delta, deltas, max_eps, _KRR_POINTS)
        yield profile(name, kind, log_delta, grid)


def _krr_curves(
    settings: Mapping[str, Setting],
    max_delta: float = 1e-2,
    printed: tuple[Adversary, ...] = ("strong",),
    balle_rounds: int = 4,
) -> pd.DataFrame:
    """Return the curves of panels with one range of delta; Balle et al.'s up to some rounds."""
    deltas, parts = (1e-7, max_delta), list[pd.DataFrame]()
    for panel, setting in settings.items():
        parts += _krr_panel(panel, setting, deltas, printed)
        if setting.rounds <= balle_rounds:
            parts += balle_curves(panel, setting, np.geomspace(*deltas, 60))
    return curves(parts)


def _over_rounds(n: int, k: int, gamma: float, *all_rounds: int) -> dict[str, Setting]:
    return {f"$n_c = {count}$": setting_of_gamma(n, k, gamma, count) for count in all_rounds}


def _krr_spec(
    title: str, caption: str, note: str, compute: Callable[[], pd.DataFrame]
) -> FigureSpec:
    return FigureSpec(
        title=f"Koskela et al., figure {title}",
        x_label=r"$\delta$",
        y_label=r"total $\epsilon$",
        between="eps over delta",
        compute=compute,
        caption=(
            f"{caption}; all as stated. Weak adversary, certified: exact for one round, certified "
            "to a relative 1e-5 of eps for more. Fourier accountant: Algorithm 1 with L = 20 and m "
            "= 4e5 on the same pair (the paper has m = 1e7); the interval contains every error. "
            "Strong adversary: for one round the exact delta, (1 - gamma) times that of the pair "
            "(N1 + 1, N2) against (N1, N2 + 1), for more rounds the upper end of Algorithm 1. "
            "Histogram only: what the histogram of an explicit data set leaks (a relative 1e-4 of "
            "eps too low for more than one round); no bound can be below it. Dashed: no guarantee. "
            "Pairs as printed are one-dimensional; the larger delta of the two directions is drawn "
            "(Algorithm 1), as the paper's Definition 1 requires. Balle et al.'s theorem is proved "
            f"for eps <= 1 per round; the paper draws its formula beyond as well. {note}"
        ),
        y_scale="linear",
    )


# --- Figures 2, 5 and 6: the clones pair (section 6) ----------------------------------------------

_FOURIER_POINTS, _CLONES_POINTS, _TWO_RR_POINTS = 15, 16, 7

CLONES: Final = "clones pair, certified"
FOURIER_UPPER: Final = "clones pair, Fourier accountant, upper"
FOURIER_LOWER: Final = "clones pair, Fourier accountant, lower"


def _delta_curve(
    panel: str, name: str, kind: Kind, log_delta: LogDelta, eps: Floats, min_delta: float
) -> pd.DataFrame:
    """Return a profile as a curve of delta over eps, without deltas below a minimum."""
    return curve(panel, name, kind, eps, deltas_of(log_delta, eps, min_delta))


def fourier_curves(
    panel: str, setting: Setting, eps: Floats, min_delta: float
) -> Iterator[pd.DataFrame]:
    """Yield the upper and lower curves of Algorithm 1 on the clones pair.

    ``eps`` are totals over the rounds. Points with a delta below ``min_delta`` are omitted.
    """
    bounds = fourier_on_grid(pairs.clones(setting), setting.rounds)
    upper, lower = (lambda x: bounds.log_delta(x).high), (lambda x: bounds.log_delta(x).low)
    yield _delta_curve(panel, FOURIER_UPPER, "upper", upper, eps, min_delta)
    yield _delta_curve(panel, FOURIER_LOWER, "lower", lower, eps, min_delta)


def _clones_panel(setting: Setting, min_delta: float) -> Iterator[pd.DataFrame]:
    """Yield the curves of delta over eps, up to eps = 1."""
    panel = f"$n_c = {setting.rounds}$"
    eps, few = (np.linspace(0.05, 1.0, points) for points in (_CLONES_POINTS, _FOURIER_POINTS))
    yield _delta_curve(panel, CLONES, "exact", clones_profile(setting), eps, min_delta)
    yield from fourier_curves(panel, setting, few, min_delta)
    printed = fourier_on_grid(printed_clones_loss(setting), setting.rounds)
    name = "pair (6.1) as printed"
    yield _delta_curve(
        panel, name, "as printed", lambda x: printed.log_delta(x).high, few, min_delta
    )

    def two_rr_upper(eps: float) -> float:
        return krr.dominating_log_delta(eps, setting)

    end = end_of_profile(two_rr_upper, min_delta, 1.0)
    eps, fewest = (np.linspace(0.05, end, points) for points in (_CLONES_POINTS, _TWO_RR_POINTS))
    name = "any-randomiser bound (2-RR's weak adversary)"
    yield _delta_curve(panel, name, "upper", two_rr_upper, eps, min_delta)
    name = "2-RR, an explicit data set"
    yield _delta_curve(panel, name, "lower", histogram_profile(setting), fewest, min_delta)


def _clones_curves(eps0: float, n: int, min_delta: float) -> pd.DataFrame:
    panels = (_clones_panel(Setting(n, 2, eps0, rounds), min_delta) for rounds in (1, 2, 3, 4))
    return curves(chain.from_iterable(panels))


def _clones_spec(number: int, eps0: float, n: int, min_delta: float) -> FigureSpec:
    return FigureSpec(
        title=f"Koskela et al., figure {number}: any shuffled randomiser, $n_c$ rounds, n = {n:,}, "
        rf"$\epsilon_0 = {eps0:g}$",
        x_label=r"total $\epsilon$",
        y_label=r"$\delta$",
        between="delta over eps",
        compute=partial(_clones_curves, eps0, n, min_delta),
        caption=(
            f"n = {n:,} users, eps0 = {eps0:g}, n_c = 1 to 4 rounds; all as stated. Clones pair, "
            "certified: exact for one round (the numeric method of Feldman et al., which does not "
            "compose) and certified to a relative 1e-5 of eps for more. Fourier accountant: "
            "Algorithm 1 with L = 20 and m = 4e5 on the same pair (the paper has m = 1e7); the "
            "interval contains every error. Dashed: the pair (6.1) as printed, upper end of "
            "Algorithm 1. All these bounds are loose: the bound by 2-RR's weak adversary also "
            "holds for every eps0-LDP randomiser that all users share, and no such bound can be "
            "below what 2-RR leaks on an explicit data set."
        ),
        x_scale="linear",
    )


# --- Figures 7 to 9: the clones pair against its closed form --------------------------------------

StepLogDelta = Callable[[Floats], Floats]
Composition = Callable[[StepLogDelta, Floats, int], Floats]

_STEP_EPS_POINTS: Final = 400
_MIN_DELTA: Final = 1e-15  # smallest delta on the axis of C's figures

CLOSED: Final = "Feldman et al. Theorem 3.1 where proved"
CLOSED_PRINTED: Final = "Feldman et al. Theorem 3.1, formula (C.2) beyond"


def printed_closed_form_log_delta(eps: Floats, setting: Setting) -> Floats:
    """Return paper C's eq. (C.2) solved for log delta, also where the theorem does not apply.

    It is ``log 4 - (e - 1 - 8E/n)^2 n / (64 E)``, or 0 where the bracket is negative. It is no
    guarantee where ``eps0 <= log(n / (16 log(2/delta)))`` fails. ``eps`` has any shape.
    """
    rate = setting.n * np.exp(-setting.eps0)
    bracket = np.maximum(np.expm1(eps) - 8.0 / rate, 0.0)
    return np.asarray(np.minimum(np.log(4.0) - bracket**2 * rate / 64.0, 0.0))


def advanced(step_log_delta: StepLogDelta, eps: Floats, rounds: int) -> Floats:
    """Return log delta by advanced composition of equal rounds, minimised over a round's eps.

    `step_log_delta` is a function from eps, of any shape, to the natural log of one round's delta.
    `eps` is the total over the rounds, at least 0, shape ``(m,)``. A single round is returned
    unchanged.
    """
    if rounds == 1:
        return step_log_delta(eps)
    step_eps = np.geomspace(1e-3, 1.0, _STEP_EPS_POINTS) * eps[:, None]
    totals = theorems.advanced_log_delta(eps[:, None], step_eps, step_log_delta(step_eps), rounds)
    return np.asarray(totals.min(axis=1))


def basic(step_log_delta: StepLogDelta, eps: Floats, rounds: int) -> Floats:
    """Return log delta by basic composition of equal rounds; see `advanced` for parameters."""
    return np.asarray(np.minimum(step_log_delta(eps / rounds) + np.log(rounds), 0.0))


def against_theorem(
    setting: Setting, max_eps: float, compose: Composition
) -> Iterator[pd.DataFrame]:
    """Yield the curves of one panel: the clones pair, and its closed form composed by a theorem.

    The closed form is shown where it is proved, and its formula as printed. ``max_eps`` is the end
    of the eps axis; ``compose`` is `basic` or `advanced`.
    """
    panel, exact = f"$n_c = {setting.rounds}$", clones_profile(setting)
    eps = np.geomspace(0.1, end_of_profile(exact, _MIN_DELTA, max_eps), 48)
    yield _delta_curve(panel, CLONES, "exact", exact, eps, _MIN_DELTA / 2.0)
    eps = np.geomspace(0.1, min(max_eps, 0.99 * HALF_WIDTH), 4 * _FOURIER_POINTS)
    yield from fourier_curves(panel, setting, eps, _MIN_DELTA)
    one, eps = replace(setting, rounds=1), np.geomspace(0.1, max_eps, 60)
    formulas: tuple[tuple[str, Kind, StepLogDelta], ...] = (
        (CLOSED, "upper", lambda x: closed_forms.clones_closed_form_log_delta(x, one)),
        (CLOSED_PRINTED, "as printed", lambda x: printed_closed_form_log_delta(x, one)),
    )
    for name, kind, step in formulas:
        delta = np.exp(compose(step, eps, setting.rounds))
        shown = (delta >= _MIN_DELTA) & (delta < 1.0)
        yield curve(panel, name, kind, eps, np.where(shown, delta, np.nan))


def _closed_form_curves(
    eps0: float, n: int, all_rounds: tuple[int, ...], max_eps: float, compose: Composition
) -> pd.DataFrame:
    settings = (Setting(n, 2, eps0, rounds) for rounds in all_rounds)
    return curves(chain(*(against_theorem(setting, max_eps, compose) for setting in settings)))


def _closed_form_spec(number: int, eps0: float, n: int, compose: Composition) -> FigureSpec:
    name, all_rounds, max_eps, composition_note = (
        "advanced",
        (1, 8, 64),
        200.0,
        "Advanced composition at the best eps per round (the paper does not say how it splits "
        "delta).",
    )
    if compose is basic:
        name, all_rounds, max_eps = "basic", (1, 2, 4), 8.0
        composition_note = "Basic composition: n_c rounds of (eps, delta) are (n_c eps, n_c delta)."
    return FigureSpec(
        title=f"Koskela et al., figure {number}: clones, $n_c$ rounds, {name} composition, "
        rf"n = {n:,}, $\epsilon_0 = {eps0:g}$",
        x_label=r"total $\epsilon$",
        y_label=r"$\delta$",
        between="delta over eps",
        compute=partial(_closed_form_curves, eps0, n, all_rounds, max_eps, compose),
        caption=(
            f"n = {n:,} users, eps0 = {eps0:g}, n_c = {', '.join(map(str, all_rounds))}; all as "
            "stated. Clones pair, certified: exact for one round and certified to a relative 1e-5 "
            "of eps for more. Fourier accountant: Algorithm 1 with L = 20 and m = 4e5 (the paper "
            "has m = 1e7) and all its errors: in double precision it cannot resolve delta below "
            "about 1e-11, while the paper's axis ends at 1e-15. Theorem 3.1 of Feldman et al. "
            "holds for eps0 <= log(n / (16 log(2/delta))), here down to delta = "
            f"{2.0 * np.exp(-n * np.exp(-eps0) / 16.0):.1e} per round; dashed: its formula (C.2) "
            "below that as well, and without the factor (E-1)/(E+1). It is wrong there: at small "
            f"delta it falls below the pair that it should bound. {composition_note}"
        ),
    )


# --- Figure 10: privacy by the number of cells ----------------------------------------------------

_CELLS, _DELTAS, _CELLS_POINTS = (2, 3, 4, 8, 16), (1e-7, 1e-2), 16
_ADVERSARIES: Final[tuple[tuple[str, Kind, Callable[[Setting], LogDelta]], ...]] = (
    ("(5.1) as printed", "as printed", lambda setting: printed_pair_profile(setting, "strong")),
    ("strong adversary", "upper", strong_adversary_profile),
    ("weak adversary", "upper", weak_adversary_profile),
)


def _figure_10() -> pd.DataFrame:
    """Return the curves of one panel for each setting and adversary."""
    parts = []
    for letter, n, eps0 in (("a", 1000, 1.0), ("b", 10_000, 4.0)):
        any_k = clones_profile(Setting(n, 2, eps0))
        for adversary, kind, profile_of in _ADVERSARIES:
            lines: list[tuple[str, Kind, LogDelta, float]] = [
                (f"k = {k}", kind, profile_of(Setting(n, k, eps0)), 2.0 * eps0) for k in _CELLS
            ]
            lines.append(("clones (any k)", "exact", any_k, eps0))
            for name, line_kind, log_delta, max_eps in lines:
                eps = eps_grid(log_delta, _DELTAS, max_eps, _CELLS_POINTS)
                delta = deltas_of(log_delta, eps)
                parts.append(curve(f"({letter}) {adversary}", name, line_kind, delta, eps))
    return curves(parts)


FIGURES: Final[Mapping[str, FigureSpec]] = {
    "figure-1": _krr_spec(
        "1: $n_c$ rounds of shuffled k-RR, by what the adversary knows",
        "n = 1,000 users, k = 4 cells, gamma = 0.25 (eps0 = log 13 = 2.565), n_c = 1, 4, 16 rounds",
        "Here it gives eps >= 1.3 for every delta shown, so that the theorem itself does not "
        "apply.",
        lambda: _krr_curves(_over_rounds(1000, 4, 0.25, 1, 4, 16), 1e-3, ("strong", "weak"), 1),
    ),
    "figure-3": _krr_spec(
        "3: shuffled k-RR, one round",
        "k = 5 cells, gamma = 0.1 (eps0 = log 46 = 3.829), n = 1,000 (a) and 10,000 (b)",
        "In (a) the whole curve lies beyond.",
        lambda: _krr_curves(
            {
                "(a) n = 1,000": setting_of_gamma(1000, 5, 0.1),
                "(b) n = 10,000": setting_of_gamma(10_000, 5, 0.1),
            }
        ),
    ),
    "figure-4": _krr_spec(
        "4: $n_c$ rounds of shuffled k-RR against basic composition",
        "n = 10,000 users, k = 5 cells, gamma = 0.1 (eps0 = log 46 = 3.829), n_c = 1, 2, 4 rounds",
        "Basic composition: n_c rounds of (eps, delta) are (n_c eps, n_c delta).",
        lambda: _krr_curves(_over_rounds(10_000, 5, 0.1, 1, 2, 4)),
    ),
    "figure-2": _clones_spec(2, 4.0, 10_000, 1e-11),
    "figure-5": _clones_spec(5, 7.0, 100_000, 1e-8),
    "figure-6": _clones_spec(6, 9.0, 1_000_000, 1e-8),
    "figure-7": _closed_form_spec(7, 4.0, 10_000, basic),
    "figure-8": _closed_form_spec(8, 9.0, 1_000_000, basic),
    "figure-9": _closed_form_spec(9, 9.0, 1_000_000, advanced),
    "figure-10": FigureSpec(
        title="Koskela et al., figure 10: k cells and the clones bound; "
        r"(a) n = 1,000, $\epsilon_0 = 1$; (b) n = 10,000, $\epsilon_0 = 4$",
        x_label=r"$\delta$",
        y_label=r"$\epsilon$",
        between="eps over delta",
        compute=_figure_10,
        caption=(
            "One round: (a) n = 1,000, eps0 = 1; (b) n = 10,000, eps0 = 4; all as stated. "
            "Left: the pair (5.1) as printed, no guarantee, the larger delta of its two "
            "directions by Algorithm 1 (L = 10, m = 2e5). Middle: the strong adversary's exact "
            "delta. Right: the weak adversary's (certified). The paper concludes from its "
            "figure that amplification weakens with k. That holds against the strong adversary "
            "only: an adversary who does not learn whether the target randomised learns less "
            "with more cells, and the clones bound is above every one of these curves."
        ),
        y_scale="linear",
    ),
}
NUMBERS: Final[Mapping[str, Recompute]] = {
    "text 6.3": not_tried(
        "A time depends on a machine and on code, neither of which is available. `make bench` "
        "measures this project's implementations of the two methods."
    )
}
