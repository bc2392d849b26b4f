"""The registry of bounds on shuffled k-RR by name: the certified ones, and those from papers.

`shuffledp.accounting.bound.Bound` defines what a bound provides. `upper_curve` and `krr_curve`
return the certified curves. Sources cite papers by their authors, as CITATION.cff does.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache, cached_property, lru_cache, partial
from importlib import import_module
from typing import Final

import numpy as np

from shuffledp.accounting import pairs
from shuffledp.accounting.bound import Bound, Formulas, Scope, Structure
from shuffledp.accounting.composition import central_limit, compose_rounds
from shuffledp.accounting.curve import LogDelta, UpperCurve, require_upper
from shuffledp.accounting.laws.multinomial import log_chernoff_bound
from shuffledp.accounting.one_round import certified, single_bin, two_cells
from shuffledp.accounting.one_round.dummies import (
    krr_among_dummies_log_delta,
    loss_among_dummies,
)
from shuffledp.accounting.rounds import shuffled_krr
from shuffledp.accounting.rounds import two_cells as rounds_of_two_cells
from shuffledp.accounting.rounds.privacy_loss import Loss
from shuffledp.accounting.rounds.profile import loss_of_curve
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError, did_you_mean, shortened

# Tolerance of log delta at points of the k = 2 curve before composition. It increases eps by about
# 0.03 %, which is less than the effect of the spacing of the points.
COMPOSED_LOG_TOLERANCE = 2e-4
# From this many rounds on, the upper end for k = 2 also uses the recursion of `rounds.two_cells`,
# which takes seconds for each eps0 and would hardly improve it for fewer rounds.
MIN_ROUNDS_FOR_RECURSION = 8


def upper_curve(setting: Setting) -> UpperCurve:
    """Return the certified upper bound on shuffled k-RR, the bound named ``upper``."""
    return require_upper(BOUNDS["upper"].curve(setting))


def krr_curve(setting: Setting) -> UpperCurve:
    """Return the certified curve of k-RR.

    It has both ends, or only an upper end with sampling, dropouts or dummies. Raises
    `NotApplicableError` if the setting has no eps0.
    """
    upper = upper_curve(setting)
    if setting.participation_rate < 1.0:
        return upper
    composing = replace(
        upper,
        composable=replace(
            upper.composable,
            repeated=lambda rounds: krr_curve(replace(setting, rounds=rounds)),
            loss=lambda: krr_loss(setting),
        ),
    )
    if setting.dummies:
        return composing
    return replace(composing, lower=BOUNDS["lower"].curve(setting).lower)


def _upper(eps: float, s: Setting) -> float:
    if s.rounds == 1 and s.dummies:
        return float(krr_among_dummies_log_delta(eps, s, s.dummies, int(np.ceil(s.dummies))))
    if s.rounds == 1:
        return float(certified.upper_log_delta(eps, s))
    if s.dummies:
        return _composed_from_curve(s)(eps)
    high = float(shuffled_krr.composed_log_delta(eps, s, "upper"))
    # For k = 2, a search over all data sets improves on the weak adversary's pair.
    return min(high, _composed_from_curve(s)(eps)) if s.k == 2 else high


def _composing_curve(once: Setting) -> UpperCurve:
    """Return the upper curve of one round, prepared for composition.

    With dummies it has the loss of `loss_among_dummies`. For k = 2 and many users it is evaluated
    with a coarse tolerance, which is faster.
    """
    curve = upper_curve(once)
    if once.dummies:
        loss = partial(loss_among_dummies, once, partial(loss_of_curve, curve))
        return replace(curve, composable=replace(curve.composable, loss=loss))
    if once.k == 2 and once.n > two_cells.EXHAUSTIVE_N:
        return replace(
            curve,
            upper=lambda eps: two_cells.worst_count(eps, once, COMPOSED_LOG_TOLERANCE).ends.high,
        )
    return curve


def krr_loss(setting: Setting) -> Loss:
    """Return the privacy loss of one round of k-RR, for composition with other rounds.

    With dummies it is that of `loss_among_dummies`. Otherwise it is derived from the round's curve
    for k = 2, and from the weak adversary's pair for k >= 3. All users of the setting must report;
    colluding users are left out.
    """
    once = setting.single_round
    if once.dummies:
        return loss_among_dummies(once, partial(loss_of_curve, upper_curve(once)))
    loss = shuffled_krr.loss_of(once)
    return replace(loss_of_curve(_composing_curve(once)), down=loss.down) if once.k == 2 else loss


@lru_cache(maxsize=4)
def _composed_from_curve(setting: Setting) -> LogDelta:
    """Return the upper bound for all rounds by composition of the curve of one round.

    For k = 2 and 8 to 200 rounds, the bound of `rounds.two_cells` is returned where it is smaller
    and log delta is at least `rounds.two_cells.MIN_LOG_DELTA`.
    """
    composed = compose_rounds([(_composing_curve(setting.single_round), setting.rounds)])
    recursion = MIN_ROUNDS_FOR_RECURSION <= setting.rounds <= rounds_of_two_cells.MAX_ROUNDS
    if setting.k > 2 or setting.dummies or not recursion:
        return composed.upper

    @cache
    def recursive() -> UpperCurve:
        return rounds_of_two_cells.worst_curve(setting, composed.hints.estimate or composed.upper)

    def minimum(eps: float) -> float:
        high = composed.upper(eps)
        if high < rounds_of_two_cells.MIN_LOG_DELTA:
            return high
        return min(high, recursive().upper(eps))

    return minimum


def _lower(eps: float, s: Setting) -> float:
    if s.rounds == 1:
        return float(certified.lower_log_delta(eps, s))
    return float(shuffled_krr.composed_log_delta(eps, s, "lower"))


def _ceiling(eps: float, s: Setting) -> float:
    """Return Chernoff's bound on log delta against the weak adversary; see `Structure.ceiling`."""
    if s.rounds > 1:
        return shuffled_krr.chernoff_estimate(eps, s)
    if eps >= s.eps0:
        return -np.inf
    return log_chernoff_bound(pairs.weak_adversary(s).weighted_sum(eps))


