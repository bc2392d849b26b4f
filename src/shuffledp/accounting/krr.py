"""Certified privacy of shuffled k-RR: the one module that chooses among the engines for it.

Neighbouring data sets differ in one record, that of the distinguished user, the target: it is in
cell x0 or in cell x1. Upper ends hold for every data set; lower ends are the delta of an explicit
data set. `blanket.mean_excess`, the engine for any randomiser, could be used for k-RR, too. The
engines below take less time, and their upper and lower ends are closer together:

* k >= 3, upper end: the adversary also learns which other users reported a uniformly random cell.
  This "weak adversary" of paper C (Koskela et al. 2021) learns more than the analyst, but less than
  that paper's strong one. The bound is the bound of the privacy blanket,
  computed by exact sums over counts (`laws.multinomial`) instead of on a grid, because sweeps
  evaluate it thousands of times.
* k = 3 and up to 2,000 users: the weak adversary, except that for one other user it does not learn
  whether the report is uniform (`hidden_user`).
* k = 2, where the blanket is not sharp: a search over all data sets (`two_rr`).
* Lower end: data sets in which all other users hold the same cell or, with few users, one of two
  cells (`two_groups`).
* Several rounds: the privacy losses of the weak adversary, rounded up, and of an explicit data
  set, rounded down, are convolved. For k = 2 the upper end is the smallest of three: this one, the
  composed curve of the worst data set, and, for 8 to 200 rounds, a bound that chooses the worst
  data set of each round anew (`two_rr_rounds`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial

import numpy as np

from shuffledp.accounting import calibrate, pairs
from shuffledp.accounting.bound import Bound, Formulas, Scope, Structure
from shuffledp.accounting.composition import central_limit, compose_rounds
from shuffledp.accounting.conventions import (
    Side,
    over_eps,
    over_eps_of_one_round,
    over_log_delta,
)
from shuffledp.accounting.curve import LogDelta, UpperCurve, require_upper
from shuffledp.accounting.laws.binomial import log_pmf, log_pmf_error
from shuffledp.accounting.laws.multinomial import log_chernoff_bound, tilted_shares
from shuffledp.accounting.one_round import hidden_user, two_groups, two_rr
from shuffledp.accounting.one_round.dummies import (
    krr_among_dummies_log_delta,
    loss_among_dummies,
)
from shuffledp.accounting.pairs import Pair, hockey_stick
from shuffledp.accounting.rounds import two_rr_rounds
from shuffledp.accounting.rounds.outcome_bundles import DEFAULT_DEPTH
from shuffledp.accounting.rounds.privacy_loss import (
    Loss,
    LossDistribution,
    default_step,
    loss_of_pair,
    rounded_down,
    rounded_up,
    split_down,
)
from shuffledp.accounting.rounds.profile import loss_of_curve
from shuffledp.accounting.rounds.sums import (
    Rounds,
    coarsened_for_transform,
    log_chernoff,
    log_hockey_stick,
    upper_log_hockey_stick,
)
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import UNIT, quotient_down

# For k = 3 and up to this many users, one other user is hidden from the adversary (`hidden_user`).
# That lowers delta by a share that falls like 1/n, at a cost that grows like n.
MAX_HIDDEN_USER_N = 2_000
# The grid of the lower end is finer by this factor, because the error of rounding down is of first
# order in the step where atoms are more than a step apart.
LOWER_GRID_REFINEMENT = 8
# Where there are too many users to try all data sets of two cells, the search ends if the ends of
# log delta are this close; composition then uses the upper ends. They increase eps by about 0.03 %,
# less than the spacing of the points does.
COMPOSED_LOG_TOLERANCE = 2e-4
# From this many rounds on, the upper end for k = 2 also uses the recursion of `two_rr_rounds`,
# which takes seconds for each eps0 and would hardly improve it for fewer rounds.
MIN_ROUNDS_FOR_RECURSION = 8


# --- One round ------------------------------------------------------------------------------------


def hides_one_user(setting: Setting) -> bool:
    """Return whether `upper_log_delta` uses `hidden_user`."""
    return setting.k == 3 and 2 <= setting.n <= MAX_HIDDEN_USER_N


def _one_hidden_log_delta(eps: float, setting: Setting, weak: float) -> float:
    """Return the upper bound for k = 3; ``weak`` is log delta against the weak adversary.

    It is the maximum over three cases: all other users hold the third cell, at least one of them
    holds x0, or at least one of them holds x1.
    """
    shares = tilted_shares(pairs.weak_adversary(setting).weighted_sum(eps))
    candidates = [hockey_stick(pairs.all_hold_third_cell(setting), eps, "upper").high]
    for forward in (True, False):
        reduction = hidden_user.log_reduction(eps, setting, shares, forward=forward)
        candidates.append(weak + np.log1p(-np.exp(reduction - weak)) if reduction < weak else weak)
    return min(max(candidates), weak)


@over_eps_of_one_round
def weak_adversary_log_delta(eps: float, setting: Setting) -> float:
    """Return log delta against the weak adversary, rounded up.

    This bound holds for every data set of k-RR. Called with k = 2, it also bounds every eps0-LDP
    randomiser, whatever its number of cells, if all users use the same one
    (`papers.literature.clones`).
    Parameters, return value and errors are those of `upper_log_delta`.

    Source: docs/accounting.md; paper C's Theorem 10, corrected.
    """
    return min(hockey_stick(pairs.weak_adversary(setting), eps, "upper").high, 0.0)


@over_eps_of_one_round
def upper_log_delta(eps: float, setting: Setting) -> float:
    """Return an upper bound on log delta that holds for every data set of n users.

    It is `weak_adversary_log_delta`, with two exceptions: for k = 2 all data sets are searched
    (`two_rr`), and for k = 3 and n up to 2,000 the adversary does not learn whether the report
    of one particular other user is uniform (`hidden_user`).

    Parameters
    ----------
    eps
        Central budget, at least 0, any shape.
    setting
        Setting of one round.

    Returns
    -------
    Natural logarithms shaped like ``eps``; -inf where ``eps >= eps0``. For k > 2 and n up to a
    million, rounding increases delta by at most 1e-9 (relative), unless there are so many terms
    that `laws.multinomial` groups them. For larger n, the eps of a given delta is too large by at
    most about 1e-6 (relative). For k = 2 see `two_rr.worst_count`.

    Raises
    ------
    InputError
        If an eps is negative or NaN.
    """
    if setting.k == 2:
        return two_rr.worst_count(eps, setting).ends.high
    weak = float(weak_adversary_log_delta(eps, setting))
    if hides_one_user(setting) and weak > -np.inf:
        return min(_one_hidden_log_delta(eps, setting, weak), 0.0)
    return weak


@dataclass(frozen=True)
class AttainingDataSet:
    """Log delta of a data set, and its numbers of other users in x0, x1 and a third cell x2."""

    log_delta: float
    x0: int
    x1: int
    x2: int


def attaining_data_set(eps: float, setting: Setting) -> AttainingDataSet:
    """Return `lower_log_delta` together with a data set that attains it."""
    others = setting.n - 1
    if setting.k == 2:
        worst = two_rr.worst_count(eps, setting)
        return AttainingDataSet(worst.ends.low, worst.count, others - worst.count, 0)
    if eps >= setting.eps0:
        return AttainingDataSet(-np.inf, 0, 0, others)
    third = hockey_stick(pairs.all_hold_third_cell(setting), eps, "lower").low
    candidates = [AttainingDataSet(third, 0, 0, others)]
    for make, counts in ((pairs.all_hold_x0, (others, 0, 0)), (pairs.all_hold_x1, (0, others, 0))):
        pair = make(setting)
        # Usually the delta of this data set is much smaller, which Chernoff's bound shows cheaply.
        if log_chernoff_bound(pair.weighted_sum(eps)) > candidates[0].log_delta:
            candidates.append(AttainingDataSet(hockey_stick(pair, eps, "lower").low, *counts))
    if two_groups.feasible(setting):
        value, x0, x1 = two_groups.best(eps, setting)
        candidates.append(AttainingDataSet(value, x0, x1, others - x0 - x1))
    return max(candidates, key=lambda candidate: candidate.log_delta)


@over_eps_of_one_round
def lower_log_delta(eps: float, setting: Setting) -> float:
    """Return a lower bound on log delta: that of an explicit data set, rounded down.

    It is the largest log delta of the histogram over the data sets in which all other users hold
    the same cell (docs/accounting.md) and, for few users, those in which some hold x0 and the rest
    a third cell, or some hold x1 and the rest a third cell (`two_groups`). For k = 2 it is the
    largest one found by a search over data sets. Parameters, return value and errors are those of
    `upper_log_delta`.
    """
    return attaining_data_set(eps, setting).log_delta


# --- Several rounds -------------------------------------------------------------------------------


def _two_cell_loss(pair: Pair, n: int, step: float) -> LossDistribution:
    """Return the loss distribution of a pair for k = 2, rounded down.

    Its outcomes are the counts of the first cell. Those that are more than 9.3 standard deviations
    plus 20 from the mean are left out.
    """
    p1, p2, _, _ = pair.probabilities
    half_width = 9.3 * np.sqrt(n * p1 * p2) + 20.0
    count = np.arange(max(np.floor(n * p1 - half_width), 0.0), min(n * p1 + half_width, n) + 1.0)
    counts = np.stack([count, n - count]) / n
    first, second = (np.exp(logs[:2]) @ counts for logs in (pair.log_ratios_p, pair.log_ratios_q))
    base = np.exp(log_pmf(count, n, p1, p2))
    weight_error = (pair._units(0.0) + 16.0) * UNIT
    error = float(log_pmf_error(count, n, p1, p2, 8.0).max()) + weight_error
    return split_down(np.log(first / second), base * first, 0.0, step, (error, 2.0 * weight_error))


@lru_cache(maxsize=16)
def loss_distributions(
    setting: Setting, side: Side, step: float | None = None, depth: float = DEFAULT_DEPTH
) -> tuple[LossDistribution, ...]:
    """Return the loss distributions of one round of a setting, for `composed_log_delta`.

    The upper side has one distribution, which dominates that of every data set; a probability of
    about ``exp(-depth)`` is counted as infinite loss (`rounded_up`). The lower side has those of
    particular data sets.
    """
    weak = pairs.weak_adversary(setting)
    if side == "upper":
        return (rounded_up(weak, step or default_step(weak), depth),)
    step = step or default_step(weak) / LOWER_GRID_REFINEMENT
    if setting.k == 2:
        data_sets = (pairs.all_hold_x1(setting), pairs.all_hold_x0(setting))
        return tuple(_two_cell_loss(pair, setting.n, step) for pair in data_sets)
    return (rounded_down(pairs.all_hold_third_cell(setting), step),)


def _check(side: Side, step: float | None) -> None:
    if side not in ("upper", "lower"):
        raise InputError(f'side must be "upper" or "lower", got side={side!r}')
    if step is not None and not (step > 0.0 and np.isfinite(step)):
        raise InputError(f"step must be positive and finite, got {step!r}")


def dominating_log_delta(eps: float, setting: Setting, step: float | None = None) -> float:
    """Return an upper bound on log delta of all rounds, against the weak adversary.

    Called with k = 2, it also bounds every eps0-LDP randomiser, whatever its number of cells, if
    all users use the same one (`papers.literature.clones`). It is at most 0, and -inf if
    ``eps >= rounds * eps0``. For the arguments see `composed_log_delta`.
    """
    if eps >= setting.budget:
        return -np.inf
    rounds, once = setting.rounds, replace(setting, rounds=1)

    def rounds_at(depth: float) -> Rounds:
        return [(loss_distributions(once, "upper", step, depth)[0], rounds)]

    return min(upper_log_hockey_stick(rounds_at, eps), 0.0)


@over_eps
def composed_log_delta(
    eps: float, setting: Setting, side: Side, step: float | None = None
) -> float:
    """Return a certified upper or lower bound on log delta of all rounds together.

    The upper bound holds for every data set, even if records depend on the outcomes of earlier
    rounds. The lower bound is that of a data set in which all other users hold a third cell (for
    k = 2, all hold x0 or all hold x1, whichever gives more). It is at least `lower_log_delta` of
    one round, which tries more data sets, except for several rounds with k = 2. Both bounds include
    the errors of the grid, truncation and rounding. Truncation increases the upper bound by at most
    about 1e-11 (relative). For deltas below about 1e-270 this cannot be achieved, and the bound is
    that of basic composition. The lower bound omits a probability of about 1e-20 in each round, so
    it may be far too small where delta is below that.

    Parameters
    ----------
    eps
        Central budget of all rounds, at least 0, any shape.
    setting
        Setting of k-RR; in each of its rounds the local budget is eps0.
    side
        ``"upper"`` (pessimistic) or ``"lower"`` (optimistic).
    step
        Distance between grid points. By default it is about 1/128 (upper) or 1/1024 (lower) of the
        standard deviation of one round's loss, which changes eps by a relative error of about 1e-5.

    Returns
    -------
    Logarithms shaped like ``eps``; -inf where ``eps >= rounds * eps0``.

    Raises
    ------
    InputError
        If a parameter is outside its range.

    Source: docs/accounting.md; paper C, Theorem 7, with the joint law of the counts of x0 and x1.
    """
    _check(side, step)
    if eps >= setting.budget:
        return -np.inf
    rounds, once = setting.rounds, replace(setting, rounds=1)
    if side == "upper":
        high = dominating_log_delta(eps, setting, step)
        # Basic composition is smaller only for tiny deltas, for which truncation omits too much. It
        # is tried if a low estimate of one round's delta, exp(-30) times the square of Chernoff's
        # bound, leaves this possible; a wrong guess only costs tightness.
        eps_per_round = quotient_down(eps, rounds)
        if np.log(rounds) + 2.0 * _chernoff(eps_per_round, once) - 30.0 < high:
            basic = np.log(rounds) + float(upper_log_delta(eps_per_round, once))
            high = min(high, float(basic))
        return high
    laws = loss_distributions(once, side, step)
    coarsened = (coarsened_for_transform([(law, rounds)], eps) for law in laws)
    low = max(log_hockey_stick(each, eps).low for each in coarsened)
    # The view of all rounds includes that of one round, so its lower end holds too. The search for
    # that end takes seconds for k = 2, and is skipped there if there are several rounds. The 1
    # covers the rounding error of Chernoff's bound.
    if (rounds == 1 or setting.k > 2) and _chernoff(eps, once) + 1.0 > low:
        low = max(low, float(lower_log_delta(eps, once)))
    return low


def _chernoff(eps: float, once: Setting) -> float:
    """Return Chernoff's upper bound on log delta of one round, with a rounding error below 1."""
    if eps >= once.eps0:
        return -np.inf
    return min(log_chernoff_bound(pairs.weak_adversary(once).weighted_sum(eps)), 0.0)


