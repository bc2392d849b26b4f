"""Recompute paper C's figures 1 to 10.

A pair is two laws whose hockey-stick divergence is delta. The pairs that paper C prints have too
small a divergence; the corrected pairs are in `shuffledp.accounting.pairs`. Figures 1, 3, 4 and 10
are about shuffled k-RR, the others about the clones pair, for eps0-LDP randomisers of any kind.
n_c is the paper's number of rounds, gamma the probability that a k-RR user reports a uniformly
drawn cell. A profile is log delta as a function of the total eps.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Final, Literal

import numpy as np
import pandas as pd

from shuffledp.accounting import krr, pairs
from shuffledp.accounting.bound_registry import BOUNDS
from shuffledp.accounting.laws.binomial import log_cdf_upper, log_pmf, log_tail_upper
from shuffledp.accounting.rounds.privacy_loss import LossDistribution, default_step, rounded_up
from shuffledp.accounting.rounds.sums import upper_log_hockey_stick
from shuffledp.accounting.setting import Setting, probabilities
from shuffledp.numerics.arrays import Floats
from shuffledp.papers.answers import Answer, Published
from shuffledp.papers.figure_specs import (
    FigureSpec,
    Kind,
    LogDelta,
    curve,
    curves,
    delta_over_eps,
    end_of_profile,
    eps_grid,
    eps_over_delta,
)
from shuffledp.papers.literature import clones, closed_forms, fourier, theorems
from shuffledp.papers.literature.clones import strong_adversary_log_delta
from shuffledp.papers.literature.fourier import LossAtoms

# --- Pairs as printed: no guarantee, only for reproducing C's figures ----------------------------

# Half-width of the windows of counts: in standard deviations, plus a number of counts.
_WINDOW_DEVIATIONS: Final = 9.3
_WINDOW_MARGIN: Final = 20.0


def _window(mean: float, variance: float, largest: float) -> Floats:
    """Return the counts around a mean with all but negligible mass, from 0 to ``largest``."""
    half = _WINDOW_DEVIATIONS * np.sqrt(variance) + _WINDOW_MARGIN
    return np.arange(max(np.floor(mean - half), 0.0), min(np.ceil(mean + half), largest) + 1.0)


def printed_pair_loss(
    setting: Setting,
    adversary: Literal["strong", "weak"],
    direction: Literal["forward", "backward"] = "forward",
) -> LossAtoms:
    """Return the privacy loss of a pair of section 5 as printed.

    ``"strong"`` is eq. (5.1), ``Bin(n-1, gamma/k) + 1`` against ``Bin(n-1, gamma/k)``. ``"weak"``
    is Theorem 10, the counts ``N1|B`` against ``N2|B`` together with B. Both omit the count of one
    of the two cells that are compared, so their divergence is too small. The correct pairs are
    `pairs.strong_adversary` and `pairs.weak_adversary`. The direction ``"forward"`` is P against Q
    as the paper names them, and ``"backward"`` Q against P.
    """
    law = _printed_strong if adversary == "strong" else _printed_weak
    first, second, left_out = law(setting)
    if direction == "backward":
        first, second = second, first
    infinite_loss = np.isneginf(second)
    used = ~infinite_loss & np.isfinite(first)
    return LossAtoms(
        losses=first[used] - second[used],
        masses=np.exp(first[used]),
        infinite=float(np.exp(first[infinite_loss]).sum()),
        left_out=left_out,
    )


def _printed_strong(setting: Setting) -> tuple[Floats, Floats, float]:
    n, (_, q) = setting.n, probabilities(setting.eps0, setting.k)
    count = _window((n - 1) * q, (n - 1) * q * (1.0 - q), n)
    first, second = log_pmf(count - 1.0, n - 1, q), log_pmf(count, n - 1, q)
    left_out = np.exp(log_cdf_upper(count[0] - 1.0, n - 1, q)) + np.exp(
        log_tail_upper(count[-1], n - 1, q)
    )
    return first, second, float(left_out)


def _printed_weak(setting: Setting) -> tuple[Floats, Floats, float]:
    n, k = setting.n, setting.k
    p, q = probabilities(setting.eps0, k)
    gamma = k * q
    blanket = _window((n - 1) * gamma, (n - 1) * gamma * (1.0 - gamma), n - 1)
    mean = blanket[-1] / k
    half = _WINDOW_DEVIATIONS * np.sqrt(mean) + _WINDOW_MARGIN
    count = np.arange(max(np.floor(blanket[0] / k - half), 0.0), np.ceil(mean + half) + 1.0)
    b = blanket[:, None]
    log_b = log_pmf(b, n - 1, gamma)
    with np.errstate(divide="ignore"):
        without_target = log_b + log_pmf(count, b, 1.0 / k)
        with_target = log_b + log_pmf(count - 1.0, b, 1.0 / k)
    first = np.logaddexp(np.log(p) + with_target, np.log1p(-p) + without_target)
    second = np.logaddexp(np.log(q) + with_target, np.log1p(-q) + without_target)
    outside_blanket = np.exp(log_cdf_upper(blanket[0] - 1.0, n - 1, gamma)) + np.exp(
        log_tail_upper(blanket[-1] + 1.0, n - 1, gamma)
    )
    outside_count = np.exp(log_cdf_upper(count[0] - 1.0, blanket, 1.0 / k)) + np.exp(
        log_tail_upper(count[-1], blanket, 1.0 / k)
    )
    return first.ravel(), second.ravel(), float(outside_blanket + outside_count.max())


def printed_clones_loss(setting: Setting) -> LossAtoms:
    """Return the privacy loss of paper C's eq. (6.1) as printed.

    It compares ``(A + D, C - A)`` with ``(A, C - A + D)``, where C ~ Bin(n-1, 1/E), A ~ Bin(C, 1/2)
    and D ~ Bern(E/(E+1)). If D = 0, the target adds nothing here; in the correct clones pair it
    adds the other of the two reports. Exchanging the coordinates exchanges the two laws, so one
    direction is enough.
    """
    n, eps0 = setting.n, setting.eps0
    decoy, truth = np.exp(-eps0), 1.0 / (1.0 + np.exp(-eps0))
    mean = (n - 1) * decoy
    half = _WINDOW_DEVIATIONS * np.sqrt(mean) + _WINDOW_MARGIN
    total = _window(mean, mean, n)[:, None]
    a = np.arange(max(np.floor(0.5 * total[0, 0] - half), 0.0), 0.5 * total[-1, 0] + half + 1.0)

    def log_clones(first: Floats, both: Floats) -> Floats:
        return log_pmf(both, n - 1, decoy) + log_pmf(first, np.maximum(both, 0.0), 0.5)

    no_report = np.log1p(-truth) + log_clones(a, total)
    first = np.logaddexp(np.log(truth) + log_clones(a - 1.0, total - 1.0), no_report).ravel()
    second = np.logaddexp(np.log(truth) + log_clones(a, total - 1.0), no_report).ravel()
    used = np.isfinite(first) & np.isfinite(second)
    masses = np.exp(first)
    return LossAtoms(
        losses=first[used] - second[used],
        masses=masses[used],
        infinite=float(masses[np.isneginf(second)].sum()),
        left_out=max(1.0 - float(masses.sum()), 0.0),
    )


# --- Profiles by what an adversary knows ----------------------------------------------------------
#
# The strong adversary learns which users reported a uniform cell, the target included; the weak
# adversary learns it for the other users only; a reader of the histogram does not learn it.

# Grid of Algorithm 1; paper C has L = 20 and m = 1e7. A step changes eps by at most 1e-4 per round.
HALF_WIDTH: Final = 20.0
N_GRID: Final = 400_000
_PRINTED_HALF_WIDTH, _PRINTED_N_GRID = 10.0, 200_000
# The grid of the lower bound is finer than the default by this factor, so that eps is too small by
# a relative 1e-4 or so only.
_LOWER_GRID_REFINEMENT: Final = 4


def setting_of_gamma(n: int, k: int, gamma: float, rounds: int = 1) -> Setting:
    """Return the setting in which users report a uniformly drawn cell with probability gamma."""
    return Setting(n, k, float(np.log(k / gamma - k + 1.0)), rounds)


def uniform_probability(setting: Setting) -> float:
    """Return the probability gamma that a user reports a uniformly drawn cell."""
    return setting.k * probabilities(setting.eps0, setting.k)[1]


def fourier_on_grid(loss: pairs.Pair | fourier.LossAtoms, rounds: int) -> fourier.FourierBounds:
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
    """Return log delta against the strong adversary, or Algorithm 1's upper bound if rounds > 1."""
    if setting.rounds == 1:
        return lambda eps: float(strong_adversary_log_delta(eps, setting))
    bounds = fourier_on_grid(strong_adversary_loss(setting), setting.rounds)
    return lambda eps: bounds.log_delta(eps).high


