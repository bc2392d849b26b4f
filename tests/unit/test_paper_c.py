"""Recomputed figures of paper C, against enumeration and hand-written formulas."""

from itertools import product
from math import comb, exp

import numpy as np
import pytest

from shuffledp.accounting import pairs
from shuffledp.accounting.krr import lower_log_delta, upper_log_delta
from shuffledp.accounting.rounds.privacy_loss import default_step
from shuffledp.accounting.setting import Setting
from shuffledp.papers import paper_c
from shuffledp.papers.figure_specs import end_of_profile
from shuffledp.papers.paper_c import (
    histogram_profile,
    printed_pair_profile,
    strong_adversary_profile,
    weak_adversary_profile,
)


def hockey_stick(laws, eps):
    return sum(max(p - exp(eps) * q, 0.0) for p, q in laws)


def composed(laws, rounds, eps):
    """Return the hockey-stick divergence of independent rounds by enumeration."""
    rows = product(laws, repeat=rounds)
    return hockey_stick([np.prod(row, axis=0) for row in rows], eps)


def trinomial(n, q, a, b):
    if min(a, b, n - a - b) < 0:
        return 0.0
    return comb(n, a) * comb(n - a, b) * q ** (a + b) * (1 - 2 * q) ** (n - a - b)


def strong_view(eps0, n, k):
    """Enumerate the strong adversary's views: the counts, and whether the target randomised."""
    q = 1 / (exp(eps0) + k - 1)
    gamma = k * q
    truth = [
        tuple((1 - gamma) * trinomial(n - 1, q, *seen) for seen in ((a - 1, b), (a, b - 1)))
        for a in range(n + 1)
        for b in range(n + 1 - a)
    ]
    return [*truth, (gamma, gamma)]


@pytest.mark.parametrize("rounds", [1, 2])
def test_strong_adversary_against_enumeration(rounds):
    setting = Setting(4, 3, 1.1, rounds)
    seen, log_delta = strong_view(1.1, 4, 3), strong_adversary_profile(setting)
    for eps in (0.05, 0.4, 1.0):
        delta = exp(log_delta(eps))
        assert composed(seen, rounds, eps) * (1 - 1e-9) <= delta
        # Each round moves by at most one step of either grid.
        step = default_step(pairs.strong_adversary(setting))
        displaced = rounds * (2 * paper_c.HALF_WIDTH / paper_c.N_GRID + step)
        assert delta <= composed(seen, rounds, max(eps - displaced, 0.0)) + 1e-9


def test_printed_pairs_are_no_guarantee():
    """In figures 3 (b) and 1 they lie below the leak of the histogram of some data set."""
    setting = paper_c.setting_of_gamma(10_000, 5, 0.1)
    wrong_log_delta = printed_pair_profile(setting, "strong")
    strong = strong_adversary_profile(setting)
    for delta in (1e-7, 1e-4, 1e-2):
        wrong = end_of_profile(wrong_log_delta, delta, 8.0)
        assert wrong < 0.9 * end_of_profile(histogram_profile(setting), delta, 8.0)
        assert wrong < 0.8 * end_of_profile(strong, delta, 8.0)
    # In figure 1 only the weak pair does: the strong one is for a stronger adversary.
    setting = paper_c.setting_of_gamma(1000, 4, 0.25)
    for delta in (1e-7, 1e-3):
        least = end_of_profile(histogram_profile(setting), delta, 4.0)
        assert end_of_profile(printed_pair_profile(setting, "weak"), delta, 4.0) < 0.9 * least
        both = end_of_profile(printed_pair_profile(setting, "strong"), delta, 4.0)
        assert least < both < 0.88 * end_of_profile(strong_adversary_profile(setting), delta, 4.0)


