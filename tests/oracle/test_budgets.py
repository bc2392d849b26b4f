"""Binary reports of users with personal budgets: every data set, in balls."""

import numpy as np
import pytest
from flint import arb, ctx

from oracle import enumerated
from shuffledp.personalised import binary, budgets
from shuffledp.personalised.groups import BudgetGroups

SETTINGS = 500


def largest_delta(groups: BudgetGroups, group: int, eps: float) -> arb:
    laws = [
        [enumerated.reporting(row) for row in enumerated.krr(2, arb(value).exp())]
        for value in groups.values.tolist()
    ]
    sizes = groups.counts - (np.arange(groups.counts.size) == group)
    others = [law for law, size in zip(laws, sizes.tolist(), strict=True) for _ in range(size)]
    return enumerated.worst(laws[group], others, eps)


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


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_no_data_set_of_binary_leaks_more_and_one_leaks_as_much(part):
    for groups, group, eps in settings()[part::10]:
        log_delta = budgets.reports("binary").curve(groups, group, 0.0).log_delta(eps).upper
        with ctx.workprec(enumerated.BITS):
            truth = largest_delta(groups, group, eps).log()
            assert not truth > log_delta, (groups, group, eps)
            # Allow for the tolerance of the search, and for nearly equal budgets that are merged.
            assert log_delta <= truth + 3e-4, (groups, group, eps)


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
