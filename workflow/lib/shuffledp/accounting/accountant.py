"""The accountant: certified lower and upper bounds on the (eps, delta) of a collection.

All results are for the replacement of one report, against an adversary who sees the histogram of
all reports (docs/accounting.md). Only upper ends may be promised to users.
"""

from __future__ import annotations  # so that help() shows ArrayLike, not its definition

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.composition import compose, compose_rounds
from shuffledp.accounting.curve import (
    Curve,
    Interval,
    NotApplicableError,
    UpperCurve,
    largest_eps0,
)
from shuffledp.accounting.participation import with_participation
from shuffledp.accounting.registry import BOUNDS, get_bound, krr_curve, upper_curve
from shuffledp.accounting.rounds import tradeoff as tradeoff_functions
from shuffledp.accounting.setting import LARGEST_ROUNDS, Setting
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import plain

CERTIFIED = "certified"
# A ledger may hold this many rounds that differ: each eps needs a transform of each of them.
MAX_DISTINCT_ROUNDS = 1_000
# One setting, whose rounds are all alike, or a ledger: the settings of rounds that differ.
Collected = Setting | Sequence[Setting]
# A trade-off function is computed from this many points of the curve, down to this delta. Thirty
# times as many points would take another 0.1 % of what a test gains over guessing.
TRADEOFF_POINTS, SMALLEST_TRADEOFF_DELTA = 65, 1e-12


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
        If the bound does not apply there, or is neither an upper nor a lower one.
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
    """Return the distinct settings of one round in a ledger, and how often each occurs.

    Raises
    ------
    InputError
        If there is no round, or there are too many rounds or too many that differ.
    """
    counts = dict[Setting, int]()
    for setting in rounds:
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


def log_of(delta: ArrayLike | Decimal) -> Any:
    """Return the natural log of deltas in ``(0, 1]``, any shape.

    A `Decimal` may be below the smallest float.
    """

    def one(value: float | Decimal) -> float:
        exact = value if isinstance(value, Decimal) else Decimal(float(value))
        if not (exact.is_finite() and 0 < exact <= 1):
            raise InputError(f"delta must lie in (0, 1], got delta={value}")
        return float(exact.ln())

    return plain(np.vectorize(one, otypes=[np.float64])(delta))


@overload
def log_delta(eps: float, setting: Collected, *, bound: str = ...) -> Interval[float]: ...


@overload
def log_delta(eps: ArrayLike, setting: Collected, *, bound: str = ...) -> Interval[Any]: ...


def log_delta(eps: ArrayLike, setting: Collected, *, bound: str = CERTIFIED) -> Interval[Any]:
    """Enclose the natural log of the delta of a collection at eps.

    Unlike `delta` it never underflows: even deltas of 1e-10000 are distinguished.

    Parameters
    ----------
    eps
        Central budgets of at least 0, any shape.
    setting
        The collection: `Setting` (n, k, eps0, ...), or the settings of several rounds that differ,
        in which the same users take part.
    bound
        ``"certified"``, or the name of a bound from the literature (``shuffledp list``), which
        gives one end only. With sampling, dropouts or dummies only the upper end is known.

    Returns
    -------
    Natural logs, at most 0; -inf for a delta of 0.

    Raises
    ------
    InputError
        If a parameter is out of range, or the bound does not apply there.

    Examples
    --------
    >>> log_delta(0.5, Setting(n=100_000, k=408, eps0=4.0)).upper  # 1e-465
    -1071.47...
    """
    return curve(setting, bound).log_delta(eps)


@overload
def delta(eps: float, setting: Collected, *, bound: str = ...) -> Interval[float]: ...


@overload
def delta(eps: ArrayLike, setting: Collected, *, bound: str = ...) -> Interval[Any]: ...


def delta(eps: ArrayLike, setting: Collected, *, bound: str = CERTIFIED) -> Interval[Any]:
    """Enclose the delta of a collection at eps.

    Parameters
    ----------
    eps, setting, bound
        See `log_delta`.

    Returns
    -------
    Numbers in ``[0, 1]``. Where delta lies below the smallest float, the lower end is 0 and the
    upper end is that float.

    Raises
    ------
    InputError
        See `log_delta`.

    Examples
    --------
    >>> delta(0.03, Setting(n=100_000, k=408, eps0=4.0))
    Interval(lower=1.2421621...e-05, upper=1.2421633...e-05)
    """
    return curve(setting, bound).delta(eps)


