"""docs/hidden-slot.md step by step, in exact rationals over all data sets of a few users.

First the theorem, with nothing of the package: the view is built from its definition, user after
user; the bound from its formula. Both from the matrix of the randomiser alone. Then the package,
which has to enclose the largest bound of all data sets.
"""

from collections import defaultdict
from fractions import Fraction
from itertools import combinations_with_replacement, pairwise, permutations, product
from math import log

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from shuffledp.accounting.blanket.atoms import Atoms
from shuffledp.accounting.blanket.groups import Groups
from shuffledp.accounting.blanket.hidden_slot import hidden_slot_log_delta
from shuffledp.accounting.blanket.join import join as package_join
from shuffledp.mechanisms.local_hashing import LocalHashing
from shuffledp.mechanisms.subset_selection import SubsetSelection
from shuffledp.mechanisms.unary_encoding import UnaryEncoding
from shuffledp.numerics.arrays import UNIT

from oracle.exact import hockey_stick
from oracle.test_randomisers import (
    EPS0,
    MADE_UP,
    E,
    hadamard_rows,
    hashing_rows,
    krr_rows,
    merged,
    shuffled_law,
    subset_rows,
    unary_rows,
)

ONE, ZERO = Fraction(1), Fraction(0)
HALF = Fraction(1, 2)
MATRICES = {
    "k-RR": krr_rows(3),
    "k-RR, two cells": krr_rows(2),
    "subsets of 2 of 4": subset_rows(4, 2),
    "OUE, two cells": unary_rows(2, HALF, 1 / (E + 1)),
    "RAPPOR": unary_rows(3, Fraction(2, 3), Fraction(1, 3)),
    "binary hashing": hashing_rows(3, 2),
    "Hadamard": hadamard_rows(3),
    "Hadamard, 4 of 7": hadamard_rows(4),
    "made up": MADE_UP,
}


def blanket(rows):
    return [min(column) for column in zip(*rows, strict=True)]


def shared_laws(rows):
    """Laws w~ that some multiple of every row is above: the blanket's, and a lopsided one."""
    least = blanket(rows)
    tilted = [w * (1 + y) for y, w in enumerate(least)]
    return [[w / sum(law) for w in law] for law in (least, tilted)]


def largest_share(rows, shared):
    """The least kappa for which ``kappa w~`` reaches some probability of the matrix."""
    return min(w / s for w, s in zip(blanket(rows), shared, strict=True))


def view_law(target, others, rows, shared, kappa):
    """Who is named with which report, the unnamed reports, and whether the target is hidden."""
    law = defaultdict(Fraction)
    reports = range(len(rows[0]))
    # Of each other user: exposed or not, and the report.
    users = [
        [(True, y, kappa * shared[y]) for y in reports]
        + [(False, y, rows[x][y] - kappa * shared[y]) for y in reports]
        for x in others
    ]
    for drawn in product(*users):
        chance = ONE
        for _, _, each in drawn:
            chance *= each
        exposed = [user for user, (shown, _, _) in enumerate(drawn) if shown]
        named = {user: y for user, (shown, y, _) in enumerate(drawn) if not shown}
        unnamed = tuple(sorted(y for shown, y, _ in drawn if shown))
        for y in reports:
            if not exposed:
                law[tuple(named.items()), (), y] += chance * rows[target][y]
            for slot in exposed:
                seen = tuple(sorted({**named, slot: y}.items()))
                law[seen, unnamed, None] += chance * rows[target][y] / len(exposed)
    return law


def slot_law(x, x0, x1, rows, shared, kappa, e):
    """Law of ``G_x``: values with their masses, which add up to 1."""
    law = defaultdict(Fraction)
    law[ZERO] += kappa
    for own, first, second, w in zip(rows[x], rows[x0], rows[x1], shared, strict=True):
        rest = own - kappa * w
        law[(first - e * second) / rest] += rest
    assert sum(law.values()) == 1
    return dict(law)


def potential(law, t):
    return sum((mass * max(value - t, ZERO) for value, mass in law.items()), ZERO)


def join(laws):
    """The least law above all in the convex order: its potential is the largest of theirs."""
    points = sorted({value for law in laws for value in law})
    for low, high in pairwise(points.copy()):
        lines = [(potential(law, low), potential(law, high)) for law in laws]
        for (a, b), (c, d) in permutations(lines, 2):
            if a > c and b < d:  # they cross in between
                points.append(low + (high - low) * (a - c) / ((a - c) + (d - b)))
    points = sorted(set(points))
    heights = [max(potential(law, t) for law in laws) for t in points]
    slopes = [
        (after - before) / (high - low)
        for before, after, low, high in zip(
            heights[:-1], heights[1:], points[:-1], points[1:], strict=True
        )
    ]
    ends = [-ONE, *slopes, ZERO]
    law = {t: b - a for t, a, b in zip(points, ends[:-1], ends[1:], strict=True) if b > a}
    assert sum(law.values()) == 1
    return law


