"""Noise only on counts above 0, released from a threshold on: the delta that this costs.

A domain may be so large that nearly all of its cells are empty. Then only counts above 0 get noise,
and a noisy count is released if it reaches a threshold. Whether a cell is released tells something
about whoever is alone in it.

Neighbours are D, and D' with one unit more, which adds at most m records. Let it add the numbers
``a_1, a_2, ...`` to cells that are empty in D (new cells), and the rest, r, to the other, old
cells. Noise is discrete Laplace with scale b. So the old cells of an output have at most
``exp(r / b)`` times the probability under D' that they have under D, and vice versa. A new cell is
never released from D, and from D' with probability ``P(a_i + Z >= T)``. Let
``h = prod_i P(a_i + Z < T)`` be the probability that no new cell is released. For every set S of
outputs:

- ``P(M(D') in S) <= 1 - h + h exp(r / b) P(M(D) in S)``, so that delta ``1 - h`` suffices for eps =
  m / b. It is attained: the set of outputs with a new cell has probability 1 - h under D', and 0
  under D.
- ``P(M(D) in S) <= exp(r / b) P(old cells of M(D') in S) <= exp(r / b) / h P(M(D') in S)`` for S
  without new cells, which M(D) never releases. This needs no delta if
  ``-log h <= (a_1 + a_2 + ...) / b``, which `smallest_threshold` ensures for each a.

Delta is the largest ``1 - h`` over all ways to add at most m records, computed exactly. One
new cell with m records may be worse than m with one record each. A unit that may add m records in
each of several windows has the product of the windows' h.

If a unit is replaced by another, a cell to which both add is treated like an old cell, and the same
two steps give (2 eps, delta) with the same delta.
"""

import math
import sys
from dataclasses import dataclass
from typing import Final

from shuffledp.accounting.contributions import Contributions

_ROUNDING: Final = 1e-12  # relative; covers the rounding of some ten operations for each record
_MAX_THRESHOLD: Final = 2**52


@dataclass(frozen=True)
class Threshold:
    """A noisy count is released if it is at least `least`; `delta` is what this costs."""

    least: int
    delta: float


def minus_log_hidden(records: int, threshold: int, scale: float) -> float:
    """Return ``-log P(records + Z < threshold)``, rounded up.

    Z is discrete Laplace noise: its probabilities are proportional to ``exp(-|z| / scale)``.
    """
    theta = math.exp(-1.0 / scale)
    z = threshold - records
    if z > 0:
        released = math.exp(-z / scale) / (1.0 + theta)
        return -math.log1p(-released) * (1.0 + _ROUNDING)
    # P(Z < z) = theta^(1 - z) / (1 + theta)
    return ((1.0 - z) / scale + math.log1p(theta)) * (1.0 + _ROUNDING)


def threshold_delta(threshold: int, scale: float, contributions: Contributions) -> float:
    """Return delta of a threshold for adding or removing one unit, rounded up."""
    m = contributions.records_per_user
    if contributions.distinct:
        worst = m * minus_log_hidden(1, threshold, scale)
    else:
        costs = [minus_log_hidden(records, threshold, scale) for records in range(1, m + 1)]
        largest = [0.0]  # over all ways to divide 0, 1, 2, ... records among new cells
        for records in range(1, m + 1):
            largest.append(max(costs[a - 1] + largest[records - a] for a in range(1, records + 1)))
        worst = largest[m]
    delta = -math.expm1(-worst * contributions.windows * (1.0 + _ROUNDING)) * (1.0 + _ROUNDING)
    return max(delta, sys.float_info.min)  # it is never 0, even where it is too small for a float


def smallest_threshold(delta: float, scale: float, contributions: Contributions) -> Threshold:
    """Return the smallest threshold above any cell's contribution whose delta is at most `delta`.

    It is also so large that the second inequality of the module's docstring needs no delta. `delta`
    lies between 0 and 1, both excluded; `scale` is positive. Raises `ArithmeticError` if there is
    none below 2^51.
    """
    m = 1 if contributions.distinct else contributions.records_per_user

    def suffices(threshold: int) -> bool:
        explained = all(
            minus_log_hidden(a, threshold, scale) * scale <= a * (1.0 - _ROUNDING)
            for a in range(1, m + 1)
        )
        return explained and threshold_delta(threshold, scale, contributions) <= delta

    low = m
    high = m + 1
    while not suffices(high):
        low, high = high, 2 * high
        if high > _MAX_THRESHOLD:
            raise ArithmeticError(f"no threshold has delta={delta} for noise of scale {scale}")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return Threshold(high, threshold_delta(high, scale, contributions))
