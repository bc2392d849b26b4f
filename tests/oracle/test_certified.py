"""The library against the oracles, which share no code with it."""

from fractions import Fraction
from math import log

import numpy as np
import pytest
from effort import examples, long
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle import exact, high_precision
from shuffledp.accounting import krr, pairs
from shuffledp.accounting.laws.multinomial import log_mean_excess, tilted_shares
from shuffledp.accounting.one_round import hidden_user, single_bin, two_rr
from shuffledp.accounting.pairs import hockey_stick
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.papers.literature.as_printed import log_delta_as_printed

PAIRS = {"third": pairs.all_hold_third_cell, "same": pairs.all_hold_x0, "other": pairs.all_hold_x1}


def relative_error(log_value, rational):
    return abs(np.expm1(float(log_value) - log(rational.numerator) + log(rational.denominator)))


@pytest.mark.parametrize("k", [2, 3, 4, 5])
@pytest.mark.parametrize("n", [2, 3, 5, 7])
@pytest.mark.parametrize(("E", "e"), exact.RATIOS)
def test_worst_data_set_lies_in_the_certified_interval(n, k, E, e):
    worst, _ = exact.worst_delta(n, k, E, e)
    eps, setting = log(e), Setting(n, k, log(E))
    assert float(krr.upper_log_delta(eps, setting)) >= log(worst) - 1e-12
    assert float(krr.lower_log_delta(eps, setting)) <= log(worst) + 1e-12
    if k == 2:
        # For two cells a data set is a count, and all are tried.
        assert float(krr.lower_log_delta(eps, setting)) >= log(worst) - 2e-9
        # Rounding e and E moves delta by a few units in the last place.
        assert -1e-13 <= float(two_rr.two_rr_log_delta(eps, setting)) - log(worst) < 1e-11


@pytest.mark.parametrize(("n", "k"), [(2, 2), (6, 2), (9, 3), (12, 5), (25, 4), (30, 50)])
@pytest.mark.parametrize(("E", "e"), exact.RATIOS)
def test_upper_and_lower_are_exact_for_small_n(n, k, E, e):
    eps, setting = log(e), Setting(n, k, log(E))
    upper = exact.upper_delta(n, k, E, e)
    weak = hockey_stick(pairs.weak_adversary(setting), eps).high
    assert relative_error(weak, upper) < 1e-9
    assert weak >= log(upper) - 1e-13
    assert krr.upper_log_delta(eps, setting) <= weak
    for name, make in PAIRS.items():
        if name == "third" and k < 3:
            continue
        value = exact.lower_delta(n, k, E, e, name) if n < 10 else None
        if value is None:
            value = exact.mean_positive_part(n, exact.lower_atoms(k, E, e, name))
        got = hockey_stick(make(setting), eps)
        if value == 0:
            assert got.high == -np.inf
        else:
            assert relative_error(got.low, value) < 1e-9
            assert got.low <= log(value) + 1e-12 * abs(log(value))


DEEP = [
    (100, 10, 1.0, 0.1),
    (100, 3, 4.0, 2.5),
    (1000, 10, 1.0, 0.2),
    (1000, 3, 0.001, 0.0005),
    (1000, 1000, 20.0, 10.0),
    long(10_000, 16, 1.0, 0.0186),
    (10_000, 408, 4.0, 0.5),
    long(100_000, 408, 4.0, 0.05),
]
# Here delta is a difference of large terms, which the kernel must not form.
EDGES = [
    (n, k, eps0, eps0 * (1.0 - distance))
    for n, k, eps0, distance in [
        (300, 10, 20.0, 0.001),
        (300, 10, 30.0, 0.01),
        (15, 2, 20.0, 1e-6),
        (15, 2, 31.4, 1e-6),
        (271, 24, 20.0, 1e-9),
        (451, 8, 9.91, 1.8e-9),
        (123, 40_000, 0.003, 1e-8),
    ]
]


@pytest.mark.parametrize(("n", "k", "eps0", "eps"), [*DEEP, *EDGES])
@pytest.mark.parametrize("name", ["upper", *PAIRS])
def test_both_ends_have_nine_digits_however_small_delta_is(n, k, eps0, eps, name):
    if name == "third" and k < 3:
        return
    if name == "upper":
        reference = float(high_precision.upper_log_delta(n, k, eps0, eps))
        got = hockey_stick(pairs.weak_adversary(Setting(n, k, eps0)), eps)
    else:
        reference = float(high_precision.lower_log_delta(n, k, eps0, eps, name))
        got = hockey_stick(PAIRS[name](Setting(n, k, eps0)), eps)
    assert got.low <= reference <= got.high
    assert got.high - got.low < 1e-9 * max(1.0, abs(reference) / 690)


