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
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from flint import ctx
from tqdm import tqdm

from shuffledp import queries
from shuffledp.accounting.bound_registry import BOUNDS
from shuffledp.accounting.certificate import certificate
from shuffledp.accounting.krr import weak_adversary_log_delta
from shuffledp.accounting.setting import LARGEST_EPS0, LARGEST_K, LARGEST_N, Setting
from shuffledp.personalised.groups import BudgetGroups
from shuffledp.personalised.krr_reports import personalised_log_delta
from shuffledp.verification.checker import verify
from shuffledp.verification.deltas import TooLongError

sys.path.insert(0, str(Path(__file__).parents[1]))  # for make audit

from oracle import enumerated, small_audits
from oracle.findings import Findings, log_uniform

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
    "budgets of rounds": (0.05, _small(small_audits.audit_budget_ends)),
    "calibrations": (0.03, _small(small_audits.audit_calibration)),
    "extreme views": (0.02, _small(small_audits.audit_extreme_views)),
    "rounds of k-RR among dummies": (0.02, _small(small_audits.audit_mixdump_rounds)),
    "rounds by convolution": (0.04, _small(small_audits.audit_rounds_directly)),
    "random matrices": (0.15, _small(small_audits.audit_matrix)),
    "every mechanism": (0.14, _small(small_audits.audit_mechanism)),
    "noise by both servers": (0.02, _small(small_audits.audit_servers)),
    "crowds": (0.15, _small(small_audits.audit_crowd)),
    "budgets of k-RR": (0.14, _small(small_audits.audit_own_budgets)),
    "budgets with noise": (0.08, _small(small_audits.audit_noise_budgets)),
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