def chernoff_estimate(eps: float, setting: Setting) -> float:
    """Approximate log delta of all rounds by Chernoff's bound, ignoring truncated outcomes."""
    if eps >= setting.budget:
        return -np.inf
    (loss,) = loss_distributions(replace(setting, rounds=1), "upper")
    return log_chernoff([(loss, setting.rounds)], eps)


@over_log_delta
def composed_epsilon(
    log_delta: float, setting: Setting, side: Side, step: float | None = None
) -> float:
    """Return a certified upper or lower bound on eps of all rounds, shaped like ``log_delta``.

    For the other arguments see `composed_log_delta`.
    """
    return calibrate.guided_epsilon(
        lambda eps: float(composed_log_delta(eps, setting, side, step)),
        log_delta,
        setting.budget,
        side,
        lambda eps: chernoff_estimate(eps, setting),
    )


# --- Curves ---------------------------------------------------------------------------------------


def upper_curve(setting: Setting) -> UpperCurve:
    """Return the certified upper bound on shuffled k-RR, the bound named ``upper``."""
    return require_upper(UPPER.curve(setting))


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
    return replace(composing, lower=LOWER.curve(setting).lower)


def _upper(eps: float, s: Setting) -> float:
    if s.rounds == 1 and s.dummies:
        return float(krr_among_dummies_log_delta(eps, s, s.dummies, int(np.ceil(s.dummies))))
    if s.rounds == 1:
        return float(upper_log_delta(eps, s))
    if s.dummies:
        return _composed_from_curve(s)(eps)
    high = float(composed_log_delta(eps, s, "upper"))
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
    if once.k == 2 and once.n > two_rr.EXHAUSTIVE_N:
        return replace(
            curve,
            upper=lambda eps: two_rr.worst_count(eps, once, COMPOSED_LOG_TOLERANCE).ends.high,
        )
    return curve


