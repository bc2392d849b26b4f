"""Paper C's figures of the clones pair (section 6): shuffled eps0-LDP randomisers of any kind."""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

import numpy as np
import pandas as pd

from shuffledp.accounting.laws.binomial import log_pmf
from shuffledp.accounting.one_round import certified, clones, closed_forms
from shuffledp.accounting.rounds import composition, fourier, theorems
from shuffledp.accounting.rounds.privacy_loss import LossDistribution, rounded_up, weak_pair
from shuffledp.arrays import Floats
from shuffledp.curve import FigureSpec, Kind, curve, curves
from shuffledp.studies.reproduction.profiles import LogDelta, delta_over_eps, end_of_profile

StepLogDelta = Callable[[Floats], Floats]

HALF_WIDTH: Final = 20.0
N_GRID: Final = 400_000
_POINTS, _FOURIER_POINTS, _LOWER_POINTS = 16, 15, 7
# Coarser than `composition`'s own grid: eps of the lower bound comes out smaller by some 1e-4.
_LOWER_STEPS = 4
_STEPS_OF_A_ROUND = 400
_WIDTH, _MARGIN = 9.3, 20.0

CLONES: Final = "clones pair, certified"
FOURIER_UPPER: Final = "clones pair, Fourier accountant, upper"
FOURIER_LOWER: Final = "clones pair, Fourier accountant, lower"
PRINTED: Final = "pair (6.1) as printed"
ANY: Final = "any-randomiser bound (2-RR's weak adversary)"
TWO_RR: Final = "2-RR, an explicit data set"
CLOSED: Final = "Feldman et al. Theorem 3.1 where proved"
CLOSED_PRINTED: Final = "Feldman et al. Theorem 3.1, formula (C.2) beyond"


@lru_cache(maxsize=8)
def _clones_loss(eps0: float, n: int) -> LossDistribution:
    pair = fourier.clones_pair(eps0, n)
    return rounded_up(pair, pair.default_step)


def clones_log_delta(eps: float, eps0: float, n: int, rounds: int) -> float:
    """Log delta of ``rounds`` rounds of the clones pair: exact for one, else rounded up."""
    if rounds == 1:
        return float(clones.clones_log_delta(eps, eps0, n))
    return composition.log_hockey_stick(_clones_loss(eps0, n), eps, rounds).high


def printed_clones_loss(eps0: float, n: int) -> fourier.LossAtoms:
    """Loss of paper C's eq. (6.1) as printed; for its figures only.

    ``(A + D, C - A)`` against ``(A, C - A + D)``, C ~ Bin(n-1, 1/E), A ~ Bin(C, 1/2),
    D ~ Bern(E/(E+1)): with D = 0 the target adds nothing, where the clones pair has it add the
    other one of the two reports. Exchanging the coordinates exchanges the two laws, so that one
    direction is enough.

    Parameters
    ----------
    eps0, n
        Local budget and number of users.
    """
    decoy, truth = np.exp(-eps0), 1.0 / (1.0 + np.exp(-eps0))
    mean = (n - 1) * decoy
    half = _WIDTH * np.sqrt(mean) + _MARGIN
    total = np.arange(max(np.floor(mean - half), 0.0), min(np.ceil(mean + half), n) + 1.0)[:, None]
    a = np.arange(max(np.floor(0.5 * total[0, 0] - half), 0.0), 0.5 * total[-1, 0] + half + 1.0)

    def log_clones(first: Floats, both: Floats) -> Floats:
        return log_pmf(both, n - 1, decoy) + log_pmf(first, np.maximum(both, 0.0), 0.5)

    nothing = np.log1p(-truth) + log_clones(a, total)
    first = np.logaddexp(np.log(truth) + log_clones(a - 1.0, total - 1.0), nothing).ravel()
    second = np.logaddexp(np.log(truth) + log_clones(a, total - 1.0), nothing).ravel()
    used = np.isfinite(first) & np.isfinite(second)
    masses = np.exp(first)
    return fourier.LossAtoms(
        losses=first[used] - second[used],
        masses=masses[used],
        infinite=float(masses[np.isneginf(second)].sum()),
        left_out=max(1.0 - float(masses.sum()), 0.0),
    )


def printed_closed_form_log_delta(eps: Floats, eps0: float, n: int) -> Floats:
    """Paper C's eq. (C.2) solved for log delta, whether or not the theorem covers it.

    ``log 4 - (e - 1 - 8E/n)^2 n / (64 E)``, 0 where the bracket is negative; no guarantee where
    the condition ``eps0 <= log(n / (16 log(2/delta)))`` fails. ``eps`` of any shape.
    """
    rate = n * np.exp(-eps0)
    bracket = np.maximum(np.expm1(eps) - 8.0 / rate, 0.0)
    return np.asarray(np.minimum(np.log(4.0) - bracket**2 * rate / 64.0, 0.0))


