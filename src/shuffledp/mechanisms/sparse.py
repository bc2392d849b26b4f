"""Ways to count the records of cells of which nearly all are empty.

Noise and dummies in every cell of such a domain cost more than the records. Ways that avoid them
hide small counts. `sparse_ways` calibrates each to the same (eps, delta) for the replacement of one
record in one round; each states what it hides, its errors and its messages.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from math import ceil, exp, log, sqrt
from typing import Any

import numpy as np
from scipy.stats import binom

from shuffledp.accounting.additive import AdditiveNoise, GeometricNoise
from shuffledp.accounting.calibrate import smallest_integer
from shuffledp.accounting.contributions import Contributions
from shuffledp.accounting.curve import exp_down
from shuffledp.accounting.sample_threshold import log_removal, sampled_curve
from shuffledp.accounting.setting import Setting
from shuffledp.accounting.thresholds import smallest_threshold
from shuffledp.errors import InputError
from shuffledp.mechanisms.additive_noise import AdditiveMechanism
from shuffledp.mechanisms.shuffler_dummies import ShufflerDummies, ShufflerDummiesParameters
from shuffledp.mechanisms.target_calibration import format_parameters
from shuffledp.mechanisms.two_servers import ServersParameters, TwoServers

# A cell is called shown from the count on that is shown with this probability.
SURE = 0.95
# Probability that an empty bucket is taken for one with records.
FALSE_POSITIVES = 0.01
# Sampling rates that calibration tries.
RATES = (*(tenths / 10 for tenths in range(1, 10)), 0.05, 0.02, 0.01)


class SparseWay(ABC):
    """A way to count records in cells, with parameters. A hidden cell counts as 0."""

    name: str
    trust: str

    @property
    def parameters(self) -> str:
        """The parameters as text."""
        return format_parameters(self)

    @abstractmethod
    def shown(self, records: int) -> float:
        """Return the probability that a cell with a number of records is shown."""

    @abstractmethod
    def error(self, records: int) -> float:
        """Return the root mean square error of the count of a cell, in records."""

    def messages(self, n: int) -> float:
        """Return the mean number of messages of n users, without dummies."""
        return n

    def dummies(self, n: int, k: int) -> float:
        """Return the mean number of dummies for n users and k cells."""
        del n, k
        return 0.0

    @property
    def shown_from(self) -> int:
        """Smallest number of records with which a cell is shown with probability 0.95 or more."""
        least = smallest_integer(lambda records: self.shown(records) >= SURE, 0, 2**40)
        assert least is not None
        return least


@dataclass(frozen=True)
class AllCells(SparseWay):
    """Noise in all cells, whose list must be known: `two_servers` or `shuffler_dummies`."""

    name: str
    trust: str
    calibrated: ServersParameters
    noise: AdditiveNoise

    @property
    def parameters(self) -> str:
        return format_parameters(self.calibrated)

    def shown(self, records: int) -> float:
        del records
        return 1.0

    def error(self, records: int) -> float:
        del records
        return sqrt(self.noise.variance)

    def dummies(self, n: int, k: int) -> float:
        del n
        return k * self.noise.mean


@dataclass(frozen=True)
class HashedDummies(SparseWay):
    """Dummies for buckets of hashed cells, and then for the cells of buckets with large counts.

    Both stages have the dummies of `shuffler_dummies`, each with half of eps and delta, so that
    both together keep the target by basic composition. A bucket is opened if its count is at least
    ``threshold`` above the mean of its dummies. Cells share buckets, but a cell of an opened bucket
    has a count of its own. It is close to FME (Murakami, Sei and Eriguchi, arXiv 2509.02004).

    ``eps`` and ``nu`` are the parameters of `ShufflerDummiesParameters`, of both stages.
    """

    name = "hashed-dummies"
    trust = ShufflerDummies().entry.trust
    eps: float
    nu: int
    buckets: int
    threshold: int

    @property
    def noise(self) -> GeometricNoise:
        """The law of the dummies of a bucket or a cell."""
        return GeometricNoise(self.eps, nu=self.nu)

    def shown(self, records: int) -> float:
        """Return the probability to be shown of a cell that is alone in its bucket."""
        return _tail(self.threshold - records, exp(-self.eps / 2.0))

    def error(self, records: int) -> float:
        shown = self.shown(records)
        return sqrt(shown * self.noise.variance + (1.0 - shown) * records**2)

    def dummies(self, n: int, k: int) -> float:
        """Return an upper bound: buckets have the numbers of users that open the most of them."""
        per_user = max((self.shown(c) - self.shown(0)) / c for c in range(1, 2 * self.threshold))
        opened = self.shown(0) * self.buckets + per_user * n
        return self.noise.mean * (self.buckets + opened * k / self.buckets)


@dataclass(frozen=True)
class SampleThreshold(SparseWay):
    """Records sampled with probability ``rate``; counts below ``threshold`` stay secret.

    The guarantee holds against readers of the map. Servers that see how many reports a hidden cell
    has need further dummies (Nebula, arXiv 2409.09676).
    """

    name = "sample-threshold"
    trust = "servers, who compute what is shown without seeing the rest"
    rate: float
    threshold: int

    def shown(self, records: int) -> float:
        return float(binom.sf(self.threshold - 1, records, self.rate))

    def error(self, records: int) -> float:
        counts = np.arange(records + 1)
        estimates = np.where(counts >= self.threshold, counts / self.rate, 0.0)
        return sqrt(float(binom.pmf(counts, records, self.rate) @ (estimates - records) ** 2))

    def messages(self, n: int) -> float:
        return self.rate * n


@dataclass(frozen=True)
class CuratorThreshold(SparseWay):
    """A curator's noise on counts above 0, shown if they reach ``threshold``: `publish --sparse`.

    The noise is discrete Laplace with a scale of ``2 / eps``.
    """

    name = "curator-threshold"
    trust = "curator, with every record"
    eps: float
    threshold: int

    def shown(self, records: int) -> float:
        return _tail(self.threshold - records, exp(-self.eps / 2.0)) if records else 0.0

    def error(self, records: int) -> float:
        if not records:
            return 0.0
        theta = exp(-self.eps / 2.0)
        reach = ceil(80.0 / self.eps)
        noise = np.arange(-reach, reach + 1)
        mass = theta ** np.abs(noise) * (1.0 - theta) / (1.0 + theta)
        shown = records + noise >= self.threshold
        return sqrt(float(mass @ np.where(shown, noise, -records) ** 2.0))


def _tail(z: int, theta: float) -> float:
    """Return the probability that discrete Laplace noise is at least z."""
    return theta**z / (1.0 + theta) if z > 0 else 1.0 - theta ** (1 - z) / (1.0 + theta)


def sparse_ways(eps: float, log_delta: float, n: int, k: int) -> list[SparseWay]:
    """Return the ways for n users and k cells, each calibrated to (eps, delta).

    Raises `InputError` if there are too few users, or if delta is too small.
    """
    setting = Setting(n, 2)  # noise in a cell does not depend on k
    dense = list[SparseWay]()
    mechanisms: tuple[AdditiveMechanism[Any], ...] = (TwoServers(), ShufflerDummies())
    for mechanism in mechanisms:
        calibrated = mechanism.calibrate(eps, log_delta, setting)
        noise = mechanism.noise(calibrated)
        dense.append(AllCells(mechanism.name, mechanism.entry.trust, calibrated, noise))
    stage = ShufflerDummies().calibrate(eps / 2.0, log_delta - log(2.0) - 1e-12, setting)
    try:
        threshold = smallest_threshold(exp_down(log_delta), 2.0 / eps, Contributions("record", 1))
    except ArithmeticError:
        raise InputError(
            f"no threshold is large enough for eps={eps}, log delta={log_delta:.6g}: give a larger "
            "eps or delta"
        ) from None
    return [
        *dense,
        _hashed(stage, n, k),
        _sampled(eps, log_delta, n),
        CuratorThreshold(eps, threshold.least),
    ]


def _hashed(stage: ShufflerDummiesParameters, n: int, k: int) -> HashedDummies:
    """Return hashed dummies with the number of buckets that needs the fewest of them."""
    threshold = ceil(-2.0 * log(FALSE_POSITIVES) / stage.eps)
    one = HashedDummies(stage.eps, stage.nu, 1, threshold)
    # Dummies are those of the buckets, some that do not depend on their number, and others that are
    # proportional to 1 / buckets.
    others = one.dummies(n, k) / one.noise.mean - 1.0 - one.shown(0) * k
    return replace(one, buckets=min(max(round(sqrt(max(others, 0.0))), 1), k))


def _sampled(eps: float, log_delta: float, n: int) -> SampleThreshold:
    """Return the rate with which the smallest counts are shown, and its smallest threshold."""

    def least(rate: float) -> SampleThreshold:
        def meets(tau: int) -> bool:
            return log_removal(eps, n, rate, tau) <= log_delta

        # With a threshold of n + 1 nothing is shown.
        threshold = smallest_integer(meets, 1, n + 1)
        return SampleThreshold(rate, n + 1 if threshold is None else threshold)

    best = min(map(least, RATES), key=lambda way: way.shown_from)
    threshold = smallest_integer(
        lambda tau: tau > n or sampled_curve(n, best.rate, tau).upper(eps) <= log_delta,
        *(best.threshold, n + 1),
    )
    if threshold is None or threshold > n:
        raise InputError(f"n={n} users are too few for a threshold: it would hide every count")
    return replace(best, threshold=threshold)
