"""docs/hidden-slot.md step by step, in exact rationals over all data sets of a few users.

The first part checks the proof without the package: the view is built from its definition, user by
user, and its delta is compared with the formula of the page. Both use only the matrix of the
randomiser. The second part checks that the package's bound is above delta of every data set.
"""

from collections import defaultdict
from fractions import Fraction
from functools import partial
from itertools import combinations, combinations_with_replacement, permutations, product
from math import log, prod

import numpy as np
import pytest
from effort import examples, long
from hypothesis import given, settings
from hypothesis import strategies as st

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
from shuffledp.accounting.blanket.atoms import Atoms
from shuffledp.accounting.blanket.hidden_slot import (
    Kernel,
    hidden_slot_log_delta,
    uniform_slots_log_high,
)
from shuffledp.accounting.blanket.worst_pair import HiddenSlots
from shuffledp.accounting.participation import with_participation
from shuffledp.accounting.setting import Setting
from shuffledp.mechanisms.local_hashing import LocalHashing
from shuffledp.mechanisms.matrix import MatrixRandomiser
from shuffledp.mechanisms.subset_selection import SubsetSelection
from shuffledp.mechanisms.unary_encoding import UnaryEncoding

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


def view_law(target, others, rows, shared, kappa):
    """Return the law of the named reports, the unnamed ones, and whether the target is hidden."""
    law = defaultdict(Fraction)
    reports = range(len(rows[0]))
    # Each other user is exposed or not, and sends a report.
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
    """Return the values of ``G_x`` with their masses, which add up to 1."""
    law = defaultdict(Fraction)
    law[ZERO] += kappa
    for own, first, second, w in zip(rows[x], rows[x0], rows[x1], shared, strict=True):
        rest = own - kappa * w
        law[(first - e * second) / rest] += rest
    assert sum(law.values()) == 1
    return dict(law)


def mean_excess(laws):
    """Return ``E[(X_1 + ... + X_n)_+]`` of independent X; masses need not add up to 1."""
    total = {ZERO: ONE}
    for law in laws:
        after = defaultdict(Fraction)
        for s, chance in total.items():
            for value, mass in law.items():
                after[s + value] += chance * mass
        total = after
    return sum((mass * max(value, ZERO) for value, mass in total.items()), ZERO)


def data_sets(rows, n):
    return list(combinations_with_replacement(range(len(rows)), n - 1))


def local_delta(x0, x1, rows, e):
    return sum((max(a - e * b, ZERO) for a, b in zip(rows[x0], rows[x1], strict=True)), ZERO)


def seen(others, slots, local, kappa):
    """Return the delta of the view by (*) of the page, summed over the shown names."""
    n = len(others) + 1
    # Users who are not exposed have values g / (1 - kappa) with masses (1 - kappa) R'.
    drawn = []
    for law in slots:
        each = dict(law)
        each[ZERO] -= kappa
        drawn.append(each)
    total = (1 - kappa) ** (n - 1) * local
    for t in range(1, n):
        for names in combinations(range(n - 1), t):
            named = mean_excess([drawn[others[user]] for user in names])
            total += kappa ** (n - t) / (n - t) * named
    return total


@pytest.mark.parametrize("name", ["k-RR, two cells", "Hadamard", "made up"])
@pytest.mark.parametrize("lopsided", [False, long(True)])
def test_the_view_is_above_the_truth_and_leaks_what_the_page_says(name, lopsided):
    """Check each step of the proof separately for three users."""
    rows, e = merged(MATRICES[name]), Fraction(5, 4)
    # A law w~ below a multiple of every row: that of the blanket, or a lopsided one.
    least = [min(column) for column in zip(*rows, strict=True)]
    law = [w * (1 + y) for y, w in enumerate(least)] if lopsided else least
    shared = [w / sum(law) for w in law]
    kappa = min(w / s for w, s in zip(least, shared, strict=True)) * HALF
    for x0, x1 in permutations(range(len(rows)), 2):
        slots = [slot_law(x, x0, x1, rows, shared, kappa, e) for x in range(len(rows))]
        for others in data_sets(rows, 3):
            views = [view_law(x, others, rows, shared, kappa) for x in (x0, x1)]
            assert sum(views[0].values()) == 1
            laws = shuffled_law((*others, x0), rows), shuffled_law((*others, x1), rows)
            view = hockey_stick(*views, e)
            assert hockey_stick(*laws, e) <= view
            assert view == seen(others, slots, local_delta(x0, x1, rows, e), kappa)