def _single_bin(eps: float, s: Setting) -> float:
    if s.count is None:
        return float(single_bin.worst_count_log_delta(eps, s))
    return float(single_bin.log_delta(eps, s, s.count))


_CERTIFIED_BOUNDS = (
    Bound(
        "upper",
        "upper",
        "Koskela et al. 2021, Theorem 10, corrected (docs/accounting.md); the privacy blanket: "
        "Balle, Bell, Gascón and Nissim 2019",
        "certified for every data set; exact, for k > 3, against an adversary who learns which "
        "others reported a uniform cell",
        Formulas(log_delta=_upper),
        scope=Scope(covers_rounds=True, covers_dummies=True),
        structure=Structure(
            pair=lambda s: None if s.dummies else pairs.weak_adversary(s),
            ceiling=_ceiling,
            estimate=lambda eps, s: central_limit(pairs.weak_adversary, eps, s),
        ),
    ),
    Bound(
        "lower",
        "lower",
        "docs/accounting.md",
        "certified: delta of the histogram for an explicit data set",
        Formulas(log_delta=_lower),
        scope=Scope(covers_rounds=True),
        structure=Structure(ceiling=_ceiling),
    ),
    Bound(
        "exact-2rr",
        "exact",
        "docs/accounting.md",
        "k = 2: the largest delta over all data sets",
        Formulas(log_delta=lambda eps, s: float(two_cells.two_rr_log_delta(eps, s))),
        scope=Scope(objection=lambda s, _: two_cells.two_rr_objection(s)),
    ),
    Bound(
        "single-bin",
        "lower",
        "Biswas et al. 2023, eqs. (6) and (10), corrected",
        "the count of one cell (bin) alone, for the worst data set found unless --count is given",
        Formulas(log_delta=_single_bin, over_counts=single_bin.log_delta),
    ),
)

_CERTIFIED: Final[Mapping[str, Bound]] = {bound.name: bound for bound in _CERTIFIED_BOUNDS}
# Module with the bounds from papers. It is imported by name at the first use of such a bound,
# because this package must not depend on it.
_LITERATURE: Final = "shuffledp.papers.literature.bounds"


class _LazyBounds(Mapping[str, Bound]):
    """All bounds by name: the certified ones, then those from the literature."""

    @cached_property
    def _all(self) -> dict[str, Bound]:
        return {**_CERTIFIED, **import_module(_LITERATURE).BOUNDS}

    def __getitem__(self, name: str) -> Bound:
        return _CERTIFIED[name] if name in _CERTIFIED else self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)


BOUNDS: Final[Mapping[str, Bound]] = _LazyBounds()


def get_bound(name: str) -> Bound:
    """Return the bound with this name; the error suggests a similar name or lists all names."""
    if not isinstance(name, str):
        raise InputError(f"bound must be the name of a bound, got bound={shortened(repr(name))}")
    try:
        return BOUNDS[name]
    except KeyError:
        suggestion = did_you_mean(name, BOUNDS) or f" (bounds: {', '.join(BOUNDS)})"
        raise InputError(f"unknown bound {name!r}{suggestion}") from None
