"""Exported curves against our own ends, dp_accounting's own distributions and closed forms."""

import csv
from math import exp, inf

import numpy as np
import opendp.prelude as dp
import pytest
from dp_accounting.pld import privacy_loss_distribution as plds
from effort import examples
from scipy.stats import norm

import shuffledp
from shuffledp import Setting, epsilon, from_dp_accounting, to_dp_accounting, to_opendp_profile
from shuffledp.errors import InputError

REPLACE_ONE = plds.NeighborRel.REPLACE_ONE
SETTING = Setting(n=100_000, k=408, eps0=4.0)
DELTA = 1e-6


@pytest.fixture(scope="module")
def exported():
    return to_dp_accounting(SETTING)


def gaussian(noise=20.0, interval=1e-4, **options):
    """Return dp_accounting's distribution; for its sensitivity 1, replacement moves a sum by 2."""
    return plds.from_gaussian_mechanism(
        noise, value_discretization_interval=interval, neighboring_relation=REPLACE_ONE, **options
    )


def random_setting(rng):
    n, k = int(10 ** rng.uniform(1, 6)), int(10 ** rng.uniform(0.5, 3))
    kind = rng.integers(8)
    if kind == 0:
        return Setting(
            n, k, mechanism=shuffledp.mechanism("gaussian", sigma=exp(rng.uniform(0, 5)))
        )
    if kind == 1:
        noise = shuffledp.mechanism("discrete-laplace", eps=10 ** rng.uniform(-3, 1))
        return Setting(n, k, mechanism=noise)
    if kind == 2:
        return Setting(n, k, rng.uniform(0.1, 8.0), rounds=int(rng.integers(2, 30)))
    colluding = int(n * rng.choice([0.0, 0.0, 0.5]))
    return Setting(n, k, rng.uniform(0.1, 8.0), colluding=colluding)


def test_exports_of_random_settings_are_above_our_upper_end_by_at_most_one_percent():
    dp.enable_features("contrib", "honest-but-curious")  # what OpenDP asks for
    rng, excess = np.random.default_rng(1), []
    while len(excess) < examples(60):
        setting, delta = random_setting(rng), 10 ** rng.uniform(-10, -4)
        ends = epsilon(delta, setting)
        if not 1e-3 <= ends.upper < inf:
            continue
        pld, profile = to_dp_accounting(ends.curve), to_opendp_profile(ends.curve)
        for eps in (pld.get_epsilon_for_delta(delta), profile.epsilon(delta)):
            assert ends.upper <= eps <= 1.01 * ends.upper, (setting, delta)
            excess.append(eps / ends.upper - 1.0)
    assert max(excess) > 0.0


def test_the_deltas_of_an_export_are_above_our_upper_end_for_both_signs_of_eps(exported):
    upper = shuffledp.delta(np.linspace(0.0, 0.06, 25), SETTING).upper
    for eps, delta in zip(np.linspace(0.0, 0.06, 25), upper, strict=True):
        assert delta <= exported.get_delta_for_epsilon(eps) <= 1.05 * delta
        # The profile of the exchanged pair: delta(-eps) = 1 - exp(-eps) (1 - delta(eps)).
        mirrored = 1.0 - exp(-eps) * (1.0 - delta)
        assert mirrored <= exported.get_delta_for_epsilon(-eps) * (1.0 + 1e-13)


def test_ten_rounds_and_a_gaussian_agree_with_our_own_ledger(exported):
    ten = exported.self_compose(10)
    own = epsilon(DELTA, Setting(n=100_000, k=408, eps0=4.0, rounds=10)).upper
    assert ten.get_epsilon_for_delta(DELTA) == pytest.approx(own, rel=2e-3)
    query = from_dp_accounting(gaussian(), REPLACE_ONE)
    both = ten.compose(query).get_epsilon_for_delta(DELTA)
    # The same noise: replacement moves a histogram by sqrt(2), and dp_accounting's sum by 2.
    noise = shuffledp.mechanism("gaussian", sigma=20.0 / 2**0.5)
    rounds = Setting(n=100_000, k=408, eps0=4.0, rounds=10)
    for row in (noise, query):
        ledger = [rounds, Setting(n=100_000, k=408, mechanism=row)]
        assert both == pytest.approx(epsilon(DELTA, ledger).upper, rel=2e-3)
    assert both == pytest.approx(0.4225, abs=1e-4)


