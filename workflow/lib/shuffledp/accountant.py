"""The accountant: what (eps, delta) shuffled k-RR has, between certified ends.

Everything is for the replacement of one report, against whoever sees the histogram of all reports
(docs/accounting.md). Promise to users only upper ends.
"""

from __future__ import annotations  # so that help() shows ArrayLike, not what it stands for

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.bound import Bound, NotApplicableError
from shuffledp.accounting.incomplete import EVERYBODY, Crowd, among_dummies, incomplete
from shuffledp.accounting.planner import Plan, circumstantial, complete
from shuffledp.accounting.registry import BOUNDS, get_bound
from shuffledp.accounting.rounds import tradeoff as curve
from shuffledp.accounting.setting import Setting
from shuffledp.arrays import Floats
from shuffledp.errors import InputError

CERTIFIED = "certified"
# A trade-off function is made of this many points of the curve of delta, down to this delta. Of
# what a test gains over guessing, thirty times as many points would take another 0.1 %.
_CURVE_POINTS, _SMALLEST_GAIN = 65, 1e-12


@dataclass(frozen=True)
class Interval:
    """What encloses a true delta or eps.

    Attributes
    ----------
    lower, upper
        Floats, or arrays of the shape that was asked for; None for an end that the bound does not
        give. Of these, only ``upper`` may be promised.
    """

    lower: Any
    upper: Any

    def exp(self) -> Interval:
        """Deltas of natural logs of delta."""
        return Interval(
            None if self.lower is None else exp_down(self.lower),
            None if self.upper is None else exp_up(self.upper),
        )


def _plain(values: ArrayLike) -> Any:
    """A float for a single number, an array for an array."""
    array = np.asarray(values, np.float64)
    return array if array.ndim else array.item()


def _ends(
    bound: str,
    setting: Setting,
    rate: float = 1.0,
    crowd: Crowd = EVERYBODY,
    dummies: float = 0.0,
) -> tuple[Bound | None, Bound | None]:
    """The bounds that give the lower and the upper end for a name and what else is known."""
    if bound == CERTIFIED:
        ends: tuple[Bound | None, Bound | None] = (BOUNDS["lower"], BOUNDS["upper"])
    else:
        found = get_bound(bound)
        if not (found.guarantee or found.kind == "lower"):
            raise InputError(
                f"{bound} is neither an upper nor a lower bound; 'shuffledp bounds' shows its eps"
            )
        ends = (found, None) if found.kind == "lower" else (None, found)
    if setting.count is not None and not any(end and end.uses_count for end in ends):
        raise InputError(f"count has no meaning for {bound}: it belongs to the single-bin bounds")
    if rate == crowd.response == 1.0 and dummies == 0.0:
        return tuple(end and incomplete(end, crowd) for end in ends)  # type: ignore[return-value]
    if ends[1] is None:
        what = "dummies" if dummies else "sampling" if rate < 1.0 else "dropouts"
        raise InputError(f"{bound} is no guarantee: with {what} only an upper end is certified")
    return None, circumstantial(among_dummies(ends[1], dummies), rate, crowd)


def log_of(delta: ArrayLike | Decimal) -> Any:
    """Natural log of deltas in ``(0, 1]``, any shape; `Decimal`s where floats are too large."""

    def one(value: float | Decimal) -> float:
        exact = value if isinstance(value, Decimal) else Decimal(float(value))
        if not (exact.is_finite() and 0 < exact <= 1):
            raise InputError(f"delta must lie in (0, 1] (got delta={value})")
        return float(exact.ln())

    return _plain(np.vectorize(one, otypes=[np.float64])(delta))


def exp_up(log_delta: ArrayLike) -> Any:
    """Delta of its natural log, rounded up, so that it is 0 for pure DP only."""
    log_delta = np.asarray(log_delta, np.float64)
    return _plain(np.where(log_delta == -np.inf, 0.0, np.minimum(_shifted(log_delta, np.inf), 1.0)))


def exp_down(log_delta: ArrayLike) -> Any:
    """Delta of its natural log, rounded down, at least 0."""
    return _plain(np.maximum(_shifted(np.asarray(log_delta, np.float64), -np.inf), 0.0))


def _shifted(log_delta: Floats, towards: float) -> Floats:
    """The exponential, moved by as much as it can be wrong: one float, also among denormals."""
    return np.nextafter(np.exp(log_delta), towards)