def strong_adversary_loss(setting: Setting) -> fourier.LossAtoms:
    """Return the privacy loss of one round against the strong adversary, rounded up.

    With probability gamma the adversary of Definition 8 sees that the target randomised, and the
    loss is 0; otherwise it is the loss of `pairs.strong_adversary`.
    """
    pair = pairs.strong_adversary(setting)
    loss = rounded_up(pair, default_step(pair))
    truth = float(np.expm1(setting.eps0)) * probabilities(setting.eps0, setting.k)[1]
    return fourier.LossAtoms(
        losses=np.append(loss.losses, 0.0),
        masses=np.append(truth * loss.mass, 1.0 - truth),
        infinite=truth * loss.infinite,
        left_out=0.0,
    )


def printed_pair_profile(setting: Setting, adversary: Literal["strong", "weak"]) -> LogDelta:
    """Return log delta of a pair as printed, in its worse direction, by Algorithm 1."""
    grids = [
        fourier.fourier_bounds(
            printed_pair_loss(setting, adversary, direction),
            setting.rounds,
            _PRINTED_HALF_WIDTH,
            _PRINTED_N_GRID,
        ).right
        for direction in ("forward", "backward")
    ]
    # Where delta is about 1e-13, rounding can make Algorithm 1's value negative.
    return lambda eps: float(np.log(max(1e-30, *(grid.delta(eps)[0] for grid in grids))))


