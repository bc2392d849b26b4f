"""Posterior medians of noisy counts, and the laws of the noise that they need."""

import math

import numpy as np
import pytest
from scipy import stats
from town import release_tables

from shuffledp.accounting.setting import Setting
from shuffledp.mechanisms.catalogue import CATALOGUE, POSTERIOR
from shuffledp.mechanisms.discrete_laplace import DiscreteLaplaceParameters
from shuffledp.mechanisms.registry import MECHANISMS
from shuffledp.mechanisms.shuffler_dummies import ShufflerDummiesParameters
from shuffledp.mechanisms.two_servers import GaussianServersParameters
from shuffledp.mechanisms.user_dummies import UserDummiesParameters
from shuffledp.numerics.posterior import NoiseLaw, posterior_median
from shuffledp.studies.releases import TargetSweep

WITH_POSTERIOR = [
    name for name, entry in CATALOGUE.items() if POSTERIOR in {e.name for e in entry.estimators}
]


def laplace(scale):
    theta = math.exp(-1 / scale)
    return NoiseLaw(math.sqrt(2 * theta) / (1 - theta), lambda z: -np.abs(z) / scale)


def draw_laplace(scale, size, rng):
    return rng.geometric(1 - math.exp(-1 / scale), (2, size)).T @ [1, -1]


def dense_medians(likelihood, enough):
    """Return posterior medians by EM until the mean log likelihood grows by less than `enough`."""
    prior, before = np.full(likelihood.shape[1], 1 / likelihood.shape[1]), -np.inf
    for _ in range(3_000):
        evidence = likelihood @ prior
        if np.log(evidence).mean() - before < enough:
            break
        before = np.log(evidence).mean()
        prior = prior * (likelihood.T @ (1 / evidence)) / evidence.size
    joint = likelihood * prior
    cumulative = np.cumsum(joint / joint.sum(axis=1, keepdims=True), axis=1)
    return (cumulative < 0.5).sum(axis=1)


def test_it_agrees_with_a_dense_em_that_runs_much_longer():
    rng = np.random.default_rng(4)
    counts = np.where(rng.random(3_000) < 0.6, 0, rng.geometric(0.1, 3_000))
    noisy = counts + draw_laplace(1.5, counts.size, rng)
    possible = np.arange(noisy.max() + 20)
    expected = dense_medians(np.exp(-np.abs(noisy[:, None] - possible) / 1.5), enough=-np.inf)
    found = posterior_median(noisy, laplace(1.5))
    assert np.abs(found - expected).mean() < 0.1
    error, longest = (np.abs(each - counts).mean() for each in (found, expected))
    assert error < 1.02 * longest


# --- Mechanisms -----------------------------------------------------------------------------

N, K = 600, 12


def geometric(eps, values):
    """Two-sided geometric probabilities, not normalised."""
    return np.exp(-0.5 * eps * np.abs(values))


def convolved(first, second, values):
    """Probabilities of a sum (or, with the second reversed, a difference) at `values`."""
    laws = [{int(v): p for v, p in zip(*law, strict=True)} for law in (first, second)]
    return np.array(
        [sum(p * laws[1].get(int(v) - a, 0.0) for a, p in laws[0].items()) for v in values]
    )


def exact_law(name, parameters, values):
    wide = np.arange(-400, 401)
    if name == "gaussian":
        return stats.norm.pdf(values, scale=parameters.sigma)
    if name == "discrete-laplace":
        return geometric(parameters.eps, values)
    if name == "user-dummies":
        chances = N * parameters.chances
        return stats.binom.pmf(values, chances, parameters.dummies / parameters.chances / K)
    if name == "prio3-histogram":
        both = (wide, geometric(parameters.eps, wide))
        return convolved(both, both, values)

    def noise(z):
        """Return probabilities of one server's noise, not normalised."""
        if isinstance(parameters, GaussianServersParameters):
            return np.exp(-0.5 * np.square(z / parameters.sigma))
        return geometric(parameters.eps, z)

    dummies = np.where(wide >= 0, noise(wide - parameters.nu), 0.0)
    if name == "shuffler-dummies":
        return np.interp(values, wide, dummies)
    assert name == "two-servers"
    return convolved((wide, dummies), (wide, noise(wide)), values)


