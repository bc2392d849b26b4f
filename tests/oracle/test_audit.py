"""End-to-end audit: no attack on simulated releases beats the claimed delta in any view.

Delta is estimated from many simulated outputs of two neighbouring data sets alone. Events are
chosen on one half of them and counted on the other half. With a confidence of 1 - 1e-6, the true
delta is not below the bound.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import exp
from typing import Any

import numpy as np
import pytest
from effort import examples
from scipy.stats import beta

from shuffledp.accounting.additive import GeometricNoise
from shuffledp.accounting.setting import Setting
from shuffledp.mechanisms.catalogue import VIEWS
from shuffledp.mechanisms.protocol import Mechanism
from shuffledp.mechanisms.randomised_response import KRandomisedResponse, KRRParameters
from shuffledp.mechanisms.shuffler_dummies import ShufflerDummies, ShufflerDummiesParameters
from shuffledp.mechanisms.target_calibration import Released
from shuffledp.mechanisms.two_servers import GaussianServersParameters, TwoServers
from shuffledp.mechanisms.user_dummies import UserDummies, UserDummiesParameters

MISTAKEN = 1e-6


@dataclass(frozen=True)
class Shown:
    """A lower bound of delta at eps, for the record ``of`` against the other."""

    eps: float
    delta: float
    promised: float
    statistic: str
    of: int

    @property
    def beats(self) -> bool:
        return self.delta > self.promised


def whole(seen: Hashable) -> Hashable:
    return seen


def look(
    sample: Callable[[int], Any],
    promised: Callable[[float], float],
    budgets: Sequence[float],
    looks: int,
    statistics: Mapping[str, Callable[[Any], Hashable]] | None = None,
) -> list[Shown]:
    """Return lower confidence bounds of delta at each eps, in both directions, by each statistic.

    ``sample(record)`` simulates what a view sees of one collection in which the target holds record
    0 or 1, and ``promised(eps)`` is the delta promised for that view. An event is a set of values
    of a statistic of what is seen, by default of everything.
    """
    statistics = statistics or {"all that is seen": whole}
    seen = [[sample(record) for _ in range(looks)] for record in (0, 1)]
    half = looks // 2
    level = MISTAKEN / (4.0 * len(statistics) * len(budgets))
    estimates = []
    for name, statistic in statistics.items():
        chosen_on = [Counter(map(statistic, each[:half])) for each in seen]
        counted_on = [Counter(map(statistic, each[half:])) for each in seen]
        for eps in budgets:
            for of in (0, 1):
                one, other = chosen_on[of], chosen_on[1 - of]
                event = {each for each in one if one[each] > exp(eps) * (other[each] + 1)}
                hits = [sum(counted_on[x][each] for each in event) for x in (of, 1 - of)]
                often = beta.ppf(level, hits[0], looks - half - hits[0] + 1) if hits[0] else 0.0
                rarely = beta.isf(level, hits[1] + 1, looks - half - hits[1])
                delta = float(often - exp(eps) * rarely)
                estimates.append(Shown(eps, delta, promised(eps), name, of))
    return estimates


BUDGETS = (0.0, 0.5, 1.0, 2.0, 3.5)
STOCK = 500  # collections drawn at a time


@dataclass(frozen=True)
class Collection(ABC):
    """A few users, of whom the first is the target.

    `views` returns what each view sees of every collection in a stock.
    """

    mechanism: Mechanism
    parameters: Any
    k: int
    others: tuple[int, ...]

    @property
    def n(self) -> int:
        return 1 + len(self.others)

    def records(self, record: int) -> np.ndarray:
        """Return the indicators of all records, by collection, user and cell."""
        return np.tile(np.eye(self.k, dtype=np.int64)[[record, *self.others]], (STOCK, 1, 1))

    @abstractmethod
    def views(self, record: int, rng: np.random.Generator) -> dict[str, Any]:
        """Return what each party sees."""

    def stocked(self, view: str) -> Callable[[int], object]:
        """`sample` of `look`."""
        rng = np.random.default_rng(11)
        left: dict[int, list[object]] = {0: [], 1: []}

        def sample(record: int) -> object:
            if not left[record]:
                parts = self.views(record, rng)[view]
                left[record] = [
                    tuple(tuple(part[i].ravel().tolist()) for part in parts) for i in range(STOCK)
                ]
            return left[record].pop()

        return sample

    def promise(self, view: str) -> Callable[[float], float]:
        released, setting = Released(self.mechanism, self.parameters), Setting(self.n, self.k)
        curve = released.views(setting, released.curve(setting))[view]
        return lambda eps: float(np.exp(curve.log_delta(eps).promised))


class OneMessage(Collection):
    """The servers add dummies and noise to plain reports."""

    def views(self, record, rng):
        reports = self.records(record)
        counts = reports.sum(axis=1)
        dummies = self.noise(counts.size, rng, self.parameters.nu).reshape(counts.shape)
        noise = np.zeros_like(dummies)
        if self.mechanism.name == "two-servers":
            noise = self.noise(counts.size, rng).reshape(counts.shape)
        opened = counts + dummies
        published = opened + noise
        return {
            "analyst": [opened],
            # It knows its own dummies and subtracts them.
            "shuffler": [published - dummies],
            "public": [published],
            "both": [reports],
        }

    def noise(self, size, rng, nu=np.inf):
        """Draw dummies, or the noise of the analyst if nu is infinite."""
        if not isinstance(self.parameters, GaussianServersParameters):
            return GeometricNoise(self.parameters.eps, nu=nu).draw(size, rng)
        z = np.arange(-min(nu, 40), 41)
        law = np.exp(-0.5 * (z / self.parameters.sigma) ** 2)
        return rng.choice(z if nu == np.inf else nu + z, size, p=law / law.sum())


class Reports(Collection):
    """Each user sends one report of k-RR."""

    def views(self, record, rng):
        big = np.exp(self.parameters.eps0)
        keep = rng.random((STOCK, self.n)) < (big - 1.0) / (big + self.k - 1.0)
        held = self.records(record).argmax(axis=2)
        sent = np.where(keep, held, rng.integers(0, self.k, (STOCK, self.n)))
        counts = (sent[..., None] == np.arange(self.k)).sum(axis=1)
        return {view: [sent if view == "both" else counts] for view in VIEWS}


class Plain(Collection):
    """Each user sends the true record and uniform dummies."""

    def views(self, record, rng):
        taken = rng.binomial(self.parameters.chances, self.parameters.rate, (STOCK, self.n))
        sent = self.records(record) + rng.multinomial(taken, np.full(self.k, 1.0 / self.k))
        lengths, counts = sent.sum(axis=2), sent.sum(axis=1)
        return {
            "analyst": [counts],
            "shuffler": [lengths, counts],
            "public": [counts],
            "both": [sent],
        }


FEW = (0, 2)  # the others hold these
HONEST = {
    "krr": Reports(KRandomisedResponse(), KRRParameters(1.0), 3, FEW),
    "user-dummies": Plain(UserDummies(), UserDummiesParameters(3.0, 4), 3, FEW),
    "shuffler-dummies": OneMessage(ShufflerDummies(), ShufflerDummiesParameters(1.0, 3), 3, FEW),
    "two-servers": OneMessage(TwoServers(), ShufflerDummiesParameters(1.0, 3), 3, FEW),
    "two servers, Gaussian": OneMessage(TwoServers(), GaussianServersParameters(1.5, 3), 3, FEW),
}


def shown(collection, view, looks):
    statistics = {"two cells": lambda seen: tuple(part[:2] for part in seen)}
    if view == "both":
        statistics = None
    return look(collection.stocked(view), collection.promise(view), BUDGETS, looks, statistics)


# Both servers together have a promise only where users randomise their reports.
LOOKS = [(name, view) for name in HONEST for view in VIEWS if view != "both" or name == "krr"]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "view"), LOOKS)
def test_no_view_beats_its_promised_delta(name, view):
    results = shown(HONEST[name], view, examples(60_000))
    assert not [each for each in results if each.beats]


@pytest.mark.parametrize("name", ["two-servers", "two servers, Gaussian"])
@pytest.mark.parametrize("view", VIEWS)
def test_a_short_look_at_each_view(name, view):
    results = shown(HONEST[name], view, 2_000)
    assert not [each for each in results if each.beats]
    if view == "both":  # it sees the record, which the audit must notice
        assert max(each.delta for each in results) > 0.9