# --- Figures 1, 3 and 4: shuffled k-RR by what the adversary knows --------------------------------

_KRR_POINTS, _KRR_FOURIER_POINTS, _KRR_LOWER_POINTS = 16, 13, 8

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
    """Yield eps by Theorem C.1 and, beyond its range, by the printed formula (C.1).

    Rounds are composed by basic composition: n_c of them are ``(n_c eps, n_c delta)``-DP.
    ``deltas`` are totals over the rounds.
    """
    log_delta = np.log(deltas / setting.rounds)
    proved = closed_forms.balle_krr_epsilon(log_delta, replace(setting, rounds=1))
    reports = (setting.n - 1.0) * uniform_probability(setting)
    formula = np.sqrt(14.0 * setting.k * (np.log(2.0) - log_delta) / reports)
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
    """Yield all curves of one panel of eps over delta, from the first to the last of ``deltas``."""
    max_eps = 2.0 * setting.rounds * setting.eps0
    bounds = fourier_on_grid(pairs.weak_adversary(setting), setting.rounds)
    # The ends of the curves come from the cheap bound, which agrees with the certified one to 1e-4.
    eps = eps_grid(lambda x: bounds.log_delta(x).high, deltas, max_eps, _KRR_POINTS)
    yield eps_over_delta(panel, WEAK, "exact", weak_adversary_profile(setting), eps)
    fourier_eps = np.linspace(eps[0], eps[-1], _KRR_FOURIER_POINTS)
    yield eps_over_delta(
        panel, WEAK_UPPER, "upper", lambda x: bounds.log_delta(x).high, fourier_eps
    )
    yield eps_over_delta(panel, WEAK_LOWER, "lower", lambda x: bounds.log_delta(x).low, fourier_eps)
    lower_eps = np.linspace(eps[0], eps[-1], _KRR_LOWER_POINTS)
    yield eps_over_delta(panel, HISTOGRAM, "lower", histogram_profile(setting), lower_eps)
    others: list[tuple[str, Kind, LogDelta]] = [
        (STRONG, "upper", strong_adversary_profile(setting))
    ]
    for adversary in printed:
        name = STRONG_PRINTED if adversary == "strong" else WEAK_PRINTED
        others.append((name, "as printed", printed_pair_profile(setting, adversary)))
    for name, kind, log_delta in others:
        grid = eps_grid(log_delta, deltas, max_eps, _KRR_POINTS)
        yield eps_over_delta(panel, name, kind, log_delta, grid)
    if balle:
        yield from balle_curves(panel, setting, np.geomspace(*deltas, 60))


