"""One look per bound in all figures: the colour says whose it is, the line what it is worth."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.bound import Kind
from shuffledp.numerics.arrays import Floats

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

GUARANTEES: Final[tuple[Kind, ...]] = ("upper", "exact")

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
    # The five of one paper: its generic ones and its tight one apart, too.
    ("#00382A", ("balle-krr",)),
    ("#00664B", ("blanket-bennett-generic",)),
    ("#7B61FF", ("blanket-hoeffding-generic",)),
    ("#1B7F8C", ("blanket-hoeffding",)),
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

STEPS: Final = 12  # between two points of a guarantee: too small to be seen


def bound_colour(name: str) -> str | None:
    """Colour of a bound of the registry, or of a curve that is named after one; None for others."""
    if name in _NAMED:
        return _NAMED[name]
    lower = name.lower()
    for colour, words in _COLOURS:
        if any(word in lower for word in words):
            return colour
    return None


def guarantee_steps(eps: ArrayLike, log10_delta: ArrayLike) -> tuple[Floats, Floats]:
    """What a guarantee at some points proves between them: draw it as steps to the right.

    Delta of anything is convex in ``exp(eps)``, so the chord of two upper ends in ``(exp(eps),
    delta)`` is above it; a line on a logarithmic axis may be below. Delta does not grow with eps,
    so each value holds up to the next one.

    Parameters
    ----------
    eps
        Where upper ends are known, increasing, shape ``(points,)``.
    log10_delta
        Their decimal logarithms, ``(points,)``; minus infinity where delta is 0.

    Returns
    -------
    Eps and log10 delta of the steps, of the same shape. The given points are among them, but for
    one below the next one: a bound that grows is drawn as large as it is at the next.
    """
    x = np.asarray(eps, np.float64)
    y = np.asarray(log10_delta, np.float64)
    y = np.maximum(y, np.append(y[1:], -np.inf))
    part = np.arange(STEPS) / STEPS
    at = x[:-1, None] + part * np.diff(x)[:, None]
    # Of the way from one exp(eps) to the next, without overflow.
    way = np.expm1(at - x[:-1, None]) / np.expm1(np.diff(x))[:, None]
    with np.errstate(invalid="ignore"):  # from 0 to 0
        ratio = np.where(np.isneginf(y[1:]), 0.0, 10.0 ** np.minimum(y[1:] - y[:-1], 0.0))
    chords = y[:-1, None] + np.log10((1.0 - way) + way * ratio[:, None])
    return np.append(at.ravel(), x[-1:]), np.append(chords.ravel(), y[-1:])
