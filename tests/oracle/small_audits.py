"""Audits of a few users against `enumerated`: mechanisms, rounds, budgets, participation."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
from flint import arb

from oracle import enumerated
from oracle.findings import Findings, log_uniform
from shuffledp import queries
from shuffledp.accounting.setting import Setting
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

Random = np.random.Generator
# Truncation errors depend on the log of delta for which a curve is computed.
AIM = float(np.log(1e-6))


def near(random: Random, budget: float) -> float:
    """Draw an eps below the budget: anywhere, near it, or small."""
    kind = random.random()
    if kind < 0.5:
        return budget * float(random.random())
    if kind < 0.8:
        return budget * (1.0 - log_uniform(random, 1e-12, 0.1))
    return budget * log_uniform(random, 1e-6, 1.0)


def few(random: Random) -> tuple[int, int, float]:
    """Draw users, cells and a budget."""
    n, k = int(random.integers(1, 5)), int(random.integers(2, 4))
    return n, k, log_uniform(random, 1e-3, 6.0)


def laws_of(rows: list[list[arb]]) -> list[enumerated.Law]:
    return [enumerated.reporting(row) for row in rows]


def enclose(findings: Findings, what: str, setting: Setting, eps: float, truth: arb) -> None:
    """Check that both ends of a setting enclose the truth."""
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
    """Check delta next to the exact budget of rounds, where it vanishes."""
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
    """Check that calibrated parameters never exceed their target."""
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


def random_rows(random: Random) -> np.ndarray:
    k, reports = [(2, 2), (2, 3), (3, 3), (3, 4)][random.integers(4)]
    rows = random.dirichlet(np.ones(reports), k)
    kind = random.random()
    if kind < 0.25:
        rows[random.integers(k), random.integers(1, reports)] = 0.0
        rows[:, ~rows.any(axis=0)] = 0.1
    elif kind < 0.5:
        rows[random.integers(k), random.integers(reports)] = log_uniform(random, 1e-9, 1e-2)
    return rows / rows.sum(axis=1, keepdims=True)


def audit_matrix(findings: Findings, random: Random) -> None:
    rows = random_rows(random)
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
    """Check the next mechanism of the registry."""
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
    """Return parameters, truth and eps of k-RR among dummies."""
    dummies = float(random.uniform(0.05, 2.0))
    parameters, eps = MixdumpParameters(eps0, dummies), near(random, eps0)
    laws = _krr_among_dummies(k, eps0, dummies)
    return parameters, enumerated.worst(laws, [laws] * (n - 1), eps), eps


def audit_mixdump_rounds(findings: Findings, random: Random) -> None:
    """Check rounds of k-RR among dummies, which users draw anew in each round."""
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
    """Check the views of two servers that add noise."""
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
    """Check k-RR with sampling, dropouts or dummies."""
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
    """Check k-RR and binary reports of users with personal budgets."""
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
