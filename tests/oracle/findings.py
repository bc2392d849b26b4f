"""Findings of an audit: counts of checks, worst figures, false claims."""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from flint import arb


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
