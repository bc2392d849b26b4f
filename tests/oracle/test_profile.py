"""Composition against exact rationals of all data sets of a few users.

Rounds of one kind are composed by the profile alone, and rounds that differ as a ledger. Laws are
built from the mechanisms' definitions, user by user. Over rounds everybody's record may change, the
target's and the one it is compared with too: every choice of records is tried.
"""

from collections import defaultdict
from dataclasses import replace
from fractions import Fraction
from functools import cache, reduce
from itertools import combinations_with_replacement, permutations, product
from math import exp, inf, log

import numpy as np
import pytest
from effort import examples, long
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle import exact
from oracle.test_randomisers import (
    MADE_UP,
    enclosed_exp,
    exact_rows,
    is_at_least,
    krr_rows,
    merged,
    shuffled_law,
    unary_rows,
)
from shuffledp.accounting.accountant import curve
from shuffledp.accounting.additive import GeometricNoise
from shuffledp.accounting.bound_registry import BOUNDS
from shuffledp.accounting.composition import compose, compose_rounds
from shuffledp.accounting.curve import Composable, UpperCurve
from shuffledp.accounting.rounds import two_rr_rounds
from shuffledp.accounting.rounds.outcome_bundles import DEFAULT_DEPTH
from shuffledp.accounting.rounds.profile import dominating_law
from shuffledp.accounting.rounds.sums import log_hockey_stick
from shuffledp.accounting.rounds.tradeoff import gdp_loss, gdp_upper_log_delta
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.mechanisms.discrete_laplace import DiscreteLaplace, DiscreteLaplaceParameters
from shuffledp.mechanisms.gaussian import CentralGaussian, GaussianParameters
from shuffledp.mechanisms.matrix import MatrixRandomiser
from shuffledp.mechanisms.shuffler_dummies import ShufflerDummies, ShufflerDummiesParameters
from shuffledp.mechanisms.target_calibration import Released
from shuffledp.mechanisms.unary_encoding import UnaryEncoding
from shuffledp.mechanisms.user_dummies import UserDummies, UserDummiesParameters
from shuffledp.papers.literature.theorems import kov_log_delta

E = Fraction(3)
# Values of exp(eps), some above the budget of one round and one above that of two.
SHARES = [Fraction(1), Fraction(9, 8), Fraction(3, 2), Fraction(5, 2), Fraction(7, 2), Fraction(10)]
ZEROS = [[Fraction(v, 8) for v in row] for row in ([4, 4, 0], [2, 4, 2])]


def by_ratio(first, second):
    """Group both laws by the likelihood ratio, None if infinite."""
    law = defaultdict(lambda: [Fraction(0), Fraction(0)])
    for outcome in {*first, *second}:
        p, q = first.get(outcome, Fraction(0)), second.get(outcome, Fraction(0))
        entry = law[p / q if q else None]
        entry[0] += p
        entry[1] += q
    return tuple(sorted(((p, q) for p, q in law.values()), reverse=True))


def of_both(one, other):
    law = defaultdict(lambda: [Fraction(0), Fraction(0)])
    for (p, q), (r, s) in product(one, other):
        entry = law[p * r / (q * s) if q * s else None]
        entry[0] += p * r
        entry[1] += q * s
    return tuple(sorted(((p, q) for p, q in law.values()), reverse=True))


def delta_of(law, e):
    return sum((max(p - e * q, Fraction(0)) for p, q in law), Fraction(0))


def of_rows(rows, n):
    """Return the pairs of laws of a round, for all records of the target and the others."""
    rows = merged(rows)
    return {
        by_ratio(
            shuffled_law(tuple(sorted((first, *others))), rows),
            shuffled_law(tuple(sorted((second, *others))), rows),
        )
        for first, second in permutations(range(len(rows)), 2)
        for others in combinations_with_replacement(range(len(rows)), n - 1)
    }


def of_user_dummies(n, k, rate):
    """Users send the truth and perhaps one uniform dummy."""
    return of_histograms(lambda records: exact.dummies_law(records, k, rate, 1), n, k)


