"""Paper B's figures 2 to 5, recomputed, one module a figure.

The available text of the paper lacks the figures and their captions. What it states is used; every
other parameter is assumed, and its panel's title says so. B's bounds hold for every eps0-LDP
randomiser, so they stand beside what is certified for the worst of them, 2-RR.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from shuffledp.papers.figure_specs import FigureSpec
from shuffledp.papers.paper_b import one_round, orders, rounds, sampling

FIGURES: Final[Mapping[str, FigureSpec]] = MappingProxyType(
    {
        "figure-2": orders.FIGURE,
        "figure-3": one_round.FIGURE,
        "figure-4": rounds.FIGURE,
        "figure-5": sampling.FIGURE,
    }
)
