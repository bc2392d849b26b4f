"""Paper C's figures, recomputed: shuffled k-RR (here) and the clones pair (`paper_c_clones`).

Every pair that C compares is one-dimensional as printed, and too small; the corrected pairs are
those of `certified`, `composition` and `fourier`. Which adversary sees what: the strong one learns
who randomised, the target included; the weak one learns it of the others only; a reader of the
histogram learns it of nobody.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

import numpy as np
import pandas as pd

from shuffledp.accounting.one_round import certified, clones, closed_forms
from shuffledp.accounting.rounds import composition, fourier
from shuffledp.accounting.rounds.privacy_loss import rounded_up, third_cell_pair, weak_pair
from shuffledp.arrays import Floats
from shuffledp.curve import FigureSpec, Kind, curve, curves
from shuffledp.studies.reproduction import paper_c_clones
from shuffledp.studies.reproduction.profiles import LogDelta, eps_grid, eps_over_delta

# Algorithm 1's grid: C has L = 20 and m = 1e7. A step displaces eps by at most 1e-4 per round.
HALF_WIDTH: Final = 20.0
N_GRID: Final = 400_000
_PRINTED_HALF_WIDTH, _PRINTED_N_GRID = 10.0, 200_000
_POINTS, _FOURIER_POINTS, _LOWER_POINTS = 16, 13, 8
# Coarser than `composition`'s own grid: eps of the lower bound comes out smaller by some 1e-4.
_LOWER_STEPS = 4

WEAK: Final = "weak adversary, certified"
WEAK_UPPER: Final = "weak adversary, Fourier accountant, upper"
WEAK_LOWER: Final = "weak adversary, Fourier accountant, lower"
STRONG: Final = "strong adversary, upper"
HISTOGRAM: Final = "histogram only, an explicit data set"
STRONG_PRINTED: Final = "strong pair (5.1) as printed"
WEAK_PRINTED: Final = "weak pair (Theorem 10) as printed"
BALLE: Final = r"Balle et al. Theorem 3.1 where proved ($\epsilon \leq 1$ per round)"
BALLE_PRINTED: Final = r"Balle et al. Theorem 3.1, formula beyond $\epsilon = 1$"


@dataclass(frozen=True)
class Rounds:
    """Shuffled k-RR, ``rounds`` times with fresh randomness (n_c of the paper).

    Attributes
    ----------
    n, k, eps0
        Users, cells, local budget.
    rounds
        At least 1.
    """

    n: int
    k: int
    eps0: float
    rounds: int = 1

    @classmethod
    def of_gamma(cls, n: int, k: int, gamma: float, rounds: int = 1) -> "Rounds":
        """Paper C's parameters: gamma is the probability of a uniform report."""
        return cls(n, k, float(np.log(k / gamma - k + 1.0)), rounds)

    @property
    def gamma(self) -> float:
        """Probability that a user reports a uniform cell."""
        return float(self.k / (np.expm1(self.eps0) + self.k))

    def weak(self, eps: float) -> float:
        """Log delta of the weak adversary: the certified upper bound."""
        if self.rounds == 1:
            return float(certified.upper_log_delta(eps, self.eps0, self.n, self.k))
        return float(
            composition.composed_log_delta(eps, self.eps0, self.n, self.k, self.rounds, "upper")
        )

    def histogram(self, eps: float) -> float:
        """Log delta of the histograms of an explicit data set: the certified lower bound."""
        if self.rounds == 1:
            return float(certified.lower_log_delta(eps, self.eps0, self.n, self.k))
        step = third_cell_pair(self.eps0, self.n, self.k).default_step / _LOWER_STEPS
        return float(
            composition.composed_log_delta(
                eps, self.eps0, self.n, self.k, self.rounds, "lower", step
            )
        )

    def strong(self) -> LogDelta:
        """Log delta of the strong adversary: exact for one round, else Algorithm 1's upper end."""
        if self.rounds == 1:
            return lambda eps: min(
                fourier.strong_adversary_log_delta(eps, self.eps0, self.n, self.k).high, 0.0
            )
        bounds = fourier.fourier_bounds(
            strong_adversary_loss(self.eps0, self.n, self.k), self.rounds, HALF_WIDTH, N_GRID
        )
        return lambda eps: bounds.log_delta(eps).high

    def fourier(self) -> fourier.FourierBounds:
        """Algorithm 1 on the weak adversary's pair."""
        return fourier.fourier_bounds(
            weak_pair(self.eps0, self.n, self.k), self.rounds, HALF_WIDTH, N_GRID
        )

    def printed(self, adversary: Literal["strong", "weak"]) -> LogDelta:
        """Log delta of a pair as printed, in the worse direction, by Algorithm 1 (right grid)."""
        grids = [
            fourier.fourier_bounds(
                fourier.printed_pair_loss(self.eps0, self.n, self.k, adversary, direction),
                self.rounds,
                _PRINTED_HALF_WIDTH,
                _PRINTED_N_GRID,
            ).right
            for direction in ("forward", "backward")
        ]
        # Algorithm 1's value may fall below 0 by rounding, where delta is some 1e-13.
        return lambda eps: float(np.log(max(1e-30, *(grid.delta(eps)[0] for grid in grids))))