def of_shuffler_dummies(n, k, theta, nu, far=15):
    """Dummies are two-sided geometric about nu, at least 0, and truncated beyond `far`."""
    whole = (1 + theta - theta ** (nu + 1)) / (1 - theta)
    noise = {z: theta ** abs(z - nu) / whole for z in range(far + 1)}

    def law(records):
        noisy = exact.noisy_law(records, k, noise)
        return {histogram: mass for histogram, mass in noisy.items() if max(histogram) <= far}

    return of_histograms(law, n, k)


def of_histograms(law, n, k):
    return {
        by_ratio(law([first, *others]), law([second, *others]))
        for first, second in [(0, 1), (1, 0)]
        for others in combinations_with_replacement(range(k), n - 1)
    }


def supremum(laws):
    """Return the exact curve of one round, rounded up, as an upper end."""

    @cache
    def upper(eps):
        worst = max(delta_of(law, enclosed_exp(eps)[0]) for law in laws)
        if worst == 0:
            return -inf
        bound = log(worst)
        while not is_at_least(bound, worst):
            bound = np.nextafter(bound, inf)
        return float(bound)

    return upper


def log_budget(laws):
    """Return the largest log-ratio of the pairs, rounded up."""
    ratios = [p / q if q else None for law in laws for p, q in law if p]
    if None in ratios:
        return inf
    return float(np.nextafter(np.nextafter(log(max(ratios)), inf), inf))


def check(curve, laws, rounds, most):
    listed = list(laws)
    # The order of the rounds does not matter.
    reached = set(enumerate(listed))
    for _ in range(rounds - 1):
        reached = {
            (place, of_both(one, listed[place]))
            for last, one in reached
            for place in range(last, len(listed))
        }
    for e in SHARES:
        worst = max(delta_of(law, e) for _, law in reached)
        # eps is at most log(e), so that delta is at least that at e.
        upper = curve.upper(max(float(np.nextafter(log(e), 0.0)), 0.0))
        assert is_at_least(upper, worst), (e, upper, float(worst))
        if worst > Fraction(1, 100):
            assert exp(upper) <= most * float(worst), e


ROWS = {
    "k-RR, 2 cells": krr_rows(2),
    "k-RR, 3 cells": krr_rows(3),
    "made up": MADE_UP,
    "made up, two records": MADE_UP[:2],
    "a zero": ZEROS,
}
# Three different rows have too many laws for three users or three rounds.
SIZES = [
    pytest.param(name, n, rounds, marks=[pytest.mark.slow] if n + rounds > 4 else [])
    for name in ROWS
    for n, rounds in [(2, 2), (2, 3), (3, 2)]
    if n + rounds == 4 or name != "made up"
]


@pytest.mark.parametrize(("name", "n", "rounds"), SIZES)
def test_the_profile_of_the_exact_curve_dominates_all_rounds(name, n, rounds):
    laws = of_rows(ROWS[name], n)
    curve = compose_rounds([(UpperCurve(log_budget(laws), upper=supremum(laws)), rounds)])
    # If no single pair has the curve, the dominating pair leaks more than each.
    check(curve, laws, rounds, 1.3 if name.startswith("k-RR") else 2.0)


@pytest.mark.parametrize(("name", "n", "rounds"), SIZES)
def test_rounds_of_a_matrix_are_dominated(name, n, rounds):
    rows = ROWS[name]
    randomiser = MatrixRandomiser(np.array(rows, np.float64))
    curve = randomiser.curve(Setting(n, len(rows), rounds=rounds))
    check(curve, of_rows(exact_rows(randomiser.rows), n), rounds, 3.0)


@pytest.mark.parametrize(("n", "rounds"), [(2, 2), (3, 2), (2, 3), (3, 3)])
def test_rounds_of_two_cells_are_dominated(n, rounds):
    curve = BOUNDS["upper"].curve(Setting(n, 2, log(E), rounds))
    check(curve, of_rows(krr_rows(2), n), rounds, 1.3)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "k", "rounds"), [(2, 2, 2), (3, 3, 2), (3, 2, 3)])
