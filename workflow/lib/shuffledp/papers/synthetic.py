"""Paper A's synthetic data: normal samples in 15 cells, by the ways of binning them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from shuffledp.numerics.arrays import Floats, Integers

CELLS: Final = 15


def _shares(edges: NDArray[Any], deviation: float) -> Floats:
    """Probabilities of the cells between inner edges; the two outer cells are open."""
    return np.asarray(np.diff(ndtr(np.concatenate([[-np.inf], edges / deviation, [np.inf]]))))


_WHOLE = np.arange(CELLS - 1) - (CELLS - 2) / 2.0  # between whole numbers -7, ..., 7
_EVEN = np.linspace(-3.0, 3.0, CELLS + 1)[1:-1]

# Paper A says N(0, 2) and 15 cells, not which 2 and which cells. The first is used.
BINNINGS: Final[Mapping[str, Floats]] = MappingProxyType(
    {
        "variance 2, rounded to whole numbers": _shares(_WHOLE, np.sqrt(2.0)),
        "standard deviation 2, rounded to whole numbers": _shares(_WHOLE, 2.0),
        "equal widths over three standard deviations": _shares(_EVEN, 1.0),
    }
)
BINNING: Final = next(iter(BINNINGS))


def synthetic_counts(n: int, binning: str, rng: np.random.Generator) -> Integers:
    """Histogram of ``n`` normal samples, shape ``(15,)``.

    Parameters
    ----------
    n
        Number of users.
    binning
        A key of `BINNINGS`.
    rng
        Source of randomness.
    """
    return np.asarray(rng.multinomial(n, BINNINGS[binning]), dtype=np.int64)
