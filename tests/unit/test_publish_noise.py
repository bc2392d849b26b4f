"""The noise of published maps: its law, its privacy, and intervals derived from it."""

import functools
import math
from decimal import Decimal, getcontext
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from shuffledp.accounting.contributions import Contributions
from shuffledp.errors import InputError
from shuffledp.publishing import noise as noise_module
from shuffledp.publishing.estimates import estimates, joint_half_width, quality, sum_widths
from shuffledp.publishing.noise import (
    LEVEL,
    Measured,
    Noise,
    add_noise,
    guarantees,
    make_noise,
    zcdp_eps,
    zcdp_exception,
    zcdp_rho,
)
from shuffledp.publishing.statement import promise

getcontext().prec = 60

CHANCE = 1e-10
"""Probability with which a test of draws may fail although nothing is wrong."""


def as_often_as(probability, happened):
    """Return whether something happened as often as its probability says (exact binomial test)."""
    count = int(np.sum(happened))
    return stats.binomtest(count, len(happened), float(probability)).pvalue > CHANCE


def law(noise, reach):
    """Probabilities of 0, ..., reach in decimal arithmetic with 60 digits."""
    scale = Decimal(noise.scale)
    if noise.mechanism == "laplace":
        theta = (-1 / scale).exp()
        return [(1 - theta) / (1 + theta) * theta**z for z in range(reach + 1)]
    weights = [(-Decimal(z * z) / (2 * scale * scale)).exp() for z in range(reach + 1)]
    total = 2 * sum(weights) - 1
    return [weight / total for weight in weights]


LAWS = [Noise("laplace", 1.0), Noise("laplace", 3.0), Noise("gaussian", 1.3), Noise("gaussian", 5)]


def chi_square(noise, draws):
    """P-value of draws against the law, with cells of at least 20 expected draws."""
    half = np.array([float(p) for p in law(noise, math.ceil(60 * noise.scale))])
    last = int(np.flatnonzero(half * len(draws) >= 20)[-1])
    expected = np.concatenate([half[last:0:-1], half[: last + 1]]) * len(draws)
    observed = np.bincount(np.clip(draws, -last, last) + last, minlength=2 * last + 1)
    tail = len(draws) * half[last + 1 :].sum()
    expected[[0, -1]] += tail
    return stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue


@pytest.mark.parametrize("noise", LAWS, ids=str)
@pytest.mark.parametrize("number", [20_000, pytest.param(300_000, marks=pytest.mark.slow)])
def test_draws_follow_the_law(noise, number):
    draws = add_noise(np.zeros(number, np.int64), noise)
    assert chi_square(noise, draws) > CHANCE
    # As many counts are published unchanged as the law says.
    unchanged = float(law(noise, math.ceil(60 * noise.scale))[0])
    assert as_often_as(unchanged, draws == 0)


def sensitivity(contributions):
    return contributions.areas_sensitivity([1] * 100)


def together(noise, contributions, eps, delta):
    return guarantees([Measured(noise, sensitivity(contributions))], eps, delta)


def hockey_stick(noise, shift, eps):
    """Exact delta at eps when one count moves by `shift`, in decimal arithmetic."""
    reach = 40 * math.ceil(noise.scale)
    half = law(noise, reach + shift)
    factor = Decimal(eps).exp()
    return sum(max(half[abs(z)] - factor * half[abs(z - shift)], 0) for z in range(-reach, reach))


@pytest.mark.parametrize(("m", "eps"), [(1, 1.0), (3, 1.0), (2, 0.5), (5, 3.0)])
def test_laplace_noise_is_as_private_as_promised_and_no_more(m, eps):
    contributions = Contributions("user", m)
    noise = make_noise(sensitivity(contributions), "laplace", eps, 0.0)
    promised, replaced = together(noise, contributions, eps, 0.0)
    assert (promised.eps, promised.delta, promised.rho) == (eps, 0.0, None)
    assert replaced.eps == 2 * eps
    # The ratio of probabilities in one cell that moves by m is the loss for every way to move.
    assert hockey_stick(noise, m, eps) < Decimal("1e-20")
    assert hockey_stick(noise, m, 0.999 * eps) > Decimal("1e-6")


