"""Composition over rounds against exact rationals, single rounds and dp_accounting's own sums."""

from collections import defaultdict
from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from math import comb, exp, inf, log

import flint
import numpy as np
import pytest
from effort import long
from flint import fmpq
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import exact

from shuffledp.accounting import calibrate, krr, pairs
from shuffledp.accounting.laws.binomial import log_pmf, log_pmf_error
from shuffledp.accounting.pairs import hockey_stick
from shuffledp.accounting.rounds import outcome_bundles, privacy_loss
from shuffledp.accounting.rounds.privacy_loss import LossDistribution
from shuffledp.accounting.rounds.sums import log_hockey_stick
from shuffledp.accounting.setting import Setting

# Maps each likelihood ratio P/Q (None if infinite) to its probabilities under P and Q.
# Flint's rationals take a seventh of the time of Python's.
Ratios = Mapping[fmpq | None, tuple[fmpq, fmpq]]
ZERO = fmpq(0)


def ratios(P: Mapping[object, Fraction], Q: Mapping[object, Fraction]) -> Ratios:
    law: dict[fmpq | None, tuple[fmpq, fmpq]] = defaultdict(lambda: (ZERO, ZERO))
    for outcome in {*P, *Q}:
        p, q = (fmpq(*law.get(outcome, exact.ZERO).as_integer_ratio()) for law in (P, Q))
        key = p / q if q else None
        law[key] = (law[key][0] + p, law[key][1] + q)
    return dict(law)


def convolved(first: Ratios, second: Ratios) -> Ratios:
    law: dict[fmpq | None, tuple[fmpq, fmpq]] = defaultdict(lambda: (ZERO, ZERO))
    for a, (p1, q1) in first.items():
        for b, (p2, q2) in second.items():
            key = None if a is None or b is None else a * b
            law[key] = (law[key][0] + p1 * p2, law[key][1] + q1 * q2)
    return dict(law)


def exact_delta(law: Ratios, e: Fraction) -> Fraction:
    times = fmpq(*e.as_integer_ratio())
    total = sum((max(p - times * q, ZERO) for p, q in law.values()), ZERO)
    return Fraction(int(total.p), int(total.q))


@cache
def dataset(n: int, k: int, E: Fraction, cell: int) -> Ratios:
    others = [cell] * (n - 1)
    return ratios(exact.histogram_law([0, *others], k, E), exact.histogram_law([1, *others], k, E))


def powers(law: Ratios, rounds: int) -> list[Ratios]:
    result = [law]
    while len(result) < rounds:
        result.append(convolved(result[-1], law))
    return result


SMALL = [(1, 3, Fraction(2)), (3, 2, Fraction(3)), (4, 3, Fraction(2)), (6, 3, Fraction(5, 2))]
# Fractions of the range of e = exp(eps) at which delta is compared.
SHARES = [Fraction(0), Fraction(1, 7), Fraction(1, 2), Fraction(9, 10)]


@pytest.mark.parametrize(
    ("n", "k", "E"), [*SMALL[:-1], pytest.param(*SMALL[-1], marks=pytest.mark.slow)]
)
def test_upper_encloses_the_exact_composition_of_the_dominating_pair(
    n: int, k: int, E: Fraction
) -> None:
    for rounds, law in enumerate(powers(ratios(*exact.weak_pair(n, k, E)), 4), start=1):
        for share in SHARES:
            e = 1 + (E**rounds - 1) * share
            truth = log(exact_delta(law, e))
            setting = Setting(n, k, log(E), rounds)
            upper = krr.dominating_log_delta(log(e), setting)
            assert truth - 1e-12 <= upper <= truth + 3e-3
            assert krr.composed_log_delta(log(e), setting, "upper") <= upper


@pytest.mark.parametrize(("n", "k", "E"), SMALL)
def test_lower_stays_below_an_exact_data_set(n: int, k: int, E: Fraction) -> None:
    """Rounding the few outcomes down to the grid costs up to 2 % of delta."""
    cells = (0, 1) if k == 2 else (2,)
    laws = [powers(dataset(n, k, E, cell), 3) for cell in cells]
    for rounds in (2, 3):
        for share in SHARES[:-1]:
            e = 1 + (E**rounds - 1) * share
            truth = log(max(exact_delta(law[rounds - 1], e) for law in laws))
            lower = krr.composed_log_delta(log(e), Setting(n, k, log(E), rounds), "lower")
            single = krr.lower_log_delta(log(e), Setting(n, k, log(E))) if k > 2 else -inf
            assert max(truth - 0.02, single) <= lower <= max(truth, single) + 1e-12