def _two_rr(eps: float, eps0: float, n: int, rounds: int) -> float:
    """Log delta of an explicit data set of 2-RR."""
    if rounds == 1:
        return float(certified.lower_log_delta(eps, eps0, n, 2))
    step = weak_pair(eps0, n, 2).default_step / _LOWER_STEPS
    return float(composition.composed_log_delta(eps, eps0, n, 2, rounds, "lower", step))


def _fourier_curves(
    panel: str, eps0: float, n: int, rounds: int, eps: Floats, smallest: float
) -> Iterator[pd.DataFrame]:
    """Algorithm 1 on the clones pair, upper and lower."""
    bounds = fourier.fourier_bounds(fourier.clones_pair(eps0, n), rounds, HALF_WIDTH, N_GRID)
    found = [bounds.log_delta(float(one)) for one in eps]
    ends: tuple[tuple[str, Kind, list[float]], ...] = (
        (FOURIER_UPPER, "upper", [one.high for one in found]),
        (FOURIER_LOWER, "lower", [one.low for one in found]),
    )
    for name, kind, log_delta in ends:
        delta = np.exp(log_delta)
        yield curve(panel, name, kind, eps, np.where(delta >= smallest, delta, np.nan))


def _general_panel(eps0: float, n: int, rounds: int, smallest: float) -> Iterator[pd.DataFrame]:
    """Figures 2, 5, 6: delta over eps up to 1."""
    panel = f"$n_c = {rounds}$"

    def profile(name: str, kind: Kind, log_delta: LogDelta, eps: Floats) -> pd.DataFrame:
        return delta_over_eps(panel, name, kind, log_delta, eps, smallest)

    eps = np.linspace(0.05, 1.0, _POINTS)
    yield profile(CLONES, "exact", lambda x: clones_log_delta(x, eps0, n, rounds), eps)
    few = np.linspace(0.05, 1.0, _FOURIER_POINTS)
    yield from _fourier_curves(panel, eps0, n, rounds, few, smallest)
    printed = fourier.fourier_bounds(printed_clones_loss(eps0, n), rounds, HALF_WIDTH, N_GRID)
    yield profile(PRINTED, "as printed", lambda x: printed.log_delta(x).high, few)

    def two_rr_upper(eps: float) -> float:
        return float(composition.composed_log_delta(eps, eps0, n, 2, rounds, "upper"))

    end = end_of_profile(two_rr_upper, smallest, 1.0)
    yield profile(ANY, "upper", two_rr_upper, np.linspace(0.05, end, _POINTS))
    few = np.linspace(0.05, end, _LOWER_POINTS)
    yield profile(TWO_RR, "lower", lambda x: _two_rr(x, eps0, n, rounds), few)


def _general(eps0: float, n: int, smallest: float) -> pd.DataFrame:
    parts = (_general_panel(eps0, n, rounds, smallest) for rounds in (1, 2, 3, 4))
    return curves(part for panel in parts for part in panel)


def _advanced(step_log_delta: StepLogDelta, eps: Floats, rounds: int) -> Floats:
    """Log delta by advanced composition, at the best eps of a round; one round as it is."""
    if rounds == 1:
        return step_log_delta(eps)
    steps = np.geomspace(1e-3, 1.0, _STEPS_OF_A_ROUND) * eps[:, None]
    every = theorems.advanced_log_delta(eps[:, None], steps, step_log_delta(steps), rounds)
    return np.asarray(every.min(axis=1))


def _basic(step_log_delta: StepLogDelta, eps: Floats, rounds: int) -> Floats:
    """Log delta by basic composition of rounds of equal eps."""
    return np.asarray(np.minimum(step_log_delta(eps / rounds) + np.log(rounds), 0.0))


