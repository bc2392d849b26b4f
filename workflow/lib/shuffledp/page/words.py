"""What a run came to, in sentences for people who do not read formulas."""

from decimal import ROUND_CEILING, Context

import numpy as np
import pandas as pd

from shuffledp.figures.style import plural
from shuffledp.mechanisms.catalogue import CATALOGUE, UNBIASED

_UP = Context(prec=3, rounding=ROUND_CEILING)


def best_guess(eps: float, delta: float) -> float:
    """Largest probability of a right guess between two records, both as likely beforehand.

    A test of an (eps, delta)-DP release has ``power <= e^eps level + delta``, and the same with its
    errors exchanged. Half of ``1 + power - level`` is then at most ``(e^eps + delta)/(e^eps + 1)``
    (Kairouz, Oh and Viswanath 2015, Theorem 2.1).

    Parameters
    ----------
    eps, delta
        Of the release, for the replacement of one record; eps at least 0, delta in ``[0, 1]``.
    """
    return float(min(1.0, (1.0 + delta * np.exp(-eps)) / (1.0 + np.exp(-eps))))


def plain(number: float) -> str:
    """Write a number as people type it: 1e-6, not 1e-06."""
    return f"{number:g}".replace("e-0", "e-")


def protection(unit: str) -> str:
    """Say what the guarantee hides, and what not.

    Parameters
    ----------
    unit
        What delta protects: ``one check-in`` or ``one user``.
    """
    if unit == "one user":
        return (
            "One person. Each gives one check-in, drawn at random from their own, and n counts "
            "people. The guarantee hides where that check-in was, even from somebody who knows "
            "every other."
        )
    return (
        "One check-in: where it was, even from somebody who knows every other. It does not hide a "
        "person who has many: whoever gave a hundred check-ins has a hundred that are protected "
        "one by one, not together."
    )


def strength(eps: float, delta: float) -> str:
    """Say what (eps, delta) is for one who guesses between two places."""
    chance = float(_UP.create_decimal(repr(100.0 * best_guess(eps, delta))))
    return (
        "Somebody who knows all but one record, and that this one is in one of two places, each "
        f"as likely, is right at most {chance:g} % of the time after seeing the release (50 % is a "
        f"coin). In numbers: eps = {eps:g}, delta = {plain(delta)}, a certified bound for "
        "whatever the data are."
    )


def choices(summary: pd.DataFrame) -> list[str]:
    """Say which mechanism is expected to err least at the largest n and eps, for each trust.

    Parameters
    ----------
    summary
        Rows of `shuffledp.pipeline.selection.at_targets`, of one region.

    Returns
    -------
    A sentence for each kind of trust, the smallest error first: curator, shuffler with the records
    in the clear, shuffler that only mixes. Empty if no mechanism meets the target.
    """
    last = summary[
        (summary["n"] == summary["n"].max())
        & (summary["eps"] == summary["eps"].max())
        & (summary["estimator"] == UNBIASED)
    ]
    last = last[last["reason"].isna()].sort_values("expected_cell_error")
    own = np.isfinite(last["local_eps0"])
    curator = last["trust"].str.startswith("curator")
    kinds = {
        "If a curator may hold every record": last[curator],
        "If only a shuffler may see records in the clear": last[~curator & ~own],
        "If nobody may see a record in the clear": last[~curator & own],
    }
    return [
        f"{opening}, take {CATALOGUE[rows['mechanism'].iloc[0]].label}: a cell's number is "
        f"typically {rows['expected_cell_error'].iloc[0]:.2g} {plural(rows['unit'].iloc[0])} off."
        for opening, rows in kinds.items()
        if not rows.empty
    ]
