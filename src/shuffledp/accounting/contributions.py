"""Bounds on the records of one user, sensitivities of histograms, and group privacy.

A user has several records, at most m of which a histogram counts. `Contributions` bounds how
far one user moves the histogram, which is all that a noise-adding mechanism needs. For any
mechanism `group_curve` derives the privacy of one user from that of one record.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import Final, Literal, TypeAlias

import numpy as np

from shuffledp.accounting.curve import LogDelta, UpperCurve
from shuffledp.numerics.arrays import UNIT, Integers, quotient_down, sum_up

Unit: TypeAlias = Literal["record", "user"]


@dataclass(frozen=True)
class Sensitivity:
    """Largest distance between the histograms of neighbours: L1 norm and squared L2 norm.

    `l1` and `l2_squared` are for adding or removing one unit, the others for replacing one.
    """

    l1: int
    l2_squared: int
    replacement_l1: int
    replacement_l2_squared: int


@dataclass(frozen=True)
class Contributions:
    """Bound on the records of one unit that the histogram counts.

    Parameters
    ----------
    unit
        What the guarantee protects: ``record`` or ``user``.
    records_per_user
        Largest number of records of a user that are counted, m; 1 if the unit is a record.
    distinct
        Whether a user is counted at most once in each cell (of each window).
    windows
        Number of windows if m is the limit in each of them; 1 if m is the limit for the whole
        histogram.

    Notes
    -----
    Let h and h' be the histograms with and without the records of one unit. The selected records of
    all other users are the same in both, because a user's selection depends only on that user's
    records and on independent random numbers. Then ``h - h'`` has entries >= 0 whose sum is at most
    ``m * windows``, which bounds the L1 norm. In each window they sum to at most m, so the L2 norm
    of a window is at most m, and sqrt(m) if every entry is 0 or 1; squares of different windows add
    up.

    Replacement of a unit is the removal of its records a and the addition of others, b, which moves
    the histogram by ``b - a``. Its L1 norm is at most the sum of theirs. Its squared L2 norm is at
    most the sum of their squares: ``|b - a|^2 = |a|^2 + |b|^2 - 2 a b``, and no entry is negative.

    Areas that consist of several cells are counted by adding up their cells. Without `distinct`,
    all m records may be in one area, so that its norms are those of a cell. With it, an area has at
    most one record of a user in each of its cells; the sum of squares is largest if the largest
    areas are filled first. If there is one area only, ``b - a`` is one number between -m and m.
    """

    unit: Unit
    records_per_user: int = 1
    distinct: bool = False
    windows: int = 1

    @property
    def l1(self) -> int:
        """L1 sensitivity for adding or removing one unit."""
        return self.records_per_user * self.windows

    @property
    def l2_squared(self) -> int:
        """Square of the L2 sensitivity for adding or removing one unit."""
        per_window = self.records_per_user if self.distinct else self.records_per_user**2
        return per_window * self.windows

    @property
    def replacement_l1(self) -> int:
        """L1 sensitivity for replacing one unit."""
        return 2 * self.l1

    @property
    def replacement_l2_squared(self) -> int:
        """Square of the L2 sensitivity for replacing one unit."""
        return 2 * self.l2_squared

    def areas_sensitivity(self, sizes: Sequence[int] | Integers) -> Sensitivity:
        """Return the sensitivity of the counts of disjoint areas, which consist of cells.

        `sizes` has the number of cells of each area. If m limits the whole histogram, each pair of
        a cell and a window counts as a cell.
        """
        records, squares = self.records_per_user, self.records_per_user**2
        if self.distinct:
            records = squares = 0
            for size in nlargest(self.records_per_user, sizes):
                filled = min(int(size), self.records_per_user - records)
                records, squares = records + filled, squares + filled**2
        factor = 1 if len(sizes) == 1 else 2
        l1, l2_squared = records * self.windows, squares * self.windows
        return Sensitivity(l1, l2_squared, factor * l1, factor * l2_squared)


ONE_RECORD: Final = Contributions("record")


def group_curve(curve: UpperCurve, records: int) -> UpperCurve:
    """Return an upper bound on the curve for the replacement of all records of one user.

    Parameters
    ----------
    curve
        Curve for the replacement of one record, for every data set of the same number of records.
    records
        Largest number of records of a user, m. Neighbours differ in the replacement of all of them;
        their number itself is not protected.

    Returns
    -------
    Curve with ``delta(eps / m) (1 + e^(eps/m) + ... + e^((m-1) eps/m))`` at eps. It is the curve
    itself for m = 1, and loose for larger m: it assumes that every record changes all
    probabilities in the same direction, each by as much as one record can.

    Notes
    -----
    Proof: replace the records one by one, which leads from P_0 to P_m in at most m steps. If each
    step is (s, d)-DP, ``P_i(S) <= e^s P_(i+1)(S) + d`` for every set S of outputs, and so
    ``P_0(S) <= e^(ms) P_m(S) + d (1 + e^s + ... + e^((m-1)s))``. Here s is eps / m, rounded down.
    """
    if records == 1:
        return curve
    return UpperCurve(
        sum_up([(records, curve.budget)]), upper=group_log_delta(curve.upper, records)
    )


def group_log_delta(log_delta: LogDelta, records: int) -> LogDelta:
    """Return log delta of all records of one user as a function of eps; see `group_curve`.

    ``log_delta`` is the natural log of delta of one record as a function of eps.
    """
    if records == 1:
        return log_delta

    def upper(eps: float) -> float:
        share = quotient_down(eps, records)
        value = log_delta(share)
        total = value + log_group_factor(share, records)
        return min(total + UNIT * 4.0 * (1.0 + abs(total)), 0.0) if value > -np.inf else value

    return upper


def one_record_target(eps: float, log_delta: float, records: int) -> tuple[float, float]:
    """Return the (eps, log delta) of one record that suffices for those of its user.

    If a curve meets the returned target, `group_curve` of it meets ``eps`` and ``log_delta``.
    """
    if records == 1:
        return eps, log_delta
    share = quotient_down(eps, records)
    difference = log_delta - log_group_factor(share, records)
    return share, difference - UNIT * 16.0 * (1.0 + abs(difference))


def log_group_factor(eps: float, records: int) -> float:
    """Return the log of ``1 + e^eps + ... + e^((records - 1) eps)``, rounded up, for finite eps."""
    if records == 1:
        return 0.0
    terms = [float(np.log(records))]
    if eps > 0.0:
        terms = [  # the sum is e^((m-1) eps) (1 - e^(-m eps)) / (1 - e^-eps)
            (records - 1.0) * eps,
            float(np.log(-np.expm1(-records * eps))),
            -float(np.log(-np.expm1(-eps))),
        ]
    return sum(terms) + UNIT * (16.0 + 8.0 * sum(map(abs, terms)))
