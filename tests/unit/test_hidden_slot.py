"""The hidden-slot bound: how much it narrows, and where it does not apply."""

import json

import numpy as np
import pytest

from shuffledp.accounting.setting import Setting
from shuffledp.cli import main
from shuffledp.mechanisms import unary_encoding
from shuffledp.mechanisms.hadamard import HadamardResponse
from shuffledp.mechanisms.matrix import MatrixRandomiser
from shuffledp.mechanisms.randomiser import SupportRandomiser, upper_log_delta


def test_it_nearly_closes_the_reference_band():
    """Without it the ends of RAPPOR at eps0 = 4 are 7.3 % apart in mechanism_bands.csv."""
    randomiser = unary_encoding.symmetric(16, 4.0)
    interval = randomiser.curve(Setting(10_000, 16), hidden_slot=True).log_delta(0.33650615)
    assert np.log(1e-6) - 2e-4 < interval.lower < interval.upper
    assert upper_log_delta(0.33650615 * 1.01, 10_000, randomiser, hidden_slot=True) < np.log(1e-6)


@pytest.mark.parametrize(
    ("randomiser", "n", "eps"),
    [
        (HadamardResponse(5, 1.0), 1000, 0.1),
        (MatrixRandomiser([[1.0, 0.0], [0.0, 1.0]]), 1000, 0.1),
        *((unary_encoding.optimised(8, 1.0), n, 0.5) for n in (1, 2, 20)),
        (unary_encoding.optimised(8, 1.0), 1000, 1.5),  # delta = 0
    ],
)
def test_the_blanket_is_used_where_it_does_not_apply(randomiser, n, eps):
    hidden = upper_log_delta(eps, n, randomiser, hidden_slot=True)
    assert hidden == upper_log_delta(eps, n, randomiser)


def test_records_of_a_new_randomiser_are_not_assumed_interchangeable():
    """Otherwise its bound could be too small."""
    assert not SupportRandomiser.interchangeable


def planar(rows, columns):
    """Return noise that falls exponentially with the distance, at a rate of .5 per cell."""
    row, column = np.divmod(np.arange(rows * columns), columns)
    noise = np.exp(-0.5 * np.hypot(row[:, None] - row, column[:, None] - column))
    return MatrixRandomiser(noise / noise.sum(axis=1, keepdims=True))


@pytest.mark.parametrize(
    ("randomiser", "eps", "near"),
    [
        (MatrixRandomiser(np.random.default_rng(1).dirichlet(np.ones(6), 4)), 0.2463, 0.12),
        pytest.param(planar(2, 2), 0.01799, 0.03, marks=pytest.mark.slow),
        pytest.param(planar(3, 3), 0.0316, 0.03, marks=pytest.mark.slow),
        (planar(4, 5), 0.06235, 0.06),
    ],
)
def test_the_ends_of_a_matrix_nearly_meet(randomiser, eps, near):
    """At delta = 1e-6 the blanket leaves them 2 to 6 apart in log delta."""
    ends = [
        randomiser.curve(Setting(10_000, randomiser.k), hidden_slot=slot).log_delta(eps)
        for slot in (True, False)
    ]
    assert ends[0].lower == pytest.approx(np.log(1e-6), abs=0.2)
    assert ends[0].lower < ends[0].upper < ends[0].lower + near
    assert ends[1].upper > ends[0].upper + 1.0


def test_the_command_calibrates_with_it_on_request(capsys):
    words = "compare --n 10000 --k 16 --eps 0.03 --delta 1e-6 --format json --mechanism rappor"
    eps0 = []
    for more in ([], ["--hidden-slot"]):
        assert main([*words.split(), *more]) == 0
        (row,) = json.loads(capsys.readouterr().out)
        assert row.get("hidden_slot", False) == bool(more)
        eps0.append(row["local_eps0"])
    assert eps0[1] > 1.1 * eps0[0]
    # The printed budget keeps the promise.
    randomiser = unary_encoding.symmetric(16, eps0[1])
    assert upper_log_delta(0.03, 10_000, randomiser, hidden_slot=True) <= np.log(1e-6)
    assert upper_log_delta(0.03, 10_000, randomiser) > np.log(1e-6)
