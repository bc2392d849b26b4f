"""The accountant: the privacy curve of a collection, or of several with the same users.

All results are for the replacement of one report, against an adversary who sees the histogram of
all reports (docs/accounting.md). Only upper ends may be promised to users. `shuffledp.queries`
answers the questions that users ask.
"""

from __future__ import annotations  # so that help() shows ArrayLike, not its definition

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.composition import compose, compose_rounds
from shuffledp.accounting.curve import Curve, UpperCurve
from shuffledp.accounting.participation import with_participation
from shuffledp.accounting.registry import get_bound, krr_curve
from shuffledp.accounting.setting import LARGEST_ROUNDS, Setting
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import plain, scalar

CERTIFIED = "certified"
# Largest number of distinct rounds in a ledger; each eps needs a transform of every one.
MAX_DISTINCT_ROUNDS = 1_000
# One setting, whose rounds are all alike, or a ledger: the settings of rounds that differ.
Collected = Setting | Sequence[Setting]


def curve(setting: Collected, bound: str = CERTIFIED) -> Curve:
    """Return the curve of a collection, or of several that the same users take part in.

    Parameters
    ----------
    setting
        The collection, or a ledger: the settings of rounds that differ.
    bound
        ``"certified"``, or the name of a bound on k-RR from the literature (``shuffledp list``),
        which gives one end only.

    Raises
    ------
    InputError
        If the bound does not apply to the setting, or is neither an upper nor a lower one.
    """
    if isinstance(setting, Setting) and bound != CERTIFIED:
        return _published_curve(setting, bound)
    return certified_curve(setting, bound)


def certified_curve(setting: Collected, bound: str = CERTIFIED) -> UpperCurve:
    """Return the curve with certified ends of a collection or a ledger."""
    if not isinstance(setting, Setting):
        return _ledger_curve(setting, bound)
    if setting.count is not None:
        raise InputError(f"count has no meaning for {bound}: it belongs to the single-bin bounds")
    if setting.mechanism is not None:
        once: UpperCurve = with_participation(setting.mechanism.curve, replace(setting, rounds=1))
        return compose(once, setting.rounds)
    return krr_curve(setting)


def distinct(rounds: Sequence[Setting]) -> dict[Setting, int]:
    """Return the distinct rounds of a ledger as settings of one round, and how often each occurs.

    Raises
    ------
    InputError
        If there is no round, or there are too many rounds or too many that differ.
    """
    if isinstance(rounds, str) or not isinstance(rounds, Sequence):
        raise InputError(f"setting must be a Setting or a list of them (a ledger), got {rounds!r}")
    counts = dict[Setting, int]()
    for setting in rounds:
        if not isinstance(setting, Setting):
            raise InputError(f"a ledger must be a list of settings, got {setting!r} in it")
        once = replace(setting, rounds=1)
        counts[once] = counts.get(once, 0) + setting.rounds
    total = sum(counts.values())
    if not 1 <= total <= LARGEST_ROUNDS:
        raise InputError(f"a ledger must have from 1 to {LARGEST_ROUNDS:,} rounds, got {total:,}")
    if len(counts) > MAX_DISTINCT_ROUNDS:
        raise InputError(
            f"at most {MAX_DISTINCT_ROUNDS:,} of a ledger's rounds may differ, got "
            f"{len(counts):,}: give some of them a smaller n, in which fewer users hide each other"
        )
    return counts


def _ledger_curve(rounds: Sequence[Setting], bound: str) -> UpperCurve:
    if bound != CERTIFIED:
        raise InputError(
            f"rounds that differ have certified ends only, got bound={bound}: use bound={CERTIFIED}"
        )
    counts = distinct(rounds)
    if len(counts) == 1:
        ((once, count),) = counts.items()
        return certified_curve(replace(once, rounds=count))
    for once in counts:
        replace(once, rounds=2)  # a setting that refuses several rounds cannot be one of them
    return compose_rounds([(certified_curve(once), count) for once, count in counts.items()])


def _published_curve(setting: Setting, name: str) -> Curve:
    bound = get_bound(name)
    if not (bound.guarantee or bound.kind == "lower"):
        raise InputError(
            f"{name} is neither an upper nor a lower bound; 'shuffledp bounds' shows its eps"
        )
    if setting.count is not None and not bound.uses_count:
        raise InputError(f"count has no meaning for {name}: it belongs to the single-bin bounds")
    return bound.curve(setting)


def log_of(delta: ArrayLike | Decimal | Sequence[Decimal]) -> Any:
    """Return the natural log of deltas in ``(0, 1]``, any shape.

    A `Decimal` may be below the smallest float.
    """

    def one(value: float | Decimal) -> float:
        exact = value if isinstance(value, Decimal) else Decimal(scalar("delta", value))
        if not (exact.is_finite() and 0 < exact <= 1):
            raise InputError(f"delta must lie in (0, 1], got delta={value}")
        return float(exact.ln())

    values = np.asarray(delta, object)
    return plain(np.array([one(value) for value in values.ravel()]).reshape(values.shape))
