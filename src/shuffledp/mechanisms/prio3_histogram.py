"""Prio3Histogram: two aggregators count secret shares, and each adds discrete Laplace noise.

Users split a one-hot vector of k cells into two shares, one for each aggregator, with a proof that
it is one-hot (VDAF, draft-irtf-cfrg-vdaf, which DAP carries). An aggregator sees its share of each
report, its own noise and the published histogram, so the other aggregator's noise hides a record
from it. Delta is 0 for one round, up to the security of the cryptography. libprio draws this noise
as ``PureDpDiscreteLaplace``, with L1 sensitivity 2 for the replacement of one record.
"""

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.mechanisms.discrete_laplace import DiscreteLaplace, DiscreteLaplaceParameters
from shuffledp.mechanisms.protocol import SEALING_BYTES, PerUser
from shuffledp.numerics.arrays import Floats

# Sizes that the draft fixes for Prio3Histogram: an element of Field128, and a seed.
FIELD_BYTES, SEED_BYTES = 16, 32


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


class Prio3Histogram(DiscreteLaplace):
    """Mechanism in which two aggregators each add two-sided geometric noise with the same eps.

    `curve` holds against either aggregator, who reads the map. In `views`, the aggregators stand
    for analyst and shuffler.
    """

    name = "prio3-histogram"
    servers = 2

    def observe(
        self,
        counts: ArrayLike,
        parameters: DiscreteLaplaceParameters,
        rng: np.random.Generator,
        repetitions: int = 1,
    ) -> Floats:
        """Draw histograms of counts with both noises, each from a random stream of its own."""
        counts = np.asarray(counts, dtype=np.int64)
        both = [
            np.stack([parameters.noise().draw(counts.size, stream) for _ in range(repetitions)])
            for stream in rng.spawn(2)
        ]
        return np.asarray(counts + both[0] + both[1], dtype=np.float64)

    def per_user(self, n: int, k: int, parameters: DiscreteLaplaceParameters) -> PerUser:
        """Return messages and influence of a user, whom the proof limits to one cell."""
        del n, parameters
        return PerUser(bytes_sent=float(upload_bytes(k)))
