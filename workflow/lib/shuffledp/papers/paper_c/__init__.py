"""Paper C's figures 1 to 10, recomputed.

Every pair that C compares is one-dimensional as printed, and too small (`printed`); the corrected
pairs are those of `shuffledp.accounting.pairs`. `adversaries` and `cells` are about shuffled k-RR,
`clones` and `closed_form` about the clones pair, for eps0-LDP randomisers of any kind.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from shuffledp.papers.figure_specs import FigureSpec
from shuffledp.papers.paper_c import adversaries, cells, clones, closed_form

FIGURES: Final[Mapping[str, FigureSpec]] = MappingProxyType(
    {
        **adversaries.FIGURES,
        **clones.FIGURES,
        **closed_form.FIGURES,
        **cells.FIGURES,
    }
)
