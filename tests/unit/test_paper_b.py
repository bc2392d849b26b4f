"""Paper B's figures and the figure of all bounds: what they and their captions say."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq
from scipy.special import log_ndtr
from scipy.stats import binom
from shuffledp.papers.literature.renyi import shuffled_rdp_upper, subsampled_rdp
from shuffledp.papers.literature.theorems import advanced_epsilon, kov_epsilon
from shuffledp.accounting.one_round.single_bin import worst_count_log_delta
from shuffledp.accounting.registry import BOUNDS
from shuffledp.accounting.rounds import shuffled_krr
from shuffledp.accounting.setting import Setting
from shuffledp.papers.all_bounds_figure import all_bounds
from shuffledp.papers import headlines, literature
from shuffledp.papers.figure_specs import curve, curves
from shuffledp.papers.paper_b import one_round, orders, rounds, sampling
from shuffledp.papers.published import read_published

ORDERS = np.unique(np.round(np.geomspace(2.0, 16384.0, 120)))
PUBLISHED = Path(__file__).parents[2] / "resources" / "published_values.csv"
HEADLINE = (Setting(1_000_000, 2, 0.5), np.array([1e5]))


@pytest.fixture(scope="module")
def divergences() -> pd.DataFrame:
    table = orders.rdp_against_order()
    return table.pivot_table(index=["panel", "x"], columns="curve", values="y", sort=False)


def test_divergence_of_the_special_pair_lies_between_the_theorems(
    divergences: pd.DataFrame,
) -> None:
    pair = divergences["special pair of 2-RR, exact, larger direction"]
    assert (divergences["Girgis et al., Theorem 3.4"] <= pair * (1 + 1e-9)).all()
    assert (pair <= divergences["Girgis et al., Theorem 3.1"]).all()
    assert (pair <= divergences["Girgis et al., Theorem 3.3"]).all()
    assert (
        pair <= divergences["Erlingsson et al., Rényi (Girgis et al., eq. 9, reconstructed)"]
    ).all()


def test_theorem_3_4_falls_behind_the_larger_direction(divergences: pd.DataFrame) -> None:
    last = divergences.loc[r"$\epsilon_0=3$, $n=10^{4}$ (assumed)"].iloc[-1]
    share = (
        last["Girgis et al., Theorem 3.4"] / last["special pair of 2-RR, exact, larger direction"]
    )
    assert 0.25 < share < 0.28


def test_divergence_of_order_two_has_a_closed_form(divergences: pd.DataFrame) -> None:
    first = divergences.loc[r"$\epsilon_0=1$, $n=10^{6}$ (assumed)"][
        "Girgis et al., Theorem 3.4"
    ].iloc[0]
    assert first == pytest.approx(np.log1p(np.expm1(1.0) ** 2 / (1e6 * np.e)), rel=1e-9)


def special_pair_delta(eps: float, eps0: float, n: int) -> float:
    """Both directions by summing the two laws of the count."""
    p = 1.0 / (1.0 + np.exp(eps0))
    x = np.arange(n + 1)
    equal = binom.pmf(x, n, p)
    flipped = p * binom.pmf(x, n - 1, p) + (1 - p) * binom.pmf(x - 1, n - 1, p)
    sides = (flipped - np.exp(eps) * equal, equal - np.exp(eps) * flipped)
    return max(float(np.maximum(side, 0.0).sum()) for side in sides)


@pytest.mark.parametrize("eps0", [0.5, 3.0])
def test_special_pair_epsilon_meets_delta(eps0: float) -> None:
    eps = one_round.special_pair_epsilon(np.log(1e-6), Setting(10_000, 2, eps0))
    assert special_pair_delta(eps, eps0, 10_000) == pytest.approx(1e-6, rel=1e-6)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Eps of mu-GDP at a delta."""

    def excess(eps: float) -> float:
        first = np.exp(log_ndtr(mu / 2 - eps / mu))
        return float(first - np.exp(eps + log_ndtr(-mu / 2 - eps / mu)) - delta)

    return float(brentq(excess, 0.0, 20.0))


