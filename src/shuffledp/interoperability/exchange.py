"""Public functions that export a privacy curve to other accountants, and import one.

All guarantees are for the replacement of one record. An export is pessimistic: its delta is at
least the true delta everywhere, and so is its eps. What another accountant computes from
it by composition is pessimistic as well but not certified, because the rounding errors of that
accountant are not bounded.
"""

from __future__ import annotations

import csv
from functools import cache
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.accountant import SettingOrSchedule, certified_curve
from shuffledp.accounting.calibrate import COARSE_XTOL
from shuffledp.accounting.conventions import NEIGHBOURS, eps_values
from shuffledp.accounting.curve import Curve, UpperCurve, exp_up, require_upper
from shuffledp.accounting.rounds.profile import dominating_law, point_spacing, points_of_curve
from shuffledp.errors import InputError, import_optional
from shuffledp.numerics.arrays import scalar
from shuffledp.pipeline.files import replacing

if TYPE_CHECKING:
    from opendp.mod import PrivacyProfile

    from shuffledp.interoperability.replace_one_pld import ReplaceOnePLD

# An export ends where delta is at most exp(-DEPTH) or constant; dp_accounting uses the same number
# to truncate noise. The remaining probability counts as infinite loss.
DEPTH: Final = 50.0
# Certified points per standard deviation of the loss. Connecting the points increases the variance
# of the loss, by 0.3 % for 8 points and 0.02 % for 32. Far from 0 the points are less dense.
POINTS_PER_DEVIATION: Final = 32.0
# The grid divides the budget, where delta may fall to 0 at once, into this many intervals or more.
GRID_POINTS_PER_BUDGET: Final = 512.0
# An export has the delta of an eps that is smaller by this factor. It covers the tolerance of our
# own search for eps, and rounding errors of the other accountant's search.
EPS_FACTOR: Final = 1.0 + 2.0 * COARSE_XTOL
COLUMNS: Final = ("eps", "delta_upper", "log10_delta_upper", "neighbours")


def _upper_curve(setting_or_curve: SettingOrSchedule | Curve) -> UpperCurve:
    """Return the certified curve of a collection, or the curve itself."""
    if isinstance(setting_or_curve, Curve):
        return require_upper(setting_or_curve)
    return certified_curve(setting_or_curve)


def _with_margin(curve: UpperCurve) -> UpperCurve:
    """Return an upper bound on the curve whose eps exceeds `Curve.epsilon` at each delta."""

    def upper(eps: float) -> float:
        return curve.upper(eps / EPS_FACTOR) if eps < budget else -np.inf

    budget = curve.budget * EPS_FACTOR
    return UpperCurve(budget, upper=cache(upper), horizon=curve.horizon * EPS_FACTOR)


def to_dp_accounting(
    setting_or_curve: SettingOrSchedule | Curve, value_discretization_interval: float = 1e-4
) -> ReplaceOnePLD:
    """Return the privacy loss distribution of a collection as an object of dp_accounting.

    Its delta is at least the true delta at every eps, because it connects certified points of the
    curve for both signs of eps, and counts the remaining probability as infinite loss. Between
    these points it may lie below the certified upper end, because delta is convex in exp(eps). It
    has about 32 points per standard deviation of the loss, up to where delta is 1e-22 or constant.
    Up to 200 evaluations of the curve take a second for k-RR, and minutes if users are sampled or
    drop out.

    Parameters
    ----------
    setting_or_curve
        The collection, a schedule, or the ``curve`` of a result, which must have an upper end.
    value_discretization_interval
        Largest distance between the losses of the grid, positive. If the curve needs a finer grid,
        it is halved until the grid is fine enough. Distributions that compose with the result must
        have its ``value_discretization_interval``.

    Returns
    -------
    A `dp_accounting.pld.privacy_loss_distribution.PrivacyLossDistribution` with the attribute
    ``neighboring_relation``, which is REPLACE_ONE. It refuses to compose with distributions that
    state no relation (`from_dp_accounting`).

    Raises
    ------
    InputError
        If the interval is not positive and finite.
    ModuleNotFoundError
        If dp_accounting is not installed.

    References
    ----------
    Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022, Connect the dots: tighter discrete
    approximations of privacy loss distributions, PoPETs.

    Examples
    --------
    >>> from shuffledp import Setting
    >>> pld = to_dp_accounting(Setting(n=100_000, k=408, eps0=4.0))
    >>> round(pld.self_compose(10).get_epsilon_for_delta(1e-6), 3)
    0.13
    """
    plds = import_optional("shuffledp.interoperability.replace_one_pld", "to_dp_accounting")
    interval = scalar("value_discretization_interval", value_discretization_interval)
    if not 0.0 < interval < np.inf:
        raise InputError(
            "value_discretization_interval must be positive and finite, got "
            f"value_discretization_interval={interval}"
        )
    curve = _with_margin(_upper_curve(setting_or_curve))
    spacing = point_spacing(curve, DEPTH, POINTS_PER_DEVIATION)
    while interval > min(spacing, curve.budget / GRID_POINTS_PER_BUDGET):
        interval /= 2.0
    law = dominating_law(curve, DEPTH, POINTS_PER_DEVIATION, step=interval)
    increase = 1.0 + law.mass_error
    pld: ReplaceOnePLD = plds.from_masses(
        interval, law.start, law.mass * increase, min(law.infinite * increase, 1.0)
    )
    return pld


