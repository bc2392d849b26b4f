"""Compute certified eps against the number of people at one delta."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd

from shuffledp.accounting.planner import Plan, complete
from shuffledp.accounting.registry import get_bound
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError

SIZES: Final = (10, 100, 1_000, 10_000, 100_000, 1_000_000)
TARGET_EPS: Final = (0.1, 0.5, 1.0, 2.0)


def sizes_table(
    k: int,
    budgets: Sequence[float],
    delta: float,
    sizes: Sequence[int] = SIZES,
    target_eps: Sequence[float] = TARGET_EPS,
) -> pd.DataFrame:
    """Return certified eps of shuffled k-RR against the number of people.

    Parameters
    ----------
    k
        Number of cells.
    budgets
        Local budgets eps0.
    delta
        In ``(0, 1)``.
    sizes
        Numbers of people at which both certified ends are computed.
    target_eps
        Values of eps, for which the smallest certified number of people is computed if eps < eps0.

    Returns
    -------
    Columns of `pipeline.tables.PRIVACY`, bounds ``upper`` and ``lower`` at the sizes, and
    ``upper`` at the target eps; an eps that no n up to 10,000,000,000 certifies has no row.
    """
    target = float(np.log(delta))
    rows: list[tuple[int, float, float, str]] = []
    for eps0 in budgets:
        for name in ("upper", "lower"):
            for n in sizes:
                eps = get_bound(name).curve(Setting(n, k, eps0)).epsilon(target).only
                rows.append((n, eps0, eps, name))
        for eps in target_eps:
            if eps < eps0:
                needed = _people(k, eps0, eps, target)
                rows += [] if needed is None else [(needed, eps0, eps, "upper")]
    table = pd.DataFrame(rows, columns=["n", "eps0", "eps", "bound"])
    return table.assign(k=k, delta=delta, log10_delta=np.log10(delta))


def _people(k: int, eps0: float, eps: float, log_delta: float) -> int | None:
    """Return the smallest n with a certified (eps, delta), or None."""
    try:
        return complete(Plan(None, k, eps0, eps, log_delta)).n
    except InputError:
        return None