def test_headline_of_composition() -> None:
    setting, counts = HEADLINE
    n, eps0 = setting.n, setting.eps0
    eps = float(rounds.composed_renyi(shuffled_rdp_upper(ORDERS, setting), ORDERS, counts)[0])
    assert eps == pytest.approx(1.640, abs=5e-4)
    numeric, closed = rounds.numeric_clones_epsilon, rounds.closed_clones_epsilon
    factors = [
        float(rounds.composed_dp(one_step, compose, setting, counts)[0]) / eps
        for one_step, compose in [
            (numeric, kov_epsilon),
            (numeric, advanced_epsilon),
            (closed, kov_epsilon),
        ]
    ]
    assert factors == pytest.approx([4.47, 5.48, 21.3], rel=2e-3)
    upper = float(rounds.certified_composition(setting, counts, "upper")[0])
    lower = float(rounds.certified_composition(setting, counts, "lower")[0])
    assert lower < upper
    assert upper == pytest.approx(0.905, abs=5e-4)
    assert eps / upper == pytest.approx(1.8, abs=0.05)
    assert factors[0] * eps / upper == pytest.approx(8.1, abs=0.05)
    # So many rounds are nearly Gaussian: the variance of the ratio of the special pair adds up.
    mu = np.expm1(eps0) * np.sqrt(counts[0] / (n * np.exp(eps0)))
    assert lower == pytest.approx(gaussian_epsilon(mu, 1e-8), rel=5e-3)
    # So does that of the weak adversary's pair.
    weak = np.expm1(eps0) * np.sqrt(2.0 * counts[0] / (n * (np.exp(eps0) + 1.0)))
    assert upper == pytest.approx(gaussian_epsilon(weak, 1e-8), rel=5e-3)


def test_headline_of_sampling() -> None:
    counts, everybody = np.array([1e4]), Setting(1_000_000, 2, 3.0)
    eps = float(sampling.sampled_renyi(everybody, 1e-3, counts)[0])
    setting = sampling.mean_sample(everybody, 1e-3)
    assert eps == pytest.approx(1.016, abs=2e-3)
    numeric, closed = rounds.numeric_clones_epsilon, rounds.closed_clones_epsilon
    factors = [
        float(rounds.composed_dp(one_step, compose, setting, counts, 1e-3)[0]) / eps
        for one_step, compose in [
            (closed, kov_epsilon),
            (numeric, kov_epsilon),
            (numeric, advanced_epsilon),
        ]
    ]
    assert factors == pytest.approx([12.0, 3.49, 4.22], rel=5e-3)
    assert closed(np.log(1e-8), setting) == 3.0


def test_rounds_gained_by_sampling() -> None:
    """At the stated rounds of the clones 17 times as many; at those of Theorem 3.1 only 6.6."""
    row = next(one for one in read_published(PUBLISHED) if one.quantity.startswith("rounds gained"))
    answer = headlines.interactions(row)
    more = float(answer.as_printed or 0)
    assert row.agrees(answer.as_printed)
    assert more == pytest.approx(17.5, abs=0.1)
    assert "6.6 times fewer" in answer.note
    everybody = Setting(1_000_000, 2, 3.0)
    setting = sampling.mean_sample(everybody, 1e-3)

    def clones(counts: float) -> float:
        numeric, at = rounds.numeric_clones_epsilon, np.array([counts])
        return float(rounds.composed_dp(numeric, kov_epsilon, setting, at, 1e-3)[0])

    counts = np.array([1e4, np.round(1e4 * more)])
    few, many = sampling.sampled_renyi(everybody, 1e-3, counts)
    assert many == pytest.approx(clones(1e4), rel=2e-3)
    assert few == pytest.approx(clones(np.round(1e4 / 6.6)), rel=1e-2)


def test_sampling_theorem_is_no_guarantee_for_replacement() -> None:
    """One user, 2-RR, nobody else: who is sampled is seen, so the moment shrinks by the rate."""
    rate, p = 0.1, np.e / (np.e + 1.0)
    divergence = np.log(p**2 / (1 - p) + (1 - p) ** 2 / p)
    truth = np.log1p(rate * np.expm1(divergence))
    claimed = float(subsampled_rdp(2, rate, lambda order: np.full(order.shape, divergence)))
    assert truth == pytest.approx(0.1031, abs=1e-4)
    assert claimed == pytest.approx(0.0108, abs=1e-4)