def mean_excess(laws):
    """``E[(X_1 + ... + X_n)_+]`` of independent X; their masses need not add up to 1."""
    total = {ZERO: ONE}
    for law in laws:
        after = defaultdict(Fraction)
        for s, chance in total.items():
            for value, mass in law.items():
                after[s + value] += chance * mass
        total = after
    return potential(total, ZERO)


def bound(others, slots, joined, local, kappa):
    """``(1 - kappa)^(n-1) delta_loc + (1/n) E[(sum G + J)_+]``."""
    n = len(others) + 1
    excess = mean_excess([joined, *(slots[x] for x in others)])
    return (1 - kappa) ** (n - 1) * local + excess / n


def data_sets(rows, n):
    return list(combinations_with_replacement(range(len(rows)), n - 1))


def pair_of(x0, x1, rows, shared, kappa, e):
    """The laws of all slots, their join and delta_loc."""
    slots = [slot_law(x, x0, x1, rows, shared, kappa, e) for x in range(len(rows))]
    local = sum((max(a - e * b, ZERO) for a, b in zip(rows[x0], rows[x1], strict=True)), ZERO)
    return slots, join(slots), local


def check_every_data_set(rows, n, e, shared, kappa):
    for x0, x1 in permutations(range(len(rows)), 2):
        slots, joined, local = pair_of(x0, x1, rows, shared, kappa, e)
        for others in data_sets(rows, n):
            laws = shuffled_law((*others, x0), rows), shuffled_law((*others, x1), rows)
            assert hockey_stick(*laws, e) <= bound(others, slots, joined, local, kappa)


@pytest.mark.parametrize("rows", MATRICES.values(), ids=MATRICES)
def test_the_bound_is_above_the_truth_on_every_data_set(rows):
    rows = merged(rows)
    shared = shared_laws(rows)[1]
    check_every_data_set(rows, 2, Fraction(1), shared, largest_share(rows, shared) / 20)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["k-RR", "k-RR, two cells", "OUE, two cells", "made up"])
def test_with_more_users_and_other_shares(name):
    rows = merged(MATRICES[name])
    for shared, share, n in zip(
        shared_laws(rows), (Fraction(2, 3), Fraction(1, 10)), (4, 3), strict=True
    ):
        kappa = largest_share(rows, shared) * share
        check_every_data_set(rows, n, Fraction(3, 2), shared, kappa)


@pytest.mark.parametrize(
    "name", ["k-RR, two cells", "Hadamard", pytest.param("made up", marks=pytest.mark.slow)]
)
def test_the_view_is_between_the_truth_and_the_bound(name):
    """Each of the proof's two inequalities by itself, for three users."""
    rows, e = merged(MATRICES[name]), Fraction(5, 4)
    shared = shared_laws(rows)[1]
    kappa = largest_share(rows, shared) * HALF
    for x0, x1 in permutations(range(len(rows)), 2):
        slots, joined, local = pair_of(x0, x1, rows, shared, kappa, e)
        for others in data_sets(rows, 3):
            seen = [view_law(x, others, rows, shared, kappa) for x in (x0, x1)]
            assert sum(seen[0].values()) == 1
            laws = shuffled_law((*others, x0), rows), shuffled_law((*others, x1), rows)
            view = hockey_stick(*seen, e)
            assert hockey_stick(*laws, e) <= view <= bound(others, slots, joined, local, kappa)


def test_where_all_hold_one_record_the_fold_adds_one_term():
    """With that record's law as J the bound is the view's delta, but that all n may be named."""
    rows, e, n = krr_rows(3), Fraction(5, 4), 3
    shared, kappa = shared_laws(rows)[0], Fraction(1, 5)
    seen = [view_law(x, (2, 2), rows, shared, kappa) for x in (0, 1)]
    slots, _, local = pair_of(0, 1, rows, shared, kappa, e)
    law = slots[2]
    named = {value: mass for value, mass in law.items() if value}
    all_named = mean_excess([named] * n) / n
    assert hockey_stick(*seen, e) == bound((2, 2), slots, law, local, kappa) - all_named


# --- The package --------------------------------------------------------------------------------


def unary_nu(k, q):
    return unary_rows(k, q, q)[0]


def uniform(rows):
    return [Fraction(1, len(rows[0]))] * len(rows[0])