def krr_loss(setting: Setting) -> Loss:
    """Return the privacy loss of one round of k-RR, for composition with other rounds.

    With dummies it is that of `loss_among_dummies`. Otherwise its upper bound is derived from the
    round's curve for k = 2, and from the weak adversary's pair for k >= 3; its lower bounds are
    the losses of two explicit data sets for k = 2, and of one for k >= 3. All users of the setting
    must report; colluding users are subtracted from n.
    """
    once = setting.single_round
    if once.dummies:
        return loss_among_dummies(once, partial(loss_of_curve, upper_curve(once)))

    def loss_of_data_set(index: int) -> Callable[[float], list[LossDistribution]]:
        return lambda step: [loss_distributions(once, "lower", step)[index]]

    down = tuple(map(loss_of_data_set, range(2 if once.k == 2 else 1)))
    upper = (
        loss_of_curve(_composing_curve(once))
        if once.k == 2
        else loss_of_pair(pairs.weak_adversary(once))
    )
    return replace(upper, down=down)


@lru_cache(maxsize=4)
def _composed_from_curve(setting: Setting) -> LogDelta:
    """Return the upper bound for all rounds by composition of the curve of one round.

    For k = 2 and 8 to 200 rounds, the bound of `two_rr_rounds` is returned where it is smaller
    and log delta is at least `two_rr_rounds.MIN_LOG_DELTA`.
    """
    composed = compose_rounds([(_composing_curve(setting.single_round), setting.rounds)])
    recursion = MIN_ROUNDS_FOR_RECURSION <= setting.rounds <= two_rr_rounds.MAX_ROUNDS
    if setting.k > 2 or setting.dummies or not recursion:
        return composed.upper

    @cache
    def recursive() -> UpperCurve:
        return two_rr_rounds.worst_curve(setting, composed.hints.estimate or composed.upper)

    def minimum(eps: float) -> float:
        high = composed.upper(eps)
        if high < two_rr_rounds.MIN_LOG_DELTA:
            return high
        return min(high, recursive().upper(eps))

    return minimum


