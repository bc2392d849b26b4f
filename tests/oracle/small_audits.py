"""Audits of few users against `enumerated`: every mechanism, rounds, budgets, crowds."""

import numpy as np
from flint import arb
from shuffledp.accounting import accountant
from shuffledp.accounting.setting import Setting
from shuffledp.mechanisms.discrete_laplace import DiscreteLaplaceParameters
from shuffledp.mechanisms.gaussian import GaussianParameters
from shuffledp.mechanisms.krr import KRRParameters
from shuffledp.mechanisms.local import LocalParameters
from shuffledp.mechanisms.local_hashing import HashingParameters
from shuffledp.mechanisms.matrix import MatrixRandomiser
from shuffledp.mechanisms.registry import MECHANISMS
from shuffledp.mechanisms.shuffler_dummies import ShufflerDummiesParameters
from shuffledp.mechanisms.subset_selection import SubsetParameters
from shuffledp.mechanisms.unary_encoding import UnaryParameters
from shuffledp.mechanisms.user_dummies import UserDummiesParameters
from shuffledp.personalised.budgets import reports
from shuffledp.personalised.groups import BudgetGroups

from oracle import enumerated
from oracle.findings import Findings, log_uniform

Random = np.random.Generator
# The log of delta at which budgets are asked: what is left out depends on it.
AIM = float(np.log(1e-6))


def near(random: Random, budget: float) -> float:
    """An eps below the budget: anywhere, near it, or small."""
    kind = random.random()
    if kind < 0.5:
        return budget * float(random.random())
    if kind < 0.8:
        return budget * (1.0 - log_uniform(random, 1e-12, 0.1))
    return budget * log_uniform(random, 1e-6, 1.0)


def few(random: Random) -> tuple[int, int, float]:
    """Users, cells, budget."""
    n, k = int(random.integers(1, 5)), int(random.integers(2, 4))
    return n, k, log_uniform(random, 1e-3, 6.0)


def laws_of(rows: list[list[arb]]) -> list[enumerated.Law]:
    return [enumerated.reporting(row) for row in rows]


def enclose(findings: Findings, what: str, setting: Setting, eps: float, truth: arb) -> None:
    """Both ends of a setting against the truth."""
    where = (setting, eps)
    ends = accountant.log_delta(eps, setting)
    findings.not_below(f"{what}: upper", ends.upper, truth, where)
    if ends.lower is not None:
        findings.not_above(f"{what}: lower", ends.lower, truth, where)


def audit_rounds_directly(findings: Findings, random: Random) -> None:
    """k-RR over rounds; with two cells by the profile of all data sets."""
    n, k = [(1, 2), (2, 2), (4, 2), (6, 2), (1, 3), (2, 3)][random.integers(6)]
    rounds = int(random.integers(2, 6 if k == 2 else 4))
    setting = Setting(n, k, log_uniform(random, 1e-2, 5.0), rounds=rounds)
    eps = near(random, setting.budget)
    laws = laws_of(enumerated.krr(k, setting.eps0))
    truth = enumerated.worst(laws, [laws] * (n - 1), eps, rounds)
    enclose(findings, f"rounds, k={k}", setting, eps, truth)


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
    """One of the registry, in turn."""
    names = list(MECHANISMS)
    name = names[findings.checks["mechanisms"] % len(names)]
    findings.checks["mechanisms"] += 1
    n, k, eps0 = few(random)
    n, k = min(n, 3), k if name != "local-hashing" else 2
    if name in ("unary-encoding", "oue", "rappor"):  # 2^k reports
        n = min(n, 2 if k == 3 else 3)
    parameters, truth, eps = TRUTHS.get(name, _local)(random, name, n, k, eps0)
    setting = Setting(n, k)
    upper = MECHANISMS[name].curve(parameters, setting).log_delta(eps).upper
    where = (name, parameters, n, k, eps)
    findings.not_below(f"mechanism {name}: upper", upper, truth, where)


