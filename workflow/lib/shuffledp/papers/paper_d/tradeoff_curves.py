"""Paper D's figures 2 and 3, taken there from Dong, Roth and Su: trade-off functions.

A curve is the least type II error of a test between two neighbouring data sets, against its type I
error.
"""

from typing import Final

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri

from shuffledp.papers.literature import theorems
from shuffledp.accounting.rounds.tradeoff import tradeoff
from shuffledp.numerics.arrays import Floats
from shuffledp.papers.figure_specs import curve, curves

ROUNDS: Final = 10
DELTA: Final = 0.001
# Not stated in paper D.
_SHOWN_EPS, _SHOWN_DELTA, _SHOWN_MUS, _COMPRESSED = 1.0, 0.1, (0.5, 1.0, 3.0), 0.1
_ALPHAS: Final = np.linspace(0.0, 1.0, 401)


def gaussian_tradeoff(alpha: Floats, mu: float) -> Floats:
    """``Phi(Phi^-1(1 - alpha) - mu)``: that of mu-GDP."""
    return np.asarray(ndtr(-ndtri(alpha) - mu))


def compressed(alpha: Floats, mu: float, delta: float) -> Floats:
    """That of mu-GDP and, independently, (0, delta)-DP: towards the origin by ``1 - delta``.

    Parameters
    ----------
    alpha
        Type I errors in ``[0, 1]``, any shape.
    mu
        At least 0.
    delta
        In ``[0, 1)``.

    Returns
    -------
    Type II errors, shaped like ``alpha``.
    """
    kept = 1.0 - delta
    inner = np.minimum(alpha / kept, 1.0)
    return kept * gaussian_tradeoff(inner, mu)


def composed_tradeoff(alpha: Floats) -> Floats:
    """That of ten rounds of (1/sqrt(10), 0)-DP, exactly: its slopes are those of the losses."""
    step = ROUNDS**-0.5
    losses = step * np.arange(ROUNDS, -1, -2)
    return tradeoff(alpha, losses, theorems.kov_log_delta(losses, step, -np.inf, ROUNDS))


def composed_epsilon() -> float:
    """Smallest eps at which those ten rounds are (eps, 0.001)-DP: paper D prints 2.89."""
    return float(theorems.kov_epsilon(np.log(DELTA), ROUNDS**-0.5, -np.inf, ROUNDS))


def _eps_delta(alpha: Floats, eps: float, delta: float) -> Floats:
    with np.errstate(divide="ignore"):
        return tradeoff(alpha, eps, np.log(delta))


_NOTHING: Final = r"no privacy loss, $1-\alpha$"


def figure_2() -> pd.DataFrame:
    """Curves of (eps, delta)-DP, and of Gaussian DP."""
    left, right = r"$(\epsilon, \delta)$-DP", r"$\mu$-GDP"
    found = [curve(panel, _NOTHING, "exact", _ALPHAS, 1.0 - _ALPHAS) for panel in (left, right)]
    for eps, delta in ((_SHOWN_EPS, 0.0), (_SHOWN_EPS, _SHOWN_DELTA)):
        name = rf"$\epsilon={eps:g}$, $\delta={delta:g}$"
        found.append(curve(left, name, "exact", _ALPHAS, _eps_delta(_ALPHAS, eps, delta)))
    for mu in _SHOWN_MUS:
        y = gaussian_tradeoff(_ALPHAS, mu)
        found.append(curve(right, rf"$\mu={mu:g}$", "exact", _ALPHAS, y))
    return curves(found)


def figure_3() -> pd.DataFrame:
    """A curve compressed by a delta; ten rounds beside what approximates them."""
    left = rf"with $f_{{0,\delta}}$, $\delta={_COMPRESSED:g}$"
    right = r"10 rounds of $(1/\sqrt{10}, 0)$-DP"
    eps = composed_epsilon()
    return curves(
        [
            curve(left, r"$\mu=1$", "exact", _ALPHAS, gaussian_tradeoff(_ALPHAS, 1.0)),
            curve(
                left,
                rf"$\mu=1$ and $\delta={_COMPRESSED:g}$",
                "exact",
                _ALPHAS,
                compressed(_ALPHAS, 1.0, _COMPRESSED),
            ),
            curve(right, "10 rounds, exact", "exact", _ALPHAS, composed_tradeoff(_ALPHAS)),
            curve(
                right,
                r"central limit, $\mu=1$",
                "approximate",
                _ALPHAS,
                gaussian_tradeoff(_ALPHAS, 1.0),
            ),
            curve(
                right,
                rf"$\epsilon={eps:.4f}$, $\delta={DELTA:g}$",
                "upper",
                _ALPHAS,
                _eps_delta(_ALPHAS, eps, DELTA),
            ),
        ]
    )
