"""The papers' numbers and figures, recomputed."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from shuffledp.papers import all_bounds, paper_b, paper_c
from shuffledp.papers.figure_specs import FigureSpec
from shuffledp.papers.paper_d import curves

# Figures that are tables of curves, by the study that their files are named after.
FIGURES: Final[Mapping[str, Mapping[str, FigureSpec]]] = MappingProxyType(
    {
        "paper_b": paper_b.FIGURES,
        "paper_c": paper_c.FIGURES,
        "paper_d": curves.FIGURES,
        "literature": all_bounds.FIGURES,
    }
)
