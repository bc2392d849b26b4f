"""Numbers that show what is wrong in the papers: ``python -m shuffledp.papers.errata A1``.

Each function is named after an entry of docs/errata.md, which explains its output.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import numpy as np
from numpy import array, exp, log

from shuffledp.accounting.bound_registry import BOUNDS
from shuffledp.accounting.krr import lower_log_delta, upper_log_delta
from shuffledp.accounting.one_round import single_bin, two_rr
from shuffledp.accounting.rounds.tradeoff import gdp_epsilon, gdp_to_log_delta
from shuffledp.accounting.setting import Setting
from shuffledp.mechanisms import estimators, gaussian
from shuffledp.mechanisms.matrix import MatrixRandomiser
from shuffledp.papers import paper_a, paper_b, paper_c
from shuffledp.papers.figure_specs import end_of_profile
from shuffledp.papers.literature import closed_forms, renyi, theorems
from shuffledp.papers.literature.as_printed import log_delta_as_printed
from shuffledp.papers.literature.clones import clones_log_delta
from shuffledp.papers.paper_d import published, training
from shuffledp.papers.paper_d.curves import normal_distances
from shuffledp.papers.paper_d.estimation import pooled_weights, share_weights
from shuffledp.personalised.groups import BudgetGroups


def _a1() -> Iterator[str]:
    for eps0, eps in (1.0, 0.1), (2.0, 1.5), (0.49, 0.4):
        s = Setting(100, 10, eps0)
        logs = (
            log_delta_as_printed(eps, s, 80),
            single_bin.log_delta(eps, s, 80),
            lower_log_delta(eps, s),
            upper_log_delta(eps, s),
        )
        yield " ".join(f"{exp(x):.1e}" for x in logs)


def _a3() -> Iterator[str]:
    for printed, n, k, eps0, eps in (
        ("1.18E-14", 100, 10, 0.49, 0.01),
        ("2.49E-15", 100, 10, 2.0, 0.1),
        ("8.79E-11", 100, 10, 3.0, 0.1),
        ("1.91E-08", 50, 10, 2.0, 0.1),
        ("5.02E-12", 50, 10, 2.0, 0.5),
        ("1.66E-18", 100, 15, 2.0, 0.1),
        ("2.40E-15", 50, 10, 2.0, 1.0),
    ):
        s, x0 = Setting(n, k, eps0), round(0.8 * n)
        logs = (
            paper_a.log_delta_as_tabulated(eps, s, x0),
            log_delta_as_printed(eps, s, x0),
            single_bin.log_delta(eps, s, x0),
        )
        yield " ".join([printed, *(f"{exp(x):.3e}" for x in logs)])


def _a4() -> Iterator[str]:
    computed = exp(clones_log_delta(0.4, Setting(1000, 2, 0.5)))
    yield f"{exp(-1000 * 0.4**2 / (exp(0.5) - 1)):.3g} {computed:.2g}"


def _a8() -> Iterator[str]:
    for eps in 1.0, 6.0, 10.0:
        mu = 1 / gaussian.classical_sigma(eps, 1e-6, 1.0)
        yield f"{eps:g} {float(exp(gdp_to_log_delta(eps, mu))):.1e}"


def _a9() -> Iterator[str]:
    rng, n, sigma = np.random.default_rng(1), 1000, gaussian.published_sigma(4.0)
    truth = paper_a.synthetic_counts(n, paper_a.BINNING, rng)
    noisy = truth + rng.normal(0, sigma, (2000, truth.size))
    k, squares = truth.size, (noisy**2).sum(axis=-1, keepdims=True)
    above = np.abs(noisy) - sigma * np.sqrt(2 * log(k))
    estimates = (
        noisy,
        (1 - (k - 2) * sigma**2 / squares) * noisy,  # James and Stein
        np.sign(noisy) * np.maximum(above, 0),  # soft thresholds
        n * estimators.project_simplex(noisy / n),
    )
    distances = (estimators.total_variation(one / n, truth / n).mean() for one in estimates)
    yield " ".join(f"{distance:.3f}" for distance in distances)


def _a10() -> Iterator[str]:
    e, k, reports = exp(1), 3, array([5, 3, 0])
    inverse = np.linalg.inv((1 + (e - 1) * np.eye(k)) / (e + k - 1))
    likeliest = estimators.maximum_likelihood(reports, 1.0)
    for row in inverse[0], reports / 8 @ inverse, likeliest:
        yield " ".join(f"{x:.2f}" for x in row)
    yield f"noise of Table V: {gaussian.published_sigma(4.0):.2f} users"


def _b1() -> Iterator[str]:
    s, rounds, orders = Setting(10**6, 2, 0.5), array([1e5]), paper_b.ORDERS
    theorem = paper_b.composed_renyi(renyi.shuffled_rdp_upper(orders, s), orders, rounds)
    rivals = [
        paper_b.composed_dp(paper_b.numeric_clones_epsilon, rule, s, rounds)
        for rule in (theorems.kov_epsilon, theorems.advanced_epsilon)
    ]
    ends = [paper_b.certified_composition(s, rounds, end) for end in ("lower", "upper")]
    yield " ".join(f"{x[0]:.3f}" for x in (theorem, rivals[0], *ends))
    few = orders[orders < 1000]
    best = paper_b.composed_renyi(paper_b.remark_3(few, s), few, rounds)
    yield " ".join(f"{x[0]:.3f}" for x in (best, *(rival / best for rival in rivals)))
    log_delta, share = float(log(1e-8)), float(log(1e-8 * 1e-20 / 1e5))
    step = paper_b.numeric_clones_epsilon(share, s)
    yield f"{theorems.kov_epsilon(log_delta, step, share, 1e5) / theorem[0]:.1f}"


def _b2() -> Iterator[str]:
    rounds, everybody = array([1e4]), Setting(10**6, 2, 3.0)
    for rate in 1e-4, 1e-3, 0.01, 0.1:
        theorem = paper_b.sampled_renyi(everybody, rate, rounds)
        rival = paper_b.composed_dp(
            paper_b.numeric_clones_epsilon,
            theorems.kov_epsilon,
            paper_b.mean_sample(everybody, rate),
            rounds,
            rate,
        )
        yield f"rate {rate:g}: {rival[0] / theorem[0]:.2f}"


def _b3() -> Iterator[str]:
    square = (exp(2) + exp(-1)) / (1 + exp(1))
    true, theorem = (log(1 + rate * (square - 1)) for rate in (0.1, 0.1**2))
    yield f"true {true:.4f}, theorem {theorem:.4f}"


def _b4() -> Iterator[str]:
    few, many = Setting(10, 2, 0.1), Setting(10**4, 2, 3.0)
    upper, simple = renyi.shuffled_rdp_upper(20, few), renyi.shuffled_rdp_upper_simple(20, few)
    yield f"{upper:.4f} {simple:.4f}"
    lower, reverse = renyi.shuffled_rdp_lower(200, many), renyi.special_pair_renyi(200, many)
    yield f"{lower:.3f} {reverse:.3f}"


def _b5() -> Iterator[str]:
    s, log_delta = Setting(10**4, 2, 0.1), float(log(1e-6))
    lower = renyi.shuffled_rdp_lower(paper_b.ORDERS, s)
    converted = renyi.rdp_to_dp(paper_b.ORDERS, lower, log_delta)
    clones = BOUNDS["clones"].curve(s).epsilon(log_delta).upper
    yield f"{float(converted):.5f} {clones:.5f}"


def _b6() -> Iterator[str]:
    s = Setting(145, 2, 1e-4)
    bounds = (paper_b.corollary_3_2, renyi.shuffled_rdp_upper, renyi.special_pair_renyi)
    yield " ".join(f"{float(bound(2, s)):.2g}" for bound in bounds)


def _c1() -> Iterator[str]:
    s = paper_c.setting_of_gamma(1000, 4, 0.25)
    profiles = (
        paper_c.printed_pair_profile(s, "weak"),
        paper_c.histogram_profile(s),
        paper_c.printed_pair_profile(s, "strong"),
        paper_c.strong_adversary_profile(s),
    )
    yield " ".join(f"{end_of_profile(profile, 1e-6, 8.0):.2f}" for profile in profiles)


def _c3() -> Iterator[str]:
    s = Setting(10**6, 2, 9.0)
    printed = paper_c.printed_closed_form_log_delta(array(2.2), s)
    logs = (float(printed), float(lower_log_delta(2.2, s)))
    yield " ".join(f"{x / log(10):.1f}" for x in logs)


def _c4() -> Iterator[str]:
    s = Setting(1000, 4, float(log(13)))
    yield str(closed_forms.balle_krr_domain(s, float(log(1e-3))))


def _c6() -> Iterator[str]:
    s = Setting(60, 2, 4.0)
    worst = two_rr.two_rr_log_delta(0.1, s)
    yield f"{exp(worst):.4f} {exp(single_bin.log_delta(0.1, s, 0)):.4f}"


def _d1() -> Iterator[str]:
    groups = BudgetGroups(array([4.0]), array([1000]))
    eps = published.mu_gdp_epsilon(float(log(1e-6)), groups)
    deltas = (f"{exp(lower_log_delta(eps, Setting(1000, k, 4.0))):.1e} (k={k})" for k in (2, 3))
    yield " ".join([f"eps {eps:.3f}:", *deltas])


def _d4() -> Iterator[str]:
    for n in 50, 1000:
        yield " ".join([str(n), *(f"{x:.4f}" for x in normal_distances(n, 0.1))])


def _d5() -> Iterator[str]:
    groups = BudgetGroups(array([0.1, 0.5, 1.0]), array([5400, 3700, 900]))
    ones = array([270, 2196, 534]) / groups.counts
    yield " ".join(f"{w @ ones:.3f}" for w in (pooled_weights(groups), share_weights(groups)))


def _d6() -> Iterator[str]:
    sigma = float(training.noise_scale(1.0, 1e-5, 2.0, 100))
    step, whole = (float(training.record_mu(sigma, 2.0, 100, epochs)) for epochs in (1, 50))
    eps = (gdp_epsilon(mu, float(log(1e-5))) for mu in (step, whole, 600 * step))
    yield " ".join(f"{each:.2f}" for each in eps)


def _d7() -> Iterator[str]:
    d = 0.1
    shown = MatrixRandomiser(array([[d, 0, 1 - d], [0, d, 1 - d]]))
    for n in 100, 10**4:
        ends, mu = shown.curve(Setting(n, 2)).log_delta(0.0), 2 / np.sqrt((n - 1) * (1 - d))
        theorem = (1 - d) * exp(gdp_to_log_delta(0.0, mu))
        deltas = [exp(end) for end in (ends.lower, ends.upper) if end is not None]
        yield " ".join([str(n), *(f"{delta:.4f}" for delta in (*deltas, theorem))])


def _l1() -> Iterator[str]:
    for eps, delta in (1, 1e-12), (1, 1e-15), (1, 1e-20), (1, 1e-40), (10, 1e-10), (25, 1e-6):
        theirs = gaussian.DiffprivlibRequest(eps, delta, 1.0).sigma
        right = gaussian.gaussian_sigma(eps, float(log(delta)), 1.0)
        yield f"{eps} {delta:g} {theirs:.5f} {right:.5f} {100 * (theirs / right - 1):+.5f} %"


CHECKS: Final[Mapping[str, Callable[[], Iterator[str]]]] = {
    "A1": _a1, "A3": _a3, "A4": _a4, "A8": _a8, "A9": _a9, "A10": _a10,
    "B1": _b1, "B2": _b2, "B3": _b3, "B4": _b4, "B5": _b5, "B6": _b6,
    "C1": _c1, "C3": _c3, "C4": _c4, "C6": _c6,
    "D1": _d1, "D4": _d4, "D5": _d5, "D6": _d6, "D7": _d7, "L1": _l1,
}  # fmt: skip


if __name__ == "__main__":
    names = sys.argv[1:]
    if not names or set(names) - set(CHECKS):
        sys.exit(f"give entries of {', '.join(CHECKS)}, got {' '.join(names) or 'none'}")
    for name in names:
        print(*CHECKS[name](), sep="\n")
