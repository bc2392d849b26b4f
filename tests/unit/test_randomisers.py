"""Local randomisers: estimates, joint laws of reports, reference bands, refused arguments."""

import numpy as np
import pytest

from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.mechanisms import local_hashing, unary_encoding
from shuffledp.mechanisms.hadamard import HadamardResponse
from shuffledp.mechanisms.local_hashing import LocalHashing
from shuffledp.mechanisms.matrix import MatrixRandomiser
from shuffledp.mechanisms.randomiser import lower_log_delta, upper_log_delta
from shuffledp.mechanisms.subset_selection import SubsetSelection
from shuffledp.mechanisms.unary_encoding import (
    ShuffledUnaryEncoding,
    UnaryEncoding,
    UnaryParameters,
)

COUNTS = np.array([400, 0, 50, 200, 10, 340])
N, K = int(COUNTS.sum()), COUNTS.size
CLOSE_WEIGHTS = np.exp(-0.4 * np.abs(np.subtract.outer(np.arange(K), np.arange(K + 2))))
CLOSE = MatrixRandomiser(CLOSE_WEIGHTS / CLOSE_WEIGHTS.sum(axis=1, keepdims=True))
RANDOMISERS = {
    "k-RR": SubsetSelection(K, 1.5, 1),
    "subsets of 3": SubsetSelection(K, 1.5, 3),
    "subsets of 5": SubsetSelection(K, 1.5, 5),
    "OUE": unary_encoding.optimised(K, 1.5),
    "RAPPOR": unary_encoding.symmetric(K, 1.5),
    "OLH": local_hashing.optimised(K, 1.5),
    "Hadamard": HadamardResponse(K, 1.5),
    "matrix": CLOSE,
}
every_randomiser = pytest.mark.parametrize("randomiser", RANDOMISERS.values(), ids=RANDOMISERS)


@every_randomiser
def test_estimates_are_unbiased_and_have_the_stated_variance(randomiser):
    rng = np.random.default_rng(4)
    repetitions = 8000
    seen = np.array([randomiser.observe(COUNTS, rng) for _ in range(repetitions)])
    estimates = randomiser.estimate(seen, N)
    variance = randomiser.variance(COUNTS / N, N)
    assert variance.shape == (K,)
    # 5.5 standard errors in one of 6 cells have chance 2e-7.
    z = (estimates.mean(axis=0) - COUNTS / N) / np.sqrt(variance / repetitions)
    assert np.abs(z).max() < 5.5
    squares = (estimates - COUNTS / N) ** 2
    z = (squares.mean(axis=0) - variance) / (squares.std(axis=0) / np.sqrt(repetitions))
    assert np.abs(z).max() < 5.5


def test_cells_of_a_subset_have_the_covariance_of_the_definition():
    """Compare with users drawn one after the other."""
    randomiser = SubsetSelection(4, 1.0, 2)
    counts = np.array([3, 1, 0, 2])
    rng, slow = np.random.default_rng(5), np.random.default_rng(6)
    seen = np.array([randomiser.observe(counts, rng) for _ in range(20_000)])

    def user(cell):
        others = [other for other in range(4) if other != cell]
        if slow.random() < randomiser.support_probabilities[0]:
            return [cell, slow.choice(others)]
        return slow.choice(others, 2, replace=False)

    holders = np.repeat(np.arange(4), counts)
    expected = np.zeros((4000, 4))
    for row in expected:
        for cell in holders:
            row[list(user(cell))] += 1.0
    # Entries near 1; standard errors about 0.02.
    np.testing.assert_allclose(np.cov(seen.T), np.cov(expected.T), atol=0.12)
    np.testing.assert_allclose(seen.mean(axis=0), expected.mean(axis=0), atol=0.1)


# Reference numbers of mechanism_bands.csv: eps at delta = 1e-6 within a relative 5e-6. The lower
# ends belong to the data set whose others hold a third cell.
BANDS = [
    (SubsetSelection(16, 1.0, 4), 1000, 0.09669284, 0.10461568),
    (unary_encoding.optimised(16, 1.0), 1000, 0.09263987, 0.10246213),
    (unary_encoding.symmetric(64, 4.0), 10_000, 0.33650615, 0.36106874),
    (local_hashing.optimised(64, 4.0), 10_000, 0.27561310, 0.27830317),
    (HadamardResponse(16, 1.0), 1000, 0.10223292, 0.10269411),
    (HadamardResponse(64, 4.0), 10_000, 0.27873560, 0.28464541),
]


@pytest.mark.parametrize(("randomiser", "n", "lower", "upper"), BANDS)
def test_ends_equal_the_reference_bands(randomiser, n, lower, upper):
    target = np.log(1e-6)
    # A relative 1e-5 of eps is about 1.5e-4 of log delta.
    assert upper_log_delta(upper, n, randomiser) == pytest.approx(target, abs=1.5e-4)
    assert lower_log_delta(lower, n, randomiser) == pytest.approx(target, abs=1.5e-4)


def test_all_others_in_a_compared_cell_may_be_worse_than_in_a_third():
    """For binary hashing the lower end of the reference band is 1.4 % too low in eps."""
    log_delta = lower_log_delta(0.08362932, 1000, LocalHashing(16, 1.0, 2))
    assert log_delta > np.log(1e-6) + 0.15


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: SubsetSelection(5, 1.0, 0), r"from 1 to k - 1 = 4, got m=0"),
        (lambda: UnaryEncoding(5, 1.0, 1.0), "0 < q < 1, got q=1"),
        (
            lambda: ShuffledUnaryEncoding().randomiser(5, UnaryParameters(1.0, 1.0)),
            "0 < p < 1, got p=1",
        ),
        (lambda: HadamardResponse(5, 0.0), "positive"),
        (lambda: MatrixRandomiser([[1.2, -0.2], [0.5, 0.5]]), "got -0.2 for record 0, report 1"),
        (lambda: MatrixRandomiser([[0.5, 0.5], [0.5, 0.49]]), "within 1e-09, .*0.99 for record 1"),
        (lambda: MatrixRandomiser([[1.0, 1e-290], [0.4, 0.6]]), "0 or at least 1e-280, .*report 1"),
        (lambda: MatrixRandomiser([[1.0, 1e-200], [0.4, 0.6]]), r"at most exp\(300\), got"),
        (lambda: upper_log_delta(-0.1, 10, CLOSE), "eps must be at least 0"),
        (lambda: upper_log_delta(0.1, 0, CLOSE), "n, the number of users, must"),
    ],
)
def test_bad_input_is_refused_in_a_line(make, words):
    with pytest.raises(InputError, match=words) as error:
        make()
    assert "\n" not in str(error.value)


def test_dependent_rows_have_ends_but_no_estimate():
    randomiser = MatrixRandomiser([[0.5, 0.3, 0.2], [0.3, 0.3, 0.4], [0.4, 0.3, 0.3]])
    assert randomiser.curve(Setting(10, 3)).log_delta(0.1).upper < 0.0
    with pytest.raises(InputError, match="linearly independent"):
        randomiser.estimate([1.0, 2.0, 3.0], 6)