def test_bounds_are_in_order():
    """Histogram <= weak <= strong, and Algorithm 1 encloses the weak adversary."""
    for rounds in (1, 4):
        setting = paper_c.setting_of_gamma(300, 4, 0.25, rounds)
        strong = strong_adversary_profile(setting)
        bounds = paper_c.fourier_on_grid(pairs.weak_adversary(setting), rounds)
        for eps in (0.3, 0.9, 1.5):
            weak, around = weak_adversary_profile(setting)(eps), bounds.log_delta(eps)
            assert around.low <= weak <= around.high
            assert around.high - around.low < 0.03
            assert histogram_profile(setting)(eps) <= weak + 1e-9
            assert weak < strong(eps)


# --- The clones pair ------------------------------------------------------------------------------


def clones_pairs(eps0, n, *, printed):
    """Enumerate the clones pair, or eq. (6.1) as printed."""
    p, q = exp(-eps0), exp(eps0) / (exp(eps0) + 1)
    first, second = {}, {}
    for c in range(n):
        for a in range(c + 1):
            base = comb(n - 1, c) * p**c * (1 - p) ** (n - 1 - c) * comb(c, a) / 2**c
            other = (0, 0) if printed else (0, 1)
            for law, seen, hidden in ((first, (1, 0), other), (second, (0, 1), other[::-1])):
                for step, share in ((seen, q), (hidden, 1 - q)):
                    key = (a + step[0], c - a + step[1])
                    law[key] = law.get(key, 0.0) + share * base
    return [(first.get(x, 0.0), second.get(x, 0.0)) for x in set(first) | set(second)]


@pytest.mark.parametrize("rounds", [1, 2])
def test_clones_pair_against_enumeration(rounds):
    laws = clones_pairs(1.2, 5, printed=False)
    for eps in (0.1, 0.5, 1.0):
        truth = composed(laws, rounds, eps)
        value = exp(paper_c.clones_profile(Setting(5, 2, 1.2, rounds))(eps))
        assert truth * (1 - 1e-9) <= value <= 1.02 * truth


def test_printed_clones_pair_against_enumeration():
    laws = clones_pairs(1.2, 5, printed=True)
    loss = paper_c.printed_clones_loss(Setting(5, 2, 1.2))
    assert loss.masses.sum() + loss.infinite == pytest.approx(1.0, abs=1e-12)
    for eps in (0.0, 0.3, 0.9, 2.0):
        weights = np.maximum(-np.expm1(eps - loss.losses), 0.0)
        value = loss.infinite + weights @ loss.masses
        assert value == pytest.approx(hockey_stick(laws, eps), rel=1e-10)
        # The pair is symmetric.
        mirrored = hockey_stick([(q, p) for p, q in laws], eps)
        assert value == pytest.approx(mirrored, rel=1e-10)


def test_advanced_composition_by_hand():
    """The bound is a minimum over the eps of a round, so any such eps gives no less."""

    def step(eps):
        return -200.0 * np.asarray(eps)

    eps, rounds = np.array([3.0]), 8
    value = exp(paper_c.advanced(step, eps, rounds)[0])
    for one in (0.1, 0.2, 0.3):
        slack = exp(-0.5 * ((3.0 - rounds * one * (exp(one) - 1)) / one) ** 2 / rounds)
        assert value <= (slack + rounds * exp(-200.0 * one)) * (1 + 1e-9)
    assert value > 1e-30
    assert paper_c.advanced(step, eps, 1) == pytest.approx([-600.0])


def test_more_cells_hide_better_from_the_weak_adversary():
    """Figure 10: the strong adversary's eps grows with k, the weak one's falls."""
    n, eps0, delta = 10_000, 4.0, 1e-6
    strong, weak = (
        [end_of_profile(profile(Setting(n, k, eps0)), delta, 4.0) for k in (2, 4, 16)]
        for profile in (strong_adversary_profile, weak_adversary_profile)
    )
    assert strong == sorted(strong)
    assert weak == sorted(weak, reverse=True)
    # Certified for every data set: 16 cells leak less than 4.
    assert (
        upper_log_delta(0.3, Setting(n, 16, eps0)) < lower_log_delta(0.3, Setting(n, 4, eps0)) - 1.0
    )