def test_rounds_of_dummies_are_dominated(n, k, rounds):
    rate = Fraction(3, 4)
    users = UserDummies().curve(UserDummiesParameters(0.75, 1), Setting(n, k))
    laws = of_user_dummies(n, k, rate)
    # Composed by its own pair, and by the curve of one round.
    check(compose(users, rounds), laws, rounds, 1.01)
    check(compose(replace(users, composable=Composable()), rounds), laws, rounds, 1.1)


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [2, 3])
def test_rounds_of_dummies_by_the_shuffler_are_dominated(rounds):
    """Without a dummy in a cell the loss is infinite, which bounds delta from below."""
    theta, nu = Fraction(3, 5), 2
    parameters = ShufflerDummiesParameters(-2.0 * log(theta), nu)
    curve = ShufflerDummies().curve(parameters, Setting(2, 2, rounds=rounds))
    check(curve, of_shuffler_dummies(2, 2, theta, nu), rounds, 1.1)
    # In some round the target's cell or the other one has no dummy.
    bare = float(theta**nu / (1 + theta - theta ** (nu + 1)) * (1 - theta))
    endless = 1.0 - (1.0 - bare) ** rounds
    assert exp(curve.upper(50.0)) == pytest.approx(endless, rel=1e-6)
    assert curve.epsilon(log(endless * 0.999)).upper == inf
    assert curve.epsilon(log(endless * 1.001)).upper < inf


def _zeros():
    randomiser = MatrixRandomiser(np.array(ZEROS, np.float64))
    return randomiser.curve(Setting(4, 2)), of_rows(exact_rows(randomiser.rows), 4)


def _two_cells(n, ratio):
    """Budgets are rounded up, so that delta is at least that of the ratio."""
    setting = Setting(n, 2, float(np.nextafter(log(ratio), inf)))
    rows = [[ratio / (ratio + 1), 1 / (ratio + 1)], [1 / (ratio + 1), ratio / (ratio + 1)]]
    return BOUNDS["upper"].curve(setting), of_rows(rows, n)


# Curves and the laws of every data set.
CURVES = {
    "k-RR": lambda: _two_cells(6, E),
    "large budget": lambda: _two_cells(3, Fraction(160_000)),
    "a zero": _zeros,
    "never falls": lambda: (
        UserDummies().curve(UserDummiesParameters(0.75, 1), Setting(3, 2)),
        of_user_dummies(3, 2, Fraction(3, 4)),
    ),
}


def profile_of(law, alpha):
    """Return the exact sum of ``p (1 - alpha exp(-loss))_+`` over the law's floats."""
    total = Fraction(law.infinite)
    for index in np.flatnonzero(law.mass):
        loss = law.step * (law.start + int(index))
        part = 1 - alpha * enclosed_exp(-loss)[1]
        total += Fraction(float(law.mass[index])) * max(part, Fraction(0))
    return total


@pytest.mark.parametrize("name", CURVES)
def test_the_pairs_profile_is_nowhere_below_the_truth(name):
    """Values of alpha below 1 give the other direction; masses add up to 1."""
    curve, laws = CURVES[name]()
    law = dominating_law(curve, DEFAULT_DEPTH)
    slack = 1 + Fraction(law.mass_error)
    masses = sum((Fraction(float(mass)) for mass in law.mass), Fraction(law.infinite))
    assert masses * slack >= 1
    assert masses <= 1 + Fraction(1, 10**9)
    rng = np.random.default_rng(3)
    for eps in rng.uniform(-14.0, 14.0, 40):
        alpha = Fraction(exp(eps))
        truth = max(delta_of(each, alpha) for each in laws)
        assert profile_of(law, alpha) * slack >= truth, eps


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "eps0", "rounds"),
    [
        *((1000, eps0, rounds) for eps0 in (1.0, 4.0) for rounds in (2, 100)),
        (1000, 1.0, 30),
        (10_000, 1.0, 2),
        (20_000, 4.0, 10),
    ],
)
def test_the_ends_of_two_cells_are_close(n, eps0, rounds):
    setting = Setting(n, 2, eps0, rounds)
    low, high = (BOUNDS[side].curve(setting).epsilon(log(1e-6)).only for side in ("lower", "upper"))
    assert low <= high <= 1.01 * low


