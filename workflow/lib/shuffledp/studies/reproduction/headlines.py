"""Single numbers of papers B and D: two headline factors and one accuracy."""

from decimal import Decimal
from typing import Final

import numpy as np

from shuffledp.accounting.rounds import renyi, theorems
from shuffledp.studies.reproduction.answer import Answer
from shuffledp.studies.reproduction.paper_b_composition import (
    ORDERS,
    closed_clones_epsilon,
    composed_dp,
    composed_renyi,
    numeric_clones_epsilon,
    sampled_renyi,
)
from shuffledp.studies.reproduction.published import Published

_RATE: Final = 0.001  # of paper B's figure 5, which does not state it in the text

_SAMPLED: Final = (
    "At least 10 holds against the closed form only. The rate is not stated, and the theorem on "
    "subsampling is about adding or removing a record, no guarantee for replacing one."
)


def headline(row: Published) -> Answer:
    """Paper B's two gains over composed approximate DP in its abstract, at delta = 1e-8."""
    eps0, rounds = float(row.eps0), np.array([float(row.rounds)])
    sampled = "subsampling" in row.quantity
    rate = _RATE if sampled else 1.0
    n = round(rate * int(row.n))
    if sampled:
        eps = sampled_renyi(eps0, int(row.n), rate, rounds)[0]
    else:
        eps = composed_renyi(renyi.shuffled_rdp_upper(ORDERS, eps0, n), ORDERS, rounds)[0]
    kov, advanced = theorems.kov_epsilon, theorems.advanced_epsilon
    setting = (eps0, n, rounds, rate)
    closed = composed_dp(closed_clones_epsilon, kov, *setting)[0] / eps
    numeric = composed_dp(numeric_clones_epsilon, kov, *setting)[0] / eps
    looser = composed_dp(numeric_clones_epsilon, advanced, *setting)[0] / eps
    return Answer(
        as_printed=Decimal(float(numeric)),
        recovered=f"sampling rate {_RATE:g}, {n:,} users in a round (assumed)" if sampled else "",
        note=(
            f"Theorem 3.1 gives eps={eps:.4g}. Against it, clones computed numerically (the code "
            f"that paper B's footnote 2 names) with optimal composition: {numeric:.3g}, with "
            f"advanced composition {looser:.3g}; closed form of clones with optimal composition: "
            f"{closed:.3g}. "
            + (_SAMPLED if sampled else "The size of the factor is that of what one compares with.")
        ),
    )


def accuracy(row: Published) -> Answer:
    """Paper D's accuracy on MNIST: out of scope."""
    del row
    return Answer(
        note="Out of scope: an accuracy needs the training of a network on MNIST, whose "
        "architecture and seed the paper does not give; no bound of the paper enters."
    )
