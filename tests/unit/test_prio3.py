"""Prio3Histogram: sizes against test vectors of the VDAF draft, privacy against direct sums."""

from itertools import product
from math import exp, log, sqrt

import numpy as np
import pytest

import shuffledp
from shuffledp.accounting.setting import Setting
from shuffledp.mechanisms.discrete_laplace import DiscreteLaplace, DiscreteLaplaceParameters
from shuffledp.mechanisms.prio3_histogram import (
    Prio3Histogram,
    input_share_bytes,
    optimal_chunk_length,
    upload_bytes,
)

ONE = DiscreteLaplaceParameters(1.0)


@pytest.mark.parametrize(
    ("k", "chunk", "leader", "helper"),
    [(4, 2, 272, 64), (11, 3, 544, 64), (100, 10, 2448, 64)],
)
def test_input_shares_have_the_sizes_of_the_drafts_test_vectors(k, chunk, leader, helper):
    """The lengths in bytes of ``input_shares`` in test_vec/vdaf/Prio3Histogram_{0,1,2}.json."""
    assert input_share_bytes(k, chunk) == (leader, helper)


@pytest.mark.parametrize("k", [2, 3, 7, 8, 48, 100, 408, 2304])
def test_no_chunk_length_has_a_shorter_upload(k):
    shortest = min(sum(input_share_bytes(k, chunk)) for chunk in range(1, k + 1))
    assert sum(input_share_bytes(k, optimal_chunk_length(k))) == shortest


def sum_of_two(eps, reach):
    """Return the law of the sum of two discrete Laplace noises by direct summation."""
    theta = exp(-eps / 2.0)
    one = (1.0 - theta) / (1.0 + theta) * theta ** np.abs(np.arange(-reach, reach + 1))
    return np.convolve(one, one)


def delta_of_both(eps, noise_eps, rounds, reach):
    """Return delta of two cells by a sum over their counts and rounds, which leaves out tails."""
    law = sum_of_two(noise_eps, reach)
    shifted = np.append(0.0, law), np.append(law, 0.0)
    p, q = np.outer(*shifted).ravel(), np.outer(*shifted[::-1]).ravel()
    for _ in range(rounds - 1):
        p, q = (np.outer(law, np.outer(*pair).ravel()).ravel()
                for law, pair in ((p, shifted), (q, shifted[::-1])))  # fmt: skip
    return np.maximum(p - exp(eps) * q, 0.0).sum()


@pytest.mark.parametrize(
    ("eps", "noise_eps", "rounds", "reach"),
    [(0.0, 1.0, 1, 60), (0.5, 1.0, 1, 60), (0.9, 1.0, 1, 150), (1.0, 3.0, 1, 20), (2.0, 4.0, 2, 6)],
)
def test_the_public_faces_both_noises(eps, noise_eps, rounds, reach):
    parameters, setting = DiscreteLaplaceParameters(noise_eps), Setting(100, 5, rounds=rounds)
    public = Prio3Histogram().views(parameters, setting)["public"]
    exact = delta_of_both(eps, noise_eps, rounds, reach)
    rel = 1e-8 if rounds == 1 else 1e-3  # composition is on a grid, and tails are left out
    assert exact * (1.0 - 1e-12) <= public.delta(eps).promised <= exact * (1.0 + rel)
    assert public.log_delta(rounds * noise_eps).promised == -np.inf


@pytest.mark.parametrize(("rounds", "eps"), [*product([1, 12], [0.3, 1.0])])
def test_one_aggregator_faces_the_other_ones_noise(rounds, eps):
    """An aggregator knows its own noise, so its view is a curator's discrete Laplace release."""
    setting = Setting(100, 5, rounds=rounds)
    parameters = Prio3Histogram().calibrate(eps, log(1e-6), setting)
    assert parameters == DiscreteLaplace().calibrate(eps, log(1e-6), setting)
    views = Prio3Histogram().views(parameters, setting)
    assert set(views) == {"public", "both"}
    assert views["both"].epsilon(log(1e-6)).promised == np.inf
    assert views["public"].epsilon(log(1e-6)).promised < eps
    curve = Prio3Histogram().curve(parameters, setting)
    assert curve.epsilon(log(1e-6)).promised <= eps * (1.0 + 1e-12)
    if rounds == 1:
        assert curve.log_delta(eps).promised == -np.inf  # delta is 0


def test_noise_too_wide_to_be_summed_leaves_the_aggregators_bound():
    wide, setting = DiscreteLaplaceParameters(1e-5), Setting(100, 5)
    public, one = (
        Prio3Histogram().views(wide, setting)["public"],
        Prio3Histogram().curve(wide, setting),
    )
    assert public.upper(5e-6) == one.upper(5e-6)


def test_the_error_of_a_cell_is_that_of_two_noises():
    (row,) = shuffledp.compare(
        1, 1e-6, Setting(100_000, 408), mechanisms=["prio3-histogram"]
    ).mechanisms
    assert row.calibration.cell_sd == pytest.approx(3.96, abs=0.005)
    assert row.calibration.per_user.bytes_sent == upload_bytes(408)
    law = sum_of_two(1.0, 100)
    values = np.abs(np.arange(law.size) - 200)
    assert row.calibration.cell_sd == pytest.approx(sqrt(law @ values**2), rel=1e-12)
    distance = Prio3Histogram().expected_distance(np.full(408, 1 / 408), 100_000, ONE)
    assert distance == pytest.approx(0.5 * 408 * (law @ values) / 100_000, rel=1e-12)
