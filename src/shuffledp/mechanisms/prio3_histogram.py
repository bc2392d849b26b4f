"""Prio3Histogram: two aggregators count secret shares, and each adds discrete Laplace noise.

Users split a one-hot vector of k cells into two shares, one for each aggregator, with a proof that
it is one-hot (VDAF, draft-irtf-cfrg-vdaf, which DAP carries). An aggregator sees its share of each
report, its own noise and the published histogram, so the other aggregator's noise hides a record
from it. Delta is 0 for one round, up to the security of the cryptography. libprio draws this noise
as ``PureDpDiscreteLaplace``, with L1 sensitivity 2 for the replacement of one record.
"""

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.composition import compose
from shuffledp.accounting.curve import Composable, UpperCurve
from shuffledp.accounting.geometric import BothNoises
from shuffledp.accounting.setting import Setting
from shuffledp.mechanisms.discrete_laplace import (
    DiscreteLaplace,
    DiscreteLaplaceParameters,
    noise_moments,
)
from shuffledp.mechanisms.estimators import additive_noise_estimators, noisy_shares
from shuffledp.mechanisms.protocol import SEALING_BYTES, PerUser
from shuffledp.numerics.arrays import UNIT, Floats
from shuffledp.numerics.posterior import NoiseLaw

# Sizes that the draft fixes for Prio3Histogram: an element of Field128, and a seed.
FIELD_BYTES, SEED_BYTES = 16, 32
# The public view is computed with truncated noise, and the probability that is cut off is added to
# delta. This is an upper bound on its log for one cell and round.
LOG_CUT = -740.0


def optimal_chunk_length(k: int) -> int:
    """Return the chunk length with the shortest proof for k cells."""
    lengths = {-(-k // ((1 << power) - 1)) for power in range(1, k.bit_length() + 1)}
    return min(lengths, key=lambda chunk: (_proof_elements(k, chunk), chunk))


def _proof_elements(k: int, chunk: int) -> int:
    """Return the number of field elements of a proof: wire seeds and the gadget's polynomial.

    The gadget has 2 ``chunk`` inputs and degree 2, and is called once for each chunk.
    """
    calls = -(-k // chunk)
    points = 1 << calls.bit_length()  # smallest power of two that is at least calls + 1
    return 2 * chunk + 2 * (points - 1) + 1


def input_share_bytes(k: int, chunk: int) -> tuple[int, int]:
    """Return the bytes of the leader's and of the helper's input share, for a chunk length.

    The leader's has the shares of measurement and proof, and a seed. The helper's has two seeds.
    """
    return (k + _proof_elements(k, chunk)) * FIELD_BYTES + SEED_BYTES, 2 * SEED_BYTES


def upload_bytes(k: int) -> int:
    """Return the bytes of a report: public share, and two input shares sealed by HPKE.

    DAP's framing, some 60 bytes, is not counted.
    """
    shares = input_share_bytes(k, optimal_chunk_length(k))
    public_share = 2 * SEED_BYTES
    return public_share + sum(share + SEALING_BYTES for share in shares)


def _noise_law(n: int, k: int, parameters: DiscreteLaplaceParameters) -> NoiseLaw:
    del n, k
    theta = float(np.exp(-parameters.eps / 2.0))
    shift = (1.0 + theta**2) / (1.0 - theta**2)

    def log_weight(z: Floats) -> Floats:
        distance = np.abs(z)
        return np.log(distance + shift) - 0.5 * parameters.eps * distance

    return NoiseLaw(float(np.sqrt(2.0 * noise_moments(parameters.eps).variance)), log_weight)


class Prio3Histogram(DiscreteLaplace):
    """Mechanism in which two aggregators each add two-sided geometric noise with the same eps.

    `curve` holds against either aggregator, who reads the map. In `views`, the aggregators stand
    for analyst and shuffler.
    """

    name = "prio3-histogram"
    estimators = additive_noise_estimators(noisy_shares, _noise_law)

    def views(
        self, parameters: DiscreteLaplaceParameters, setting: Setting
    ) -> dict[str, UpperCurve]:
        """Return the curves of the public, who faces both noises, and of both aggregators."""
        views = super().views(parameters, setting)
        one_noise = self.curve(parameters, setting)
        both = BothNoises(parameters.eps, float(np.ceil(-2.0 * LOG_CUT / parameters.eps)))
        if not both.is_summable:
            return views
        truncated = compose(
            UpperCurve(
                parameters.eps,
                upper=both.log_delta,
                composable=Composable(loss=lambda: both.loss),
            ),
            setting.rounds,
        )
        # The noise of a cell is a mixture, the same under both neighbours: it lies below -nu with a
        # probability below exp(LOG_CUT). Delta is convex, so it grows by at most that probability
        # for each round and each of the two cells.
        log_cut = LOG_CUT + float(np.log(2.0 * setting.rounds))

        def upper(eps: float) -> float:
            log_delta = float(np.logaddexp(truncated.upper(eps), log_cut))
            rounding = 8.0 * UNIT * (1.0 + abs(log_delta))
            return min(log_delta + rounding, one_noise.upper(eps))

        return views | {"public": UpperCurve(one_noise.budget, upper=upper)}

    def observe(
        self,
        counts: ArrayLike,
        parameters: DiscreteLaplaceParameters,
        rng: np.random.Generator,
        repetitions: int = 1,
    ) -> Floats:
        """Draw histograms of counts with both noises."""
        counts = np.asarray(counts, dtype=np.int64)
        first, second = (
            DiscreteLaplace.observe(self, np.zeros_like(counts), parameters, stream, repetitions)
            for stream in rng.spawn(2)
        )
        return np.asarray(counts + first + second, dtype=np.float64)

    def variance(
        self, shares: ArrayLike, n: float, parameters: DiscreteLaplaceParameters
    ) -> Floats:
        """Return the variance of each share, to which both noises contribute."""
        return 2.0 * super().variance(shares, n, parameters)

    def expected_distance(
        self, shares: ArrayLike, n: float, parameters: DiscreteLaplaceParameters
    ) -> Floats:
        """Return the expected distance from the exact mean absolute value of both noises' sum."""
        theta = float(np.exp(-parameters.eps / 2.0))
        ratio = 1.0 + (1.0 + theta**2) / (1.0 + theta) ** 2  # to that of one noise
        return ratio * super().expected_distance(shares, n, parameters)

    def per_user(self, n: int, k: int, parameters: DiscreteLaplaceParameters) -> PerUser:
        """Return messages and influence of a user, whom the proof limits to one cell."""
        del n, parameters
        return PerUser(bytes_sent=float(upload_bytes(k)))