def test_an_imported_distribution_has_the_delta_of_the_closed_form():
    row = Setting(1000, 10, mechanism=from_dp_accounting(gaussian(), REPLACE_ONE))
    eps, mu = np.array([0.05, 0.2, 0.4]), 2.0 / 20.0
    exact = norm.cdf(mu / 2 - eps / mu) - np.exp(eps) * norm.cdf(-mu / 2 - eps / mu)
    upper = shuffledp.delta(eps, row).upper
    assert np.all((exact <= upper) & (upper <= 1.001 * exact))


@pytest.mark.parametrize(("noise", "rounds"), [(0.2, 2), (0.2, 80), (200.0, 5), (2000.0, 50)])
def test_rounds_of_an_imported_row_are_as_good_as_its_distribution(noise, rounds):
    # 80 rounds of eps = 5 have losses far beyond 300, the largest eps0.
    pld = plds.from_laplace_mechanism(noise, sensitivity=1)
    row = Setting(1000, 10, mechanism=from_dp_accounting(pld, REPLACE_ONE), rounds=rounds)
    theirs = pld.self_compose(rounds).get_epsilon_for_delta(1e-8)
    assert (1.0 - 1e-6) * theirs <= epsilon(1e-8, row).upper <= 1.01 * theirs


def test_results_with_an_imported_distribution_are_not_called_certified():
    row = Setting(1000, 10, mechanism=from_dp_accounting(gaussian(), REPLACE_ONE))
    own = Setting(1000, 10, eps0=1.0)
    for rounds, certified in [(row, False), ([own, row], False), (own, True), ([own, own], True)]:
        assert epsilon(DELTA, rounds).certified == certified
    with pytest.raises(InputError, match="certificates are for named mechanisms"):
        shuffledp.certify(0.1, row)


def test_what_probabilities_lack_to_one_counts_as_infinite_loss():
    half = plds.PrivacyLossDistribution.create_from_rounded_probability({0: 0.25, 1: 0.5}, 0.0, 0.5)
    row = Setting(1000, 10, mechanism=from_dp_accounting(half, REPLACE_ONE))
    assert shuffledp.delta(100.0, row).upper == pytest.approx(0.25)


def test_distributions_that_state_no_relation_do_not_compose_with_ours(exported):
    with pytest.raises(InputError, match="states no relation: pass it to"):
        exported.compose(gaussian())
    with pytest.raises(InputError, match="states no relation"):
        exported.compute_mixture(gaussian(), 0.5)
    with pytest.raises(ValueError, match="DensePLDPmf != ReplaceOnePmf"):
        gaussian().compose(exported)


@pytest.mark.parametrize(
    ("distribution", "relation", "message"),
    [
        (gaussian(), "REPLACE_ONE", r"neighboring_relation=NeighborRel\.REPLACE_ONE, got"),
        (gaussian(), plds.NeighborRel.ADD_OR_REMOVE_ONE, r"NeighborRel\.REPLACE_ONE, got"),
        (gaussian(pessimistic_estimate=False), REPLACE_ONE, "optimistic"),
        (0.5, REPLACE_ONE, "must be a PrivacyLossDistribution of dp_accounting"),
    ],
)
def test_other_distributions_are_not_imported(distribution, relation, message):
    with pytest.raises(InputError, match=message):
        from_dp_accounting(distribution, relation)


def test_a_curve_without_upper_end_is_not_exported():
    lower = epsilon(DELTA, Setting(1000, 5, 1.0), bound="single-bin").curve
    for export in (to_dp_accounting, to_opendp_profile):
        with pytest.raises(InputError, match="an upper bound is needed"):
            export(lower)


def test_the_csv_file_has_the_upper_ends_and_names_the_neighbours(tmp_path):
    file = tmp_path / "curve.csv"
    shuffledp.write_curve(file, SETTING, [0.04, 0.03])
    with file.open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert [float(row["eps"]) for row in rows] == [0.03, 0.04]
    upper = shuffledp.delta([0.03, 0.04], SETTING).upper
    assert [float(row["delta_upper"]) for row in rows] == upper.tolist()
    assert {row["neighbours"] for row in rows} == {"replacement, the same n"}


def test_lines_between_the_default_points_of_the_csv_file_are_above_the_curve(tmp_path):
    file = tmp_path / "curve.csv"
    shuffledp.write_curve(file, SETTING)
    points = np.loadtxt(file, delimiter=",", skiprows=1, usecols=(0, 1))
    assert points[0, 0] == 0.0 and points[-1, 1] < 1e-21
    eps = np.linspace(0.0, points[-1, 0], 17)
    lines = np.interp(np.exp(eps), np.exp(points[:, 0]), points[:, 1])
    assert np.all(shuffledp.delta(eps, SETTING).upper <= lines * (1.0 + 1e-12))