def _adaptive(laws, rounds, e):
    """Return the exact delta if each round has the worst data set given the rounds before."""
    if rounds == 0:
        return max(1 - e, Fraction(0))
    return max(
        sum((p * _adaptive(laws, rounds - 1, e * q / p) for p, q in law if p), Fraction(0))
        for law in laws
    )


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(("n", "rounds"), [(2, 1), (3, 2), (4, 2), (2, 3)])
def test_the_worst_rounds_of_two_cells_in_view_of_earlier_ones_are_dominated(
    monkeypatch, n, rounds, wide
):
    if wide:
        monkeypatch.setattr(two_rr_rounds, "BLOCK_WIDTH", 0.5)
        assert len(two_rr_rounds._blocks(n)[0]) < n or n == 2
    setting = Setting(n, 2, float(np.nextafter(log(E), inf)), rounds)
    curve = two_rr_rounds.worst_curve(setting, lambda eps: 0.0 if eps < setting.budget else -inf)
    laws = of_rows(krr_rows(2), n)
    for e in SHARES:
        truth = _adaptive(laws, rounds, e)
        upper = curve.upper(max(float(np.nextafter(log(e), 0.0)), 0.0))
        assert is_at_least(upper, truth), (e, upper, float(truth))
        if truth > Fraction(1, 100) and not wide:
            assert exp(upper) <= 1.05 * float(truth)


def test_a_matrix_with_a_zero_composes_and_its_eps_may_be_infinite():
    randomiser = MatrixRandomiser(np.array(ZEROS, np.float64))
    n, rounds = 4, 2
    curve = randomiser.curve(Setting(n, 2, rounds=rounds))
    # A report that is impossible for one record can come from the target alone.
    laws = of_rows(ZEROS, n)
    endless = max(
        sum((p for p, q in of_both(*pair) if q == 0), Fraction(0))
        for pair in product(laws, repeat=2)
    )
    assert is_at_least(curve.upper(100.0), endless)
    assert curve.epsilon(log(endless) - 1e-9).upper == inf
    known = exp(curve.upper(1e5))
    assert known == pytest.approx(float(endless), rel=0.5)
    assert curve.epsilon(log(known * 1.01)).upper <= rounds * randomiser.horizon
    assert curve.epsilon(log(known * 0.999)).upper == inf


def test_rounds_of_unary_encoding_are_dominated():
    encoding = UnaryEncoding(2, float(np.nextafter(log(5), inf)), 0.375)
    laws = of_rows(unary_rows(2, Fraction(3, 4), Fraction(3, 8)), 2)
    check(encoding.curve(Setting(2, 2, rounds=2)), laws, 2, 3.0)


@pytest.mark.slow
def test_a_grid_fits_however_rarely_there_is_a_loss():
    """A loss once in 1e7 rounds has a deviation far below its largest value."""
    rate = Fraction(1, 10**7)
    pair = ((1 - rate, 1 - rate), (rate * 3 / 4, rate / 4), (rate / 4, rate * 3 / 4))
    once = UpperCurve(log_budget({pair}), upper=supremum({pair}))
    assert dominating_law(once, DEFAULT_DEPTH).mass.size < 5e6
    curve = compose_rounds([(once, 2)])
    check(curve, {pair}, 2, 1.01)
    truth = delta_of(of_both(pair, pair), Fraction(3, 2))
    assert exp(curve.upper(log(1.5))) == pytest.approx(float(truth), rel=0.01)


# --- Ledgers of different rounds ------------------------------------------------------------------

THETA, RATE = Fraction(3, 5), Fraction(3, 4)
# Budgets are rounded up, so that delta is at least that of the ratio.
EPS0 = float(np.nextafter(log(E), inf))
NOISE = DiscreteLaplaceParameters(float(np.nextafter(-2.0 * log(THETA), inf)))


def of_discrete_laplace():
    """Return the law of whether each of two cells is above the centre of the noise."""
    more, less = 1 / (1 + THETA), THETA / (1 + THETA)
    bit = ((more, less), (less, more))
    return {of_both(bit, bit)}


