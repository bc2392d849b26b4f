"""Compute how the error of signed dummies depends on the length of the envelopes.

An envelope holds all messages of one user, filled up with blank ones to a fixed length.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from shuffledp.accounting.conventions import log_of_delta
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.mechanisms.signed_dummies import SignedDummies
from shuffledp.mechanisms.target_calibration import calibrate_to_target


def slots_table(n: int, k: int, targets: Mapping[str, Any], slots: Sequence[int]) -> pd.DataFrame:
    """Return the error of signed dummies at the best parameters for each length of envelopes.

    `targets` are ``eps`` (a list), ``delta``, and optionally ``colluding`` and ``response_rate``;
    `slots` are lengths of envelopes in messages, each at least 2. The columns are ``n``, ``k``,
    ``eps``, ``delta``, ``slots``, ``messages`` (mean number that a user sends, without blank ones)
    and ``cell_error`` (standard deviation of a cell's estimated count). A length at which no
    parameters meet the target has no row.
    """
    participation = {key: targets[key] for key in ("colluding", "response_rate") if key in targets}
    setting, shares = Setting(n, k, **participation), np.full(k, 1.0 / k)
    delta, rows = float(targets["delta"]), []
    for eps in targets["eps"]:
        for length in slots:
            mechanism = SignedDummies(length)
            try:
                best = calibrate_to_target(mechanism, eps, log_of_delta(delta), setting, shares)
            except InputError:  # the envelope is too short for the noise
                continue
            rows.append((n, k, eps, delta, length, best.per_user.messages, best.cell_sd))
    names = ["n", "k", "eps", "delta", "slots", "messages", "cell_error"]
    return pd.DataFrame(rows, columns=names)