def _figure_1() -> pd.DataFrame:
    settings = [setting_of_gamma(1000, 4, 0.25, rounds) for rounds in (1, 4, 16)]
    return curves(
        part
        for s in settings
        for part in _krr_panel(
            f"$n_c = {s.rounds}$", s, (1e-7, 1e-3), ("strong", "weak"), balle=s.rounds == 1
        )
    )


def _figure_3_or_4(settings: Mapping[str, Setting]) -> pd.DataFrame:
    """Return the curves of figure 3 or 4, whose panels have one range of delta."""
    return curves(
        part
        for panel, setting in settings.items()
        for part in _krr_panel(panel, setting, (1e-7, 1e-2), ("strong",), balle=True)
    )


def _figure_3() -> pd.DataFrame:
    sizes = {"a": 1000, "b": 10_000}
    return _figure_3_or_4(
        {f"({letter}) n = {n:,}": setting_of_gamma(n, 5, 0.1) for letter, n in sizes.items()}
    )


def _figure_4() -> pd.DataFrame:
    return _figure_3_or_4(
        {f"$n_c = {rounds}$": setting_of_gamma(10_000, 5, 0.1, rounds) for rounds in (1, 2, 4)}
    )


_LEGEND: Final = (
    "Weak adversary, certified: exact for one round, certified to a relative 1e-5 of eps for more. "
    "Fourier accountant: Algorithm 1 with L = 20 and m = 4e5 on the same pair (the paper has m = "
    "1e7); the interval contains every error. Strong adversary: for one round the exact delta, (1 "
    "- gamma) times that of the pair (N1 + 1, N2) against (N1, N2 + 1), for more rounds the upper "
    "end of Algorithm 1. Histogram only: what the histogram of an explicit data set leaks (a "
    "relative 1e-4 of eps too low for more than one round); no bound can be below it. Dashed: no "
    "guarantee. Pairs as printed are one-dimensional; the larger delta of the two directions is "
    "drawn (Algorithm 1), as the paper's Definition 1 requires."
)
_BALLE_NOTE: Final = (
    "Balle et al.'s theorem is proved for eps <= 1 per round; the paper draws its formula beyond "
    "as well."
)


# --- Figures 2, 5 and 6: the clones pair (section 6) ----------------------------------------------

FOURIER_POINTS: Final = 15
_CLONES_POINTS, _TWO_RR_POINTS = 16, 7

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
    """Return log delta of the clones pair over all rounds, exact for one and else rounded up."""
    if setting.rounds == 1:
        return lambda eps: float(clones.clones_log_delta(eps, setting))
    once = replace(setting, rounds=1)
    return lambda eps: upper_log_hockey_stick(
        lambda depth: [(_clones_loss(once, depth), setting.rounds)], eps
    )