# The setting of a round, and its laws for every data set and neighbour.
ROUNDS = {
    "k-RR, 3 cells": (Setting(3, 3, EPS0), lambda: of_rows(krr_rows(3), 3)),
    "k-RR, 2 cells": (Setting(3, 2, EPS0), lambda: of_rows(krr_rows(2), 3)),
    "dummies by users": (
        Setting(3, 2, mechanism=Released(UserDummies(), UserDummiesParameters(0.75, 1))),
        lambda: of_user_dummies(3, 2, RATE),
    ),
    "dummies by the shuffler": (
        Setting(
            2,
            2,
            mechanism=Released(ShufflerDummies(), ShufflerDummiesParameters(-2.0 * log(THETA), 2)),
        ),
        lambda: of_shuffler_dummies(2, 2, THETA, 2, far=45),
    ),
    "discrete Laplace": (
        Setting(2, 2, mechanism=Released(DiscreteLaplace(), NOISE)),
        of_discrete_laplace,
    ),
    "a matrix": (
        Setting(2, 2, mechanism=MatrixRandomiser(np.array(MADE_UP[:2], np.float64))),
        lambda: of_rows(MADE_UP[:2], 2),
    ),
}
LEDGER_SHARES = [Fraction(1), Fraction(3, 2), Fraction(5, 2), Fraction(7, 2)]
# The upper end may exceed the truth, since the weak adversary sees more than the histogram.
HISTORIES = [
    (("k-RR, 2 cells", "dummies by users"), 1.3),
    (("dummies by users", "discrete Laplace"), 1.01),
    (("k-RR, 3 cells", "discrete Laplace"), 2.0),
    long(("dummies by users", "dummies by the shuffler"), 1.01),
    long(("k-RR, 2 cells", "dummies by the shuffler"), 1.3),
    long(("a matrix", "k-RR, 3 cells", "discrete Laplace"), 3.0),
]


@pytest.mark.parametrize(("names", "most"), HISTORIES)
def test_rounds_that_differ_are_enclosed(names, most):
    ledger = curve([ROUNDS[name][0] for name in names])
    laws = [reduce(of_both, chosen) for chosen in product(*(ROUNDS[name][1]() for name in names))]
    for e in LEDGER_SHARES:
        worst = max(delta_of(law, e) for law in laws)
        ends = ledger.log_delta(max(float(np.nextafter(log(e), 0.0)), 0.0))
        assert is_at_least(ends.upper, worst), (e, ends, float(worst))
        assert exp(ends.upper) <= most * float(worst)
        lower = ledger.log_delta(float(np.nextafter(log(e), 9.0))).lower
        assert exp(lower) <= float(worst) * (1 + 1e-8)
        assert lower > log(worst) - 1.5


@pytest.mark.parametrize("name", ["k-RR, 3 cells", "k-RR, 2 cells", "discrete Laplace"])
def test_a_ledger_of_equal_rows_is_a_setting_over_rounds(name):
    setting, _ = ROUNDS[name]
    ledger = [setting, replace(setting, rounds=2), setting]
    assert curve(ledger).log_delta(0.9) == curve(replace(setting, rounds=4)).log_delta(0.9)


@settings(max_examples=examples(5))
@given(
    st.lists(st.tuples(st.sampled_from(sorted(ROUNDS)), st.integers(1, 3)), min_size=2, max_size=4),
    st.floats(0.0, 3.0),
    st.randoms(use_true_random=False),
)
def test_the_order_of_rows_does_not_matter_and_every_row_adds(rows, eps, random):
    ledger = [replace(ROUNDS[name][0], rounds=rounds) for name, rounds in rows]
    whole = curve(ledger).log_delta(eps)
    mixed = curve(random.sample(ledger, len(ledger))).log_delta(eps)
    assert mixed.upper == pytest.approx(whole.upper, rel=1e-9, abs=1e-12)
    part = curve(ledger[:-1]).log_delta(eps * (1.0 + 1e-3))
    assert part.upper <= whole.upper + 1e-3
    assert whole.lower is None or whole.lower <= whole.upper


def test_rounds_of_gaussian_noise_are_exact():
    rounds = [
        Setting(100, 4, rounds=count, mechanism=Released(CentralGaussian(), GaussianParameters(s)))
        for s, count in [(10.0, 3), (20.0, 5), (7.0, 1)]
    ]
    mu = float(np.sqrt(2.0 * (3 / 100 + 5 / 400 + 1 / 49)))
    for eps in (0.1, 1.0):
        ends, truth = curve(rounds).log_delta(eps), gdp_upper_log_delta(eps, mu)
        assert ends.upper == pytest.approx(truth, rel=1e-9)
        assert ends.lower == pytest.approx(truth, rel=1e-9)
        assert ends.lower < ends.upper