@given(
    n=st.integers(1, 40),
    k=st.integers(2, 12),
    eps0=st.floats(0.001, 20),
    distance=st.one_of(st.floats(0.02, 1.0), st.floats(-9, -2).map(lambda x: 10.0**x)),
)
@settings(max_examples=examples(100))
def test_upper_agrees_on_random_settings(n, k, eps0, distance):
    eps = (1.0 - distance) * eps0
    reference = float(high_precision.upper_log_delta(n, k, eps0, eps))
    got = hockey_stick(pairs.weak_adversary(Setting(n, k, eps0)), eps).high
    assert reference <= got
    assert got - reference < 1e-9 * max(1.0, abs(reference) / 690)


@pytest.mark.slow
def test_bracketing_of_large_n_encloses_the_exact_sum(monkeypatch):
    from shuffledp.accounting.laws import multinomial

    total = pairs.weak_adversary(Setting(10**7, 3, 1.0)).weighted_sum(0.004)
    bracketed = log_mean_excess(total)
    monkeypatch.setattr(multinomial, "MAX_EXACT_N", 10**8)
    direct = log_mean_excess(total)
    assert bracketed.low <= direct.low
    assert direct.high <= bracketed.high
    # 1e-4 relative in eps; the slope of log delta in log eps is about 2 |log delta| here.
    assert bracketed.high - bracketed.low < 1e-4 * 2 * abs(direct.low)