def fourier_curves(
    panel: str, setting: Setting, eps: Floats, min_delta: float
) -> Iterator[pd.DataFrame]:
    """Yield the upper and lower curves of Algorithm 1 on the clones pair.

    ``eps`` are totals over the rounds. Points with a delta below ``min_delta`` are omitted.
    """
    bounds = fourier_on_grid(pairs.clones(setting), setting.rounds)
    intervals = [bounds.log_delta(float(e)) for e in eps]
    ends: tuple[tuple[str, Kind, list[float]], ...] = (
        (FOURIER_UPPER, "upper", [interval.high for interval in intervals]),
        (FOURIER_LOWER, "lower", [interval.low for interval in intervals]),
    )
    for name, kind, log_delta in ends:
        delta = np.exp(log_delta)
        yield curve(panel, name, kind, eps, np.where(delta >= min_delta, delta, np.nan))


def _clones_panel(setting: Setting, min_delta: float) -> Iterator[pd.DataFrame]:
    """Yield the curves of delta over eps, up to eps = 1."""
    panel = f"$n_c = {setting.rounds}$"

    def profile(name: str, kind: Kind, log_delta: LogDelta, eps: Floats) -> pd.DataFrame:
        return delta_over_eps(panel, name, kind, log_delta, eps, min_delta)

    eps = np.linspace(0.05, 1.0, _CLONES_POINTS)
    yield profile(CLONES, "exact", clones_profile(setting), eps)
    fourier_eps = np.linspace(0.05, 1.0, FOURIER_POINTS)
    yield from fourier_curves(panel, setting, fourier_eps, min_delta)
    printed = fourier_on_grid(printed_clones_loss(setting), setting.rounds)
    yield profile(PRINTED, "as printed", lambda x: printed.log_delta(x).high, fourier_eps)

    def two_rr_upper(eps: float) -> float:
        return krr.dominating_log_delta(eps, setting)

    end = end_of_profile(two_rr_upper, min_delta, 1.0)
    yield profile(ANY, "upper", two_rr_upper, np.linspace(0.05, end, _CLONES_POINTS))
    lower_eps = np.linspace(0.05, end, _TWO_RR_POINTS)
    yield profile(TWO_RR, "lower", histogram_profile(setting), lower_eps)


def _clones_curves(eps0: float, n: int, min_delta: float) -> pd.DataFrame:
    panels = (_clones_panel(Setting(n, 2, eps0, rounds), min_delta) for rounds in (1, 2, 3, 4))
    return curves(part for panel in panels for part in panel)


_CLONES_CAPTION: Final = (
    "n_c = 1 to 4 rounds; all as stated. Clones pair, certified: exact for one round (the numeric "
    "method of Feldman et al., which does not compose) and certified to a relative 1e-5 of eps for "
    "more. Fourier accountant: Algorithm 1 with L = 20 and m = 4e5 on the same pair (the paper has "
    "m = 1e7); the interval contains every error. Dashed: the pair (6.1) as printed, upper end of "
    "Algorithm 1. All these bounds are loose: the bound by 2-RR's weak adversary also holds for "
    "every eps0-LDP randomiser that all users share, and no such bound can be below what 2-RR "
    "leaks on an explicit data set."
)