@overload
def epsilon(delta: float | Decimal, setting: Collected, *, bound: str = ...) -> Interval[float]: ...


@overload
def epsilon(delta: ArrayLike, setting: Collected, *, bound: str = ...) -> Interval[Any]: ...


def epsilon(
    delta: ArrayLike | Decimal, setting: Collected, *, bound: str = CERTIFIED
) -> Interval[Any]:
    """Enclose the smallest eps for which a collection is (eps, delta)-DP.

    Parameters
    ----------
    delta
        In ``(0, 1]``, any shape; `decimal.Decimal` below the smallest float.
    setting, bound
        See `log_delta`.

    Returns
    -------
    Numbers in ``[0, rounds * eps0]``.

    Raises
    ------
    InputError
        If a parameter is out of range, or the bound does not apply there.

    Examples
    --------
    >>> epsilon(1e-6, Setting(n=100_000, k=408, eps0=4.0))
    Interval(lower=0.0378805104..., upper=0.0378805153...)
    """
    return curve(setting, bound).epsilon(log_of(delta))


def calibrate(eps: float, delta: float | Decimal, setting: Setting) -> float:
    """Return the largest local budget for which a collection is certified to be (eps, delta)-DP.

    Parameters
    ----------
    eps
        Central budget of all rounds together, at least 0.
    delta
        In ``(0, 1]``; a `decimal.Decimal` below the smallest float.
    setting
        The collection without its eps0: users, cells, rounds and participation.

    Returns
    -------
    eps0 of a report, rounded down; at least ``eps / rounds``, because shuffling never costs
    privacy. The upper end of delta was evaluated there and meets the target.

    Raises
    ------
    InputError
        If a parameter is out of range.

    Examples
    --------
    >>> calibrate(0.5, 1e-8, Setting(n=100_000, k=408))
    6.648382...
    """
    log_delta = log_of(delta)
    if not 0.0 <= eps < np.inf:
        raise InputError(f"eps must be at least 0 and finite, got eps={eps}")

    return largest_eps0(
        eps, log_delta, lambda eps0: upper_curve(replace(setting, eps0=eps0)), setting.rounds
    )


def tradeoff(alpha: ArrayLike, setting: Setting, *, bound: str = CERTIFIED) -> Any:
    """Return a lower bound on the error of a test for one user's report: a trade-off function.

    Parameters
    ----------
    alpha
        Type I errors of the test in ``[0, 1]``, any shape.
    setting, bound
        See `log_delta`; the bound must be a guarantee.

    Returns
    -------
    The smallest possible type II errors, shaped like ``alpha``, as implied by the bound on delta at
    66 values of eps together (f-DP, `shuffledp.accounting.rounds.tradeoff`).

    Raises
    ------
    InputError
        If an alpha is out of range, or the bound does not apply there.

    Examples
    --------
    >>> tradeoff(0.05, Setting(n=100_000, k=408, eps0=4.0))
    0.948838...
    """
    upper = curve(setting, bound)
    if not isinstance(upper, UpperCurve):
        raise InputError(f"{bound} is no guarantee: it bounds no test's error")
    upper = replace(upper, lower=None)
    # A test gains nothing of interest where delta is below this.
    top = upper.epsilon(log_of(SMALLEST_TRADEOFF_DELTA)).promised
    eps = np.append(np.linspace(0.0, top, TRADEOFF_POINTS), setting.budget)
    return plain(tradeoff_functions.tradeoff(alpha, eps, upper.log_delta(eps).promised))


def bounds(delta: float | Decimal, setting: Setting) -> dict[str, float]:
    """Return the eps of every bound of the registry that applies to a collection.

    It takes a few seconds, and shows a progress bar on a terminal.

    Parameters
    ----------
    delta, setting
        See `epsilon`.

    Returns
    -------
    The eps of each bound by its name, smallest first. ``upper`` and ``lower`` are the certified
    pair; ``shuffledp list`` shows which others may be promised.

    Raises
    ------
    InputError
        If delta is out of range.
    """
    from tqdm import tqdm

    target, eps_of = log_of(delta), dict[str, float]()
    for bound in tqdm(BOUNDS.values(), desc="bounds", leave=False, disable=None):
        try:
            eps_of[bound.name] = bound.curve(setting).epsilon(target).only
        except NotApplicableError:
            continue
    return dict(sorted(eps_of.items(), key=lambda item: item[1]))
