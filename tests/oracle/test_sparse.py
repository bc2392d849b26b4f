"""Ways to count sparse cells, against enumeration in rationals and against simulation."""

from fractions import Fraction
from math import comb, exp, expm1, log, sqrt

import numpy as np
import pytest
from scipy.stats import binom

from oracle.exact import hockey_stick
from shuffledp import compare_sparse
from shuffledp.accounting.additive import GeometricNoise
from shuffledp.accounting.sample_threshold import log_addition, log_removal, sampled_curve
from shuffledp.errors import InputError
from shuffledp.mechanisms.sparse import (
    CuratorThreshold,
    HashedDummies,
    SampleThreshold,
    sparse_ways,
)

N, K, EPS, LOG_DELTA = 18_201, 10**6, 1.0, log(1e-12)


@pytest.fixture(scope="module")
def ways():
    return sparse_ways(EPS, LOG_DELTA, N, K)


def law(records, rate, threshold):
    """Return the probabilities of the counts that are shown; those of hidden ones are added up."""
    found = {}
    for count in range(records + 1):
        mass = comb(records, count) * rate**count * (1 - rate) ** (records - count)
        shown = count if count >= threshold else "hidden"
        found[shown] = found.get(shown, 0) + mass
    return found


def both(one, other):
    return {(a, b): p * q for a, p in one.items() for b, q in other.items()}


@pytest.mark.parametrize("seed", range(30))
def test_delta_of_sampling_is_never_below_that_of_any_cells(seed):
    random = np.random.default_rng(seed)
    n, rate = int(random.integers(1, 9)), float(random.random())
    threshold, eps = int(random.integers(1, n + 2)), float(4 * random.random() ** 2)
    laws = [law(records, Fraction(rate), threshold) for records in range(n + 1)]
    factor = Fraction(exp(eps))
    removal = max(hockey_stick(laws[a], laws[a - 1], factor) for a in range(1, n + 1))
    addition = max(hockey_stick(laws[a - 1], laws[a], factor) for a in range(1, n + 1))
    replacement = max(
        hockey_stick(both(laws[a], laws[b - 1]), both(laws[a - 1], laws[b]), factor)
        for a in range(1, n + 1)
        for b in range(1, n - a + 2)
    )
    for found, truth in (
        (log_removal(eps, n, rate, threshold), removal),
        (log_addition(eps, n, rate, threshold), addition),
    ):
        # exp(eps) has an error of half a unit of rounding.
        assert exp(found) >= truth * (1 - Fraction(1e-14))
        assert exp(found) <= float(truth) * (1 + 1e-6) + 1e-13
    certified = exp(sampled_curve(n, rate, threshold).upper(eps))
    assert certified >= replacement
    assert certified <= 2 * float(replacement) + 1e-9


def test_no_number_of_records_has_more_delta_than_those_that_are_tried():
    """The proof that delta grows up to a number of records, and falls from the next ones on."""
    random = np.random.default_rng(7)
    for _ in range(300):
        n, rate = int(10 ** random.uniform(1, 3.5)), random.uniform(0.02, 0.98)
        threshold, eps = int(n ** random.random()), 10 ** random.uniform(-2, 0.7)
        a = np.arange(threshold, n + 1)
        c, d = -expm1(-eps) + rate * exp(-eps), -expm1(eps) + rate * exp(eps)
        first = np.maximum(threshold, np.floor(a * c) + 1)
        removals = binom.sf(first - 1, a, rate) - exp(eps) * binom.sf(first - 1, a - 1, rate)
        last = np.maximum(threshold, np.ceil(a * d)) - 1
        additions = binom.cdf(last, a - 1, rate) - exp(eps) * binom.cdf(last, a, rate)
        assert exp(log_removal(eps, n, rate, threshold)) >= removals.max() - 1e-11
        assert exp(log_addition(eps, n, rate, threshold)) >= additions.max() - 1e-11


def test_several_rounds_of_sampling_compose():
    one, ten = (sampled_curve(1000, 0.3, 40, rounds).epsilon(log(1e-6)).upper for rounds in (1, 10))
    assert one < ten < 10 * one