def _local(random: Random, name: str, n: int, k: int, eps0: float) -> tuple[object, arb, float]:
    """Local randomisers, by their rows."""
    big = arb(eps0).exp()
    half = (arb(eps0) / 2).exp()
    parameters: object = LocalParameters(eps0)
    if name == "krr":
        parameters, rows = KRRParameters(eps0), enumerated.krr(k, eps0)
    elif name == "subset-selection":
        size = int(random.integers(1, k))
        parameters, rows = SubsetParameters(eps0, size), enumerated.subsets(k, size, eps0)
    elif name == "local-hashing":
        g = int(random.integers(2, 4))
        parameters, rows = HashingParameters(eps0, g), enumerated.hashing(k, g, eps0)
    elif name == "unary-encoding":
        p = float(random.uniform(0.3, 0.99))
        parameters = UnaryParameters(eps0, p)
        rows = enumerated.unary(k, arb(p), arb(p) / (big - arb(p) * (big - 1)))
    elif name == "oue":
        rows = enumerated.unary(k, arb(1) / 2, 1 / (big + 1))
    elif name == "rappor":
        rows = enumerated.unary(k, half / (half + 1), 1 / (half + 1))
    else:
        rows = enumerated.hadamard(k, eps0)
    eps = near(random, eps0)
    laws = laws_of(rows)
    return parameters, enumerated.worst(laws, [laws] * (n - 1), eps), eps


def _gaussian(random: Random, name: str, n: int, k: int, eps0: float) -> tuple[object, arb, float]:
    sigma, eps = log_uniform(random, 0.3, 30.0), log_uniform(random, 1e-3, 5.0)
    return GaussianParameters(sigma), enumerated.gaussian(eps, sigma), eps


def _geometric(random: Random, name: str, n: int, k: int, eps0: float) -> tuple[object, arb, float]:
    budget = log_uniform(random, 0.5, 4.0)
    eps, reach = near(random, 1.5 * budget), int(20.0 / budget)
    if name == "discrete-laplace":
        pair = enumerated.noisy_pair(enumerated.geometric(budget, None, reach), ends=False)
        return DiscreteLaplaceParameters(budget), enumerated.stick(pair, eps), eps
    nu = int(random.integers(0, 12))
    pair = enumerated.noisy_pair(enumerated.geometric(budget, nu, reach), ends=nu <= reach)
    return ShufflerDummiesParameters(budget, nu), enumerated.stick(pair, eps), eps


def _dummies(random: Random, name: str, n: int, k: int, eps0: float) -> tuple[object, arb, float]:
    chances = int(random.integers(1, 4))
    dummies = chances if random.random() < 0.2 else float(chances * random.uniform(0.05, 0.999))
    eps = log_uniform(random, 1e-3, 4.0)
    pair = enumerated.dummies_pair(n * chances, k, arb(dummies) / chances)
    return UserDummiesParameters(dummies, chances), enumerated.stick(pair, eps), eps


TRUTHS = {
    "gaussian": _gaussian,
    "discrete-laplace": _geometric,
    "shuffler-dummies": _geometric,
    "two-servers": _geometric,  # as the analyst sees it
    "user-dummies": _dummies,
}


def audit_crowd(findings: Findings, random: Random) -> None:
    """Users who are drawn, drop out, collude, or send dummies."""
    n, k, eps0 = few(random)
    n = min(n, 3)
    laws = laws_of(enumerated.krr(k, eps0))
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
        chances = int(np.ceil(dummies))
        targets = others = [enumerated.among_dummies(law, arb(dummies), chances) for law in laws]
        setting = Setting(n, k, eps0, dummies=dummies)
    truth = enumerated.worst(targets, [others] * (n - 1), eps)
    enclose(findings, f"crowd, {kind}", setting, eps, truth)


def audit_own_budgets(findings: Findings, random: Random) -> None:
    """k-RR and binary reports, each user with a budget."""
    n, k, _ = few(random)
    n = min(n, 3)
    budgets = np.sort(random.uniform(0.05, 5.0, n))
    laws = [laws_of(enumerated.krr(k, float(budget))) for budget in budgets]
    groups = BudgetGroups(budgets, np.ones(n, np.int64))
    target = int(random.integers(n))
    eps = near(random, float(budgets[target]))
    others = [law for i, law in enumerate(laws) if i != target]
    truth = enumerated.worst(laws[target], others, eps)
    how = reports("binary") if k == 2 else reports("krr", k)
    high = how.curve(groups, target, AIM).log_delta(eps).upper
    findings.not_below(f"budgets, k={k}: upper", high, truth, (budgets, target, eps))


def audit_noise_budgets(findings: Findings, random: Random) -> None:
    """Laplace and Gaussian reports, of which the analyst sees bins only."""
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