LARGE = pytest.param(1_000_000, 3, 1.0, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("n", "k", "eps0"),
    [(30, 3, 2.0), (1000, 4, 1.0), long(10_000, 16, 1.0), (100_000, 408, 6.0), LARGE],
)
@pytest.mark.parametrize("log_delta", [log(1e-4), log(1e-8)])
def test_a_composed_round_is_the_single_round(
    n: int, k: int, eps0: float, log_delta: float
) -> None:
    """The two agree within a relative 1e-4 of eps."""
    setting = Setting(n, k, eps0)

    def weak(eps: float) -> float:
        return hockey_stick(pairs.weak_adversary(setting), eps).high

    eps = calibrate.epsilon(weak, log_delta, eps0, "upper")
    (loss,) = krr.loss_distributions(Setting(n, k, eps0), "upper", None)
    upper = log_hockey_stick([(loss, 1)], eps).high
    assert weak(eps) - 1e-8 <= upper <= weak(eps * (1 - 1e-4))
    (loss,) = krr.loss_distributions(Setting(n, k, eps0), "lower", None)
    lower = log_hockey_stick([(loss, 1)], eps).low
    assert lower <= hockey_stick(pairs.all_hold_third_cell(setting), eps).high
    # With 30 users one or two outcomes decide, and rounding them costs more.
    wider = eps * (1 + (2e-4 if n > 100 else 3e-2))
    assert lower >= hockey_stick(pairs.all_hold_third_cell(setting), wider).low


parameters = st.tuples(
    st.integers(1, 400), st.integers(2, 40), st.floats(0.05, 6.0), st.integers(1, 40)
)


@settings(max_examples=30, deadline=None)
@given(parameters, st.floats(0.0, 0.95))
def test_lower_is_below_upper(parameters: tuple[int, int, float, int], share: float) -> None:
    n, k, eps0, rounds = parameters
    reach = min(rounds * eps0, 12.0 * eps0 * (rounds / n) ** 0.5)
    lower, upper = (
        float(krr.composed_log_delta(share * reach, Setting(n, k, eps0, rounds), side, step))
        for side, step in (("lower", eps0 / 500), ("upper", eps0 / 500))
    )
    assert lower <= upper <= 0.0
    assert upper > -inf


def test_tilting_agrees_with_dp_accounting() -> None:
    """Both compose the same grid; deltas stay above the floating-point noise of dp_accounting."""
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    (loss,) = krr.loss_distributions(Setting(10_000, 16, 1.0), "upper", 1e-4)
    table = {loss.start + i: float(p) for i, p in enumerate(loss.mass) if p > 0}
    library = PrivacyLossDistribution.create_from_rounded_probability(
        table, loss.infinite, loss.step, pessimistic_estimate=True
    )
    for rounds in (2, 20, 200):
        composed = library.self_compose(rounds, tail_mass_truncation=1e-15)
        for eps in (0.01, 0.05, 0.2, 0.3):
            theirs = composed.get_delta_for_epsilon(eps)
            ours = log_hockey_stick([(loss, rounds)], eps)
            assert ours.low <= ours.high <= ours.low + 1e-6
            assert exp(ours.high) == pytest.approx(theirs, rel=1e-7, abs=1e-12)


def test_interval_of_the_transform_holds_far_below_its_noise() -> None:
    """Two atoms have a binomial sum: 1e-60 for p = 1e-3 and 20 rounds."""
    p, rounds, eps = 1e-3, 20, 19.5
    loss = LossDistribution(0.25, -4, np.array([1 - p, 0, 0, 0, 0, 0, 0, 0, p]), 0.0)
    ends = log_hockey_stick([(loss, rounds)], eps)
    truth = rounds * log(p) + log(-np.expm1(eps - rounds))
    assert ends.low <= truth <= ends.high
    assert ends.high - ends.low < 1e-8
    several = log_hockey_stick([(loss, rounds)], 9.9)
    total = sum(
        comb(rounds, j) * p**j * (1 - p) ** (rounds - j) * -np.expm1(9.9 - (2 * j - rounds))
        for j in range(15, rounds + 1)
    )
    assert several.low <= log(total) <= several.high


def test_infinite_losses_compose_by_survival() -> None:
    loss = LossDistribution(1.0, 0, np.array([0.75]), 0.25)
    ends = log_hockey_stick([(loss, 3)], 5.0)
    assert ends.low < ends.high
    assert [ends.low, ends.high] == pytest.approx([log(1 - 0.75**3)] * 2, rel=1e-14)
    assert log_hockey_stick(
        [(LossDistribution(1.0, 0, np.array([1.0]), 1e-20), 4)], 5.0
    ).high == pytest.approx(log(4e-20), rel=1e-14)


