"""True reports among signed dummies, most of which cancel in the analyst's sum.

Every user sends the true cell with sign plus and, for every cell, random numbers of plus messages,
minus messages and pairs of both. Summed over the M honest users whom the guarantee needs, the
numbers of plus and minus messages are negative binomial (geometric, or of a larger size). The pairs
cancel, but hide these numbers from the analyst. Each user's messages are encrypted for the analyst,
in an envelope of fixed length, so the shuffler learns nothing from them.
`shuffledp.accounting.signed` computes the exact delta.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from shuffledp.accounting.composition import compose
from shuffledp.accounting.curve import (
    Composable,
    UpperCurve,
    add_total_variation,
    pointwise_minimum,
    pure_dp_curve,
)
from shuffledp.accounting.geometric import check_noise_eps
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.mechanisms.estimators import additive_noise_estimators, noisy_shares
from shuffledp.mechanisms.protocol import (
    PerUser,
    RecordMechanism,
    calibrate_rounds_by_search,
    envelope_bytes,
)
from shuffledp.mechanisms.signed_dummies_search import (
    ENVELOPE_LENGTHS,
    SignedDummiesParameters,
    Target,
    best_noise,
    check_sizes,
)
from shuffledp.numerics.arrays import Floats, Integers
from shuffledp.numerics.posterior import NoiseLaw

__all__ = ["SignedDummies", "SignedDummiesParameters"]

# Share of delta for overflow, the event that messages do not fit into their envelope. It was the
# best of the values that were tried for short envelopes.
OVERFLOW_SHARE = 0.2
# Approximate largest number of blocks in the sum for the expected distance.
MAX_BLOCKS = 2**16
# Smaller probabilities, which the Fourier transform loses to rounding, are replaced by this one.
SMALLEST_WEIGHT = 1e-16


def _noise_law(n: int, k: int, parameters: SignedDummiesParameters) -> NoiseLaw:
    """Return the law of a difference of two negative binomials, from its characteristic function.

    The function is ``|(1 - q) / (1 - q exp(i w))|^(2 size)``.
    """
    del k
    size, q = parameters.size * n / parameters.smallest, parameters.ratio
    # More than 10 standard deviations, and 50 times the scale of the geometric tails.
    points = 1 << int(np.ceil(np.log2(100.0 * (1.0 + size) / (1.0 - q))))
    w = 2.0 * np.pi * np.arange(points // 2 + 1) / points
    transform = np.exp(-size * np.log1p(4.0 * q * np.square(np.sin(0.5 * w) / (1.0 - q))))
    law = np.fft.irfft(transform, points)[: points // 2]
    log_law = np.log(np.maximum(law, SMALLEST_WEIGHT))

    def log_weight(z: Floats) -> Floats:
        return np.asarray(log_law[np.minimum(np.abs(z), log_law.size - 1.0).astype(np.int64)])

    return NoiseLaw(float(np.sqrt(2.0 * size * q)) / (1.0 - q), log_weight)


@dataclass(frozen=True)
class SignedDummies(RecordMechanism[SignedDummiesParameters]):
    """Mechanism in which users send their true cell and signed dummies.

    Attributes
    ----------
    slots
        Number of messages in an envelope; by default the first of `ENVELOPE_LENGTHS` with which the
        error is at most a tenth above the least.
    share
        Share of the n users who must be honest and take part for the guarantee to hold.
    overflow_eps
        The eps at which `calibrate` accounts for overflow; by default that of the target.
    """

    slots: int | None = None
    share: float = 0.9
    overflow_eps: float | None = None
    name = "signed-dummies"
    form = SignedDummiesParameters
    estimators = additive_noise_estimators(noisy_shares, _noise_law)

    def __post_init__(self) -> None:
        check_sizes(2 if self.slots is None else self.slots, self.share)

    def _record_curve(self, parameters: SignedDummiesParameters, setting: Setting) -> UpperCurve:
        """Return the curve for the smallest number of honest users, which also holds for more.

        A user whose messages do not fit draws again. Under each of the two hypotheses, this changes
        the law of all messages by at most the probability of overflow, in total variation.
        """
        return self._curve(parameters, setting, parameters.smallest)

    def achieved(self, parameters: SignedDummiesParameters, setting: Setting) -> UpperCurve:
        """Return the curve for the noise of all n users if its law can be summed, else `curve`."""
        promised = self._curve(parameters, setting, parameters.smallest)
        if (
            setting.n <= parameters.smallest
            or not parameters.noise.scaled(setting.n / parameters.smallest).is_summable
        ):
            return promised
        once = self._curve(parameters, setting.single_round, setting.n)
        # This curve composes without its loss distribution and so less tightly. Over several rounds
        # the promised curve may therefore be smaller.
        return pointwise_minimum(
            promised, compose(replace(once, composable=Composable()), setting.rounds)
        )

    def _curve(
        self, parameters: SignedDummiesParameters, setting: Setting, users: int
    ) -> UpperCurve:
        """Return the curve for the noise of ``users`` honest users."""
        if setting.n < parameters.smallest:
            return pure_dp_curve()
        noise = parameters.noise.scaled(users / parameters.smallest).summable()
        overflow = parameters.any_overflow_probability(setting.k, users)

        # There is no lower end, because the exact effect of redrawing is not computed.
        once = UpperCurve(
            np.inf,
            upper=add_total_variation(
                noise.log_delta, float(np.log(overflow)) if overflow else -np.inf
            ),
            composable=Composable(
                loss=lambda: replace(parameters.noise.loss, down=(), tv_distance=overflow)
            ),
        )
        return compose(once, setting.rounds)

    def _calibrate_record(
        self, eps: float, log_delta: float, setting: Setting
    ) -> SignedDummiesParameters:
        """Return the least noise: the best size, the most pairs that fit, and the least ratio.

        For several rounds, overflow is accounted for at the eps of all rounds.
        """
        if setting.rounds > 1:
            once = replace(self, overflow_eps=eps)
            return calibrate_rounds_by_search(once, eps, log_delta, setting)
        check_noise_eps(eps)
        if not -np.inf < log_delta < 0.0:
            raise InputError(
                f"delta must lie strictly between 0 and 1 for signed dummies, got log "
                f"delta={log_delta}; pure DP needs another mechanism"
            )
        overflow_eps = eps if self.overflow_eps is None else self.overflow_eps
        target = Target(
            eps,
            log_delta + float(np.log1p(-OVERFLOW_SHARE)),
            log_delta + float(np.log(OVERFLOW_SHARE) - np.logaddexp(0.0, overflow_eps)),
            setting.k,
            max(int(np.floor(self.share * setting.n)), 1),
        )
        if (best := best_noise(target, self.slots)) is None:
            # Over several rounds, each is calibrated to a smaller target than the caller's.
            each_round = "" if self.overflow_eps is None else " in each round"
            raise InputError(
                f"no signed dummies meet this target: more slots or users are needed, got "
                f"slots={self.slots or ENVELOPE_LENGTHS[-1]}, n={setting.n}, k={setting.k}, "
                f"eps={eps:.4g} and log delta={log_delta:.4g}{each_round}"
            )
        return best

    def _draw(
        self, counts: Integers, parameters: SignedDummiesParameters, rng: np.random.Generator
    ) -> Integers:
        """Draw the numbers of plus messages minus those of minus messages, without pairs."""
        size = parameters.size * counts.sum() / parameters.smallest
        plus, minus = rng.negative_binomial(size, 1.0 - parameters.ratio, (2, counts.size))
        return np.asarray(counts + (plus - minus))

    def variance(self, shares: ArrayLike, n: float, parameters: SignedDummiesParameters) -> Floats:
        """Return the variance of each share: that of a difference of two negative binomials."""
        variance = n / parameters.smallest * parameters.deviation**2
        return np.full(np.shape(shares), variance / n**2)

    def expected_distance(
        self, shares: ArrayLike, n: float, parameters: SignedDummiesParameters
    ) -> Floats:
        """Return the expected distance, from the law of a difference of two negative binomials."""
        law = stats.nbinom(parameters.size * n / parameters.smallest, 1.0 - parameters.ratio)
        last = np.ceil(law.isf(1e-17))
        # Each block has an odd length and is represented by its middle value.
        block = 2.0 * np.floor(last / MAX_BLOCKS) + 1.0
        below = law.cdf(np.arange(block // 2.0, last + block, block))
        error = 2.0 * block * float(below @ (1.0 - below))
        return np.full(np.shape(shares)[:-1], 0.5 * np.shape(shares)[-1] * error / n)

    def per_user(self, n: int, k: int, parameters: SignedDummiesParameters) -> PerUser:
        """Return the mean number of messages, without blanks, and influence and upload of a user.

        A dishonest user can fill the envelope with messages of one cell and one sign.
        """
        del n
        q = parameters.ratio
        cell = 2.0 * parameters.size * q / (1.0 - q) + 2.0 * parameters.pairs
        return PerUser(
            messages=1.0 + k * cell / parameters.smallest,
            moved_by_one=float(parameters.slots),
            bytes_sent=envelope_bytes(parameters.slots),
        )