def from_dp_accounting(pld: Any, neighboring_relation: Any) -> ReplaceOnePLD:
    """Return a privacy loss distribution of dp_accounting as a mechanism of a schedule.

    The result of the schedule is as good as the distribution: pessimistic but not certified, as
    its attribute ``certified`` says.

    Parameters
    ----------
    pld
        A pessimistic `PrivacyLossDistribution`. Probability missing to a total of 1 counts as
        infinite loss.
    neighboring_relation
        Relation for which the distribution was made, which dp_accounting does not record. Only
        ``NeighborRel.REPLACE_ONE`` is accepted.

    Returns
    -------
    The distribution, which composes with those of `to_dp_accounting`, and which a `Setting` accepts
    as its mechanism. The numbers of users and cells of the setting do not change its privacy.

    Raises
    ------
    InputError
        If the relation is another one, or the estimate is optimistic.
    ModuleNotFoundError
        If dp_accounting is not installed.

    Examples
    --------
    >>> from shuffledp import Setting, epsilon
    >>> from dp_accounting.pld import privacy_loss_distribution as plds
    >>> relation = plds.NeighborRel.REPLACE_ONE
    >>> noise = plds.from_gaussian_mechanism(20.0, neighboring_relation=relation)
    >>> query = Setting(100_000, 408, mechanism=from_dp_accounting(noise, relation))
    >>> rounds = Setting(100_000, 408, eps0=4.0, rounds=10)
    >>> round(epsilon(1e-6, [rounds, query]).upper, 3)
    0.423
    """
    plds = import_optional("shuffledp.interoperability.replace_one_pld", "from_dp_accounting")
    stated: ReplaceOnePLD = plds.with_relation(pld, neighboring_relation)
    return stated


def to_opendp_profile(setting_or_curve: SettingOrSchedule | Curve) -> PrivacyProfile:
    """Return the privacy profile of a collection, eps to delta, as an object of OpenDP.

    Its delta is at least the certified upper end at every eps. It holds for data sets of the same
    size of which one record differs, ``change_one_distance() = 1`` in OpenDP.

    Parameters
    ----------
    setting_or_curve
        See `to_dp_accounting`.

    Returns
    -------
    An `opendp.mod.PrivacyProfile`, with the methods ``delta(epsilon)`` and ``epsilon(delta)``.

    Raises
    ------
    opendp.mod.OpenDPException
        Unless ``opendp.prelude.enable_features("contrib", "honest-but-curious")`` was called.
    ModuleNotFoundError
        If OpenDP is not installed.

    Examples
    --------
    >>> from shuffledp import Setting
    >>> import opendp.prelude as dp
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> profile = to_opendp_profile(Setting(n=100_000, k=408, eps0=4.0))
    >>> round(profile.epsilon(delta=1e-6), 4)
    0.0379
    """
    opendp = import_optional("opendp.measures", "to_opendp_profile")
    curve = _with_margin(_upper_curve(setting_or_curve))

    def delta(eps: float) -> float:
        if not eps >= 0.0:
            raise InputError(f"eps must be at least 0, got eps={eps}")
        return float(exp_up(curve.upper(eps)))

    profile: PrivacyProfile = opendp.new_privacy_profile(delta)
    return profile


def write_curve(
    file: str | Path, setting_or_curve: SettingOrSchedule | Curve, eps: ArrayLike | None = None
) -> None:
    """Write points of the certified curve to a CSV file, which appears whole or not at all.

    The columns are ``eps``, ``delta_upper``, ``log10_delta_upper`` and ``neighbours``. Between two
    points, delta is at most their linear interpolation in exp(eps); beyond the last point, it is at
    most the last delta.

    Parameters
    ----------
    file
        Name of the file.
    setting_or_curve
        See `to_dp_accounting`.
    eps
        Central budgets of at least 0, any shape; by default points that are about as dense as those
        that `to_dp_accounting` connects.

    Raises
    ------
    InputError
        If an eps is negative or NaN.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from shuffledp import Setting
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "curve.csv"
    >>> write_curve(file, Setting(n=100_000, k=408, eps0=4.0), [0.03, 0.04])
    >>> file.read_text().splitlines()[1]
    '0.03,1.2421633...e-05,-4.905...,"replacement, the same n"'
    """
    curve = _upper_curve(setting_or_curve)
    if eps is None:
        step, points = points_of_curve(curve, DEPTH, POINTS_PER_DEVIATION)
        values = np.array([step * index for index, _ in points])
    else:
        values = np.unique(eps_values(eps))
    log_deltas = curve.log_delta(values).promised
    with replacing(Path(file)) as temporary, temporary.open("w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(COLUMNS)
        for value, log_delta in zip(values.tolist(), log_deltas.tolist(), strict=True):
            writer.writerow([value, exp_up(log_delta), log_delta / log(10.0), NEIGHBOURS])
