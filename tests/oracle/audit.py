"""Random search for false ends and slow queries over the whole domain of the accountant.

    python tests/oracle/audit.py --seconds 3600 --seed 7

The ends of settings of any size must be in order and consistent with those of neighbouring
settings: delta falls with eps and users, and grows with the local budget and rounds. The inverse
problems must lead back to them, and ball arithmetic must prove them where it is fast enough.
Settings of few users are compared with enumeration: rounds of k-RR, random matrices, every
mechanism, sampling, dropouts, dummies, and personal budgets (k-RR, Laplace, Gaussian).
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
from flint import arb, ctx
from tqdm import tqdm

from shuffledp import queries
from shuffledp.accounting.bound_registry import BOUNDS
from shuffledp.accounting.certificate import certificate
from shuffledp.accounting.krr import weak_adversary_log_delta
from shuffledp.accounting.setting import LARGEST_EPS0, LARGEST_K, LARGEST_N, Setting
from shuffledp.errors import InputError
from shuffledp.mechanisms.discrete_laplace import DiscreteLaplaceParameters
from shuffledp.mechanisms.gaussian import GaussianParameters
from shuffledp.mechanisms.local import LocalParameters
from shuffledp.mechanisms.local_hashing import HashingParameters
from shuffledp.mechanisms.matrix import MatrixRandomiser
from shuffledp.mechanisms.mixdump import MixdumpParameters
from shuffledp.mechanisms.randomised_response import KRRParameters
from shuffledp.mechanisms.registry import MECHANISMS
from shuffledp.mechanisms.shuffler_dummies import ShufflerDummiesParameters
from shuffledp.mechanisms.subset_selection import SubsetParameters
from shuffledp.mechanisms.target_calibration import Released, calibrated
from shuffledp.mechanisms.two_servers import GaussianServersParameters, TwoServers
from shuffledp.mechanisms.unary_encoding import UnaryParameters
from shuffledp.mechanisms.user_dummies import UserDummiesParameters
from shuffledp.personalised.budgets import reports
from shuffledp.personalised.groups import BudgetGroups
from shuffledp.personalised.krr_reports import personalised_log_delta
from shuffledp.verification.checker import verify
from shuffledp.verification.deltas import TooLongError

sys.path.insert(0, str(Path(__file__).parents[1]))  # for make audit

from oracle import enumerated

Random = np.random.Generator
# Truncation errors depend on the log of delta for which a curve is computed.
AIM = float(np.log(1e-6))


class FalseEndError(AssertionError):
    """Two answers that cannot both be true."""


@dataclass
class Findings:
    """Count of each check, worst figures, and false claims of an audit.

    ``worst`` maps a name to its largest number and where it occurred; ``false`` lists errors, each
    with the name of its audit.
    """

    checks: Counter = field(default_factory=Counter)
    worst: dict = field(default_factory=dict)
    false: list = field(default_factory=list)

    def note(self, name: str, value: float, where: object) -> None:
        if value > self.worst.get(name, (-np.inf, None))[0]:
            self.worst[name] = (value, where)

    def at_most(self, check: str, smaller: float, larger: float, where: object) -> None:
        """Check an order of two logs of delta, or of two budgets."""
        self.checks[check] += 1
        if not smaller <= larger:
            raise FalseEndError(f"{check}: {smaller!r} > {larger!r} at {where}")

    def not_below(self, check: str, log_delta: float, truth: arb, where: object) -> None:
        """Check that the true delta is not certainly above an upper end."""
        self.checks[check] += 1
        if np.isnan(log_delta) or truth > arb(log_delta).exp():
            raise FalseEndError(f"{check}: {log_delta!r} < {truth.log()} at {where}")

    def not_above(self, check: str, log_delta: float, truth: arb, where: object) -> None:
        """Check that the true delta is not certainly below a lower end."""
        self.checks[check] += 1
        if np.isnan(log_delta) or truth < arb(log_delta).exp():
            raise FalseEndError(f"{check}: {log_delta!r} > {truth.log()} at {where}")


def log_uniform(random: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(random.uniform(np.log(low), np.log(high))))


def near(random: Random, budget: float) -> float:
    """Draw an eps below the budget: anywhere, near it, or small."""
    kind = random.random()
    if kind < 0.5:
        return budget * float(random.random())
    if kind < 0.8:
        return budget * (1.0 - log_uniform(random, 1e-12, 0.1))
    return budget * log_uniform(random, 1e-6, 1.0)


def few(random: Random) -> tuple[int, int, float]:
    n, k = int(random.integers(1, 5)), int(random.integers(2, 4))
    return n, k, log_uniform(random, 1e-3, 6.0)


def laws_of(rows: list[list[arb]]) -> list[enumerated.Law]:
    return [enumerated.reporting(row) for row in rows]


def enclose(findings: Findings, what: str, setting: Setting, eps: float, truth: arb) -> None:
    where = (setting, eps)
    ends = queries.log_delta(eps, setting)
    findings.not_below(f"{what}: upper", ends.upper, truth, where)
    if ends.lower is not None:
        findings.not_above(f"{what}: lower", ends.lower, truth, where)


def audit_rounds_directly(findings: Findings, random: Random) -> None:
    """Check k-RR over rounds, which for two cells composes the profile of all data sets."""
    n, k = [(1, 2), (2, 2), (4, 2), (6, 2), (1, 3), (2, 3)][random.integers(6)]
    rounds = int(random.integers(2, 6 if k == 2 else 4))
    setting = Setting(n, k, log_uniform(random, 1e-2, 5.0), rounds=rounds)
    eps = near(random, setting.budget)
    laws = laws_of(enumerated.krr(k, arb(setting.eps0).exp()))
    truth = enumerated.worst(laws, [laws] * (n - 1), eps, rounds)
    enclose(findings, f"rounds, k={k}", setting, eps, truth)


def audit_budget_ends(findings: Findings, random: Random) -> None:
    eps0 = log_uniform(random, 1e-3, 300.0)
    rounds = int(log_uniform(random, 2, 1000.0))
    exact = rounds * Fraction(eps0)
    eps = rounds * eps0
    for _ in range(int(random.integers(3))):
        eps = float(np.nextafter(eps, random.choice([0.0, np.inf])))
    where = (eps0, rounds, eps)
    alone = queries.log_delta(eps, Setting(1, 2, eps0, rounds)).upper
    how = Released(MECHANISMS["discrete-laplace"], DiscreteLaplaceParameters(eps0))
    noisy = queries.log_delta(eps, Setting(9, 2, rounds=rounds, mechanism=how)).upper
    if Fraction(eps) >= exact:
        findings.at_most("no delta from the budget on", max(alone, noisy), -np.inf, where)
        return
    # Only the largest total loss exceeds eps.
    lost = 1 - (arb(eps) - rounds * arb(eps0)).exp()
    distinguishable = (1 / (1 + (-arb(eps0)).exp())) ** rounds
    findings.not_below("one user next to the budget", alone, distinguishable * lost, where)
    cells = (1 / (1 + (-arb(eps0) / 2).exp())) ** (2 * rounds)
    findings.not_below("noise next to the budget", noisy, cells * lost, where)


def audit_calibration(findings: Findings, random: Random) -> None:
    name = str(random.choice(list(MECHANISMS)))
    # Several rounds of local randomisers take many seconds.
    quick = name in ("gaussian", "discrete-laplace", "shuffler-dummies", "two-servers", "krr")
    rounds = int(random.integers(1, 61)) if random.random() < (0.8 if quick else 0.15) else 1
    setting = Setting(
        int(log_uniform(random, 1, 1e5)), int(log_uniform(random, 2, 1e4)), rounds=rounds
    )
    round_eps = float(random.choice([0.5, 1.0, 2.0, 5.0, 8.0, 20.0]))
    eps = round_eps if random.random() < 0.3 else log_uniform(random, 1e-3, 10.0)
    log_delta = float(np.log(10.0) * -random.uniform(3.0, 300.0 if random.random() < 0.5 else 12.0))
    where = (name, setting, eps, log_delta)
    try:
        parameters = calibrated(MECHANISMS[name], eps, log_delta, setting)
    except InputError:
        findings.checks[f"{name} refuses a target"] += 1
        return
    how = Released(MECHANISMS[name], parameters)
    high = queries.log_delta(eps, replace(setting, mechanism=how)).upper
    findings.at_most("calibrated to a target", high, log_delta, (*where, parameters))


def audit_extreme_views(findings: Findings, random: Random) -> None:
    """Check that views of two servers are ordered for parameters and eps of any size."""
    budget, nu = log_uniform(random, 1e-5, 1e5), int(log_uniform(random, 1, 1e9)) - 1
    parameters = ShufflerDummiesParameters(budget, nu)
    setting = Setting(50, 5, rounds=int(random.choice([1, 1, 1, 2, 5])))
    if random.random() < 0.3:
        sigma = log_uniform(random, 0.1, 1e3)
        budget = 20.0 / sigma
        parameters = GaussianServersParameters(sigma, min(nu, int(50.0 * sigma)))
    views = TwoServers().views(parameters, setting)
    eps = near(random, 1.5 * setting.rounds * budget)
    public, shuffler = (views[view].log_delta(eps).promised for view in ("public", "shuffler"))
    # Compositions are right to some digits, and so is the sum of Gaussian noises.
    if setting.rounds == 1 and isinstance(parameters, ShufflerDummiesParameters):
        findings.at_most(
            "the public sees less than the shuffler", public, shuffler, (parameters, eps)
        )
    analyst = TwoServers().curve(parameters, setting).log_delta(eps)
    findings.at_most("extreme noise", analyst.lower or -np.inf, analyst.promised, (parameters, eps))


def audit_matrix(findings: Findings, random: Random) -> None:
    rows = enumerated.random_rows(random)
    randomiser = MatrixRandomiser(rows)
    exact = [[arb(entry) for entry in row] for row in rows.tolist()]
    laws = laws_of([[entry / sum(row, arb(0)) for entry in row] for row in exact])
    most = 4 if rows.shape[1] < 4 else 2
    n, rounds = int(random.integers(1, most + 1)), 1
    if rows.shape == (2, 2) and random.random() < 0.5:
        rounds = int(random.integers(2, 5))
    setting = Setting(n, rows.shape[0], mechanism=randomiser, rounds=rounds)
    budget = rounds * randomiser.eps0
    eps = near(random, budget if budget < np.inf else 3.0 * rounds)
    truth = enumerated.worst(laws, [laws] * (n - 1), eps, rounds)
    enclose(findings, "matrix" if rounds == 1 else "matrix over rounds", setting, eps, truth)


def audit_mechanism(findings: Findings, random: Random) -> None:
    names = list(MECHANISMS)
    name = names[findings.checks["mechanisms"] % len(names)]
    findings.checks["mechanisms"] += 1
    n, k, eps0 = few(random)
    n, k = min(n, 3), k if name != "local-hashing" else 2
    if name in ("unary-encoding", "oue", "rappor"):  # 2^k reports
        n = min(n, 2 if k == 3 else 3)
    if name == "mixdump":
        n = min(n, 2)
    parameters, truth, eps = TRUTHS.get(name, _local)(random, name, n, k, eps0)
    setting = Setting(n, k)
    upper = MECHANISMS[name].curve(parameters, setting).log_delta(eps).upper
    where = (name, parameters, n, k, eps)
    findings.not_below(f"mechanism {name}: upper", upper, truth, where)


def _local(random: Random, name: str, n: int, k: int, eps0: float) -> tuple[object, arb, float]:
    """Return parameters, truth and eps of a local randomiser."""
    big = arb(eps0).exp()
    half = (arb(eps0) / 2).exp()
    parameters: object = LocalParameters(eps0)
    if name == "krr":
        parameters, rows = KRRParameters(eps0), enumerated.krr(k, big)
    elif name == "subset-selection":
        size = int(random.integers(1, k))
        parameters, rows = SubsetParameters(eps0, size), enumerated.subsets(k, size, big)
    elif name == "local-hashing":
        g = int(random.integers(2, 4))
        parameters, rows = HashingParameters(eps0, g), enumerated.hashing(k, g, big)
    elif name == "unary-encoding":
        p = float(random.uniform(0.3, 0.99))
        parameters = UnaryParameters(eps0, p)
        rows = enumerated.unary(k, arb(p), arb(p) / (big - arb(p) * (big - 1)))
    elif name == "oue":
        rows = enumerated.unary(k, arb(1) / 2, 1 / (big + 1))
    elif name == "rappor":
        rows = enumerated.unary(k, half / (half + 1), 1 / (half + 1))
    else:
        rows = enumerated.hadamard(k, big)
    eps = near(random, eps0)
    laws = laws_of(rows)
    return parameters, enumerated.worst(laws, [laws] * (n - 1), eps), eps


def _gaussian(random: Random, name: str, n: int, k: int, eps0: float) -> tuple[object, arb, float]:
    sigma, eps = log_uniform(random, 0.3, 30.0), log_uniform(random, 1e-3, 5.0)
    return GaussianParameters(sigma), enumerated.gaussian(eps, sigma), eps


def _geometric(random: Random, name: str, n: int, k: int, eps0: float) -> tuple[object, arb, float]:
    budget = log_uniform(random, 0.5, 4.0)
    eps, reach = near(random, 1.5 * budget), int(20.0 / budget)
    if name in ("discrete-laplace", "prio3-histogram"):
        pair = enumerated.noisy_pair(enumerated.geometric(budget, None, reach), ends=False)
        return DiscreteLaplaceParameters(budget), enumerated.stick(pair, eps), eps
    nu = int(random.integers(0, 12))
    if name == "two-servers" and random.random() < 0.5:
        sigma, reach = log_uniform(random, 0.1, 3.0), 36
        pair = enumerated.noisy_pair(enumerated.discrete_gaussian(sigma, nu, reach), ends=True)
        return GaussianServersParameters(sigma, nu), enumerated.stick(pair, eps), eps
    pair = enumerated.noisy_pair(enumerated.geometric(budget, nu, reach), ends=nu <= reach)
    return ShufflerDummiesParameters(budget, nu), enumerated.stick(pair, eps), eps


def _dummies(random: Random, name: str, n: int, k: int, eps0: float) -> tuple[object, arb, float]:
    chances = int(random.integers(1, 4))
    dummies = chances if random.random() < 0.2 else float(chances * random.uniform(0.05, 0.999))
    eps = log_uniform(random, 1e-3, 4.0)
    pair = enumerated.dummies_pair(n * chances, k, arb(dummies) / chances)
    return UserDummiesParameters(dummies, chances), enumerated.stick(pair, eps), eps


def _krr_among_dummies(k: int, eps0: float, dummies: float) -> list[enumerated.Law]:
    laws = laws_of(enumerated.krr(k, arb(eps0).exp()))
    return [enumerated.among_dummies(law, arb(dummies), int(np.ceil(dummies))) for law in laws]


def _mixdump(random: Random, name: str, n: int, k: int, eps0: float) -> tuple[object, arb, float]:
    dummies = float(random.uniform(0.05, 2.0))
    parameters, eps = MixdumpParameters(eps0, dummies), near(random, eps0)
    laws = _krr_among_dummies(k, eps0, dummies)
    return parameters, enumerated.worst(laws, [laws] * (n - 1), eps), eps


def audit_mixdump_rounds(findings: Findings, random: Random) -> None:
    n, k = [(1, 2), (2, 2), (1, 3)][random.integers(3)]
    rounds, eps0 = int(random.integers(2, 4)), log_uniform(random, 1e-2, 5.0)
    dummies = float(random.uniform(0.05, 2.0))
    parameters, eps = MixdumpParameters(eps0, dummies), near(random, rounds * eps0)
    laws = _krr_among_dummies(k, eps0, dummies)
    truth = enumerated.worst(laws, [laws] * (n - 1), eps, rounds)
    setting = Setting(n, k, rounds=rounds)
    upper = MECHANISMS["mixdump"].curve(parameters, setting).log_delta(eps).upper
    where = (parameters, setting, eps)
    findings.not_below("rounds of k-RR among dummies", upper, truth, where)


def audit_servers(findings: Findings, random: Random) -> None:
    nu = int(random.integers(0, 12))
    parameters: ShufflerDummiesParameters | GaussianServersParameters
    if random.random() < 0.5:
        largest = 4.0 if random.random() < 0.7 else 3000.0
        budget = log_uniform(random, 0.5, largest)
        parameters, eps = ShufflerDummiesParameters(budget, nu), near(random, 1.5 * budget)
        reach, deep = int(15.0 / budget) + 1, int(150.0 / budget) + 1
        dummies = enumerated.geometric(budget, nu, deep)
        noise = enumerated.geometric(budget, None, 2 * deep)
    else:
        sigma = log_uniform(random, 0.1, 3.0)
        parameters, eps = GaussianServersParameters(sigma, nu), log_uniform(random, 1e-3, 5.0)
        reach, deep = int(6.0 * sigma) + 2, int(12.0 * sigma) + 12
        dummies = enumerated.discrete_gaussian(sigma, nu, deep)
        noise = enumerated.discrete_gaussian(sigma, None, 2 * deep)
    mechanism, setting = TwoServers(), Setting(50, 5)
    views = {"analyst": mechanism.curve(parameters, setting)}
    views |= mechanism.views(parameters, setting)
    both = enumerated.summed(dummies, noise, range(-reach, reach + 1), arb(-70).exp())
    laws = {
        "analyst": enumerated.noisy_pair(dummies, ends=nu <= deep),
        "shuffler": enumerated.noisy_pair({z: noise[z] for z in both}, ends=False),
        "public": enumerated.noisy_pair(both, ends=False),
    }
    where = (parameters, eps)
    for view, pair in laws.items():
        truth = max(enumerated.stick(each, eps) for each in (pair, [(q, p) for p, q in pair]))
        high = views[view].log_delta(eps).promised
        findings.not_below(f"{mechanism.shapes[type(parameters)]}, {view}", high, truth, where)


TRUTHS = {
    "gaussian": _gaussian,
    "discrete-laplace": _geometric,
    "shuffler-dummies": _geometric,
    "two-servers": _geometric,  # as the analyst sees it
    "prio3-histogram": _geometric,  # as an aggregator sees it
    "user-dummies": _dummies,
    "mixdump": _mixdump,
}


def audit_crowd(findings: Findings, random: Random) -> None:
    n, k, eps0 = few(random)
    n = min(n, 3)
    laws = laws_of(enumerated.krr(k, arb(eps0).exp()))
    eps, rate = near(random, eps0), float(random.uniform(0.05, 0.95))
    kind = ["drawn", "responding", "dummies"][random.integers(3)]
    targets = others = laws
    setting = Setting(n, k, eps0)
    if kind == "drawn":
        targets = others = [enumerated.absent(law, arb(rate)) for law in laws]
        setting = Setting(n, k, eps0, sampling_rate=rate)
    elif kind == "responding":
        others = [enumerated.absent(law, arb(rate)) for law in laws]
        setting = Setting(n, k, eps0, response_rate=rate)
    else:
        n, dummies = min(n, 2), float(random.uniform(0.05, 1.99))
        targets = others = _krr_among_dummies(k, eps0, dummies)
        setting = Setting(n, k, eps0, dummies=dummies)
    truth = enumerated.worst(targets, [others] * (n - 1), eps)
    enclose(findings, f"crowd, {kind}", setting, eps, truth)


def audit_own_budgets(findings: Findings, random: Random) -> None:
    n, k, _ = few(random)
    n = min(n, 3)
    budgets = np.sort(random.uniform(0.05, 5.0, n))
    laws = [laws_of(enumerated.krr(k, arb(float(budget)).exp())) for budget in budgets]
    groups = BudgetGroups(budgets, np.ones(n, np.int64))
    target = int(random.integers(n))
    eps = near(random, float(budgets[target]))
    others = [law for i, law in enumerate(laws) if i != target]
    truth = enumerated.worst(laws[target], others, eps)
    how = reports("binary") if k == 2 else reports("krr", k)
    high = how.curve(groups, target, AIM).log_delta(eps).upper
    findings.not_below(f"budgets, k={k}: upper", high, truth, (budgets, target, eps))


def audit_noise_budgets(findings: Findings, random: Random) -> None:
    """Check Laplace and Gaussian reports, binned so that delta can be enumerated."""
    n, normal = int(random.integers(1, 4)), random.random() < 0.5
    budgets = np.sort(random.uniform(0.3, 4.0, n))
    law = enumerated.normal if normal else enumerated.laplace
    ends = np.sort(random.uniform(-1.0, 2.0, 4)).tolist()
    records = (0.0, 1.0, float(random.random()))
    laws = [
        [enumerated.binned(law(float(budget), record), ends) for record in records]
        for budget in budgets
    ]
    target = int(random.integers(n))
    budget = float(budgets[target])
    eps = near(random, budget)
    groups = BudgetGroups(budgets, np.ones(n, np.int64))
    how = reports("gaussian" if normal else "laplace")
    high = how.curve(groups, target, AIM).log_delta(eps).upper
    truth = enumerated.worst(laws[target], [laws[i] for i in range(n) if i != target], eps)
    name = "Gaussian" if normal else "Laplace"
    findings.not_below(f"budgets, {name}: upper", high, truth, (budgets, target, eps, ends))


# --- Settings of any size -------------------------------------------------------------------------

UPPER, LOWER = BOUNDS["upper"], BOUNDS["lower"]
BALLS = 500_000  # largest number of inner terms of ball arithmetic for a setting


def draw(random: np.random.Generator, *, most_users: float = LARGEST_N) -> tuple[Setting, float]:
    """Draw one round, and an eps below its budget: near it, small, or with a useful delta."""
    n = int(log_uniform(random, 1, most_users))
    k = 2 if random.random() < 0.2 else int(log_uniform(random, 2, LARGEST_K))
    eps0 = log_uniform(random, 1e-3, 8.0 if random.random() < 0.8 else LARGEST_EPS0)
    kind = random.random()
    if kind < 0.5:  # eps in standard deviations of the loss
        q = 1.0 / (np.expm1(eps0) + k)
        eps = random.uniform(0.0, 12.0) * np.expm1(eps0) * np.sqrt(2.0 * q / n)
        eps = float(min(eps, eps0 * random.random()))
    elif kind < 0.75:
        eps = eps0 * float(random.random())
    elif kind < 0.9:
        eps = eps0 * (1.0 - log_uniform(random, 1e-9, 0.1))
    else:
        eps = eps0 * log_uniform(random, 1e-9, 1.0)
    return Setting(n, k, eps0), float(eps)


def end(bound, eps: float, setting: Setting) -> float:
    return float(bound.curve(setting).log_delta(eps).only)


def timed(findings: Findings, what: str, bound, eps: float, setting: Setting) -> float:
    start = time.perf_counter()
    try:
        value = end(bound, eps, setting)
    except Exception as error:
        error.add_note(f"at {setting}, eps={eps}")
        raise
    findings.note(f"seconds of {what}", time.perf_counter() - start, (setting, eps))
    return value


def audit_one_round(findings: Findings, random: np.random.Generator, most_users: float) -> None:
    setting, eps = draw(random, most_users=most_users)
    where = (setting, eps)
    low, high = (timed(findings, "one round", bound, eps, setting) for bound in (LOWER, UPPER))
    findings.at_most("lower below upper", low, high, where)
    findings.at_most("delta at most 1", high, 0.0, where)
    findings.at_most("positive below eps0", -1e300, high, where)
    # If one delta cannot exceed another, its lower end is at most the upper end of the other.
    more_eps = eps + (setting.eps0 - eps) * float(random.random())
    further = end(LOWER, more_eps, setting)
    findings.at_most("less delta at more eps", further, high, (*where, more_eps))
    users = min(setting.n + int(log_uniform(random, 1, setting.n + 1)), LARGEST_N)
    crowd = replace(setting, n=users)
    findings.at_most("less delta in a crowd", end(LOWER, eps, crowd), high, crowd)
    braver = replace(setting, eps0=min(setting.eps0 * (1 + float(random.random())), LARGEST_EPS0))
    findings.at_most("more delta at more eps0", low, end(UPPER, eps, braver), braver)
    weak = float(weak_adversary_log_delta(eps, setting))
    findings.at_most("the weak adversary sees more", low, weak, where)
    if -700.0 < high < -1e-3:
        back = [float(bound.curve(setting).epsilon(high).only) for bound in (LOWER, UPPER)]
        findings.at_most("eps in order", back[0], back[1], where)
        # Where delta is flat, its last digit may change eps a lot.
        if end(UPPER, back[1], setting) < high - 1e-13 * (1.0 - high):
            findings.at_most("eps back", back[1], eps * (1 + 1e-6) + 1e-12 * setting.eps0, where)
        findings.at_most("promise kept", end(UPPER, back[1], setting), high, where)
        if back[1] > 0.0:
            findings.note("relative width of eps", 1.0 - back[0] / back[1], where)
    try:
        verify(certificate(eps, setting), BALLS)
        findings.checks["proven in balls"] += 1
    except TooLongError:
        findings.checks["too long for balls"] += 1


def audit_rounds(findings: Findings, random: np.random.Generator, most_users: float) -> None:
    setting, eps = draw(random, most_users=most_users)
    rounds = int(log_uniform(random, 2, 10_000))
    several = replace(setting, rounds=rounds)
    eps = min(eps * rounds ** random.uniform(0.3, 1.0), several.budget * (1 - 1e-9))
    where = (several, eps)
    low, high = (timed(findings, "rounds", bound, eps, several) for bound in (LOWER, UPPER))
    findings.at_most("rounds: lower below upper", low, high, where)
    findings.at_most("rounds: delta at most 1", high, 0.0, where)
    more = replace(several, rounds=rounds + 1)
    findings.at_most("rounds: one more", low, end(UPPER, eps, more), where)
    if eps < setting.eps0:
        one = end(LOWER, eps, setting)
        findings.at_most("rounds: more than one of them", one, high, where)


def audit_sampling(findings: Findings, random: np.random.Generator, most_users: float) -> None:
    setting, eps = draw(random, most_users=min(most_users, 1e7))
    rate = float(random.uniform(0.001, 0.999))
    rounds = int(random.choice([1, 1, 1, 2]))
    sampled = replace(setting, rounds=rounds, sampling_rate=rate)
    start = time.perf_counter()
    high = queries.log_delta(eps, sampled).upper
    name = "sampled round" if rounds == 1 else "sampled rounds"
    findings.note(f"seconds of {name}", time.perf_counter() - start, (sampled, eps, rate))
    # Even if all others took part, the target would leak at least this.
    low = end(LOWER, eps, setting) + np.log(rate)
    findings.at_most("sampling: lower below upper", low, high, (sampled, eps, rate))


def audit_budgets(findings: Findings, random: np.random.Generator, most_users: float) -> None:
    setting, eps = draw(random, most_users=min(most_users, 1e5))
    budgets = np.unique(random.uniform(1e-3, setting.eps0, 3))
    sizes = random.multinomial(setting.n, np.full(budgets.size, 1.0 / budgets.size))
    groups = BudgetGroups(budgets[sizes > 0], sizes[sizes > 0])
    high = float(personalised_log_delta(eps, groups, setting.k))
    largest = float(groups.values.max())
    bold = replace(setting, eps0=largest)
    # One guarantee may exceed another without being false; the largest excess is only noted.
    if eps < largest and high > -700.0:
        more = high - float(weak_adversary_log_delta(eps, bold))
        findings.note("log of delta above the largest budget for all", more, (groups, setting.k))


Audit = Callable[[Findings, np.random.Generator, float], None]


def _small(check: Callable[[Findings, np.random.Generator], None]) -> Audit:
    def audit(findings: Findings, random: np.random.Generator, most_users: float) -> None:
        del most_users
        with ctx.workprec(enumerated.BITS):
            check(findings, random)

    return audit


# Each audit with its weight; those of many users take a second or more.
AUDITS: dict[str, tuple[float, Audit]] = {
    "one round of k-RR": (0.07, audit_one_round),
    "rounds of k-RR": (0.01, audit_rounds),
    "sampled rounds": (0.01, audit_sampling),
    "budgets, many users": (0.01, audit_budgets),
    "budgets of rounds": (0.05, _small(audit_budget_ends)),
    "calibrations": (0.03, _small(audit_calibration)),
    "extreme views": (0.02, _small(audit_extreme_views)),
    "rounds of k-RR among dummies": (0.02, _small(audit_mixdump_rounds)),
    "rounds by convolution": (0.04, _small(audit_rounds_directly)),
    "random matrices": (0.15, _small(audit_matrix)),
    "every mechanism": (0.14, _small(audit_mechanism)),
    "noise by both servers": (0.02, _small(audit_servers)),
    "crowds": (0.15, _small(audit_crowd)),
    "budgets of k-RR": (0.14, _small(audit_own_budgets)),
    "budgets with noise": (0.08, _small(audit_noise_budgets)),
}


def audit(seed: int, most_users: float = LARGEST_N) -> Iterator[Findings]:
    """Yield the findings after each drawn setting, endlessly."""
    random = np.random.default_rng(seed)
    findings = Findings()
    kinds = list(AUDITS)
    weights = np.array([weight for weight, _ in AUDITS.values()])
    while True:
        kind = str(random.choice(kinds, p=weights / weights.sum()))
        # Most settings are small enough to be quick; a tenth may be of any size.
        most = most_users if random.random() < 0.1 else min(most_users, 1e5)
        try:
            AUDITS[kind][1](findings, random, most)
        except Exception as error:  # the search continues after a finding
            notes = "; ".join(getattr(error, "__notes__", []))
            findings.false.append(f"{kind}: {type(error).__name__}: {error} {notes}")
        findings.checks[f"settings of {kind}"] += 1
        findings.checks["settings"] += 1
        yield findings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=600.0, help="duration (default 600)")
    parser.add_argument("--seed", type=int, default=1, help="random seed (default 1)")
    arguments = parser.parse_args()
    findings, last = Findings(), 0.0
    with tqdm(total=arguments.seconds, unit="s", bar_format="{l_bar}{bar}| {postfix}") as bar:
        start = time.monotonic()
        for findings in audit(arguments.seed):
            now = time.monotonic() - start
            bar.set_postfix_str(f"{findings.checks['settings']} settings")
            bar.update(min(now, arguments.seconds) - last)
            last = min(now, arguments.seconds)
            if now >= arguments.seconds:
                break
    for check, count in findings.checks.most_common():
        print(f"{count:>8}  {check}")
    for name, (value, where) in findings.worst.items():
        print(f"largest {name}: {value:.3g} at {where}")
    for finding in findings.false:
        print(f"FALSE: {finding}")
    if findings.false:
        sys.exit(1)
    print("nothing false was found")


if __name__ == "__main__":
    main()
