"""Single numbers that papers B, C and D print in their text and captions."""

from decimal import Decimal
from typing import Final

import numpy as np

from shuffledp.papers.literature import renyi, theorems
from shuffledp.accounting.setting import Setting
from shuffledp.numerics.arrays import Floats
from shuffledp.papers.answer import Answer
from shuffledp.papers.paper_d.normal_law import normal_distances
from shuffledp.papers.paper_b.common import ORDERS
from shuffledp.papers.paper_b.rounds import (
    COMPOSED_DELTA,
    closed_clones_epsilon,
    composed_dp,
    composed_renyi,
    numeric_clones_epsilon,
)
from shuffledp.papers.paper_b.sampling import mean_sample, sampled_renyi
from shuffledp.papers.published import Published

_RATE: Final = 0.001  # of paper B's figure 5, which does not state it in the text
_ASSUMED: Final = f"delta={COMPOSED_DELTA:g}, as in figure 4; sampling rate {_RATE:g}"
# Rounds between the stated number and 30 times as many, or as few.
_MORE: Final = np.geomspace(1.0, 30.0, 13)

# Of paper D's eq. (15); n is not stated. 49 gives the same digits, no other number does.
_N_NORMAL: Final = 50

_ADD_OR_REMOVE: Final = (
    "The theorem on subsampling is about adding or removing a record, no guarantee for replacing "
    "one."
)


def headline(row: Published) -> Answer:
    """Paper B's two gains over composed approximate DP in its abstract, at delta = 1e-8."""
    everybody, rounds = Setting(int(row.n), 2, float(row.eps0)), np.array([float(row.rounds)])
    sampling = "subsampling" in row.quantity
    rate = _RATE if sampling else 1.0
    setting = mean_sample(everybody, rate)
    if sampling:
        eps = sampled_renyi(everybody, rate, rounds)[0]
    else:
        eps = composed_renyi(renyi.shuffled_rdp_upper(ORDERS, setting), ORDERS, rounds)[0]
    kov, advanced = theorems.kov_epsilon, theorems.advanced_epsilon
    closed = composed_dp(closed_clones_epsilon, kov, setting, rounds, rate)[0] / eps
    numeric = composed_dp(numeric_clones_epsilon, kov, setting, rounds, rate)[0] / eps
    looser = composed_dp(numeric_clones_epsilon, advanced, setting, rounds, rate)[0] / eps
    return Answer(
        as_printed=Decimal(float(numeric)),
        recovered=f"{_ASSUMED}, {setting.n:,} users in a round (assumed)" if sampling else "",
        note=(
            f"Theorem 3.1 gives eps={eps:.4g}. Against it, clones computed numerically (the code "
            f"that paper B's footnote 2 names) with optimal composition: {numeric:.3g}, with "
            f"advanced composition {looser:.3g}; closed form of clones with optimal composition: "
            f"{closed:.3g}. "
            + (
                f"At least 10 holds against the closed form only. {_ADD_OR_REMOVE}"
                if sampling
                else "The size of the factor is that of what one compares with."
            )
        ),
    )


def interactions(row: Published) -> Answer:
    """Paper B's gain in rounds with sampling: at the eps that clones need for the stated rounds."""
    everybody, stated = Setting(int(row.n), 2, float(row.eps0)), float(row.rounds)
    setting = mean_sample(everybody, _RATE)
    up, down = np.round(stated * _MORE), np.round(stated / _MORE)
    eps = sampled_renyi(everybody, _RATE, up)
    rival = composed_dp(numeric_clones_epsilon, theorems.kov_epsilon, setting, down, _RATE)
    more = _rounds_at(rival[0], up, eps) / stated
    fewer = stated / _rounds_at(eps[0], down[::-1], rival[::-1])
    return Answer(
        as_printed=Decimal(more),
        recovered=f"{_ASSUMED}, {setting.n:,} users in a round (assumed)",
        note=(
            "Rounds of Theorem 3.1 at the eps that clones, computed numerically and composed "
            f"optimally, need for {stated:,.0f}. At the eps that Theorem 3.1 needs for as many, "
            f"clones have {fewer:.2g} times fewer, less than stated. {_ADD_OR_REMOVE}"
        ),
    )


def _rounds_at(eps: float, rounds: Floats, needed: Floats) -> float:
    """Rounds with which an eps is reached; both arrays increase."""
    return float(np.exp(np.interp(np.log(eps), np.log(needed), np.log(rounds))))


def optimal_composition(row: Published) -> Answer:
    """Eps of paper D's figure 3: 10 rounds of (1/sqrt(10), 0)-DP, composed optimally."""
    rounds = int(row.rounds)
    log_delta = np.log(float(row.delta))
    eps = float(theorems.kov_epsilon(log_delta, rounds**-0.5, -np.inf, rounds))
    return Answer(
        as_printed=Decimal(eps),
        correct=Decimal(eps),
        note="Optimal composition (Kairouz, Oh and Viswanath); the figure is Dong et al.'s.",
    )


def normal_law(row: Published) -> Answer:
    """Paper D's eq. (15), and the total variation distance that it says it is."""
    eps0 = float(row.eps0)
    printed, distance = normal_distances(_N_NORMAL, eps0)
    _, more = normal_distances(20 * _N_NORMAL, eps0)
    return Answer(
        as_printed=Decimal(printed),
        correct=Decimal(distance),
        recovered=f"n={_N_NORMAL} (recovered; 49 gives the same digits)",
        note=(
            "The largest difference at one point, and from a quarter of the normal law's mass "
            f"there. The total variation distance is {more:.2g} at n={20 * _N_NORMAL}: it falls "
            "like 1/sqrt(n), not 1/n."
        ),
    )


def accuracy(row: Published) -> Answer:
    """Paper D's accuracy on MNIST: not tried on as many images; docs/papers.md has these words."""
    del row
    return Answer(
        note="Not tried on MNIST's 60,000 training images, which do not come with the project. On "
        "8,000 counted as 60,000, with the budgets of Uniform 1, the test set ends at .72 with the "
        "noise as printed, at .91 with a sixth of it (by a client's 600 records in place of "
        "m = 100), at .95 with a hundredth. Not stated: the width of the hidden layer, the law of "
        "the budgets, the seed."
    )


def duration(row: Published) -> Answer:
    """Paper C's times: not tried."""
    del row
    return Answer(
        note="A time is of a machine and of code, both not at hand. `make bench` measures the two "
        "methods as they are here."
    )