@pytest.mark.parametrize(("n", "k"), [(2, 2), (10, 3), (60, 2), (100, 10)])
@pytest.mark.parametrize(("E", "e"), exact.RATIOS)
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_single_bin_equals_direct_summation_in_rationals(n, k, E, e, direction):
    setting = Setting(n, k, log(E))
    for m in {0, 1, n // 2, 4 * n // 5, n - 1}:
        expected = exact.single_bin(n, k, m, E, e, direction)
        got = float(single_bin.log_delta(log(e), setting, m, direction))
        if expected == 0:
            # e >= (1 - q) / (1 - p) up to rounding, which may leave a tiny delta.
            assert got < -30 or got == -np.inf
        else:
            assert relative_error(got, expected) < 1e-9


@pytest.mark.parametrize(
    ("n", "k", "m", "eps0", "eps"),
    [(1000, 10, 800, 2.0, 1.0), (2000, 408, 37, 4.0, 0.5), (2000, 2, 900, 4.0, 3.9)],
)
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_single_bin_in_deep_tails(n, k, m, eps0, eps, direction):
    reference = float(high_precision.single_bin_log_delta(n, k, m, eps0, eps, direction))
    got = float(single_bin.log_delta(eps, Setting(n, k, eps0), m, direction))
    assert got == pytest.approx(reference, abs=1e-9, rel=1e-9)


@pytest.mark.parametrize(("k", "E", "e"), [(2, 3, "1.0001"), (16, 50, "1.01"), (408, 50, 2)])
def test_counts_asked_at_once_enclose_their_rationals(k, E, e):
    """Counts of similar width share one contour, whose radius fits none of them exactly."""
    n, counts = 40, np.arange(0, 40, 3)
    E, e = Fraction(E), Fraction(e)
    low, high = single_bin.forward_ends(log(e), Setting(n, k, log(E)), n, counts)
    for m, least, most in zip(counts, low, high, strict=True):
        expected = log(exact.single_bin(n, k, int(m), E, e, "forward"))
        # The logarithms of E and e are rounded.
        assert least - 1e-12 < expected < most + 1e-12
        assert most - least < 2e-12


def test_two_cells_of_a_billion_users_are_enclosed_closely():
    """The ends in eps are about four times as far apart, at most 2e-4."""
    ends = two_rr.worst_count(5.64e-7, Setting(10**9, 2, 0.1)).ends
    assert 0.0 < ends.high - ends.low < 5e-5


@pytest.mark.parametrize(("n", "eps0"), [(1, 1.0), (2, 3.0), (60, 0.5), (60, 8.0), (700, 2.0)])
@pytest.mark.parametrize("spare", [0.0, 1e-3, 1.0])
def test_the_search_of_two_cells_encloses_every_count(n, eps0, spare):
    setting = Setting(n, 2, eps0)
    for eps in (0.0, 0.05, 0.3 * eps0, 0.99 * eps0):
        low, high = single_bin.forward_ends(eps, setting, n, np.arange(n))
        worst = two_rr.worst_count(eps, setting, spare)
        assert high.max() - 1e-11 <= worst.ends.high
        assert worst.ends.low <= low.max() + 1e-11
        assert worst.ends.low == pytest.approx(low[worst.count], abs=1e-11)
        assert worst.ends.high - worst.ends.low <= spare * max(1.0, -worst.ends.low) + 1e-10
        # The blocks partition the counts.
        assert worst.first_counts[0] == 0
        assert worst.last_counts[-1] == n - 1
        assert (worst.first_counts[1:] == worst.last_counts[:-1] + 1).all()


@pytest.mark.parametrize("eps", [0.0, 1e-4, 0.003])
def test_two_cells_with_impossible_counts_in_a_bucket(eps):
    """If all others hold the target's cell, n1 + n2 = n is certain."""
    setting = Setting(3_000_000, 2, 0.5)
    low, high = single_bin.forward_ends(eps, setting, setting.n, setting.n - 1)
    ends = hockey_stick(pairs.all_hold_x0(setting), eps)
    assert ends.low <= high
    assert low <= ends.high
    assert ends.high - ends.low < 1e-2


@pytest.mark.parametrize("n", [20, 100])
@pytest.mark.parametrize(("E", "e"), exact.RATIOS)
def test_as_printed_equals_the_printed_formula_in_rationals(n, E, e):
    for m in (0, n // 2, 4 * n // 5, n - 1):
        expected = exact.single_bin_as_printed(n, 10, m, E, e)
        got = float(log_delta_as_printed(log(e), Setting(n, 10, log(E)), m))
        assert (got == -np.inf) if expected == 0 else relative_error(got, expected) < 1e-9


@pytest.mark.parametrize(("k", "eps"), [(100, 0.05), (1000, 0.5), (1000, 3.0)])
def test_as_printed_has_one_rate_at_every_size(k, eps):
    # log delta / n tends to a limit, so a law too long for direct sums agrees with shorter ones.
    def rates(n):
        counts = np.array([1, 10, 100, 500]) * n // 1000
        return log_delta_as_printed(eps, Setting(n, k, 4.0), counts) / n

    assert rates(10**7) == pytest.approx(rates(10**5), rel=2e-3)


@given(
    n=st.integers(2, 3000), k=st.integers(2, 500), eps0=st.floats(0.05, 8), share=st.floats(0, 0.95)
)
@settings(max_examples=examples(80))
def test_the_bounds_are_ordered_and_monotone(n, k, eps0, share):
    eps, setting = share * eps0, Setting(n, k, eps0)
    lower = float(krr.lower_log_delta(eps, setting))
    upper = float(krr.upper_log_delta(eps, setting))
    assert lower <= upper <= 0.0
    slack = 2e-9 * max(1.0, abs(upper))
    assert float(krr.upper_log_delta(eps * 1.1, setting)) <= upper + slack
    assert float(krr.upper_log_delta(eps, Setting(n, k, eps0 * 1.1))) >= upper - slack
    assert float(krr.upper_log_delta(eps, Setting(n + 1, k, eps0))) <= upper + slack
    if k > 2:
        crowd = single_bin.log_delta(eps, setting, [0, n - 1])
        assert crowd.max() <= upper + slack


def test_zero_at_and_above_eps0_and_arrays_broadcast():
    setting = Setting(100, 10, 4.0)
    for function in (krr.upper_log_delta, krr.lower_log_delta):
        got = function([[0.5, 0.6], [4.0, 5.0]], setting)
        assert got.shape == (2, 2)
        assert np.isfinite(got[0]).all()
        assert (got[1] == -np.inf).all()
        assert got[0, 1] == function(0.6, setting)
    assert (single_bin.log_delta(4.0, setting, [3, 4]) == -np.inf).all()
    assert single_bin.log_delta([[0.1], [0.2], [0.3]], setting, [3, 4]).shape == (3, 2)


@pytest.mark.parametrize("function", [krr.upper_log_delta, krr.lower_log_delta])
def test_parameters_out_of_range_are_refused(function):
    for eps in (-0.1, np.nan, [0.1, -0.1]):
        with pytest.raises(InputError, match="eps must be at least 0"):
            function(eps, Setting(100, 10, 1.0))
    # The delta of one round would be far too small for two.
    with pytest.raises(InputError, match="rounds=2"):
        function(0.1, Setting(100, 10, 1.0, rounds=2))


# --- The sharper `upper` at k = 3, against the law of the view with one hidden user ---------------


def log_reduction(eps, setting, *, forward):
    shares = tilted_shares(pairs.weak_adversary(setting).weighted_sum(eps))
    return hidden_user.log_reduction(eps, setting, shares, forward=forward)


@pytest.mark.parametrize("n", [2, 3, 4, 6])
@pytest.mark.parametrize(("E", "e"), exact.RATIOS)
@pytest.mark.parametrize("hidden", [0, 1])
def test_loss_is_the_difference_of_the_two_views(n, E, e, hidden):
    difference = exact.upper_delta(n, 3, E, e) - exact.one_hidden_delta(hidden, n, E, e)
    loss = log_reduction(log(e), Setting(n, 3, log(E)), forward=hidden == 0)
    if difference == 0:
        assert loss == -np.inf
    else:
        # The windows hold everything here, so only rounding is subtracted.
        assert log(difference) - 2e-9 < loss < log(difference)


def test_gain_closes_a_third_of_the_interval_at_a_thousand_users():
    at = (0.159, Setting(1000, 3, 1.15))
    weak = hockey_stick(pairs.weak_adversary(at[1]), at[0]).high
    lower = krr.lower_log_delta(*at)
    assert krr.upper_log_delta(*at) - lower < 0.8 * (weak - lower)