@pytest.mark.slow
def test_deep_tails_stay_safe_and_above_the_lower_bound() -> None:
    """Windows grow until they leave nothing out; beyond them basic composition applies."""
    setting = Setting(10_000, 16, 1.0, rounds=10)
    for eps in (0.15, 0.2, 1.0, 9.0):
        upper = krr.composed_log_delta(eps, setting, "upper")
        lower = krr.composed_log_delta(eps, setting, "lower")
        assert lower <= upper
        if eps <= 0.2:
            assert upper < lower + 0.05
    assert upper < -2000
    assert krr.composed_log_delta(setting.budget, setting, "upper") == -inf


@pytest.mark.parametrize("spread", [0.01, 0.4, 3.0, 60.0])
@pytest.mark.parametrize("atoms", [1, 3, 40, 500])
@pytest.mark.parametrize("concentration", [0.05, 1.0])
def test_splitting_down_lowers_delta_at_every_eps_but_not_far(spread, atoms, concentration) -> None:
    rng = np.random.default_rng(atoms)
    losses = rng.normal(0.1 * spread, spread, atoms)
    masses = np.maximum(rng.dirichlet(np.full(atoms, concentration)), 1e-300)
    everywhere = np.concatenate([np.linspace(-3.0, 3.0, 61) * spread, losses - 1e-9, losses + 1e-9])
    for step in (0.002, 0.03, 0.2, 1.0):
        for each in (losses, np.round(losses / step) * step):
            split = privacy_loss.split_down(each, masses, 0.0, step, (0.0, 0.0))
            used = split.mass > 0.0
            eps = everywhere[:, None]
            truth = np.maximum(-np.expm1(eps - each), 0.0) @ masses
            found = np.maximum(-np.expm1(eps - split.losses[used]), 0.0) @ split.mass[used]
            assert (found <= truth * (1.0 + 1e-13) + split.loss_error * (each > eps) @ masses).all()
            assert (found >= truth - 1.1 * step * ((each > eps - step) @ masses) - 1e-12).all()


def test_a_fine_lattice_loses_little_when_split_down() -> None:
    """The error is of second order in the step, a twelfth of its square in the variance."""
    losses = np.linspace(-6.0, 6.0, 20_001)
    masses = np.exp(-0.5 * (losses - 0.5) ** 2)
    masses /= masses.sum()
    for step in (0.01, 0.1):
        split = privacy_loss.split_down(losses, masses, 0.0, step, (0.0, 0.0))
        variance = split.mass @ split.losses**2 - (split.mass @ split.losses) ** 2
        assert 0.0 < 1.0 - variance < 0.2 * step**2 + 1e-6


@pytest.mark.parametrize("side", ["upper", "lower"])
@pytest.mark.parametrize("seed", range(8))
def test_nodes_that_all_sums_share_are_certified(monkeypatch, seed, side) -> None:
    monkeypatch.setattr(outcome_bundles, "MAX_KEPT", 0)
    rng = np.random.default_rng(seed)
    n, k, eps0 = int(10 ** rng.uniform(1.5, 3.5)), int(rng.integers(3, 40)), rng.uniform(0.1, 5.0)
    setting = Setting(n, k, eps0)
    pair = (pairs.weak_adversary if side == "upper" else pairs.all_hold_third_cell)(setting)
    (law,) = krr.loss_distributions(setting, side, None)
    scale = pairs.symmetric_form(pair).deviation
    for eps in np.minimum(scale * np.array([0.01, 0.5, 1.0, 2.0, 4.0, 7.0]), 0.9 * eps0):
        truth, found = hockey_stick(pair, eps), log_hockey_stick([(law, 1)], eps)
        if side == "upper":
            assert truth.low <= found.high
            assert found.high <= hockey_stick(pair, eps * (1.0 - 1e-3)).high + 1e-3
        else:
            assert found.low <= truth.high
            assert found.low >= hockey_stick(pair, eps + 0.05 * scale).low - 0.05


@pytest.mark.parametrize(("p", "reach", "stride"), [(0.3, 40, 1), (0.8, 30, 7), (0.02, 15, 2)])
def test_intervals_of_the_third_count_are_exact_within_the_stated_error(p, reach, stride) -> None:
    trials = np.arange(150.0, 60.0, -1.0)
    counts = outcome_bundles._third_counts(trials, p, 1.0 - p, reach, stride, 46.0)
    P, error = Fraction(p), counts.error
    for m, edges, found, moment in zip(
        trials.astype(int)[::13].tolist(),
        counts.edges[::13],
        counts.probability[::13],
        counts.moment[::13],
        strict=True,
    ):
        mass = [comb(m, x) * P**x * (1 - P) ** (m - x) for x in range(m + 1)]
        lost = Fraction(0)
        for low, high, got, got_moment in zip(edges, edges[1:], found, moment, strict=False):
            inside = range(int(low) + 1, min(int(high), m) + 1)
            truth = sum((mass[x] for x in inside), Fraction(0))
            first = sum((x * mass[x] for x in inside), Fraction(0))
            assert got == 0.0 or abs(Fraction(got) - truth) <= error * truth
            assert got_moment == 0.0 or abs(Fraction(got_moment) - first) <= error * first
            lost += truth if got == 0.0 else 0
        outside = sum(mass[: max(int(edges[0]), -1) + 1]) + sum(mass[int(edges[-1]) + 1 :])
        assert lost + outside <= counts.left_out * (1 + 1e-9)