shares = st.integers(1, 60).map(lambda i: Fraction(i, 40))


@given(moduli=st.lists(shares, min_size=1, max_size=6), kappa=shares.filter(lambda p: p < 1))
@settings(max_examples=examples(100))
def test_the_sum_over_names_is_at_most_a_power_of_the_product(moduli, kappa):
    """Step 4 uses the moduli of the drawn parts in place of F(T)."""
    n, alike = len(moduli) + 1, [moduli[0]] * len(moduli)
    total, total_alike = (
        sum(
            kappa ** (n - t) * Fraction(n, n - t) * prod(names)
            for t in range(n)
            for names in combinations(each, t)
        )
        for each in (moduli, alike)
    )
    assert total ** (n - 1) <= prod(kappa + each for each in moduli) ** n
    # Equality fails only if all n slots are drawn.
    assert total_alike == (kappa + moduli[0]) ** n - moduli[0] ** n


# --- The package --------------------------------------------------------------------------------


def unary_nu(k, q):
    return unary_rows(k, q, q)[0]


def uniform(rows):
    return [Fraction(1, len(rows[0]))] * len(rows[0])


THIRD = Fraction(1, 3)
# A randomiser, its matrix, the law nu of an exposed user's report, and n.
PACKAGE = {
    "k-RR": (SubsetSelection(4, EPS0, 1), krr_rows(4), uniform(krr_rows(4)), 6),
    "k-RR, two cells": (SubsetSelection(2, EPS0, 1), krr_rows(2), uniform(krr_rows(2)), 6),
    "subsets of 2 of 4": (
        SubsetSelection(4, EPS0, 2), subset_rows(4, 2), uniform(subset_rows(4, 2)), 5,
    ),
    "OUE": (
        UnaryEncoding(3, log(3), 0.25), unary_rows(3, HALF, HALF / 2), unary_nu(3, HALF / 2), 4,
    ),
    "RAPPOR": (
        UnaryEncoding(3, log(4), 1 / 3), unary_rows(3, 2 * THIRD, THIRD), unary_nu(3, THIRD), 4,
    ),
    "OUE, two cells": (
        UnaryEncoding(2, log(3), 0.25), unary_rows(2, HALF, HALF / 2), unary_nu(2, HALF / 2), 5,
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
@pytest.mark.parametrize("share", [0.5, long(0.125)])
def test_the_bound_is_above_equal_records_and_close(randomiser, rows, nu, n, share):
    """By symmetry one pair and one third record suffice."""
    e = Fraction(5, 4)
    kappa = share * randomiser.normaliser
    slots = [slot_law(x, 0, 1, rows, nu, Fraction(kappa), e) for x in range(min(len(rows), 3))]
    alone = (1 - Fraction(kappa)) ** (n - 1) * local_delta(0, 1, rows, e)
    exact = max(alone + mean_excess([law] * n) / n for law in slots)
    log_delta = hidden_slot_log_delta(randomiser.slots(log(e), kappa), n, kappa, 0.0)
    assert log(exact) - 1e-13 <= log_delta <= log(exact) + 0.4


@every_packaged
def test_the_bound_is_above_every_data_set(randomiser, rows, nu, n):
    del nu
    n, e, rows = min(n, 4), Fraction(5, 4), merged(rows)
    kappa = 0.25 * randomiser.normaliser
    log_delta = hidden_slot_log_delta(randomiser.slots(log(e), kappa), n, kappa, 0.0)
    for others in data_sets(rows, n):
        laws = [shuffled_law((*others, x), rows) for x in (0, 1)]
        assert log(hockey_stick(*laws, e)) <= log_delta


def drawn_matrix(seed, zeros):
    rng = np.random.default_rng(seed)
    rows = rng.integers(1, 9, (4, 3))
    if zeros:
        rows[rng.integers(4), 0] = 0
        rows[rng.integers(4), 1] = 0
    return tuple(tuple(Fraction(int(each), int(row.sum())) for each in row) for row in rows)


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("seed", [1, *map(long, range(2, 9))])
def test_the_bound_of_a_matrix_is_above_every_data_set(seed, zeros):
    """Reports may rule out records."""
    rows, n, e = drawn_matrix(seed, zeros), 3, Fraction(5, 4)
    randomiser = MatrixRandomiser(np.array(rows, np.float64))
    truth = max(
        hockey_stick(*(shuffled_law((*others, x), rows) for x in pair), e)
        for pair in permutations(range(4), 2)
        for others in data_sets(rows, n)
    )
    ends = randomiser.curve(Setting(n, 4)).log_delta(log(e))
    if truth == 0:
        assert ends.lower == ends.upper == -np.inf
        return
    assert ends.lower <= log(truth) + 1e-13
    assert log(truth) - 1e-13 <= ends.upper
    least = float(sum(min(column) for column in zip(*rows, strict=True)))
    slots = HiddenSlots(randomiser._pairs, log(e), n, 0.4 * least)
    assert slots.is_applicable
    bound = slots.log_high(5.0, randomiser._triples)
    assert log(truth) <= bound
    assert bound < 5.0 or zeros  # all may be apart


def with_dropouts(target, others, rows, rate):
    """Return the law of the counts if the target reports, and each other with a probability."""
    law = defaultdict(Fraction)
    for who in product((False, True), repeat=len(others)):
        held = tuple(x for x, reports in zip(others, who, strict=True) if reports)
        chance = prod(rate if reports else 1 - rate for reports in who)
        for counts, each in shuffled_law((*held, target), rows).items():
            law[counts] += chance * each
    return law


@pytest.mark.parametrize("slot", [False, True])
@pytest.mark.parametrize("zeros", [False, long(True)])
def test_a_matrix_with_colluders_and_dropouts_is_above_the_truth(zeros, slot):
    """The command answers for five users, two of whom collude."""
    rows, e, rate = drawn_matrix(3, zeros)[:3], Fraction(9, 8), Fraction(3, 4)
    randomiser = MatrixRandomiser(np.array(rows, np.float64))
    truth = max(
        hockey_stick(*(with_dropouts(x, others, rows, rate) for x in pair), e)
        for pair in permutations(range(3), 2)
        for others in data_sets(rows, 3)
    )
    setting = Setting(5, 3, colluding=2, response_rate=0.75)
    curve = with_participation(partial(randomiser.curve, hidden_slot=slot), setting)
    assert log(truth) - 1e-13 <= curve.log_delta(log(e)).upper < log(truth) + 1.5


finite = st.integers(-50, 60).map(lambda i: i / 16)
raw_laws = st.lists(st.tuples(finite, st.integers(1, 20)), min_size=1, max_size=5)


def law_of(raw):
    values = np.array([0.0, *(value for value, _ in raw)])
    masses = np.array([10, *(weight for _, weight in raw)], np.float64)
    return Atoms(values, masses / masses.sum(), 4.0)


def exactly(law):
    masses = defaultdict(Fraction)
    for value, mass in zip(law.values.tolist(), law.masses.tolist(), strict=True):
        masses[Fraction(value)] += Fraction(mass)
    return masses


@given(raw=st.lists(raw_laws, min_size=1, max_size=3), n=st.integers(2, 5), share=st.integers(0, 4))
@settings(max_examples=examples(50), deadline=None)
def test_the_kernel_is_above_sums_of_equal_laws(raw, n, share):
    laws = [law for each in raw if (law := law_of(each)).values.max() > 0.0]
    if not laws:
        return
    kappa = share / 4 * min(float(law.masses[0]) for law in laws)
    exact = [mean_excess([exactly(law)] * n) for law in laws]
    for tilted in laws:
        kernel = Kernel.from_law(tilted, n, kappa)
        for law, mean in zip(laws, exact, strict=True):
            assert log(mean) - 1e-13 <= kernel.log_high(law) <= kernel.log_ceiling(law) + 1e-9
    assert uniform_slots_log_high(laws, n, kappa) >= log(max(exact) / n) - 1e-13
