"""Paper D's Table 3: the laws that its figures 4 and 5 draw budgets from."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Floats


@dataclass(frozen=True)
class BudgetLaw:
    """One row of paper D's Table 3: a law of budgets, clipped to ``low..high``."""

    kind: str
    first: float
    second: float
    low: float
    high: float


BUDGET_LAWS: Final = {
    "Uniform 1": BudgetLaw("uniform", 0.05, 1.0, 0.05, 1.0),
    "Uniform 2": BudgetLaw("uniform", 0.01, 2.0, 0.01, 2.0),
    "Gauss 1": BudgetLaw("normal", 0.5, 0.2, 0.05, 1.0),
    "Gauss 2": BudgetLaw("normal", 1.0, 0.2, 0.01, 2.0),
    "Gauss 3": BudgetLaw("normal", 1.0, 0.5, 0.01, 2.0),
}


def sample_budgets(name: str, n: int, rng: np.random.Generator) -> Floats:
    """Draw n budgets from a law of paper D's Table 3.

    Values outside the range become the nearest boundary, as the paper says. It does not say
    whether the second number of its N(m, s) is the standard deviation (taken here) or, as its
    caption's N(mu, sigma^2) would have it, the variance.

    Parameters
    ----------
    name
        One of `BUDGET_LAWS`.
    n
        Number of users, at least 1.
    rng
        Source of randomness.

    Raises
    ------
    InputError
        If the name is not one of `BUDGET_LAWS`, or n is not positive.
    """
    if name not in BUDGET_LAWS:
        raise InputError(f"name must be one of {sorted(BUDGET_LAWS)} (got {name!r})")
    if n < 1:
        raise InputError(f"n must be at least 1 user (got n={n})")
    law = BUDGET_LAWS[name]
    draw = rng.uniform if law.kind == "uniform" else rng.normal
    return np.clip(draw(law.first, law.second, size=n), law.low, law.high)
