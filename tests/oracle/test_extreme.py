"""Both ends enclose the truth for budgets and sizes where digits are easily lost."""

import json
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from math import log

import numpy as np
import pytest
from effort import examples, long
from flint import arb, ctx

from oracle import audit, enumerated, exact
from shuffledp import cli, queries
from shuffledp.accounting import krr, pairs
from shuffledp.accounting.bound_registry import BOUNDS
from shuffledp.accounting.one_round import single_bin
from shuffledp.accounting.pairs import hockey_stick
from shuffledp.accounting.setting import Setting
from shuffledp.mechanisms.registry import MECHANISMS
from shuffledp.mechanisms.shuffler_dummies import ShufflerDummiesParameters
from shuffledp.mechanisms.target_calibration import Released, calibrated
from shuffledp.mechanisms.two_servers import TwoServers


def alike_log_delta(n, eps0, eps):
    """Return log delta of 2-RR in balls if all others hold the target's cell."""
    with ctx.workprec(400):
        budget = arb(eps0).exp()
        p, q, e = budget / (1 + budget), 1 / (1 + budget), arb(eps).exp()
        mean = n * float(q)
        reach = int(mean + 60 * mean**0.5 + 60)

        def others(j):
            if not 0 <= j <= n - 1:
                return arb(0)
            ways = arb(n).lgamma() - arb(j + 1).lgamma() - arb(n - j).lgamma()
            return (ways + j * q.log() + (n - 1 - j) * p.log()).exp()

        totals = [arb(0), arb(0)]
        for j in range(reach):
            same, other = p * others(j) + q * others(j - 1), q * others(j) + p * others(j - 1)
            for direction, excess in enumerate([same - e * other, other - e * same]):
                totals[direction] += excess if excess > 0 else 0
        return float(max(totals, key=float).log())


@pytest.mark.parametrize(
    ("n", "eps0", "eps"),
    [(10**6, 12.0, 9.0), (10**7, 16.0, 15.0), (10**8, 20.0, 18.0), long(2 * 10**9, 26.0, 25.25)],
)
def test_two_cells_large_budgets_many_users(n, eps0, eps):
    setting = Setting(n, 2, eps0)
    truth = alike_log_delta(n, eps0, eps)
    ends = single_bin.log_delta(eps, setting, n - 1)
    assert ends == pytest.approx(truth, abs=1e-11)
    lower, upper = (float(end(eps, setting)) for end in (krr.lower_log_delta, krr.upper_log_delta))
    assert lower <= upper
    assert truth - 1e-8 < lower


@pytest.mark.parametrize("E", [10**k for k in (6, 9, 12, 15, 16, 19, 25, 60)])
@pytest.mark.parametrize(("n", "k"), [(3, 10), (5, 4), (2, 3)])
def test_budgets_beyond_the_last_digit(n, k, E):
    e = Fraction(27, 10)
    eps, setting = log(e), Setting(n, k, log(E))
    for dataset, make in [("same", pairs.all_hold_x0), ("other", pairs.all_hold_x1)]:
        truth = exact.lower_delta(n, k, Fraction(E), e, dataset)
        ends = hockey_stick(make(setting), eps)
        # Rounding eps0 changes delta by at most the relative change of E.
        slack = 1e-9 + 1e-15 * log(E)
        assert ends.low - slack <= np.log(float(truth)) <= ends.high + slack
        assert ends.high - ends.low < 1e-8
    lower, upper = (float(end(eps, setting)) for end in (krr.lower_log_delta, krr.upper_log_delta))
    assert lower <= upper <= 0.0


@pytest.mark.slow
def test_a_random_audit_finds_nothing():
    """A small `make audit` with a fixed seed and moderate sizes."""
    findings = next(islice(audit.audit(5, most_users=1e4), examples(300) - 1, None))
    assert not findings.false
    assert findings.checks["proven in balls"] > 0
    assert findings.checks["lower below upper"] > 0


