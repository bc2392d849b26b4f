"""What the length of an envelope buys: the error of signed dummies against slots and messages."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.mechanisms.signed_dummies import SignedDummies
from shuffledp.mechanisms.target_calibration import calibrate_to_target


def slots_table(n: int, k: int, targets: Mapping[str, Any], slots: Sequence[int]) -> pd.DataFrame:
    """Error of signed dummies in envelopes of given lengths, each with the least noise for it.

    Parameters
    ----------
    n, k
        Numbers of users and of cells.
    targets
        ``eps``, several, ``delta``, and ``colluding`` and ``response_rate`` if there are such.
    slots
        Lengths of envelopes, each at least 2.

    Returns
    -------
    Columns ``n``, ``k``, ``eps``, ``delta``, ``slots``, ``messages`` (that a user sends on average,
    without blanks) and ``cell_error`` (standard deviation of a cell's number of users); a length in
    which no parameters keep the target has no row.
    """
    crowd = {key: targets[key] for key in ("colluding", "response_rate") if key in targets}
    setting, shares = Setting(n, k, **crowd), np.full(k, 1.0 / k)
    delta, rows = float(targets["delta"]), []
    for eps in targets["eps"]:
        for length in slots:
            try:
                found = calibrate_to_target(
                    SignedDummies(length), eps, float(np.log(delta)), setting, shares
                )
            except InputError:  # too short for so much noise
                continue
            rows.append((n, k, eps, delta, length, found.per_user.messages, found.cell_sd))
    names = ["n", "k", "eps", "delta", "slots", "messages", "cell_error"]
    return pd.DataFrame(rows, columns=names)
