"""Privacy loss distributions of dp_accounting that state their neighbouring relation.

dp_accounting's distributions do not record whether neighbours differ by one replaced record or by
one record more or less. Guarantees for different relations must not be composed.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from math import fsum
from typing import Any

import numpy as np
from dp_accounting.pld.pld_pmf import DensePLDPmf, PLDPmf
from dp_accounting.pld.privacy_loss_distribution import NeighborRel, PrivacyLossDistribution

from shuffledp.accounting.curve import Composable, UpperCurve
from shuffledp.accounting.rounds.privacy_loss import Loss, loss_of_outcomes
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError, shortened
from shuffledp.numerics.arrays import UNIT, Floats


class ReplaceOnePmf(DensePLDPmf):  # type: ignore[misc]  # dp_accounting has no types
    """Probabilities of privacy losses on a grid, for the replacement of one record.

    dp_accounting composes only probabilities of the same type, so that its own distributions, which
    state no relation, refuse to compose with these.
    """

    def __init__(self, pmf: PLDPmf) -> None:
        dense = pmf.to_dense_pmf()
        super().__init__(
            dense._discretization,
            dense._lower_loss,
            np.asarray(dense._probs, np.float64),
            dense._infinity_mass,
            dense._pessimistic_estimate,
        )

    @property
    def value_discretization_interval(self) -> float:
        """Distance between the grid points of the losses."""
        return float(self._discretization)

    @cached_property
    def losses(self) -> Floats:
        """The grid points, in ascending order."""
        index = self._lower_loss + np.arange(self.size, dtype=np.float64)
        return np.asarray(index * self._discretization)

    @cached_property
    def infinite(self) -> float:
        """Probability of an infinite loss, including what is missing to a total of 1."""
        missing = 1.0 - fsum([*self._probs.tolist(), self._infinity_mass])
        return float(self._infinity_mass + max(missing, 0.0))

    def loss(self) -> Loss:
        """Return the loss for composition; it has no lower end, because losses were rounded up."""
        used = self._probs > 0.0
        rounding = 4.0 * UNIT * float(np.abs(self.losses).max())
        outcomes = self.losses[used], self._probs[used], self.infinite, 0.0
        return replace(loss_of_outcomes(*outcomes, 0.0, rounding), down=())

    def upper_log_delta(self, eps: float) -> float:
        """Return the natural log of delta at eps, rounded up."""
        above = self.losses > eps
        losses, masses = self.losses[above], self._probs[above]
        largest = float(losses[-1]) if losses.size else 0.0
        delta = self.infinite + float(-np.expm1(eps - losses) @ masses)
        # Rounding of the losses changes each term, and rounding of the sum changes the result.
        delta += 4.0 * UNIT * (eps + largest) * float(masses.sum())
        delta *= 1.0 + 4.0 * UNIT * (8.0 + losses.size)
        return float(np.log(min(delta, 1.0))) if delta > 0.0 else -np.inf


class ReplaceOnePLD(PrivacyLossDistribution):  # type: ignore[misc]
    """Privacy loss distribution for the replacement of one record.

    It composes only with distributions that state this relation, such as those returned by
    `from_dp_accounting`. As the mechanism of a `Setting` it is a round of a schedule; the numbers
    of users and cells of that setting do not change its privacy.

    Composition by dp_accounting is pessimistic up to the rounding errors of its floating-point
    Fourier transforms, which are not bounded. Its results are therefore not certified.
    """

    neighboring_relation = NeighborRel.REPLACE_ONE
    certified = False  # results name its bound pessimistic

    def __init__(self, pmf_remove: PLDPmf, pmf_add: PLDPmf | None = None) -> None:
        super().__init__(
            ReplaceOnePmf(pmf_remove), None if pmf_add is None else ReplaceOnePmf(pmf_add)
        )

    @property
    def value_discretization_interval(self) -> float:
        """Distance between the grid points of the losses; equal for all that compose."""
        return float(self._pmf_remove.value_discretization_interval)

    def validate_composable(self, privacy_loss_distribution: PrivacyLossDistribution) -> None:
        """Raise `InputError` unless the other one states this relation and has the same grid."""
        if not isinstance(privacy_loss_distribution, ReplaceOnePLD):
            raise InputError(
                "only privacy loss distributions for the replacement of one record compose with "
                f"this one, got {type(privacy_loss_distribution).__name__}, which states no "
                "relation: pass it to shuffledp.from_dp_accounting with NeighborRel.REPLACE_ONE if "
                "it was made for that relation"
            )
        intervals = [
            each.value_discretization_interval for each in (self, privacy_loss_distribution)
        ]
        if intervals[0] != intervals[1]:
            raise InputError(
                "distributions with the same value_discretization_interval compose, got "
                f"{intervals[0]} and {intervals[1]}: make both with {min(intervals)}"
            )

    def compose(
        self,
        privacy_loss_distribution: PrivacyLossDistribution,
        tail_mass_truncation: float = 1e-15,
    ) -> ReplaceOnePLD:
        """Return the distribution of both mechanisms together; see `validate_composable`."""
        self.validate_composable(privacy_loss_distribution)
        return _replace_one(super().compose(privacy_loss_distribution, tail_mass_truncation))

    def self_compose(self, num_times: int, tail_mass_truncation: float = 1e-15) -> ReplaceOnePLD:
        """Return the distribution of ``num_times`` rounds together."""
        return _replace_one(super().self_compose(num_times, tail_mass_truncation))

    def compute_mixture(self, other: PrivacyLossDistribution, self_weight: float) -> ReplaceOnePLD:
        """Return ``self_weight * self + (1 - self_weight) * other``; see `validate_composable`."""
        self.validate_composable(other)
        return _replace_one(super().compute_mixture(other, self_weight))

    def curve(self, setting: Setting) -> UpperCurve:
        """Return delta as a function of eps, for one round of a schedule."""
        del setting  # the distribution holds for any number of users
        directions = [self._pmf_remove] if self._symmetric else [self._pmf_remove, self._pmf_add]
        largest = max(float(each.losses[-1]) for each in directions)
        finite = not any(each.infinite for each in directions)

        def upper(eps: float) -> float:
            return max(float(each.upper_log_delta(eps)) for each in directions)

        budget: float = max(largest, 0.0) * (1.0 + 4.0 * UNIT)
        composable = Composable(loss=directions[0].loss) if self._symmetric else Composable()
        return UpperCurve(
            budget if finite else np.inf, upper=upper, horizon=budget, composable=composable
        )


def _replace_one(pld: PrivacyLossDistribution) -> ReplaceOnePLD:
    return ReplaceOnePLD(pld._pmf_remove, None if pld._symmetric else pld._pmf_add)


def with_relation(pld: object, neighboring_relation: Any) -> ReplaceOnePLD:
    """Return dp_accounting's distribution as one that states its relation.

    Raises `InputError` if the relation is not REPLACE_ONE, or the estimate is not pessimistic.
    """
    if not isinstance(pld, PrivacyLossDistribution):
        raise InputError(
            f"pld must be a PrivacyLossDistribution of dp_accounting, got {shortened(repr(pld))}"
        )
    if neighboring_relation is not NeighborRel.REPLACE_ONE:
        raise InputError(
            "all guarantees here are for neighboring_relation=NeighborRel.REPLACE_ONE, got "
            f"{neighboring_relation}: make the distribution for the replacement of one record"
        )
    if not pld._pmf_remove._pessimistic_estimate:
        raise InputError(
            "pld must be a pessimistic estimate, got an optimistic one, which is no guarantee: "
            "make it with pessimistic_estimate=True"
        )
    return _replace_one(pld)


def from_masses(interval: float, start: int, masses: Floats, infinite: float) -> ReplaceOnePLD:
    """Return the distribution with these probabilities of the losses ``interval * (start + i)``."""
    return ReplaceOnePLD(DensePLDPmf(interval, start, masses, infinite, True))