# Commands that once were false or took minutes, and how close their ends must be.
ONCE_WRONG = [
    ("delta --n 1e8 --k 2 --eps0 20 --eps 18", 1e-6),
    ("epsilon --n 2e9 --k 2 --eps0 26 --delta .5", 1e-6),
    ("delta --n 3 --k 10 --eps0 43.6084188683389 --eps 1", 1.0),
    ("delta --n 1e6 --k 2 --eps0 2 --eps .0172", 1e-6),
    ("delta --n 1e10 --k 2 --eps0 1 --eps 1e-4", 1e-2),
    ("delta --n 30 --k 3 --eps0 3 --eps 2.4", 1.0),
    long("epsilon --n 1e7 --k 3 --eps0 8 --rounds 1000 --delta 1e-15", 1e-3),
    ("epsilon --n 1e5 --k 16 --eps0 4 --rounds 10 --delta 1e-18", 1e-3),
    long("epsilon --n 1e9 --k 3 --eps0 .05 --rounds 2 --delta 1e-9", 1e-3),
    ("delta --n 100 --k 4 --eps0 60 --rounds 2 --eps 50", 1.0),
    ("delta --n 100 --k 4 --eps0 300 --rounds 3 --eps 500", 1.0),
    ("delta --n 1e9 --k 16 --eps0 .5 --eps .35", 1.0),
    ("delta --n 1000001 --k 3 --eps0 .05 --eps .045", 1.0),
]


@pytest.mark.parametrize(("command", "width"), ONCE_WRONG, ids=lambda value: str(value)[:60])
def test_commands_that_once_were_false_or_slow(capsys, command, width):
    assert cli.main([*command.split(), "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    name = "eps" if command.startswith("epsilon") else "log10_delta"
    low, high = row[f"{name}_lower"], row[f"{name}_upper"]
    assert low <= high
    if width < 1.0:
        assert high - low <= width * abs(high)
    if name == "log10_delta":
        assert high <= 0.0


@pytest.mark.parametrize("rate", [1.0, long(0.6417738748186393)])
def test_a_delta_below_all_floats_is_not_zero(rate):
    """All probabilities underflow here; delta was 0 once (found by `make audit`)."""
    once, eps = Setting(14_080, 43_926, 0.9423594962284987), 0.49246210964774306
    high = BOUNDS["upper"].curve(replace(once, rounds=5, sampling_rate=rate)).log_delta(eps).upper
    low = float(BOUNDS["lower"].curve(once).log_delta(eps).only) + np.log(rate)
    assert low <= high < -600.0


@pytest.mark.parametrize(
    ("of", "count"),
    [
        (audit.audit_budget_ends, 60),
        (audit.audit_calibration, 30),
        (audit.audit_extreme_views, 20),
        (audit.audit_servers, 30),
        (audit.audit_mixdump_rounds, 20),
        (audit.audit_crowd, 300),
        (audit.audit_own_budgets, 300),
        (audit.audit_noise_budgets, 200),
        (audit.audit_mechanism, 100),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_random_settings_have_no_false_end(of, count):
    findings, random = audit.Findings(), np.random.default_rng(35)
    with ctx.workprec(enumerated.BITS):
        for _ in range(examples(count)):
            of(findings, random)


@pytest.mark.parametrize(
    ("mechanism", "sizes", "eps", "log10_delta", "rounds"),
    [
        ("discrete-laplace", (1000, 10), 5.0, -20.0, 3),
        ("discrete-laplace", (1000, 10), 0.016820503716093938, -28.407, 2),
        ("two-servers", (100_000, 8), 1.0, -300.0, 52),
        ("rappor", (2, 47), 0.015043418417254975, -258.0, 21),
        ("oue", (5, 10), 1e-3, -280.0, 3),
    ],
)
def test_calibrations_that_were_above_their_target_or_failed(
    mechanism, sizes, eps, log10_delta, rounds
):
    setting, log_delta = Setting(*sizes, rounds=rounds), float(np.log(10.0) * log10_delta)
    how = MECHANISMS[mechanism]
    parameters = calibrated(how, eps, log_delta, setting)
    released = replace(setting, mechanism=Released(how, parameters))
    assert queries.log_delta(eps, released).upper <= log_delta


def test_the_public_view_of_hardly_any_noise_is_not_nan():
    """exp(1500) overflows; the answer was NaN once."""
    views = TwoServers().views(ShufflerDummiesParameters(2000.0, 3), Setting(100, 4))
    high = views["public"].log_delta(1500.0).promised
    with ctx.workprec(enumerated.BITS):
        noise = enumerated.geometric(2000.0, None, 4)
        dummies = enumerated.geometric(2000.0, 3, 4)
        both = enumerated.summed(dummies, noise, range(-1, 8), arb(-8000).exp())
        truth = enumerated.stick(enumerated.noisy_pair(both, ends=False), 1500.0)
        assert not truth > arb(high).exp()