def strong_adversary_loss(eps0: float, n: int, k: int) -> fourier.LossAtoms:
    """One round of paper C's strong adversary (Definition 8), rounded up.

    With probability gamma he sees that the target randomised, and the loss is 0; otherwise it is
    that of the pair `fourier.strong_pair`. Parameters as everywhere.
    """
    pair = fourier.strong_pair(eps0, n, k)
    loss = rounded_up(pair, pair.default_step)
    truth = float(np.expm1(eps0) / (np.expm1(eps0) + k))
    return fourier.LossAtoms(
        losses=np.append(loss.losses, 0.0),
        masses=np.append(truth * loss.mass, 1.0 - truth),
        infinite=truth * loss.infinite,
        left_out=0.0,
    )


def balle_curves(panel: str, setting: Rounds, deltas: Floats) -> Iterator[pd.DataFrame]:
    """Theorem C.1 with basic composition, ``(n_c eps, n_c delta)``; (C.1) where that ends.

    Parameters
    ----------
    panel, setting
        Title of the panel, and what is released.
    deltas
        Total deltas, any number.
    """
    log_delta = np.log(deltas / setting.rounds)
    proved = closed_forms.balle_krr_epsilon(log_delta, setting.eps0, setting.n, setting.k)
    formula = np.sqrt(
        14.0 * setting.k * (np.log(2.0) - log_delta) / ((setting.n - 1.0) * setting.gamma)
    )
    beyond = np.where(np.isfinite(proved), np.nan, formula)
    if np.isfinite(proved).any():
        yield curve(panel, BALLE, "upper", deltas, setting.rounds * proved)
    if np.isfinite(beyond).any():
        yield curve(panel, BALLE_PRINTED, "as printed", deltas, setting.rounds * beyond)


def _krr_panel(
    panel: str,
    setting: Rounds,
    deltas: tuple[float, float],
    printed: tuple[Literal["strong", "weak"], ...],
    *,
    balle: bool,
) -> Iterator[pd.DataFrame]:
    """All curves of one panel of eps over delta."""
    largest = 2.0 * setting.rounds * setting.eps0
    bounds = setting.fourier()
    # Where curves end is found with the cheap bound, which is the certified one to 1e-4.
    eps = eps_grid(lambda x: bounds.log_delta(x).high, deltas, largest, _POINTS)
    yield eps_over_delta(panel, WEAK, "exact", setting.weak, eps)
    few = np.linspace(eps[0], eps[-1], _FOURIER_POINTS)
    yield eps_over_delta(panel, WEAK_UPPER, "upper", lambda x: bounds.log_delta(x).high, few)
    yield eps_over_delta(panel, WEAK_LOWER, "lower", lambda x: bounds.log_delta(x).low, few)
    few = np.linspace(eps[0], eps[-1], _LOWER_POINTS)
    yield eps_over_delta(panel, HISTOGRAM, "lower", setting.histogram, few)
    others: list[tuple[str, Kind, LogDelta]] = [(STRONG, "upper", setting.strong())]
    for adversary in printed:
        name = STRONG_PRINTED if adversary == "strong" else WEAK_PRINTED
        others.append((name, "as printed", setting.printed(adversary)))
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
            Rounds.of_gamma(1000, 4, 0.25, rounds),
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
            Rounds.of_gamma(n, 5, 0.1),
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
            Rounds.of_gamma(10_000, 5, 0.1, rounds),
            (1e-7, 1e-2),
            ("strong",),
            balle=True,
        )
    )


_CELLS: Final = (2, 3, 4, 8, 16)


