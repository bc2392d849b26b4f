"""The hidden-slot bound: how much it narrows, and where it does not apply."""

import json

import numpy as np
import pytest

from shuffledp.accounting.blanket.atoms import Atoms
from shuffledp.accounting.blanket.hidden_slot import Kernel
from shuffledp.accounting.blanket.mean_excess import log_mean_excess_high, log_mean_excess_low
from shuffledp.accounting.setting import Setting
from shuffledp.cli import main
from shuffledp.mechanisms import unary_encoding
from shuffledp.mechanisms.hadamard import HadamardResponse
from shuffledp.mechanisms.matrix import MatrixRandomiser
from shuffledp.mechanisms.randomiser import SupportRandomiser, upper_log_delta
from shuffledp.mechanisms.subset_selection import SubsetSelection


def test_it_nearly_closes_the_reference_band():
    """Without it the ends of RAPPOR at eps0 = 4 are 7.3 % apart in mechanism_bands.csv."""
    randomiser = unary_encoding.symmetric(16, 4.0)
    interval = randomiser.curve(Setting(10_000, 16), hidden_slot=True).log_delta(0.33650615)
    assert np.log(1e-6) - 2e-4 < interval.lower < interval.upper
    assert upper_log_delta(0.33650615 * 1.01, 10_000, randomiser, hidden_slot=True) < np.log(1e-6)


@pytest.mark.parametrize(
    "randomiser", [HadamardResponse(5, 1.0), MatrixRandomiser([[1.0, 0.0], [0.0, 1.0]])]
)
def test_the_blanket_is_used_where_it_does_not_apply(randomiser):
    assert upper_log_delta(0.1, 1000, randomiser, hidden_slot=True) == upper_log_delta(
        0.1, 1000, randomiser
    )


def test_the_blanket_is_used_for_few_users():
    for n in (1, 2, 20):
        randomiser = unary_encoding.optimised(8, 1.0)
        assert upper_log_delta(0.5, n, randomiser, hidden_slot=True) == upper_log_delta(
            0.5, n, randomiser
        )
    assert upper_log_delta(1.5, 1000, randomiser, hidden_slot=True) == -np.inf


@pytest.mark.parametrize("kappa", [1e-3, 0.1])
@pytest.mark.parametrize(
    "randomiser",
    [SubsetSelection(5, 1.0, 1), SubsetSelection(6, 2.0, 3), SubsetSelection(2, 0.5, 1)],
)
def test_all_slots_have_total_mass_one_and_equal_means(randomiser, kappa):
    """Every mean is 1 - e, and the mean positive part is the local delta."""
    eps = 0.3
    laws = [law.with_zero_atom() for law in randomiser.slots(eps, kappa)]
    assert len(laws) == min(randomiser.k, 3)
    for law in laws:
        assert law.masses.sum() == pytest.approx(1.0, abs=1e-14)
        assert law.values @ law.masses == pytest.approx(1.0 - np.exp(eps), abs=1e-13)
        assert np.maximum(law.values, 0.0) @ law.masses == pytest.approx(
            np.maximum(laws[0].values, 0.0) @ laws[0].masses, rel=1e-13
        )


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


@pytest.mark.parametrize(("eps", "above"), [(0.02, 0.003), (0.1, 0.02)])
def test_the_kernel_agrees_with_the_general_evaluator(eps, above):
    """Here delta is 4e-7 and 3e-71."""
    law = SubsetSelection(16, 1.0, 1).blanket(eps)
    law = law.with_zero_atom()
    top = law.values.max()
    scaled = Atoms(law.values / top, law.masses, law.units)
    high = Kernel.from_law(scaled, 10_000, 0.0).log_high(scaled) + np.log(top / 10_000)
    assert log_mean_excess_low(law, 10_000) - 1e-9 <= high
    assert high < log_mean_excess_high(law, 10_000) + above


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
