"""Binary reports of users with personal budgets: every data set, in exact rationals."""

from decimal import Decimal, localcontext
from fractions import Fraction
from functools import reduce
from itertools import product

import numpy as np
import pytest

from shuffledp.accounting.curve import Curve
from shuffledp.personalised import binary, budgets
from shuffledp.personalised.groups import BudgetGroups

SETTINGS = 500
DIGITS = 60


def exponential(value: float) -> Fraction:
    """Return exp of the float's exact value, to sixty digits."""
    with localcontext() as context:
        context.prec = DIGITS
        return Fraction(Decimal(value).exp())


def divergence(law: list[Fraction], odds: Fraction, e: Fraction) -> Fraction:
    """Return the delta of the larger direction."""
    truth = odds / (odds + 1)
    first, second = (np.convolve(law, [1 - one, one]) for one in (truth, 1 - truth))
    return max(
        sum(max(x - e * y, Fraction(0)) for x, y in zip(one, other, strict=True))
        for one, other in ((first, second), (second, first))
    )


def group_laws(odds: Fraction, users: int) -> list[list[Fraction]]:
    """Return the laws of one group's count, by the number of its users who hold x0."""
    by_number = []
    for held in range(users + 1):
        shares = [(odds if user < held else Fraction(1)) / (odds + 1) for user in range(users)]
        by_number.append(reduce(np.convolve, [[1 - p, p] for p in shares], [Fraction(1)]))
    return by_number


def largest_delta(groups: BudgetGroups, group: int, eps: float) -> Fraction:
    odds = [exponential(value) for value in groups.values.tolist()]
    others = groups.counts.copy()
    others[group] -= 1
    every = [group_laws(*pair) for pair in zip(odds, others.tolist(), strict=True)]
    e = exponential(eps)
    return max(divergence(reduce(np.convolve, laws), odds[group], e) for laws in product(*every))


def log_of(delta: Fraction) -> Decimal:
    with localcontext() as context:
        context.prec = DIGITS
        return (Decimal(delta.numerator) / Decimal(delta.denominator)).ln()


def drawn(random: np.random.Generator) -> tuple[BudgetGroups, int, float]:
    """Draw users of up to three budgets, a target, and an eps below its budget."""
    values = np.unique(random.choice([0.0, 0.1, 0.5, 1.0, 2.0, 4.0, 9.0], random.integers(1, 4)))
    if random.random() < 0.3:
        values = np.append(values, values[-1] + 10.0 ** -random.integers(1, 8))
    groups = BudgetGroups(values, random.integers(1, 4, values.size))
    group = int(random.integers(np.argmax(values > 0.0), values.size)) if values[-1] else -1
    return groups, group, float(values[group] * random.choice([random.random(), 1.0 - 1e-6]))


def settings() -> list[tuple[BudgetGroups, int, float]]:
    random = np.random.default_rng(22)
    found = []
    while len(found) < SETTINGS:
        groups, group, eps = drawn(random)
        if groups.values[group] > 0.0 and groups.counts.sum() > 1:
            found.append((groups, group, eps))
    return found


def curve(groups: BudgetGroups, group: int) -> Curve:
    return budgets.reports("binary").curve(groups, group, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_no_data_set_of_binary_leaks_more_and_one_leaks_as_much(part):
    for groups, group, eps in settings()[part::10]:
        truth = log_of(largest_delta(groups, group, eps))
        log_delta = curve(groups, group).log_delta(eps).upper
        assert truth <= Decimal(log_delta), (groups, group, eps)
        # Allow for the tolerance of the search, and for nearly equal budgets that are merged.
        assert Decimal(log_delta) <= truth + Decimal("3e-4"), (groups, group, eps)


def test_nearly_equal_budgets_have_the_delta_of_equal_ones():
    equal = BudgetGroups(np.array([4.0]), np.array([1000]))
    for gap in (1e-4, 1e-8):
        unequal = BudgetGroups(np.array([4.0, 4.0 + gap]), np.array([500, 500]))
        alike, own = (
            budgets.epsilon(float(np.log(1e-6)), groups, groups.values.size - 1, how)
            for how in (budgets.reports("binary"),)
            for groups in (equal, unequal)
        )
        assert alike * (1.0 - 2e-5) <= own <= alike * (1.0 + gap + 2e-5)


def test_many_budgets_are_searched_as_four():
    fewer = binary.merge_budgets(BudgetGroups(np.linspace(0.5, 5.0, 40), np.full(40, 7)))
    assert fewer.values.size == 4
    assert fewer.values[-1] == 5.0
    assert fewer.counts.sum() == 280