@pytest.mark.parametrize(("eps", "exponent"), [(1.0, 6), (0.3, 5), (4.0, 9)])
@pytest.mark.parametrize("m", [1, 3])
def test_gaussian_noise_is_as_private_as_promised(m, eps, exponent):
    contributions, bound = Contributions("user", m), 10.0**-exponent
    noise = make_noise(sensitivity(contributions), "gaussian", eps, bound)
    promised, replaced = together(noise, contributions, eps, bound)
    assert hockey_stick(noise, m, eps) <= Decimal(bound)
    assert promised.rho == pytest.approx(m**2 / (2 * noise.scale**2))
    assert replaced.rho == pytest.approx(2 * promised.rho)
    assert eps < replaced.eps < 2 * eps
    # The conversion from zCDP is not more than 25 % too careful.
    assert hockey_stick(Noise("gaussian", noise.scale / 1.25), m, eps) > Decimal(bound)


@pytest.mark.parametrize("rho", [1e-6, 1e-3, 0.02, 0.5, 10.0])
@pytest.mark.parametrize("exponent", [3, 6, 12])
def test_zcdp_converts_to_at_most_the_simple_formula_and_at_least_the_gaussian_curve(rho, exponent):
    bound = 10.0**-exponent
    eps = zcdp_eps(rho, bound)
    assert eps <= rho + 2 * math.sqrt(rho * math.log(1 / bound))
    # Noise N(0, 1) on a count that moves by sqrt(2 rho) is exactly rho-zCDP.
    mu = math.sqrt(2 * rho)
    exact = stats.norm.sf(eps / mu - mu / 2) - math.exp(eps) * stats.norm.sf(eps / mu + mu / 2)
    assert exact <= bound
    if eps > 1e-3:
        assert zcdp_rho(eps, bound) == pytest.approx(rho, rel=1e-6)
        assert zcdp_eps(zcdp_rho(eps, bound), bound) <= eps


def test_nothing_is_published_if_two_accountants_disagree(monkeypatch):
    contributions = Contributions("user", 2)
    original = noise_module._measurement
    monkeypatch.setattr(
        noise_module,
        "_measurement",
        lambda noise: original(Noise(noise.mechanism, noise.scale * 1.1)),
    )
    for name, bound in [("laplace", 0.0), ("gaussian", 1e-6)]:
        noise = make_noise(sensitivity(contributions), name, 1.0, bound)
        with pytest.raises(ArithmeticError, match="our accountant"):
            together(noise, contributions, 1.0, bound)


@pytest.mark.parametrize("eps", [1e-3, 1.0, 30.0, 1_000.0])
@pytest.mark.parametrize("bound", [0.0, 1e-100, 1e-9, 0.1])
def test_two_accountants_agree_wherever_noise_may_be_drawn(eps, bound):
    mechanism = "gaussian" if bound else "laplace"
    noise = make_noise(sensitivity(Contributions("record")), mechanism, eps, bound)
    promised, replaced = together(noise, Contributions("record"), eps, bound)
    assert promised.eps == eps < replaced.eps


def test_less_noise_than_promised_is_a_defect():
    contributions = Contributions("record")
    with pytest.raises(ArithmeticError, match="defect"):
        together(Noise("laplace", 0.5), contributions, 1.0, 0.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("laplace", 0.0, 0.0), "eps must be positive"),
        (("laplace", math.inf, 0.0), "eps must be positive and at most 1000"),
        (("laplace", math.nan, 0.0), "eps must be positive"),
        (("laplace", 1e-9, 0.0), "give a larger eps"),
        (("laplace", 1.0, 1e-6), "give --mechanism gaussian"),
        (("gaussian", 1.0, 0.0), "delta must be from 1e-100 to 0.1"),
        (("gaussian", 1.0, 0.99), "well below one over the number of people"),
        (("laplace", 1e6, 0.0), "at most 1000"),
    ],
)
def test_noise_that_promises_nothing_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        make_noise(sensitivity(Contributions("record")), *arguments)


