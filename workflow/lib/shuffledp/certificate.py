"""Certificates: what `lower` and `upper` of one round rest on, for `shuffledp.verification`.

A certificate says which data set attains the lower end and by which argument the upper end holds
(docs/accounting.md); the checker computes both anew, in balls, with its own windows and tails.
"""

from typing import Any

import numpy as np

from shuffledp.accounting.one_round import two_cells
from shuffledp.accounting.one_round.certified import attained, hides_one, upper_log_delta
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.version import find_version


def _finite(log_delta: float) -> float | None:
    return log_delta if np.isfinite(log_delta) else None


def _argument(eps: float, setting: Setting) -> dict[str, Any]:
    if eps >= setting.eps0 or not (setting.k == 2 or hides_one(setting)):
        return {"argument": "blanket"}
    if setting.k == 3:
        return {"argument": "hidden"}
    worst = two_cells.worst(eps, setting)
    return {"argument": "counts", "blocks": np.stack([worst.low, worst.high], axis=1).tolist()}


def certificate(eps: float, setting: Setting) -> dict[str, Any]:
    """What JSON holds of the certified ends at ``eps``, natural logs; None for a delta of 0.

    Raises
    ------
    InputError
        If eps is negative, or there are several rounds.
    """
    setting.require_one_round()
    if not 0.0 <= eps < np.inf:
        raise InputError(f"eps must be at least 0 and finite (got eps={eps})")
    lowest = attained(eps, setting)
    return {
        "certificate": 1,
        "shuffledp": find_version(),
        "neighbours": "replacement of one report",
        "n": setting.n,
        "k": setting.k,
        "eps0": float(setting.eps0),
        "eps": float(eps),
        "lower": {
            "log_delta": _finite(lowest.log_delta),
            "others": {"x0": lowest.x0, "x1": lowest.x1, "x2": lowest.x2},
        },
        "upper": {
            "log_delta": _finite(float(upper_log_delta(eps, setting))),
            **_argument(eps, setting),
        },
    }
