"""The accountant: what (eps, delta) a collection has, between certified ends.

Everything is for the replacement of one report, against whoever sees the histogram of all reports
(docs/accounting.md). Promise to users only upper ends.
"""

from __future__ import annotations  # so that help() shows ArrayLike, not what it stands for

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.composition import composed
from shuffledp.accounting.curve import Curve, Interval, NotApplicableError, largest_eps0
from shuffledp.accounting.participation import of_crowd
from shuffledp.accounting.registry import BOUNDS, get_bound, krr_loss
from shuffledp.accounting.rounds import tradeoff as rounds
from shuffledp.accounting.setting import LARGEST_ROUNDS, Setting
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import plain

CERTIFIED = "certified"
# Rounds of a ledger that differ: each eps that is tried takes a transform of each.
MOST_DISTINCT = 1_000
# One setting, over all its rounds alike; or a ledger: those of rounds that differ.
Collected = Setting | Sequence[Setting]
# A trade-off function is made of this many points of the curve of delta, down to this delta. Of
# what a test gains over guessing, thirty times as many points would take another 0.1 %.
_CURVE_POINTS, _SMALLEST_GAIN = 65, 1e-12


def curve(setting: Collected, bound: str = CERTIFIED) -> Curve:
    """Delta over eps of a collection, or of several that the same users take part in.

    Parameters
    ----------
    setting
        The collection; or a ledger: the settings of rounds that differ.
    bound
        ``"certified"``, or the name of a bound of the literature (``shuffledp list``), which gives
        one end only and is about k-RR.

    Raises
    ------
    InputError
        If the bound says nothing there, or is none.
    """
    if not isinstance(setting, Setting):
        return _of_ledger(setting, bound)
    if bound != CERTIFIED:
        return _published(setting, bound)
    if setting.count is not None:
        raise InputError(f"count has no meaning for {bound}: it belongs to the single-bin bounds")
    if setting.mechanism is not None:
        return of_crowd(setting.mechanism.curve, replace(setting, rounds=1)).compose(setting.rounds)
    return krr_curve(setting)


def krr_curve(setting: Setting) -> Curve:
    """Both certified ends of k-RR; where users are drawn, drop out or send dummies the upper one.

    Raises `InputError` if the setting has no eps0.
    """
    upper = BOUNDS["upper"].curve(setting)
    if setting.part < 1.0:
        return upper
    found = replace(
        upper,
        repeated=lambda rounds: krr_curve(replace(setting, rounds=rounds)),
        loss=lambda: krr_loss(setting),
    )
    return found if setting.dummies else replace(found, lower=BOUNDS["lower"].curve(setting).lower)


def distinct(rounds: Sequence[Setting]) -> dict[Setting, int]:
    """Settings of one round that occur in a ledger, and how often.

    Raises
    ------
    InputError
        If there is no round, or there are too many, or too many that differ.
    """
    counts = dict[Setting, int]()
    for each in rounds:
        once = replace(each, rounds=1)
        counts[once] = counts.get(once, 0) + each.rounds
    total = sum(counts.values())
    if not 1 <= total <= LARGEST_ROUNDS:
        raise InputError(
            f"a ledger has at least one round and at most {LARGEST_ROUNDS:,} (got {total:,})"
        )
    if len(counts) > MOST_DISTINCT:
        raise InputError(
            f"at most {MOST_DISTINCT:,} of a ledger's rounds may differ (got {len(counts):,}): "
            "give some of them a smaller n, which fewer users hide behind"
        )
    return counts


def _of_ledger(rounds: Sequence[Setting], bound: str) -> Curve:
    if bound != CERTIFIED:
        raise InputError(f"{bound} is of one setting: rounds that differ have certified ends only")
    counts = distinct(rounds)
    if len(counts) == 1:
        ((once, count),) = counts.items()
        return curve(replace(once, rounds=count))
    for once in counts:
        replace(once, rounds=2)  # what cannot be repeated cannot be one of several rounds
    return composed([(curve(once), count) for once, count in counts.items()])


def _published(setting: Setting, name: str) -> Curve:
    bound = get_bound(name)
    if not (bound.guarantee or bound.kind == "lower"):
        raise InputError(
            f"{name} is neither an upper nor a lower bound; 'shuffledp bounds' shows its eps"
        )
    if setting.count is not None and not bound.uses_count:
        raise InputError(f"count has no meaning for {name}: it belongs to the single-bin bounds")
    return bound.curve(setting)


def log_of(delta: ArrayLike | Decimal) -> Any:
    """Natural log of deltas in ``(0, 1]``, any shape; `Decimal`s where floats are too large."""

    def one(value: float | Decimal) -> float:
        exact = value if isinstance(value, Decimal) else Decimal(float(value))
        if not (exact.is_finite() and 0 < exact <= 1):
            raise InputError(f"delta must lie in (0, 1] (got delta={value})")
        return float(exact.ln())

    return plain(np.vectorize(one, otypes=[np.float64])(delta))


