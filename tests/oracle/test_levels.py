"""Levels of a published map against dense algebra, enumeration of noise, and all neighbours."""

from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import exp

import numpy as np
import pytest
import scipy
from effort import long

from shuffledp.accounting.contributions import Contributions
from shuffledp.publishing.chains import Chain, Pairs, divided, whole_table
from shuffledp.publishing.levels import Axis, Level, flows, measure
from shuffledp.publishing.noise import Measured, Noise, Part, guarantees, half_width


def random_groups(random, leaves=None):
    """Return nested groups of up to four levels, irregular, with single children."""
    leaves = leaves or int(random.integers(1, 13))
    groups = [np.arange(leaves)]
    for _ in range(random.integers(0, 4)):
        size = int(groups[-1].max()) + 1
        labels = random.integers(0, max(1, size // 2) + random.integers(0, 2), size)
        groups.append(np.unique(labels, return_inverse=True)[1][groups[-1]])
    return groups


def sums_matrix(groups):
    return [np.eye(int(group.max()) + 1)[:, group] for group in groups]


def dense_estimator(groups, weights):
    """Return the least-squares estimator of the leaves by the normal equations."""
    A = np.vstack(sums_matrix(groups))
    W = np.concatenate(
        [np.full(int(group.max()) + 1, w) for group, w in zip(groups, weights, strict=True)]
    )
    return np.linalg.solve(A.T * W @ A, A.T * W)


@pytest.mark.parametrize("trees", [100, long(10_000)])
def test_estimates_of_random_trees_are_those_of_dense_least_squares(trees):
    random = np.random.default_rng(1)
    for _ in range(trees):
        groups = random_groups(random)
        weights = random.uniform(0.1, 3.0, len(groups))
        chain, S, A = Chain(tuple(groups), tuple(weights)), dense_estimator(groups, weights), None
        A = np.vstack(sums_matrix(groups))
        ends = np.cumsum([int(group.max()) + 1 for group in groups])[:-1]
        noisy = random.normal(size=(len(A), 2))
        assert np.allclose(chain.solve(np.split(noisy, ends)), S @ noisy)
        truth = random.integers(0, 50, len(groups[0])).astype(float)
        assert np.allclose(chain.solve(np.split(A @ truth, ends)), truth)  # unbiased
        target = random.normal(size=len(groups[0]))
        assert np.allclose(np.concatenate(chain.influence(target)), S.T @ target)
        covariance = S / np.repeat(weights, [len(each) for each in sums_matrix(groups)]) @ S.T
        for level, matrix in enumerate(sums_matrix(groups)):
            variances = np.diag(matrix @ covariance @ matrix.T)
            assert np.allclose(chain.variances[level], variances)
            labels, first = chain.classes[level]
            assert np.allclose(variances, variances[first[labels]])
            law = [np.sort(abs(row)) for row in matrix @ S]
            assert np.allclose(law, [law[first[label]] for label in labels])
        whole = chain.whole_numbers(truth + random.normal(0, 5, len(truth)))
        assert whole.min() >= 0
        assert whole.dtype == np.int64


@pytest.mark.parametrize("pairs", [40, long(2_000)])
def test_estimates_of_trips_are_those_of_dense_least_squares(pairs):
    """All levels of two trees together, also where some levels are not measured."""
    random = np.random.default_rng(4)
    for _ in range(pairs):
        sides, weights = [random_groups(random, 4), random_groups(random)], []
        for groups in sides:
            drawn = random.uniform(0.1, 3.0, len(groups))
            weights.append(
                np.where((random.random(len(groups)) < 0.3) & (drawn != drawn[0]), 0, drawn)
            )
        both = Pairs(*(Chain(tuple(g), tuple(w)) for g, w in zip(sides, weights, strict=True)))
        parts = [np.kron(a, b) for a, b in product(*map(sums_matrix, sides))]
        levels = [a * b for a, b in product(*weights)]
        A = np.vstack(parts)
        W = np.concatenate([np.full(len(a), w) for a, w in zip(parts, levels, strict=True)])
        S = np.linalg.solve(A.T * W @ A, A.T * W)
        ends = np.cumsum([len(each) for each in parts])[:-1]
        noisy = random.normal(size=(len(A), 2))
        assert np.allclose(both.solve(np.split(noisy, ends)), S @ noisy)
        target = random.normal(size=A.shape[1])
        assert np.allclose(np.concatenate(both.influence(target)), S.T @ target)
        values = random.normal(size=(A.shape[1], 2))
        for level, matrix in enumerate(parts):
            assert np.allclose(both.sums(level, values), matrix @ values)
            assert np.array_equal(both.sizes[level], matrix.sum(axis=1))
            labels, first = both.classes[level]
            law = [np.sort(abs(row)) for row in matrix @ S]
            assert np.allclose(law, [law[first[label]] for label in labels])
            group = int(random.integers(len(matrix)))
            used = np.concatenate(
                [np.repeat(value, times.astype(int)) for value, times in
                 both.distinct_influence(level, group)]
            )  # fmt: skip
            row = matrix[group] @ S
            assert np.allclose(np.sort(used), np.sort(abs(row[row != 0])), atol=1e-9)
        whole = both.whole_numbers(random.normal(3, 5, A.shape[1]))
        assert whole.min() >= 0
        assert whole.dtype == np.int64


def test_whole_numbers_keep_the_sums_and_are_the_closest():
    chain = Chain((np.arange(4), np.array([0, 0, 1, 1])), (1.0, 1.0))
    assert chain.whole_numbers(np.array([-3.0, 5.2, 2.4, 2.4])).tolist() == [0, 2, 3, 2]
    times = Chain((np.arange(3), np.zeros(3, int)), (1.0, 1.0))
    estimates = np.array([[1.0, -1.0], [2.0, 4.0], [0.2, 1.2]])
    table = divided(times, estimates, np.array([[3, 4]]))
    assert table.sum(axis=0).tolist() == [3, 4]
    assert table.tolist() == [[1, 0], [2, 3], [0, 1]]


def axes(time_groups, area_groups, time_shares, area_shares):
    def axis(groups, shares):
        levels = [
            Level(str(i), group, tuple(map(str, range(int(group.max()) + 1))), ())
            for i, group in enumerate(groups)
        ]
        return Axis(tuple(levels), tuple(shares))

    return axis(time_groups, time_shares), axis(area_groups, area_shares)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_two_axes_are_solved_as_all_histograms_together(mechanism):
    """The estimator of cells and windows is the dense one for weights that are products."""
    random = np.random.default_rng(2)
    times = [np.arange(4), np.array([0, 0, 0, 1])]
    areas = [np.arange(5), np.array([0, 0, 1, 1, 2]), np.zeros(5, int)]
    parts = axes(times, areas, ("0.7", "0.3"), ("0.6", "0.3", "0.1"))
    parts = [Axis(a.levels, tuple(map(Fraction, a.shares))) for a in parts]
    delta = 0.0 if mechanism == "laplace" else 1e-6
    found = measure(*parts, Contributions("record"), mechanism, 1.0, delta)
    rows, weights, noisy, flat = [], [], {}, []
    for (t, s), _ in found.measured.items():
        matrix = np.kron(sums_matrix(times)[t], sums_matrix(areas)[s])
        drawn = random.normal(0, 9, len(matrix))
        rows.append(matrix)
        flat.append(drawn)
        by_time, by_area = found.chains
        weights.append(np.full(len(matrix), by_time.weights[t] * by_area.weights[s]))
        noisy[t, s] = drawn.reshape(int(times[t].max()) + 1, -1)
    A, W = np.vstack(rows), np.concatenate(weights)
    S = np.linalg.solve(A.T * W @ A, A.T * W)
    assert np.allclose(found.estimate(noisy).ravel(), S @ np.concatenate(flat), atol=1e-6)
    of_time, of_area = np.array([1.0, 0, -1, 0]), np.array([1.0, 1, 0, 0, 0])
    expected = (S.T @ np.kron(of_time, of_area)) ** 2
    deviations = np.concatenate(
        [np.full(len(each), found.measured[at].noise.sd) for at, each in
         zip(found.measured, flat, strict=True)]
    )  # fmt: skip
    variance = sum(part.variance for part in found.noises(of_time, of_area))
    assert variance == pytest.approx((expected * deviations**2).sum())
    whole = found.whole_numbers(np.abs(random.normal(0, 9, (4, 5))))
    assert whole.shape == (4, 5)
    assert whole.min() >= 0


def exact_tail(weights, scale, grid, half):
    """Return P(|sum| > half) for discrete Laplace noise times multiples of 1 / grid."""
    theta, reach = exp(-1.0 / scale), 60
    z = np.arange(-reach, reach + 1)
    law = (1 - theta) / (1 + theta) * theta ** abs(z)
    total = np.ones(1)
    for weight in weights:
        step = round(weight * grid)
        spread = np.zeros(2 * reach * step + 1)
        spread[:: step or 1] = law if step else 0.0
        total = np.convolve(total, spread)
    at = (np.arange(total.size) - total.size // 2) / grid
    return float(total[abs(at) > half + 1e-9].sum()), at, total


@pytest.mark.parametrize("scale", [0.2, 0.5, 1.25, 3.0])
@pytest.mark.parametrize(
    "weights", [(1.0,), (0.75, 0.25), (0.5, 0.25, 0.125), (0.95, *(0.05,) * 9), (0.1,) * 10]
)
def test_intervals_cover_by_enumeration_and_are_hardly_wider_than_needed(scale, weights):
    part = Part(Noise("laplace", scale), np.array(weights), np.ones(len(weights)))
    for miss in (0.05, 1e-4):
        width = half_width([part], miss)
        tail, at, law = exact_tail(weights, scale, 40, width)
        assert tail <= miss
        order = np.argsort(abs(at), kind="stable")
        beyond = 1.0 - np.cumsum(law[order])
        smallest = abs(at[order][np.argmax(beyond <= miss)])
        assert width <= 1.05 * smallest + 0.004


def test_intervals_of_gaussian_noise_cover_by_enumeration():
    noise = Noise("gaussian", 0.8)
    z = np.arange(-20, 21)
    law = np.exp(-0.5 * (z / 0.8) ** 2)
    law /= law.sum()
    width = half_width([Part(noise, np.array([0.5, 0.25]), np.array([1.0, 2.0]))], 0.05)
    sums = [
        (0.5 * a + 0.25 * (b + c), law[a + 20] * law[b + 20] * law[c + 20])
        for a, b, c in product(z, repeat=3)
    ]
    assert sum(p for value, p in sums if abs(value) > width + 1e-9) <= 0.05


def changes(leaves, m, distinct, per_window=False, windows=1):
    """Yield every change of the counts of a user who has at most m records, as an array."""
    cells = leaves // windows
    in_one = [[]] + [list(each) for size in range(1, m + 1)
                     for each in combinations_with_replacement(range(leaves), size)]  # fmt: skip
    if per_window:
        of_window = [each for each in in_one if all(leaf < cells for leaf in each)]
        in_one = [
            [leaf + cells * w for w, part in enumerate(parts) for leaf in part]
            for parts in product(of_window, repeat=windows)
        ]
    for records in in_one:
        change = np.bincount(np.array(records, dtype=int), minlength=leaves)
        if not distinct or change.max(initial=0) <= 1:
            yield change


@pytest.mark.parametrize(
    ("m", "distinct", "per_window"),
    [each for each in product([1, 2, 3, 4], [False, True], [False, True])
     if each != (4, False, True)],  # it has too many neighbours
)  # fmt: skip
def test_no_neighbour_moves_a_level_by_more_than_its_sensitivity(m, distinct, per_window):
    """And one neighbour moves it by exactly that much, with two windows, three levels of areas."""
    windows, areas = 2, [np.arange(3), np.array([0, 0, 1]), np.zeros(3, int)]
    times = [np.arange(2)] if per_window else [np.arange(2), np.zeros(2, int)]
    contributions = Contributions("user", m, distinct, windows if per_window else 1)
    users = list(changes(6, min(m, 3) if per_window else m, distinct, per_window, windows))
    parts = axes(times, areas, (0.7, 0.3)[: len(times)], (0.5, 0.3, 0.2))
    found = measure(*parts, contributions, "laplace", 1.0, 0.0)
    for (t, s), measured in found.measured.items():
        matrix = np.kron(sums_matrix(times)[t], sums_matrix(areas)[s])
        moved = np.array([matrix @ each for each in users])
        assert abs(moved).sum(axis=1).max() == measured.sensitivity.l1
        assert (moved**2).sum(axis=1).max() == measured.sensitivity.l2_squared
        if len(users) < 300:
            replaced = moved[:, None] - moved[None]
            assert abs(replaced).sum(axis=2).max() <= measured.sensitivity.replacement_l1
            assert (replaced**2).sum(axis=2).max() <= measured.sensitivity.replacement_l2_squared


@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize("m", [1, 2, 3])
def test_no_neighbour_moves_trips_by_more_than_the_sensitivity(m, distinct):
    """Trips between three cells in two windows, with departures, arrivals and their total."""
    times, ends = axes([np.arange(2)], [np.arange(3), np.array([0, 0, 1]), np.zeros(3, int)],
                       (1,), (0.7, 0.2, 0.1))  # fmt: skip
    found = measure(times, flows(ends), Contributions("user", m, distinct), "laplace", 1.0, 0.0)
    users = list(changes(18, m, distinct, per_window=False, windows=2))
    sides = sums_matrix([level.group for level in ends.levels])
    assert len(found.measured) == 9
    for (_, s), measured in found.measured.items():
        matrix = np.kron(np.eye(2), np.kron(sides[s // 3], sides[s % 3]))
        moved = np.array([matrix @ each for each in users])
        assert abs(moved).sum(axis=1).max() == measured.sensitivity.l1
        assert (moved**2).sum(axis=1).max() == measured.sensitivity.l2_squared
    promised, _ = guarantees(list(found.measured.values()), 1.0, 0.0)
    assert sum(each.sensitivity.l1 / each.noise.scale for each in found.measured.values()) <= 1.0
    assert promised.eps == 1.0


@pytest.mark.parametrize(("mechanism", "delta"), [("laplace", 0.0), ("gaussian", 1e-6)])
def test_all_levels_together_have_the_promised_guarantee(mechanism, delta):
    parts = axes([np.arange(1)], [np.arange(4), np.array([0, 0, 1, 1]), np.zeros(4, int)],
                 (1.0,), (0.5, 0.3, 0.2))  # fmt: skip
    found = measure(*parts, Contributions("user", 3), mechanism, 1.0, delta)
    promised, replaced = guarantees(list(found.measured.values()), 1.0, delta)
    assert promised.eps == 1.0
    total = sum(3 / each.noise.scale for each in found.measured.values())
    squares = sum(9 / each.noise.scale**2 for each in found.measured.values())
    if mechanism == "laplace":
        assert total == pytest.approx(1.0, rel=1e-9)
        assert total <= 1.0
        # One user who is replaced moves the total by 3, all other levels by 6.
        assert replaced.eps == pytest.approx(0.2 + 2 * 0.8, rel=1e-9)
    else:
        assert promised.rho == pytest.approx(squares / 2, rel=1e-9)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_shares_that_sum_to_more_than_one_or_a_forgotten_level_are_noticed(mechanism):
    delta = 0.0 if mechanism == "laplace" else 1e-6
    parts = axes([np.arange(1)], [np.arange(4), np.zeros(4, int)], (1.0,), (0.8, 0.3))
    found = measure(*parts, Contributions("record"), mechanism, 1.0, delta)
    with pytest.raises(ArithmeticError, match="the noise gives eps"):
        guarantees(list(found.measured.values()), 1.0, delta)
    alone = Noise(mechanism, found.measured[0, 0].noise.scale * 0.8)  # all of the budget
    more = [*found.measured.values(), Measured(alone, found.measured[0, 0].sensitivity)]
    with pytest.raises(ArithmeticError, match="the noise gives eps"):
        guarantees(more, 1.0, delta)


# --- Whole numbers of two-way tables against a general optimiser ----------------------------------


def closest_table(estimates, rows, columns):
    """Return the closest non-negative table with nearly these sums, by least squares."""
    r, c = estimates.shape
    sums = np.vstack([np.kron(np.eye(r), np.ones(c)), np.kron(np.ones(r), np.eye(c))])
    weight = 1e4
    matrix = np.vstack([np.eye(r * c), weight * sums])
    wanted = np.concatenate([estimates.ravel(), weight * np.array([*rows, *columns])])
    return scipy.optimize.nnls(matrix, wanted)[0].reshape(r, c)


@pytest.mark.parametrize("tables", [25, long(400)])
def test_numbers_keep_their_sums_and_are_the_closest_rounded(tables):
    random = np.random.default_rng(6)
    for _ in range(tables):
        shape = random.integers(1, 6, 2)
        truth = random.poisson(random.choice([0.5, 4.0]), shape)
        rows, columns = truth.sum(axis=1), truth.sum(axis=0)
        estimates = truth + random.laplace(0, random.choice([0.3, 5.0]), shape)
        found = whole_table(estimates, rows, columns)
        assert found.dtype == np.int64
        assert found.min() >= 0
        assert found.sum(axis=1).tolist() == rows.tolist()
        assert found.sum(axis=0).tolist() == columns.tolist()
        assert abs(found - closest_table(estimates, rows, columns)).max() < 1.01


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_odd_tables_have_their_sums(scale):
    random = np.random.default_rng(7)
    for rows, columns in (
        ([0, 0], [0, 0, 0]),
        ([9, 0, 0], [3, 3, 3]),
        ([1_000_000, 1], [1, 999_999, 1]),
        ([5], [5]),
    ):
        estimates = random.normal(0, scale, (len(rows), len(columns)))
        found = whole_table(estimates, np.array(rows), np.array(columns))
        assert found.sum(axis=1).tolist() == rows
        assert found.sum(axis=0).tolist() == columns


def test_departures_of_a_sparse_table_are_not_inflated():
    """Rounding up negative estimates of many empty pairs would add hundreds of trips to a place."""
    random = np.random.default_rng(8)
    truth = np.zeros((60, 60), int)
    truth[:4, :4] = 500
    estimates = truth + random.laplace(0, 3, truth.shape)
    rows = np.maximum(np.rint(truth.sum(axis=1) + random.laplace(0, 5, 60)), 0).astype(int)
    columns = rows[random.permutation(60)]
    found = whole_table(estimates, rows, columns)
    assert abs(found.sum(axis=1) - truth.sum(axis=1)).max() < 60