def log_delta(
    eps: ArrayLike,
    setting: Setting,
    *,
    bound: str = CERTIFIED,
    sampling_rate: float = 1.0,
    colluding: int = 0,
    response_rate: float = 1.0,
    dummies: float = 0.0,
) -> Interval:
    """Enclose the natural log of the delta that a collection has at eps.

    Unlike `delta` it never underflows: deltas of 1e-10000 are told apart.

    Parameters
    ----------
    eps
        Central budgets of at least 0, any shape.
    setting
        The collection: `Setting` (n, k, eps0, ...).
    bound
        ``"certified"``, or the name of a bound of the literature (``shuffledp list``), which gives
        one end only.
    sampling_rate
        Probability in ``(0, 1]`` with which each user takes part, independently. Below 1 only the
        upper end is known.
    colluding
        How many of the n users tell the analyst all they sent: the others hide the target.
    response_rate
        Probability in ``(0, 1]`` with which each user responds, independently of the others and of
        all data. Delta is that of a user who does; below 1 only the upper end is known, of one
        round.
    dummies
        Uniform reports that each user sends beside the own one, on average. Above 0 only the upper
        end is known, of one round.

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
    ends = _ends(bound, setting, sampling_rate, Crowd(colluding, response_rate), dummies)
    return Interval(*(end and _plain(end.log_delta(eps, setting)) for end in ends))


def delta(
    eps: ArrayLike,
    setting: Setting,
    *,
    bound: str = CERTIFIED,
    sampling_rate: float = 1.0,
    colluding: int = 0,
    response_rate: float = 1.0,
    dummies: float = 0.0,
) -> Interval:
    """Enclose the delta that a collection has at eps.

    Parameters
    ----------
    eps, setting, bound, sampling_rate, colluding, response_rate, dummies
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
    return log_delta(
        eps,
        setting,
        bound=bound,
        sampling_rate=sampling_rate,
        colluding=colluding,
        response_rate=response_rate,
        dummies=dummies,
    ).exp()


def epsilon(
    delta: ArrayLike | Decimal,
    setting: Setting,
    *,
    bound: str = CERTIFIED,
    sampling_rate: float = 1.0,
    colluding: int = 0,
    response_rate: float = 1.0,
    dummies: float = 0.0,
) -> Interval:
    """Enclose the smallest eps for which a collection is (eps, delta)-DP.

    Parameters
    ----------
    delta
        In ``(0, 1]``, any shape; `decimal.Decimal` below the smallest float.
    setting, bound, sampling_rate, colluding, response_rate, dummies
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
    logs = log_of(delta)
    ends = _ends(bound, setting, sampling_rate, Crowd(colluding, response_rate), dummies)
    return Interval(*(end and _plain(end.epsilon(logs, setting)) for end in ends))


def calibrate(
    eps: float,
    delta: float | Decimal,
    n: int,
    k: int,
    *,
    rounds: int = 1,
    sampling_rate: float = 1.0,
    colluding: int = 0,
    response_rate: float = 1.0,
) -> float:
    """Find the largest local budget with which a collection is certainly (eps, delta)-DP.

    Parameters
    ----------
    eps
        Central budget of all rounds together, at least 0.
    delta
        In ``(0, 1]``; a `decimal.Decimal` below the smallest float.
    n, k
        Users and cells.
    rounds
        How often the same users report, each time with budget eps0.
    sampling_rate
        As for `log_delta`; drawn anew for every round.
    colluding, response_rate
        As for `log_delta`.

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
    >>> calibrate(0.5, 1e-8, n=100_000, k=408)
    6.648382...
    """
    crowd = Crowd(colluding, response_rate)
    eps0 = complete(Plan(n, k, None, eps, log_of(delta), rounds, sampling_rate, crowd)).eps0
    assert eps0 is not None
    return eps0


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
    upper = _ends(bound, setting)[1]
    if upper is None:
        raise InputError(f"{bound} is no guarantee: it bounds no test's error")
    # Where delta is below this no test of interest gains.
    top = float(upper.epsilon(log_of(_SMALLEST_GAIN), setting))
    eps = np.append(np.linspace(0.0, top, _CURVE_POINTS), setting.budget)
    return _plain(curve.tradeoff(alpha, eps, upper.log_delta(eps, setting)))


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
            found[bound.name] = float(bound.epsilon(target, setting))
        except NotApplicableError:
            continue
    return dict(sorted(found.items(), key=lambda item: item[1]))