def _lower(eps: float, s: Setting) -> float:
    if s.rounds == 1:
        return float(lower_log_delta(eps, s))
    return float(composed_log_delta(eps, s, "lower"))


def _ceiling(eps: float, s: Setting) -> float:
    """Return Chernoff's bound on log delta against the weak adversary; see `Structure.ceiling`."""
    if s.rounds > 1:
        return chernoff_estimate(eps, s)
    if eps >= s.eps0:
        return -np.inf
    return log_chernoff_bound(pairs.weak_adversary(s).weighted_sum(eps))


UPPER = Bound(
    name="upper",
    kind="upper",
    source="Koskela et al. 2021, Theorem 10, corrected (docs/accounting.md); the privacy blanket: "
    "Balle, Bell, Gascón and Nissim 2019",
    about="certified for every data set; exact, for k > 3, against an adversary who learns which "
    "others reported a uniform cell",
    formulas=Formulas(log_delta=_upper),
    scope=Scope(covers_rounds=True, covers_dummies=True),
    structure=Structure(
        pair=lambda s: None if s.dummies else pairs.weak_adversary(s),
        ceiling=_ceiling,
        estimate=lambda eps, s: central_limit(pairs.weak_adversary, eps, s),
    ),
)
LOWER = Bound(
    name="lower",
    kind="lower",
    source="docs/accounting.md",
    about="certified: delta of the histogram for an explicit data set",
    formulas=Formulas(log_delta=_lower),
    scope=Scope(covers_rounds=True),
    structure=Structure(ceiling=_ceiling),
)
