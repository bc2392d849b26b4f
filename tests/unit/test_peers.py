"""The table of `make peers`: what its formulas say."""

import importlib
import sys
from pathlib import Path

import pytest

from shuffledp import Setting, epsilon
from shuffledp.accounting.additive import GeometricNoise

ROOT = Path(__file__).parents[2]


@pytest.fixture
def peers(monkeypatch):
    """Import the benchmark as `make peers` does, from its folder."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    yield importlib.import_module("peers")
    sys.modules.pop("peers", None)


@pytest.mark.parametrize("eps", [0.1, 1.0])
def test_without_sampling_sageo_draws_discrete_laplace_noise(peers, eps):
    best = peers.sageo_error(602_156, 915, eps)
    assert best == pytest.approx(GeometricNoise(eps).variance ** 0.5, rel=1e-9)


def test_the_grid_of_the_blanket_is_above_the_certified_eps(peers):
    certified = epsilon(1e-6, Setting(200, 16, eps0=2.0))
    at_eps = peers.blanket_by_fft(certified.upper, 200, 16, 2.0)
    assert 1e-6 < at_eps < 2e-6


def test_the_blanket_divergence_is_the_certified_eps_of_three_cells_or_more(peers):
    certified = epsilon(1e-6, Setting(200, 16, eps0=2.0))
    assert peers.blanket_eps(200, 16, 2.0, 1e-6) == pytest.approx(certified.upper, rel=1e-6)


def test_the_certified_delta_approaches_the_gaussian_limit(peers):
    errors = [
        abs(peers.gaussian_limit(epsilon(1e-6, Setting(n, 2, eps0=1.0)).upper, n, 1.0) / 1e-6 - 1)
        for n in (10**3, 10**4, 10**5)
    ]
    assert errors[2] < errors[1] / 2 < errors[0] / 3 and errors[2] < 0.1


def test_a_threshold_shows_a_user_who_completes_it(peers):
    """One person is never shown at a threshold of two; of two, both are sampled with p^2."""
    eps, p, tau = 5.0, 0.01, 2
    assert peers.threshold_delta(eps, p, tau) == pytest.approx(p**2, rel=1e-6)