@overload
def log_delta(eps: float, setting: Collected, *, bound: str = ...) -> Interval[float]: ...


@overload
def log_delta(eps: ArrayLike, setting: Collected, *, bound: str = ...) -> Interval[Any]: ...


def log_delta(eps: ArrayLike, setting: Collected, *, bound: str = CERTIFIED) -> Interval[Any]:
    """Enclose the natural log of the delta that a collection has at eps.

    Unlike `delta` it never underflows: deltas of 1e-10000 are told apart.

    Parameters
    ----------
    eps
        Central budgets of at least 0, any shape.
    setting
        The collection: `Setting` (n, k, eps0, ...); or those of several rounds that differ, in
        which the same users take part.
    bound
        ``"certified"``, or the name of a bound of the literature (``shuffledp list``), which gives
        one end only. Where users are drawn or drop out, or send dummies, only the upper end is
        known.

    Returns
    -------
    Natural logs, at most 0; -inf for a delta of 0.

    Raises
    ------
    InputError
        If a parameter is out of range, or the bound says nothing there.

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
    """Enclose the delta that a collection has at eps.

    Parameters
    ----------
    eps, setting, bound
        As for `log_delta`.

    Returns
    -------
    Numbers in ``[0, 1]``. Where delta lies below the smallest float, the lower end is 0 and the
    upper end is that float.

    Raises
    ------
    InputError
        As `log_delta`.

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
        As for `log_delta`.

    Returns
    -------
    Numbers in ``[0, rounds * eps0]``.

    Raises
    ------
    InputError
        If a parameter is out of range, or the bound says nothing there.

    Examples
    --------
    >>> epsilon(1e-6, Setting(n=100_000, k=408, eps0=4.0))
    Interval(lower=0.0378805104..., upper=0.0378805153...)
    """
    return curve(setting, bound).epsilon(log_of(delta))


def calibrate(eps: float, delta: float | Decimal, setting: Setting) -> float:
    """Find the largest local budget with which a collection is certainly (eps, delta)-DP.

    Parameters
    ----------
    eps
        Central budget of all rounds together, at least 0.
    delta
        In ``(0, 1]``; a `decimal.Decimal` below the smallest float.
    setting
        The collection without its eps0: users, cells, rounds, who takes part.

    Returns
    -------
    eps0 of a report, rounded down; at least ``eps / rounds``, because shuffling never costs
    privacy. Its delta at eps was evaluated.

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
        raise InputError(f"eps must be at least 0 and finite (got eps={eps})")

    def of(eps0: float) -> Curve:
        return BOUNDS["upper"].curve(replace(setting, eps0=eps0))

    return largest_eps0(eps, log_delta, of, setting.rounds)


def tradeoff(alpha: ArrayLike, setting: Setting, *, bound: str = CERTIFIED) -> Any:
    """Bound the error of whoever tests for one user's report: a trade-off function (f-DP).

    Parameters
    ----------
    alpha
        Type I errors of the test in ``[0, 1]``, any shape.
    setting, bound
        As for `log_delta`; the bound must be a guarantee.

    Returns
    -------
    Type II errors that the test has at least, shaped like ``alpha``: what the bound on delta says
    at 66 values of eps together (`rounds.tradeoff`).

    Raises
    ------
    InputError
        If an alpha is out of range, or the bound says nothing there.

    Examples
    --------
    >>> tradeoff(0.05, Setting(n=100_000, k=408, eps0=4.0))
    0.948838...
    """
    upper = replace(curve(setting, bound), lower=None)
    if upper.upper is None:
        raise InputError(f"{bound} is no guarantee: it bounds no test's error")
    # Where delta is below this no test of interest gains.
    top = upper.epsilon(log_of(_SMALLEST_GAIN)).promised
    eps = np.append(np.linspace(0.0, top, _CURVE_POINTS), setting.budget)
    return plain(rounds.tradeoff(alpha, eps, upper.log_delta(eps).promised))


def bounds(delta: float | Decimal, setting: Setting) -> dict[str, float]:
    """Compare every bound of the registry that applies to a collection.

    A progress bar on a terminal; a few seconds.

    Parameters
    ----------
    delta, setting
        As for `epsilon`.

    Returns
    -------
    The eps of each bound by its name, smallest first. Of these, ``upper`` and ``lower`` are the
    certified pair; which others may be promised is what ``shuffledp list`` says.

    Raises
    ------
    InputError
        If delta is out of range.
    """
    from tqdm import tqdm

    target, found = log_of(delta), {}
    for bound in tqdm(BOUNDS.values(), desc="bounds", leave=False, disable=None):
        try:
            found[bound.name] = bound.curve(setting).epsilon(target).only
        except NotApplicableError:
            continue
    return dict(sorted(found.items(), key=lambda item: item[1]))
