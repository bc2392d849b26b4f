"""One look per bound in all figures: the colour says whose it is, the line what it is worth."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

from shuffledp.accounting.bound import Kind

Line = Literal["-", "-.", ":", "--"]

LINES: Final[Mapping[Kind, Line]] = MappingProxyType(
    {"upper": "-", "exact": "-", "lower": "-.", "approximate": ":", "as printed": "--"}
)
WORTH: Final[Mapping[Kind, str]] = MappingProxyType(
    {
        "upper": "a guarantee",
        "exact": "exact, a guarantee",
        "lower": "lower bound, no guarantee",
        "approximate": "approximate, no guarantee",
        "as printed": "misprinted, no guarantee",
    }
)

# By a word of the bound's name or of the curve's, the first that is found. Okabe and Ito's colours
# without yellow, which is too light for lines, then Tol's muted ones.
_COLOURS: Final = (
    ("#0072B2", ("fourier",)),
    ("#D55E00", ("single-bin",)),
    ("#882255", ("any-randomiser",)),
    ("#CC79A7", ("strong",)),
    ("#56B4E9", ("explicit data set", "certified lower")),
    ("#8C510A", ("closed-form", "closed form", "feldman")),
    ("#E69F00", ("clones", "(6.1)")),
    ("#009E73", ("blanket", "balle")),
    ("#777777", ("erlingsson",)),
    ("#AA4499", ("renyi-simple", "theorem 3.3")),
    ("#44AA99", ("special", "theorem 3.4")),
    ("#332288", ("renyi", "girgis")),
    ("#999933", ("gdp",)),
    ("#BB8866", ("variation-ratio",)),
    ("#000000", ("certified", "weak", "exact")),
)
_NAMED: Final = {"upper": "#000000", "lower": "#56B4E9"}


def bound_colour(name: str) -> str | None:
    """Colour of a bound of the registry, or of a curve that is named after one; None for others."""
    if name in _NAMED:
        return _NAMED[name]
    lower = name.lower()
    for colour, words in _COLOURS:
        if any(word in lower for word in words):
            return colour
    return None