def _against_theorem(
    eps0: float,
    n: int,
    all_rounds: tuple[int, ...],
    largest_eps: float,
    compose: Callable[[StepLogDelta, Floats, int], Floats],
) -> pd.DataFrame:
    """Figures 7 to 9: the clones pair against the closed form, composed by a theorem."""
    smallest = 1e-15

    def proved(eps: Floats) -> Floats:
        return closed_forms.clones_closed_form_log_delta(eps, eps0, n)

    def printed(eps: Floats) -> Floats:
        return printed_closed_form_log_delta(eps, eps0, n)

    parts = []
    for rounds in all_rounds:
        panel = f"$n_c = {rounds}$"
        eps = np.geomspace(0.1, largest_eps, 60)

        def exact(x: float, rounds: int = rounds) -> float:
            return clones_log_delta(x, eps0, n, rounds)

        end = end_of_profile(exact, smallest, largest_eps)
        own = np.geomspace(0.1, end, 24)
        parts.append(delta_over_eps(panel, CLONES, "exact", exact, own, smallest / 2.0))
        few = np.geomspace(0.1, min(largest_eps, 0.99 * HALF_WIDTH), 2 * _FOURIER_POINTS)
        parts.extend(_fourier_curves(panel, eps0, n, rounds, few, smallest))
        theorems: tuple[tuple[str, Kind, StepLogDelta], ...] = (
            (CLOSED, "upper", proved),
            (CLOSED_PRINTED, "as printed", printed),
        )
        for name, kind, step in theorems:
            delta = np.exp(compose(step, eps, rounds))
            shown = (delta >= smallest) & (delta < 1.0)
            parts.append(curve(panel, name, kind, eps, np.where(shown, delta, np.nan)))
    return curves(parts)


_GENERAL_CAPTION: Final = (
    "n_c = 1 to 4 rounds; all as C states. Black: the clones pair, exact for one round (this is "
    "the numeric method of Feldman et al.; not composable by itself) and certified to 1e-5 of eps "
    "for more. Fourier accountant: Algorithm 1 with L = 20 and m = 4e5 on the same pair (C has "
    "m = 1e7); the interval holds every error. Dashed: the pair (6.1) as printed, upper end of "
    "Algorithm 1. Above all of it is loose: the bound by 2-RR's weak adversary holds for every "
    "eps0-LDP randomiser shared by all users, too, and no such bound can be below what 2-RR leaks "
    "on an explicit data set."
)
_THEOREM_CAPTION: Final = (
    "Black: the clones pair, exact for one round and certified to 1e-5 of eps for more. Fourier "
    "accountant: Algorithm 1 with L = 20 and m = 4e5 (C has m = 1e7) and all its errors: in double "
    "precision it cannot resolve delta below some 1e-11, where C's axis goes on to 1e-15. Theorem "
    "3.1 of Feldman et al. holds for eps0 <= log(n / (16 log(2/delta))), which ends here at delta "
    "= {end} per round; dashed: its formula (C.2) used below that as well, and without the factor "
    "(E-1)/(E+1). It is not true there: at small delta it falls below the pair that it bounds."
)


def _general_spec(number: int, eps0: float, n: int, smallest: float) -> FigureSpec:
    return FigureSpec(
        title=f"Paper C, figure {number}: any shuffled randomiser, n = {n:,}, "
        rf"$\epsilon_0 = {eps0:g}$",
        x_label=r"total $\epsilon$",
        y_label=r"$\delta$",
        compute=lambda: _general(eps0, n, smallest),
        caption=f"n = {n:,} users, eps0 = {eps0:g}, {_GENERAL_CAPTION}",
        x_scale="linear",
    )


def _theorem_spec(number: int, eps0: float, n: int, *, advanced: bool) -> FigureSpec:
    end = 2.0 * np.exp(-n * np.exp(-eps0) / 16.0)
    name = "advanced" if advanced else "basic"
    all_rounds = (1, 8, 64) if advanced else (1, 2, 4)
    largest = 200.0 if advanced else 8.0
    how = (
        "Advanced composition at the best eps per round (C does not say how it splits delta)."
        if advanced
        else "Basic composition: n_c rounds of (eps, delta) are (n_c eps, n_c delta)."
    )
    return FigureSpec(
        title=f"Paper C, figure {number}: clones with {name} composition, n = {n:,}, "
        rf"$\epsilon_0 = {eps0:g}$",
        x_label=r"total $\epsilon$",
        y_label=r"$\delta$",
        compute=lambda: _against_theorem(
            eps0, n, all_rounds, largest, _advanced if advanced else _basic
        ),
        caption=(
            f"n = {n:,} users, eps0 = {eps0:g}, n_c = {', '.join(map(str, all_rounds))}; all as C "
            f"states. {_THEOREM_CAPTION.format(end=f'{end:.1e}')} {how}"
        ),
    )


FIGURES: Final[Mapping[str, FigureSpec]] = MappingProxyType(
    {
        "figure-2": _general_spec(2, 4.0, 10_000, 1e-11),
        "figure-5": _general_spec(5, 7.0, 100_000, 1e-8),
        "figure-6": _general_spec(6, 9.0, 1_000_000, 1e-8),
        "figure-7": _theorem_spec(7, 4.0, 10_000, advanced=False),
        "figure-8": _theorem_spec(8, 9.0, 1_000_000, advanced=False),
        "figure-9": _theorem_spec(9, 9.0, 1_000_000, advanced=True),
    }
)