def _figure_10() -> pd.DataFrame:
    parts = []
    for letter, n, eps0 in (("a", 1000, 1.0), ("b", 10_000, 4.0)):
        settings = {k: Rounds(n, k, eps0) for k in _CELLS}
        profiles: Mapping[str, dict[int, LogDelta]] = {
            "(5.1) as printed": {k: one.printed("strong") for k, one in settings.items()},
            "strong adversary": {k: one.strong() for k, one in settings.items()},
            "weak adversary": {k: one.weak for k, one in settings.items()},
        }
        for adversary, by_k in profiles.items():
            panel = f"({letter}) {adversary}"
            kind: Kind = "as printed" if "printed" in adversary else "upper"
            for k, log_delta in by_k.items():
                grid = eps_grid(log_delta, (1e-7, 1e-2), 2.0 * eps0, _POINTS)
                parts.append(eps_over_delta(panel, f"k = {k}", kind, log_delta, grid))

            def any_k(eps: float, n: int = n, eps0: float = eps0) -> float:
                return float(clones.clones_log_delta(eps, eps0, n))

            grid = eps_grid(any_k, (1e-7, 1e-2), eps0, _POINTS)
            parts.append(eps_over_delta(panel, "clones (any k)", "exact", any_k, grid))
    return curves(parts)


_LEGEND: Final = (
    "Black: exact against the weak adversary for one round, certified to 1e-5 of eps for more. "
    "Fourier accountant: Algorithm 1 with L = 20 and m = 4e5 on the same pair (C has m = 1e7); the "
    "interval holds every error. Strong adversary: for one round his exact delta, (1 - gamma) "
    "times that of the pair (N1 + 1, N2) against (N1, N2 + 1), for more Algorithm 1's upper end. "
    "Histogram only: what the histogram of an explicit data set leaks (lower by some 1e-4 of eps "
    "for more than one round); no bound can be below it. Dashed: no guarantee. Pairs as printed "
    "are one-dimensional; the larger delta of the two directions is drawn (Algorithm 1), as C's "
    "Definition 1 asks."
)
_BALLE_NOTE: Final = (
    "Balle et al.'s theorem is proved for eps <= 1 per round; C draws its formula beyond as well."
)

FIGURES: Final[Mapping[str, FigureSpec]] = MappingProxyType(
    {
        "figure-1": FigureSpec(
            title="Paper C, figure 1: shuffled k-RR over rounds, by what the adversary knows",
            x_label=r"$\delta$",
            y_label=r"total $\epsilon$",
            compute=_figure_1,
            caption=(
                "n = 1,000 users, k = 4 cells, gamma = 0.25 (eps0 = log 13 = 2.565), n_c = 1, 4, "
                f"16 rounds; all as C states. {_LEGEND} {_BALLE_NOTE} Here it gives eps >= 1.3 for "
                "every delta shown, so that the theorem itself says nothing."
            ),
            y_scale="linear",
        ),
        "figure-3": FigureSpec(
            title="Paper C, figure 3: shuffled k-RR, one round",
            x_label=r"$\delta$",
            y_label=r"$\epsilon$",
            compute=_figure_3,
            caption=(
                "k = 5 cells, gamma = 0.1 (eps0 = log 46 = 3.829), n = 1,000 (a) and 10,000 (b); "
                f"all as C states. {_LEGEND} {_BALLE_NOTE} In (a) all of its curve lies beyond."
            ),
            y_scale="linear",
        ),
        "figure-4": FigureSpec(
            title="Paper C, figure 4: shuffled k-RR over rounds against basic composition",
            x_label=r"$\delta$",
            y_label=r"total $\epsilon$",
            compute=_figure_4,
            caption=(
                "n = 10,000 users, k = 5 cells, gamma = 0.1 (eps0 = log 46 = 3.829), n_c = 1, 2, 4 "
                f"rounds; all as C states. {_LEGEND} {_BALLE_NOTE} Basic composition: n_c rounds "
                "of (eps, delta) are (n_c eps, n_c delta)."
            ),
            y_scale="linear",
        ),
        "figure-10": FigureSpec(
            title="Paper C, figure 10: k cells and the clones bound; "
            r"(a) n = 1,000, $\epsilon_0 = 1$; (b) n = 10,000, $\epsilon_0 = 4$",
            x_label=r"$\delta$",
            y_label=r"$\epsilon$",
            compute=_figure_10,
            caption=(
                "One round: (a) n = 1,000, eps0 = 1; (b) n = 10,000, eps0 = 4; all as C states. "
                "Left: the pair (5.1) as printed, no guarantee, the larger delta of its two "
                "directions by Algorithm 1 (L = 10, m = 2e5). Middle: the strong adversary's exact "
                "delta. Right: the weak adversary's (certified). That amplification weakens with "
                "k, as C reads off its figure, holds against the strong adversary only: someone "
                "who does not learn whether the target randomised learns less the more cells "
                "there are, and the clones bound is above every one of these curves."
            ),
            y_scale="linear",
        ),
        **paper_c_clones.FIGURES,
    }
)