# --- Intervals ------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [*LAWS, Noise("laplace", 0.1), Noise("gaussian", 40.0)], ids=str)
@pytest.mark.parametrize("miss", [0.5, 0.05, 1e-4, 1e-8])
def test_half_widths_are_the_smallest_that_cover(noise, miss):
    width = noise.half_width(miss)
    half = law(noise, math.ceil(60 * noise.scale))
    covered = 2 * sum(half[: width + 1]) - half[0]
    assert covered >= 1 - Decimal(miss)
    if width:
        assert covered - 2 * half[width] < 1 - Decimal(miss)


def coverage(noise, half_width):
    """Return the probability that the noise is at most `half_width` in absolute value."""
    z = np.arange(max(half_width, math.ceil(60 * noise.scale)) + 1.0)
    half = np.exp(noise.log_weight(z)) / np.where(z == 0.0, 2.0, 1.0)
    return 1.0 - half[half_width + 1 :][::-1].sum() / half[::-1].sum()


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_no_interval_covers_less_than_95_percent(mechanism):
    for scale in np.geomspace(0.02, 3_000.0, 40):
        noise = Noise(mechanism, float(scale))
        assert coverage(noise, noise.half_width(1.0 - LEVEL)) >= 0.95 - 1e-12
        for counts in (1, 40, 1_000_000):
            joint = joint_half_width(noise, counts)
            assert counts * math.log(coverage(noise, joint)) >= math.log(0.95) - 1e-6


@pytest.mark.parametrize("noise", [Noise("laplace", 2.0), Noise("gaussian", 3.0)], ids=str)
def test_intervals_cover_as_often_as_the_law_says(noise):
    counts = np.repeat([0, 1, 5, 100], 10_000)
    table = estimates(add_noise(counts, noise), noise)
    exact = coverage(noise, noise.half_width(1.0 - LEVEL))
    covered = (table["low"] <= counts) & (counts <= table["high"])
    # No end is below 0, so that noise which is too low leaves a count of 0 covered.
    for count, probability in [(0, (1 + exact) / 2), (1, exact), (5, exact), (100, exact)]:
        assert as_often_as(probability, covered[counts == count])


@pytest.mark.parametrize("noise", [Noise("laplace", 1.5), Noise("gaussian", 2.0)], ids=str)
@pytest.mark.parametrize("cells", [2, 7, 30])
def test_the_interval_of_a_sum_is_that_of_the_convolved_law(noise, cells):
    half = np.array([float(p) for p in law(noise, 120)])
    of_sum = functools.reduce(np.convolve, [np.concatenate([half[:0:-1], half])] * cells)
    middle = of_sum.size // 2
    covered = [of_sum[middle - q : middle + q + 1].sum() for q in range(60)]
    assert noise.sum_half_width(cells, 0.05) == int(np.argmax(np.array(covered) >= 0.95))
    assert noise.sum_half_width(1, 0.05) == noise.half_width(0.05)


@pytest.mark.parametrize("scale", [100.0, 5_000.0])
def test_intervals_of_sums_of_large_noise_are_rounded_up_a_little(scale):
    wide = Noise("laplace", scale).sum_half_width(1, 0.05)
    exact = Noise("laplace", scale).half_width(0.05)
    assert exact <= wide <= 1.03 * exact


def test_every_number_of_cells_has_a_valid_half_width():
    noise = Noise("laplace", 1.0)
    pairs = sum_widths(noise, 3_000)
    numbers, widths = zip(*pairs, strict=True)
    assert numbers[:10] == tuple(range(1, 11))
    assert numbers[-1] >= 3_000
    assert list(widths) == sorted(widths)
    assert max(b / a for a, b in pairwise(numbers[10:])) <= 1.1
    # Far from the tail the sum is nearly normal.
    assert widths[-1] == pytest.approx(1.96 * noise.sd * math.sqrt(numbers[-1]), rel=0.01)


