"""Estimates of delta from many simulated outputs of two neighbouring data sets.

Only these outputs are used. Events are chosen on one half of them and counted on the other half.
With a confidence of 1 - 1e-6, the true delta is not below the bound.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import exp
from typing import Any

from scipy.stats import beta

MISTAKEN = 1e-6


@dataclass(frozen=True)
class Shown:
    """A lower bound of delta at eps, for the record ``of`` against the other."""

    eps: float
    delta: float
    promised: float
    statistic: str
    of: int

    @property
    def beats(self) -> bool:
        return self.delta > self.promised


def whole(seen: Hashable) -> Hashable:
    return seen


def look(
    sample: Callable[[int], Any],
    promised: Callable[[float], float],
    budgets: Sequence[float],
    looks: int,
    statistics: Mapping[str, Callable[[Any], Hashable]] | None = None,
) -> list[Shown]:
    """Return lower confidence bounds of delta at each eps, in both directions, by each statistic.

    ``sample(record)`` simulates what a view sees of one collection in which the target holds record
    0 or 1, and ``promised(eps)`` is the delta promised for that view. An event is a set of values
    of a statistic of what is seen, by default of everything.
    """
    statistics = statistics or {"all that is seen": whole}
    seen = [[sample(record) for _ in range(looks)] for record in (0, 1)]
    half = looks // 2
    level = MISTAKEN / (4.0 * len(statistics) * len(budgets))
    estimates = []
    for name, statistic in statistics.items():
        chosen_on = [Counter(map(statistic, each[:half])) for each in seen]
        counted_on = [Counter(map(statistic, each[half:])) for each in seen]
        for eps in budgets:
            for of in (0, 1):
                one, other = chosen_on[of], chosen_on[1 - of]
                event = {each for each in one if one[each] > exp(eps) * (other[each] + 1)}
                hits = [sum(counted_on[x][each] for each in event) for x in (of, 1 - of)]
                often = beta.ppf(level, hits[0], looks - half - hits[0] + 1) if hits[0] else 0.0
                rarely = beta.isf(level, hits[1] + 1, looks - half - hits[1])
                delta = float(often - exp(eps) * rarely)
                estimates.append(Shown(eps, delta, promised(eps), name, of))
    return estimates