@pytest.mark.parametrize(("mu", "rounds"), [(0.3, 4), (2.0, 9), (1e-3, 1)])
def test_the_loss_of_gaussian_noise_encloses_its_rounds(mu, rounds):
    loss, whole = gdp_loss(mu), mu * rounds**0.5
    (up,) = loss.up(None, DEFAULT_DEPTH)
    (down,) = loss.down[0](mu / 1000)
    for eps in (0.0, 0.5 * whole, 3.0 * whole):
        truth = gdp_upper_log_delta(eps, whole)
        assert truth - 1e-9 <= log_hockey_stick([(up, rounds)], eps).high <= truth + 1e-3
        assert truth - 1e-2 <= log_hockey_stick([(down, rounds)], eps).low <= truth + 1e-9


@pytest.mark.parametrize(("budget", "nu"), [(0.7, 5), (0.01, 900), (4.0, 0), (1.0, inf)])
def test_the_loss_of_geometric_noise_is_that_of_one_round_and_of_several(budget, nu):
    once = compose_rounds([(UpperCurve(inf, upper=lambda eps: -1.0), 1)])
    assert once.upper(0.0) == -1.0
    noise = GeometricNoise(budget, nu=nu)
    loss = noise.cell_losses.loss()
    for eps in (0.0, 0.3 * budget, 0.9 * budget):
        truth = noise.curve().log_delta(eps)
        for step in (None, budget / 77.0):
            ends = log_hockey_stick([(law, 1) for law in loss.up(step, DEFAULT_DEPTH)], eps).high
            assert truth.lower - 1e-9 <= ends <= truth.upper + (1e-9 if step is None else 2e-2)
        ends = log_hockey_stick([(law, 1) for law in loss.down[0](budget / 777.0)], eps).low
        assert truth.lower - 2e-2 <= ends <= truth.upper
        if nu == inf:
            several = log_hockey_stick([(law, 9) for law in loss.up(None, DEFAULT_DEPTH)], eps)
            truth = float(kov_log_delta(eps, 0.5 * budget, -inf, 18))
            assert several.high == pytest.approx(truth, rel=1e-9)


def test_the_loss_of_two_cells_is_that_of_one_round():
    noise = GeometricNoise(0.5, nu=30, servers=2)
    loss, log_delta = noise.cell_losses.loss(), noise.curve().upper
    for eps in (0.0, 0.2, 0.45):
        laws = [(law, 1) for law in loss.up(None, DEFAULT_DEPTH)]
        assert log_delta(eps) - 1e-9 <= log_hockey_stick(laws, eps).high <= log_delta(eps) + 1e-2


def test_wrong_ledgers_are_refused():
    with pytest.raises(InputError, match="from 1 to 1,000,000 rounds, got 0"):
        curve([])
    with pytest.raises(InputError, match="from 1 to 1,000,000 rounds, got 1,000,001"):
        curve([Setting(10, 3, 1.0, rounds=10**6), Setting(11, 3, 1.0)])
    with pytest.raises(InputError, match=r"at most 1,000 distinct rounds, got 1,001"):
        curve([Setting(10 + i, 3, 1.0) for i in range(1001)])
    with pytest.raises(InputError, match="certified curve only, got bound=upper"):
        curve([Setting(10, 3, 1.0), Setting(11, 3, 1.0)], "upper")
    with pytest.raises(InputError, match="response rate applies to one round"):
        curve([Setting(10, 3, 1.0, response_rate=0.5), Setting(11, 3, 1.0)])


def test_one_round_without_privacy_makes_the_ledger_infinite():
    nothing = UpperCurve(2.0, upper=lambda eps: -inf if eps >= 2.0 else 0.0)
    composed = compose_rounds([(nothing, 1), (replace(nothing, budget=3.0), 2)])
    assert composed.log_delta([7.9, 8.0]).upper.tolist() == [0.0, -inf]