THIRD = Fraction(1, 3)
# The randomiser, its matrix, the law nu of an exposed user's report, and n.
PACKAGE = {
    "k-RR": (SubsetSelection(4, EPS0, 1), krr_rows(4), uniform(krr_rows(4)), 6),
    "k-RR, two cells": (SubsetSelection(2, EPS0, 1), krr_rows(2), uniform(krr_rows(2)), 6),
    "subsets of 2 of 4": (
        SubsetSelection(4, EPS0, 2), subset_rows(4, 2), uniform(subset_rows(4, 2)), 5,
    ),
    "OUE": (
        UnaryEncoding(3, 0.5, 0.25), unary_rows(3, HALF, HALF * HALF), unary_nu(3, HALF * HALF), 4,
    ),
    "RAPPOR": (
        UnaryEncoding(3, 2 / 3, 1 / 3), unary_rows(3, 2 * THIRD, THIRD), unary_nu(3, THIRD), 4,
    ),
    "OUE, two cells": (
        UnaryEncoding(2, 0.5, 0.25), unary_rows(2, HALF, HALF * HALF), unary_nu(2, HALF * HALF), 5,
    ),
    "binary hashing": (
        LocalHashing(3, EPS0, 2), hashing_rows(3, 2), uniform(hashing_rows(3, 2)), 5,
    ),
}  # fmt: skip


LIGHT = {"k-RR, two cells", "subsets of 2 of 4", "OUE"}
every_packaged = pytest.mark.parametrize(
    ("randomiser", "rows", "nu", "n"),
    [
        pytest.param(*case, id=name, marks=() if name in LIGHT else pytest.mark.slow)
        for name, case in PACKAGE.items()
    ],
)


@every_packaged
@pytest.mark.parametrize("share", [0.5, pytest.param(0.125, marks=pytest.mark.slow)])
def test_the_package_encloses_the_worst_data_set(randomiser, rows, nu, n, share):
    """From above, and no further than it says; by symmetry for one pair and one third record."""
    e = Fraction(5, 4)
    kappa = share * randomiser.likelihood
    slots, joined, local = pair_of(0, 1, rows, nu, Fraction(kappa), e)
    exact = max(
        bound(others, slots, joined, local, Fraction(kappa)) for others in data_sets(rows[:3], n)
    )
    found = hidden_slot_log_delta(randomiser.slots(log(e), kappa), n, kappa, 0.0)
    assert log(exact) - 1e-13 <= min(found, 0.0)
    assert found <= log(exact) + 0.02


@every_packaged
def test_the_package_is_above_what_any_data_set_leaks(randomiser, rows, nu, n):
    del nu
    n, e, rows = min(n, 4), Fraction(5, 4), merged(rows)
    kappa = 0.25 * randomiser.likelihood
    found = hidden_slot_log_delta(randomiser.slots(log(e), kappa), n, kappa, 0.0)
    for others in data_sets(rows, n):
        laws = [shuffled_law((*others, x), rows) for x in (0, 1)]
        assert log(hockey_stick(*laws, e)) <= found


finite = st.integers(-50, 60).map(lambda i: i / 16)
raw_laws = st.lists(st.tuples(finite, st.integers(1, 20)), min_size=1, max_size=5)


def centred(raw):
    """A law of floats with mean 0, nearly."""
    values = np.array([value for value, _ in raw])
    masses = np.array([weight for _, weight in raw], np.float64)
    masses /= masses.sum()
    return Atoms(values - float(values @ masses), masses, 4.0)


def exactly(law):
    found = defaultdict(Fraction)
    for value, mass in zip(law.values.tolist(), law.masses.tolist(), strict=True):
        found[Fraction(value)] += Fraction(mass)
    return found


@given(raw=st.lists(raw_laws, min_size=1, max_size=3))
@settings(max_examples=examples(100))
def test_the_join_is_above_each_law_and_no_higher(raw):
    """At every point in exact rationals; the highest potential is reached, but for rounding."""
    laws = [centred(each) for each in raw]
    found = package_join(laws)
    above, joined = exactly(found), [exactly(law) for law in laws]
    factor = 1 + Fraction(found.units * UNIT)
    assert factor < 1 + 1e-12
    for t in sorted({*above, *(value for law in joined for value in law)}):
        highest = max(potential(law, t) for law in joined)
        assert potential(above, t) * factor >= highest
        assert potential(above, t) <= highest * factor + Fraction(1e-14)


@given(raw=st.lists(raw_laws, min_size=2, max_size=3), data=st.data())
@settings(max_examples=examples(25), deadline=None)
def test_sums_of_several_laws_are_bounded_from_above(raw, data):
    laws = [centred(each) for each in raw]
    laws = [Atoms(law.values - 0.25, law.masses, 4.0) for law in laws]
    if max(law.values.max() for law in laws) <= 0.0:
        return
    leading = int(np.argmax([law.values.max() for law in laws]))
    n = 4
    counts = data.draw(st.sampled_from(
        [row for row in product(range(n + 1), repeat=len(laws)) if sum(row) == n]
    ))  # fmt: skip
    exact = mean_excess(
        [exactly(law) for law, count in zip(laws, counts, strict=True) for _ in range(count)]
    )
    high = Groups(laws, n, leading).log_mean_excess_high([counts])[0]
    if exact:
        assert high >= log(exact / n) - 1e-14
