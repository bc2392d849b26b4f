"""Single numbers of papers B and D: two headline factors and one accuracy."""

from decimal import Decimal
from typing import Final

import numpy as np

from shuffledp.accounting.rounds import renyi, theorems
from shuffledp.accounting.setting import Setting
from shuffledp.studies.reproduction.answer import Answer
from shuffledp.studies.reproduction.paper_b.common import ORDERS
from shuffledp.studies.reproduction.paper_b.rounds import (
    closed_clones_epsilon,
    composed_dp,
    composed_renyi,
    numeric_clones_epsilon,
)
from shuffledp.studies.reproduction.paper_b.sampling import sampled, sampled_renyi
from shuffledp.studies.reproduction.published import Published

_RATE: Final = 0.001  # of paper B's figure 5, which does not state it in the text

_SAMPLED: Final = (
    "At least 10 holds against the closed form only. The rate is not stated, and the theorem on "
    "subsampling is about adding or removing a record, no guarantee for replacing one."
)
_PLAIN: Final = "The size of the factor is that of what one compares with."


def headline(row: Published) -> Answer:
    """Paper B's two gains over composed approximate DP in its abstract, at delta = 1e-8."""
    everybody, rounds = Setting(int(row.n), 2, float(row.eps0)), np.array([float(row.rounds)])
    sampling = "subsampling" in row.quantity
    rate = _RATE if sampling else 1.0
    setting = sampled(everybody, rate)
    if sampling:
        eps = sampled_renyi(everybody, rate, rounds)[0]
    else:
        eps = composed_renyi(renyi.shuffled_rdp_upper(ORDERS, setting), ORDERS, rounds)[0]
    kov, advanced = theorems.kov_epsilon, theorems.advanced_epsilon
    closed = composed_dp(closed_clones_epsilon, kov, setting, rounds, rate)[0] / eps
    numeric = composed_dp(numeric_clones_epsilon, kov, setting, rounds, rate)[0] / eps
    looser = composed_dp(numeric_clones_epsilon, advanced, setting, rounds, rate)[0] / eps
    assumed = f"sampling rate {_RATE:g}, {setting.n:,} users in a round (assumed)"
    return Answer(
        as_printed=Decimal(float(numeric)),
        recovered=assumed if sampling else "",
        note=(
            f"Theorem 3.1 gives eps={eps:.4g}. Against it, clones computed numerically (the code "
            f"that paper B's footnote 2 names) with optimal composition: {numeric:.3g}, with "
            f"advanced composition {looser:.3g}; closed form of clones with optimal composition: "
            f"{closed:.3g}. "
            + (
                _SAMPLED
                if sampling
                else "The size of the factor is that of what one compares with."
            )
        ),
    )


def accuracy(row: Published) -> Answer:
    """Paper D's accuracy on MNIST: out of scope."""
    del row
    return Answer(
        note="Out of scope: an accuracy needs the training of a network on MNIST, whose "
        "architecture and seed the paper does not give; no bound of the paper enters."
    )