@pytest.mark.slow
def test_seen_sampling_is_the_mean_over_rounds_with_the_target() -> None:
    eps0, n, rate, count = 1.0, 2000, 0.3, 8
    eps = sampling.seen_sampling_epsilon(Setting(n, 2, eps0, count), rate)
    j = np.arange(1, count + 1)

    def mean(participants: int) -> float:
        settings = [Setting(participants, 2, eps0, int(one)) for one in j]
        log_delta = [shuffled_krr.dominated_log_delta(eps, one) for one in settings]
        return float(binom.pmf(j, count, rate) @ np.exp(log_delta))

    # Between those for the mean number of participants and for three standard deviations fewer.
    typical = 1 + round(rate * (n - 1))
    assert mean(typical) < 1e-8 < mean(typical - round(3 * (n * rate * (1 - rate)) ** 0.5))


def test_everybody_sampled_is_no_sampling() -> None:
    setting = Setting(500, 2, 1.0, 4)
    everybody = sampling.seen_sampling_epsilon(setting, 1.0)
    plain = BOUNDS["any-randomiser"].curve(setting).epsilon(np.log(1e-8)).only
    assert everybody == pytest.approx(float(plain), rel=1e-6)


@pytest.fixture(scope="module")
def bounds_at_reference() -> dict[str, float]:
    """Eps of every bound but the slow Fourier accountant at delta = 1e-6."""
    setting = literature.SETTING
    return {
        name: float(bound.curve(setting).epsilon(np.log(1e-6)).only)
        for name, bound in BOUNDS.items()
        if name != "fourier" and bound.why_not(setting, np.log(1e-6)) is None
    }


def test_every_bound_but_the_one_for_two_cells_applies(
    bounds_at_reference: dict[str, float],
) -> None:
    one_round = {name for name, bound in BOUNDS.items() if "composition" not in name}
    assert one_round - set(bounds_at_reference) == {"exact-2rr", "fourier"}


def test_certified_band_is_a_hairline_and_no_bound_crosses_it(
    bounds_at_reference: dict[str, float],
) -> None:
    low, high = bounds_at_reference["lower"], bounds_at_reference["upper"]
    assert low <= high <= low * (1 + 1e-5)
    for name, eps in bounds_at_reference.items():
        if BOUNDS[name].kind == "upper":
            assert eps >= low, name
        elif BOUNDS[name].kind == "lower":
            assert eps <= high, name


def test_single_bin_is_drawn_at_its_worst_count() -> None:
    s, eps = literature.SETTING, 1e-3
    worst = float(worst_count_log_delta(eps, s))
    assert BOUNDS["single-bin"].curve(s).log_delta(eps).only == pytest.approx(worst, rel=1e-6)


def test_as_printed_is_thousands_of_orders_below_the_truth() -> None:
    eps = np.array([1e-4, 1e-3])
    printed = BOUNDS["single-bin-as-printed"].curve(literature.SETTING).log_delta(eps).only
    lower = BOUNDS["lower"].curve(literature.SETTING).log_delta(eps).only
    assert ((lower - printed) / np.log(10.0) > 7000).all()


def test_all_bounds_are_listed_by_eps() -> None:
    deltas = np.array([-2.0, -6.0, -30.0])
    table = curves(
        [
            curve("", "wide", "upper", [0.01, 0.05, 0.2], deltas),
            curve("", "upper", "upper", [0.001, 0.003, 0.01], deltas),
            curve("", "lost", "as printed", [0.1, 0.2, 0.3], [-812.5, -900.0, -999.0]),
        ]
    )
    figure = all_bounds(table, literature.FIGURES["all-bounds"])
    axes, side = figure.axes
    assert [line.get_label() for line in axes.get_lines()] == ["upper", "wide"]
    written = [text.get_text() for text in side.texts]
    assert written[1:7] == ["1", "upper", "0.003", "2", "wide", "0.05"]
    assert written[7:] == ["lost:", r"off the plot, $\delta < 10^{-812}$"]