PARAMETERS = {
    "discrete-laplace": [DiscreteLaplaceParameters(0.7)],
    "gaussian": [],
    "user-dummies": [UserDummiesParameters(0.02, 1), UserDummiesParameters(3.0, 4)],
    "shuffler-dummies": [ShufflerDummiesParameters(0.8, 3), ShufflerDummiesParameters(0.8, 30)],
    "two-servers": [
        ShufflerDummiesParameters(0.8, 0),
        ShufflerDummiesParameters(0.8, 30),
        GaussianServersParameters(3.0, 2),
        GaussianServersParameters(3.0, 30),
    ],
    "prio3-histogram": [DiscreteLaplaceParameters(0.7)],
}


def law_of(name, parameters):
    if hasattr(parameters, "noise"):
        return MECHANISMS[name].noise(parameters).posterior_law
    module = __import__(CATALOGUE[name].module, fromlist=["_noise_law"])
    return module._noise_law(N, K, parameters)


@pytest.mark.parametrize("name", WITH_POSTERIOR)
def test_the_law_of_the_noise_is_exact(name):
    calibrated = MECHANISMS[name].calibrate(1.0, math.log(1e-6), Setting(N, K))
    for parameters in [calibrated, *PARAMETERS[name]]:
        law = law_of(name, parameters)
        values = law.centre + np.arange(-math.ceil(8 * law.sd), math.ceil(8 * law.sd))
        exact = exact_law(name, parameters, values)
        weight = np.exp(law.log_weight(values.astype(np.float64)))
        total, expected = weight.sum(), exact.sum()
        np.testing.assert_allclose(weight / total, exact / expected, rtol=1e-7, atol=1e-14)
        shares = np.full(K, 1 / K)
        variance = MECHANISMS[name].variance(shares, N, parameters)[0]
        assert law.sd == pytest.approx(N * math.sqrt(variance), rel=1e-12)


@pytest.mark.parametrize("name", WITH_POSTERIOR)
def test_posterior_medians_of_sparse_maps_beat_projection(name):
    rng = np.random.default_rng(5)
    counts = np.where(rng.random(3_000) < 0.8, 0, rng.geometric(0.02, 3_000))
    n = int(counts.sum())
    mechanism = MECHANISMS[name]
    parameters = mechanism.calibrate(1.0, math.log(1e-6), Setting(n, counts.size))
    observed = mechanism.observe(counts, parameters, rng, 2)
    errors = {
        estimator: np.abs(estimate(observed, n, parameters) - counts / n).sum()
        for estimator, estimate in mechanism.estimators.items()
    }
    assert errors[POSTERIOR] < 0.95 * errors["projected"] < errors["raw"]


@pytest.mark.parametrize("estimate", ["projected", "posterior"])
def test_a_sweep_has_posterior_medians_on_request(estimate):
    counts = np.array([0, 0, 0, 7, 0, 120, 33, 0, 0, 240])
    sweep = TargetSweep([1.0], 1e-6)
    releases, utility = release_tables(
        sweep, {400: counts}, ["two-servers", "krr"], 2, estimate=estimate
    )
    both = {("two-servers", "raw"), ("two-servers", "projected"), ("krr", "raw")}
    for table in (releases, utility):
        series = set(zip(table["mechanism"], table["estimator"], strict=True))
        assert both <= series
        assert (("two-servers", "posterior") in series) == (estimate == "posterior")
        assert ("krr", "posterior") not in series
    chosen = releases[releases["estimator"] == "posterior"]
    assert chosen["standard_error"].isna().all()