# --- Quality -----------------------------------------------------------------------------------


def test_a_map_of_large_counts_is_not_mostly_noise():
    noise, order = Noise("laplace", 1.0), np.arange(64)
    assert not quality(*[np.full((1, 64), 100)] * 2, noise, order).mostly_noise
    sparse = quality(*[np.full((1, 64), 3)] * 2, noise, order)
    assert sparse.mostly_noise
    assert sparse.eps_factor == pytest.approx(6 / 3)
    assert sparse.cells_factor == 4  # 4 cells hold 12 records, and their interval is 12 wide
    # A map on which most cells are empty, but most records are where counts are large.
    concentrated = np.zeros((1, 64), np.int64)
    concentrated[0, :4] = [900, 700, 3, 2]
    assert quality(concentrated, concentrated, noise, order).share == pytest.approx(1600 / 1605)
    empty = quality(*[np.zeros((2, 64), np.int64)] * 2, noise, order)
    assert (empty.mostly_noise, empty.eps_factor, empty.cells_factor) == (True, None, None)


def chance_of_a_larger_change(noise, records, eps):
    """Probability that a map changes the odds by more than e^eps, if a user has these records.

    The loss is the sum of ``v (2 z + v) / (2 scale^2)`` over cells with v records and noise z.
    """
    half = np.array([float(p) for p in law(noise, math.ceil(12 * noise.scale))])
    cell = np.concatenate([half[:0:-1], half])
    probability, reach = np.ones(1), 0
    for v in records:  # law of the sum of v z
        spread = np.zeros(v * (cell.size - 1) + 1)
        spread[::v] = cell
        probability = np.convolve(probability, spread)
        reach += v * (cell.size // 2)
    sums = np.arange(-reach, reach + 1)
    losses = (2 * sums + sum(v * v for v in records)) / (2 * noise.scale**2)
    return float(probability[np.abs(losses) > eps].sum())


@pytest.mark.parametrize("eps", [0.1, 1.0, 2.0])
@pytest.mark.parametrize("delta", [1e-2, 1e-6])
def test_a_statement_bounds_how_often_the_odds_change_by_more(eps, delta):
    """Delta does not: a loss above eps is several times as likely as delta says."""
    contributions = Contributions("user", 3)
    noise = make_noise(sensitivity(contributions), "gaussian", eps, delta)
    promised, _ = together(noise, contributions, eps, delta)
    guarantee = {"eps": promised.eps, "delta": promised.delta, "rho": promised.rho}
    sentence, definition = promise({"guarantee": guarantee, "unit": {"protected": "user"}})
    said = float(sentence.rpartition(" ")[2].rstrip("."))
    truth = max(chance_of_a_larger_change(noise, v, eps) for v in [(3,), (2, 1), (1, 1, 1)])
    assert truth < said < 100 * truth
    assert truth > delta
    assert f"plus {delta:g}" in definition


def test_without_a_bound_on_the_odds_the_statement_says_so():
    assert zcdp_exception(rho=2.0, eps=1.0) == 1.0
    assert 0.0 < zcdp_exception(rho=1e-5, eps=1.0) < 1e-300


def test_one_large_noise_does_not_make_an_empty_map_more_than_noise():
    noise = Noise("laplace", 500.0)
    order, spike = np.arange(400), np.zeros((1, 400), np.int64)
    spike[0, 7] = 3_600  # wider than an interval, as happens in one of six maps
    assert quality(spike, spike, noise, order).mostly_noise
    spike[0, 7] = 36_000
    assert not quality(spike, spike, noise, order).mostly_noise
    many = np.full((1, 400), 3_100)
    assert not quality(many, many, noise, order).mostly_noise