def test_each_way_keeps_the_target(ways):
    servers, shuffler, hashed, sampled, curator = ways
    for way in (servers, shuffler):
        assert way.calibrated.noise().curve().upper(EPS) <= LOG_DELTA
    assert exp(hashed.noise.curve().upper(EPS / 2)) * 2 <= exp(LOG_DELTA) * (1 + 1e-9)
    assert sampled_curve(N, sampled.rate, sampled.threshold).upper(EPS) <= LOG_DELTA
    # A smaller threshold shows a removal with more than delta; an addition only adds to it.
    assert log_removal(EPS, N, sampled.rate, sampled.threshold - 2) > LOG_DELTA
    # One person alone in a cell is shown with at most delta.
    assert curator.shown(1) <= exp(LOG_DELTA)


def noise_of(way, size, random):
    theta = exp(-way.eps / 2)
    return random.geometric(1 - theta, size) - random.geometric(1 - theta, size)


def drawn(way, records, size, random):
    """Draw the count of a cell, 0 if it is hidden, as the protocol does."""
    match way:
        case SampleThreshold():
            counts = random.binomial(records, way.rate, size)
            return np.where(counts >= way.threshold, counts / way.rate, 0.0)
        case CuratorThreshold():
            noisy = records + noise_of(way, size, random)
            return np.where((records > 0) & (noisy >= way.threshold), noisy, 0)
        case HashedDummies():
            opened = records + noise_of(way, size, random) >= way.threshold
            return np.where(opened, records + noise_of(way, size, random), 0)


@pytest.mark.parametrize("number", [2, 3, 4])
@pytest.mark.parametrize("records", [0, 3, 30, 80, 400])
def test_errors_are_those_of_drawn_counts(ways, number, records):
    way = ways[number]
    counts = drawn(way, records, 200_000, np.random.default_rng(records))
    if not isinstance(way, HashedDummies):  # its counts may be 0 where they are shown
        assert np.mean(counts != 0) == pytest.approx(way.shown(records), abs=0.006)
    squares = (counts - records) ** 2.0
    allowed = 6 * squares.std() / sqrt(squares.size) + 1e-3 * (records + 1) ** 2
    assert squares.mean() == pytest.approx(way.error(records) ** 2, abs=allowed)


def test_the_dummies_of_two_stages_are_enough_for_any_counts(ways):
    """Buckets of hashed cells are opened as the bound says, or less often."""
    way = ways[2]
    random = np.random.default_rng(3)
    opened = []
    for skew in (0.0, 0.5, 1.0, 1.5):
        weights = np.arange(1.0, K + 1) ** -skew
        cells = random.multinomial(N, weights / weights.sum())
        buckets = np.bincount(
            random.integers(way.buckets, size=K), weights=cells, minlength=way.buckets
        )
        opened.append(np.mean(buckets + noise_of(way, way.buckets, random) >= way.threshold))
    mean = way.noise.mean
    total = [mean * way.buckets + share * K * mean for share in opened]
    assert max(total) <= way.dummies(N, K) * 1.01
    # Other numbers of buckets need more of them.
    for factor in (0.5, 2.0):
        other = HashedDummies(way.eps, way.nu, int(factor * way.buckets), way.threshold)
        assert other.dummies(N, K) > way.dummies(N, K)


def test_noise_is_the_only_error_of_a_cell_that_is_surely_shown(ways):
    for way in ways[2:]:
        noise = {
            HashedDummies: sqrt(GeometricNoise(EPS / 2).variance),
            CuratorThreshold: sqrt(GeometricNoise(EPS).variance),
        }.get(type(way), sqrt(1000 * (1 - 0.3) / 0.3))
        assert way.error(1000) == pytest.approx(noise, rel=1e-4)
        assert way.shown(way.shown_from) >= 0.95 > way.shown(way.shown_from - 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0, 1e-6, 1000, 100), "eps must be positive"),
        ((30.0, 1e-6, 1000, 100), "at most 20"),
        ((1.0, 1.0, 1000, 100), "delta below 1"),
        ((1.0, 1e-6, 1000, 1), "k must be an integer"),
        ((1.0, 1e-6, 20, 100), "too few for a threshold"),
    ],
)
def test_what_cannot_be_compared_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        compare_sparse(*arguments)
