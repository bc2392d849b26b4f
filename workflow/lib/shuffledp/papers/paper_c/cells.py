"""Paper C's figure 10: how privacy changes with the number of cells."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

import pandas as pd

from shuffledp.papers.literature.clones import clones_log_delta
from shuffledp.accounting.setting import Setting
from shuffledp.papers.figure_specs import FigureSpec, Kind, curves
from shuffledp.papers.paper_c import views
from shuffledp.papers.profiles import LogDelta, eps_grid, eps_over_delta

_CELLS: Final = (2, 3, 4, 8, 16)
_DELTAS: Final = (1e-7, 1e-2)
_POINTS = 16
_ADVERSARIES: Final[tuple[tuple[str, Kind, Callable[[Setting], LogDelta]], ...]] = (
    ("(5.1) as printed", "as printed", lambda setting: views.printed(setting, "strong")),
    ("strong adversary", "upper", views.strong),
    ("weak adversary", "upper", views.weak),
)


def _profile(
    panel: str, name: str, kind: Kind, log_delta: LogDelta, largest: float
) -> pd.DataFrame:
    grid = eps_grid(log_delta, _DELTAS, largest, _POINTS)
    return eps_over_delta(panel, name, kind, log_delta, grid)


def _panels(letter: str, n: int, eps0: float) -> Iterator[pd.DataFrame]:
    """One panel an adversary."""

    def any_k(eps: float) -> float:
        return float(clones_log_delta(eps, Setting(n, 2, eps0)))

    for adversary, kind, of in _ADVERSARIES:
        panel = f"({letter}) {adversary}"
        for k in _CELLS:
            log_delta = of(Setting(n, k, eps0))
            yield _profile(panel, f"k = {k}", kind, log_delta, 2.0 * eps0)
        yield _profile(panel, "clones (any k)", "exact", any_k, eps0)


def _figure_10() -> pd.DataFrame:
    settings = (("a", 1000, 1.0), ("b", 10_000, 4.0))
    return curves(part for setting in settings for part in _panels(*setting))


FIGURES: Final[Mapping[str, FigureSpec]] = MappingProxyType(
    {
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
                "delta. Right: the weak adversary's (certified). That amplification weakens with "
                "k, as the paper reads off its figure, holds against the strong adversary only: "
                "someone "
                "who does not learn whether the target randomised learns less the more cells "
                "there are, and the clones bound is above every one of these curves."
            ),
            y_scale="linear",
        ),
    }
)
