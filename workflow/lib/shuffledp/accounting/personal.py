"""What users who choose their own budgets get: each budget's eps, and everybody's."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import expit

from shuffledp.accounting import calibrate
from shuffledp.accounting.one_round.certified import upper_log_delta
from shuffledp.accounting.one_round.clones import clones_log_delta
from shuffledp.accounting.one_round.gaussian import gaussian_lead, gaussian_log_delta
from shuffledp.accounting.one_round.laplace import laplace_lead, laplace_log_delta
from shuffledp.accounting.one_round.personalised import (
    BudgetGroups,
    personalised_lead,
    personalised_log_delta,
)
from shuffledp.accounting.rounds.tradeoff import gdp_epsilon, gdp_to_log_delta
from shuffledp.accounting.setting import Setting
from shuffledp.arrays import Floats, Integers
from shuffledp.errors import InputError

# With more budgets, users get the eps of the largest in their part.
_PARTS = 8
# With more, those of other users are rounded up to so many: nobody's delta is smaller then.
_LEVELS = 11 * _PARTS
# Of eps, relative: the blocks of decoys cost as much.
_XTOL = 1e-5
# Reports with noise have no such order: each budget is worked out.
_LARGEST_NUMBER = 64
_LARGEST_MU_EPS = 20.0

LogDelta = Callable[[float, BudgetGroups, int, float], float]


@dataclass(frozen=True)
class Reports:
    """How users report.

    Attributes
    ----------
    name, about
        For tables and help.
    log_delta
        Natural log of a delta at eps, rounded up, for a user of the given group; last the natural
        log of the delta that is aimed at, where what is left out depends on it.
    lead
        About the same, at once.
    alone
        Eps that one report alone has, by its budget and natural log of delta.
    ordered
        Whether a larger budget is never the safer one, and others' larger budgets never help.
    """

    name: str
    about: str
    log_delta: LogDelta
    lead: LogDelta
    alone: Callable[[float, float], float]
    ordered: bool


def _krr(k: int) -> tuple[LogDelta, LogDelta]:
    def log_delta(eps: float, groups: BudgetGroups, group: int, aim: float) -> float:
        del aim
        if groups.values.size == 1:  # of users who are alike more is known
            return float(upper_log_delta(eps, groups.setting(groups.values[0], k)))
        return float(personalised_log_delta(eps, groups, k, group))

    return log_delta, lambda eps, groups, group, aim: personalised_lead(eps, groups, k, group)


def _laplace(function: Callable[[float, float, BudgetGroups], float]) -> LogDelta:
    return lambda eps, groups, group, aim: function(
        eps, float(groups.values[group]), groups.without(group)
    )


def _gaussian(function: Callable[[float, float, BudgetGroups, float], float]) -> LogDelta:
    return lambda eps, groups, group, aim: function(
        eps, float(groups.values[group]), groups.without(group), aim
    )


def _pure(budget: float, log_delta: float) -> float:
    del log_delta
    return budget


KINDS: Final = ("krr", "binary", "laplace", "gaussian")


def reports(kind: str, k: int | None = None) -> Reports:
    """How users report, by name: one of `KINDS`; ``krr`` needs k, the number of cells.

    The budget of ``gaussian`` is mu, the length of the records' interval in standard deviations.

    Raises
    ------
    InputError
        If there is no such kind, or k is missing, or given where it has no meaning.
    """
    if kind not in KINDS:
        raise InputError(f"mechanism must be one of {', '.join(KINDS)} (got {kind!r})")
    if (kind == "krr") != (k is not None):
        raise InputError("k, the number of cells, belongs to krr, and krr needs it")
    if kind == "laplace":
        of, lead = _laplace(laplace_log_delta), _laplace(laplace_lead)
        about = "a number of a known range plus Laplace noise"
        return Reports(kind, about, of, lead, _pure, False)
    if kind == "gaussian":
        of, lead = _gaussian(gaussian_log_delta), _gaussian(gaussian_lead)
        about = "a number of a known range plus normal noise"
        return Reports(kind, about, of, lead, gdp_epsilon, False)
    of, lead = _krr(2 if k is None else k)
    about = "yes or no, by randomised response" if k is None else f"one of {k} cells, by k-RR"
    return Reports(kind, about, of, lead, _pure, True)


def epsilon(log_delta: float, groups: BudgetGroups, group: int, how: Reports) -> float:
    """Smallest eps, to 1e-5 of itself, that the users of a group have at a natural log of delta.

    Rounded up; at least 0, and at most what a report alone has.
    """
    alone = how.alone(float(groups.values[group]), log_delta)
    if alone == 0.0:
        return 0.0
    return calibrate.led_epsilon(
        lambda eps: how.log_delta(eps, groups, group, log_delta),
        log_delta,
        alone,
        "upper",
        lambda eps: how.lead(eps, groups, group, log_delta),
        _XTOL,
    )


@dataclass(frozen=True)
class Own:
    """What users get whose budgets lie between two.

    Attributes
    ----------
    low, high
        Smallest and largest of their budgets.
    users
        How many they are.
    eps
        Of each of them, certified.
    """

    low: float
    high: float
    users: int
    eps: float


def _rounded_up(groups: BudgetGroups) -> BudgetGroups:
    """At most as many different budgets as there are levels, none of them smaller."""
    if groups.values.size <= _LEVELS:
        return groups
    part = _part_of(groups, _LEVELS)
    ends = np.flatnonzero(np.append(np.diff(part) > 0, True))
    counts = np.add.reduceat(groups.counts, np.append(0, ends[:-1] + 1))
    return BudgetGroups(groups.values[ends], counts)


def _part_of(groups: BudgetGroups, parts: int) -> Integers:
    """Part of each group, in order of budget, with about as many users in each part."""
    before = np.cumsum(groups.counts) - groups.counts
    return np.asarray(before * parts // groups.counts.sum())


def check_number(size: int, how: Reports) -> None:
    """Whether so many different budgets can be worked out.

    Raises
    ------
    InputError
        If they are too many.
    """
    if not how.ordered and size > _LARGEST_NUMBER:
        raise InputError(
            f"at most {_LARGEST_NUMBER} different budgets of {how.name} reports (got {size}): let "
            "users choose among fewer"
        )


def _parts(groups: BudgetGroups, how: Reports) -> Integers:
    size = groups.values.size
    check_number(size, how)
    return np.arange(size) if size <= _PARTS or not how.ordered else _part_of(groups, _PARTS)


def number_of_parts(groups: BudgetGroups, how: Reports) -> int:
    """How many answers `own_epsilons` gives. Raises as it does."""
    return int(np.unique(_parts(groups, how)).size)


def own_epsilons(log_delta: float, groups: BudgetGroups, how: Reports) -> Iterator[Own]:
    """Eps of every user at a natural log of delta, by budget, smallest first.

    Parameters
    ----------
    log_delta
        At most 0.
    groups
        Everybody, in order of budget (`BudgetGroups.of`).
    how
        What they report with.

    Yields
    ------
    One for each budget; where there are many, one for each of eight equal parts of the users, in
    order of budget, with the eps of its largest.

    Raises
    ------
    InputError
        If there are too many different budgets.
    """
    part = _parts(groups, how)
    everybody = _rounded_up(groups)
    for each in np.unique(part):
        members = np.flatnonzero(part == each)
        high = float(groups.values[members[-1]])
        # Where others are rounded up, the largest budget of a part is one of the levels.
        eps = epsilon(log_delta, everybody, int(np.searchsorted(everybody.values, high)), how)
        users = int(groups.counts[members].sum())
        yield Own(float(groups.values[members[0]]), high, users, eps)


def echoes_epsilon(log_delta: float, groups: BudgetGroups) -> float | None:
    """Eps of Laplace reports by "echoes" (Liu et al. 2023), as its authors compute it.

    Paper D compares with it. Not checked here. None where it says nothing: fewer than
    ``16 log(4/delta)`` echoes are expected.

    Parameters
    ----------
    log_delta
        Natural log of delta.
    groups
        Everybody, in order of budget.
    """
    values, counts = groups.values, groups.counts
    with np.errstate(invalid="ignore"):
        shape = np.where(values > 0.0, -np.expm1(-values) / values, 1.0)
    # Mean over j of shape_j exp(-max(eps_i, eps_j)): j up to i, and beyond.
    until = np.cumsum(counts * shape)
    beyond = np.cumsum((counts * shape * np.exp(-values))[::-1])[::-1]
    mean = (until * np.exp(-values) + np.append(beyond[1:], 0.0)) / counts.sum()
    others = counts.copy()
    others[-1] -= 1
    echoes = float(others @ (mean / shape))
    log_term = np.log(4.0) - log_delta
    if echoes < 16.0 * log_term:
        return None
    ratio = np.tanh(values[-1] / 2.0)
    return float(np.log1p(ratio * (8.0 * np.sqrt(log_term / echoes) + 8.0 / echoes)))


def mu_gdp_epsilon(
    log_delta: float, groups: BudgetGroups, deltas: Floats | None = None, largest: float = 0.0
) -> float:
    """Eps of paper D's mu-GDP at a natural log of delta: an approximation, NOT a bound.

    Parameters
    ----------
    log_delta, groups
        As for `own_epsilons`; the target has the largest budget.
    deltas
        Mean delta_i of each group, by default 0.
    largest
        Largest delta_i of all.

    Notes
    -----
    Source: paper D, Theorem 3 without its error term, and Fact 2.
    """
    others = groups.counts.astype(np.float64)
    others[-1] -= 1.0
    kept = 1.0 if deltas is None else 1.0 - deltas
    weight = float(others @ (kept * expit(-groups.values)))
    mu = np.sqrt(2.0 / weight) if weight > 0.0 else np.inf
    return calibrate.epsilon(
        lambda eps: float(gdp_to_log_delta(eps, mu) + np.log1p(-largest)),
        log_delta,
        _LARGEST_MU_EPS,
        "upper",
    )


def approximate_epsilon(log_delta: float, groups: BudgetGroups, deltas: float) -> float | None:
    """Eps of any adaptively chosen (eps_i, delta_i)-LDP randomisers, shuffled, rounded up.

    Clones at the largest budget, plus ``(exp(eps) + 1) (1 + exp(-eps_max) / 2)`` times the sum of
    the users' deltas: by so much does the law of all reports move when each randomiser is replaced
    by one of pure LDP. None where that alone is above the target.

    Parameters
    ----------
    log_delta
        Natural log of the target.
    groups
        Everybody.
    deltas
        Sum of the users' delta_i.

    Notes
    -----
    Source: Feldman, McMillan and Talwar, "Hiding among the clones" (2021), Theorem 3.8.
    """
    largest = float(groups.values.max())
    setting = groups.setting(largest, 2)
    with np.errstate(divide="ignore"):
        each = float(np.log(deltas) + np.log1p(0.5 * np.exp(-largest)))

    def at(eps: float) -> float:
        replaced = each + float(np.logaddexp(eps, 0.0))
        clones = -np.inf if eps >= largest else float(clones_log_delta(eps, setting))
        return float(np.logaddexp(clones, replaced))

    eps = 0.0
    while each + np.logaddexp(eps, 0.0) < log_delta:
        left = log_delta + np.log(-np.expm1(each + np.logaddexp(eps, 0.0) - log_delta))
        eps = _clones_epsilon(float(left), setting)
        if at(eps) <= log_delta:
            return eps
        eps *= 1.0 + 1e-9
    return None


def _clones_epsilon(log_delta: float, setting: Setting) -> float:
    return calibrate.epsilon(
        lambda eps: float(clones_log_delta(eps, setting)), log_delta, setting.eps0, "upper"
    )