def test_atoms_need_not_be_sorted() -> None:
    """Rounding may exchange neighbouring losses, so that the smallest is not the first."""
    setting = Setting(118_874_521, 106_143, 0.004055650504766584)
    (loss,) = krr.loss_distributions(setting, "lower")
    assert 0.999 < float(loss.mass.sum()) <= 1.0 + 1e-9
    losses, masses = np.array([-0.1, 0.05, 0.12, 0.31]), np.array([0.2, 0.3, 0.4, 0.1])
    ordered = privacy_loss.split_down(losses, masses, 0.0, 0.1, (0.0, 0.0))
    mixed = privacy_loss.split_down(
        losses[[2, 0, 3, 1]], masses[[2, 0, 3, 1]], 0.0, 0.1, (0.0, 0.0)
    )
    assert np.array_equal(ordered.mass, mixed.mass)
    assert ordered.start == mixed.start


@pytest.mark.parametrize(("n", "k"), [(10**9, 2), (10**10, 10**6)])
def test_rare_cells_of_a_round_keep_their_digits(n, k):
    """Nearly every report is in the other cells, so one minus their share has no digit left."""
    eps0 = 1e-3
    form = pairs.symmetric_form(pairs.weak_adversary(Setting(n, k, eps0)))
    with flint.ctx.workdps(60):
        grown = flint.arb(eps0).exp()
        q = 1 / (grown + k - 1)
        for got, truth in (
            (form.q, q),
            (form.p3, (k - 2) * q),
            (form.p4, (grown - 1) * q),
            (form.p3 + form.p4, 1 - 2 * q),
        ):
            assert abs(flint.arb(got) - truth) <= 8 * 2.0**-53 * truth
        pair = pairs.weak_adversary(Setting(n, k, eps0))
        _, _, mass_error, _ = next(outcome_bundles.bundles(pair, "lower")[0])
    assert mass_error < 1e-6
    rest = form.p3 + form.p4
    s = np.floor(n * 2.0 * form.q + np.array([-9.0, 3.0]) * np.sqrt(n * 2.0 * form.q * rest))
    error = log_pmf_error(s, n, 2.0 * form.q, rest, 20.0)
    with flint.ctx.workdps(60):
        trials = flint.arb(n)
        for count, value, bound in zip(s, log_pmf(s, n, 2.0 * form.q, rest), error, strict=True):
            x = flint.arb(int(count))
            truth = (trials + 1).lgamma() - (x + 1).lgamma() - (trials - x + 1).lgamma()
            truth += x * (2 * q).log() + (trials - x) * (1 - 2 * q).log()
            assert abs(truth - float(value)) <= float(bound)


@pytest.mark.parametrize("depth", [2.0, 6.0, 20.0])
@pytest.mark.parametrize("setting", [Setting(1000, 4, 1.0), Setting(50, 16, 2.0)])
def test_what_a_window_leaves_out_counts_as_infinite_loss(setting, depth):
    law = privacy_loss.rounded_up(pairs.weak_adversary(setting), 0.01, depth)
    assert law.mass.sum() + law.infinite >= 1.0


@pytest.mark.parametrize(("first", "largest"), [(0, 240), (1, 240), (1100, 1098)])
def test_sums_of_coins_have_their_exact_probabilities_within_the_stated_error(first, largest):
    # The sum 1098 of 1,100 coins underflows, but not that of 1,300.
    coins = np.arange(first, first + 230.0, 2.0)
    u = np.arange(first % 2, largest + 1.0, 2.0)[::-9]
    found, error = outcome_bundles._coin_sums(coins[:, None], u)
    for i, n in enumerate(coins.astype(int).tolist()):
        for j, total in enumerate(u.astype(int).tolist()):
            exactly = Fraction(comb(n, (n + total) // 2), 2**n)
            if exactly > Fraction(1, 10**300):
                assert abs(Fraction(float(found[i, j])) / exactly - 1) <= error, (n, total)