def _clones_spec(number: int, eps0: float, n: int, min_delta: float) -> FigureSpec:
    return FigureSpec(
        title=f"Koskela et al., figure {number}: any shuffled randomiser, $n_c$ rounds, n = {n:,}, "
        rf"$\epsilon_0 = {eps0:g}$",
        x_label=r"total $\epsilon$",
        y_label=r"$\delta$",
        between="delta over eps",
        compute=lambda: _clones_curves(eps0, n, min_delta),
        caption=f"n = {n:,} users, eps0 = {eps0:g}, {_CLONES_CAPTION}",
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
    `eps` is the total over the rounds, at least 0, shape ``(m,)``. There is at least one round, and
    a single one is returned unchanged.
    """
    if rounds == 1:
        return step_log_delta(eps)
    step_eps = np.geomspace(1e-3, 1.0, _STEP_EPS_POINTS) * eps[:, None]
    totals = theorems.advanced_log_delta(eps[:, None], step_eps, step_log_delta(step_eps), rounds)
    return np.asarray(totals.min(axis=1))


def basic(step_log_delta: StepLogDelta, eps: Floats, rounds: int) -> Floats:
    """Return log delta by basic composition of equal rounds; see `advanced` for parameters."""
    return np.asarray(np.minimum(step_log_delta(eps / rounds) + np.log(rounds), 0.0))


def _closed_forms(
    panel: str, setting: Setting, eps: Floats, compose: Composition
) -> Iterator[pd.DataFrame]:
    """Yield the composed closed form where it is proved, and its formula as printed."""
    one = replace(setting, rounds=1)
    formulas: tuple[tuple[str, Kind, StepLogDelta], ...] = (
        (CLOSED, "upper", lambda x: closed_forms.clones_closed_form_log_delta(x, one)),
        (CLOSED_PRINTED, "as printed", lambda x: printed_closed_form_log_delta(x, one)),
    )
    for name, kind, step in formulas:
        delta = np.exp(compose(step, eps, setting.rounds))
        shown = (delta >= _MIN_DELTA) & (delta < 1.0)
        yield curve(panel, name, kind, eps, np.where(shown, delta, np.nan))


def against_theorem(
    setting: Setting, max_eps: float, compose: Composition
) -> Iterator[pd.DataFrame]:
    """Yield the curves of one panel: the clones pair, and its closed form composed by a theorem.

    ``max_eps`` is the end of the eps axis; ``compose`` is `basic` or `advanced`.
    """
    panel = f"$n_c = {setting.rounds}$"
    exact = clones_profile(setting)
    end = end_of_profile(exact, _MIN_DELTA, max_eps)
    exact_eps = np.geomspace(0.1, end, 48)
    yield delta_over_eps(panel, CLONES, "exact", exact, exact_eps, _MIN_DELTA / 2.0)
    fourier_eps = np.geomspace(0.1, min(max_eps, 0.99 * HALF_WIDTH), 4 * FOURIER_POINTS)
    yield from fourier_curves(panel, setting, fourier_eps, _MIN_DELTA)
    yield from _closed_forms(panel, setting, np.geomspace(0.1, max_eps, 60), compose)


_CLOSED_FORM_CAPTION: Final = (
    "Clones pair, certified: exact for one round and certified to a relative 1e-5 of eps for more. "
    "Fourier accountant: Algorithm 1 with L = 20 and m = 4e5 (the paper has m = 1e7) and all its "
    "errors: in double precision it cannot resolve delta below about 1e-11, while the paper's axis "
    "ends at 1e-15. Theorem 3.1 of Feldman et al. holds for eps0 <= log(n / (16 log(2/delta))), "
    "here down to delta = {end} per round; dashed: its formula (C.2) below that as well, and "
    "without the factor (E-1)/(E+1). It is wrong there: at small delta it falls below the pair "
    "that it should bound."
)


def _closed_form_spec(number: int, eps0: float, n: int, compose: Composition) -> FigureSpec:
    is_advanced = compose is advanced
    end = 2.0 * np.exp(-n * np.exp(-eps0) / 16.0)
    name = "advanced" if is_advanced else "basic"
    all_rounds = (1, 8, 64) if is_advanced else (1, 2, 4)
    max_eps = 200.0 if is_advanced else 8.0
    composition_note = (
        "Advanced composition at the best eps per round (the paper does not say how it splits "
        "delta)."
        if is_advanced
        else "Basic composition: n_c rounds of (eps, delta) are (n_c eps, n_c delta)."
    )

    def compute() -> pd.DataFrame:
        settings = (Setting(n, 2, eps0, rounds) for rounds in all_rounds)
        panels = (against_theorem(setting, max_eps, compose) for setting in settings)
        return curves(part for panel in panels for part in panel)

    return FigureSpec(
        title=f"Koskela et al., figure {number}: clones, $n_c$ rounds, {name} composition, "
        rf"n = {n:,}, $\epsilon_0 = {eps0:g}$",
        x_label=r"total $\epsilon$",
        y_label=r"$\delta$",
        between="delta over eps",
        compute=compute,
        caption=(
            f"n = {n:,} users, eps0 = {eps0:g}, n_c = {', '.join(map(str, all_rounds))}; all "
            f"as stated. {_CLOSED_FORM_CAPTION.format(end=f'{end:.1e}')} {composition_note}"
        ),
    )


# --- Figure 10: privacy by the number of cells ----------------------------------------------------

_CELLS: Final = (2, 3, 4, 8, 16)
_DELTAS: Final = (1e-7, 1e-2)
_CELLS_POINTS: Final = 16
_ADVERSARIES: Final[tuple[tuple[str, Kind, Callable[[Setting], LogDelta]], ...]] = (
    ("(5.1) as printed", "as printed", lambda setting: printed_pair_profile(setting, "strong")),
    ("strong adversary", "upper", strong_adversary_profile),
    ("weak adversary", "upper", weak_adversary_profile),
)


def _panels(letter: str, n: int, eps0: float) -> Iterator[pd.DataFrame]:
    """Yield the curves of all panels of one setting, one panel for each adversary."""

    def any_k(eps: float) -> float:
        return float(clones.clones_log_delta(eps, Setting(n, 2, eps0)))

    for adversary, kind, profile_of in _ADVERSARIES:
        panel = f"({letter}) {adversary}"
        for k in _CELLS:
            log_delta = profile_of(Setting(n, k, eps0))
            grid = eps_grid(log_delta, _DELTAS, 2.0 * eps0, _CELLS_POINTS)
            yield eps_over_delta(panel, f"k = {k}", kind, log_delta, grid)
        grid = eps_grid(any_k, _DELTAS, eps0, _CELLS_POINTS)
        yield eps_over_delta(panel, "clones (any k)", "exact", any_k, grid)


def _figure_10() -> pd.DataFrame:
    settings = (("a", 1000, 1.0), ("b", 10_000, 4.0))
    return curves(part for setting in settings for part in _panels(*setting))


FIGURES: Final[Mapping[str, FigureSpec]] = {
    "figure-1": FigureSpec(
        title=(
            "Koskela et al., figure 1: $n_c$ rounds of shuffled k-RR, by what the adversary knows"
        ),
        x_label=r"$\delta$",
        y_label=r"total $\epsilon$",
        between="eps over delta",
        compute=_figure_1,
        caption=(
            "n = 1,000 users, k = 4 cells, gamma = 0.25 (eps0 = log 13 = 2.565), n_c = 1, 4, "
            f"16 rounds; all as stated. {_LEGEND} {_BALLE_NOTE} Here it gives eps >= 1.3 for "
            "every delta shown, so that the theorem itself does not apply."
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
            f"all as stated. {_LEGEND} {_BALLE_NOTE} In (a) the whole curve lies beyond."
        ),
        y_scale="linear",
    ),
    "figure-4": FigureSpec(
        title=("Koskela et al., figure 4: $n_c$ rounds of shuffled k-RR against basic composition"),
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


def duration(row: Published) -> Answer:
    """Return an answer without values, because paper C's running times are not reproduced."""
    del row
    return Answer(
        note="A time depends on a machine and on code, neither of which is available. `make bench` "
        "measures this project's implementations of the two methods."
    )
