"""True reports among signed dummies of the users: noise that the analyst subtracts from itself.

Every user sends the true cell with sign plus and, for every cell, plus messages, minus messages and
pairs of both. Over M users the numbers of plus and of minus messages are negative binomial
(geometric, or of a size just above 1), and the pairs hide how they match. Messages are sealed for
the analyst, and all envelopes have the same length, so the shuffler learns nothing from them.
`shuffledp.accounting.signed` has the law and the exact delta.
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
    no_guarantee,
    pointwise_minimum,
)
from shuffledp.accounting.geometric import check_budget
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.mechanisms.estimators import noisy_shares, raw_and_projected
from shuffledp.mechanisms.protocol import Mechanism, PerUser, calibrate_rounds_by_search
from shuffledp.mechanisms.signed_dummies_search import (
    LENGTHS,
    SignedDummiesParameters,
    Target,
    best_noise,
    check_sizes,
)
from shuffledp.numerics.arrays import Floats

__all__ = ["SignedDummies", "SignedDummiesParameters"]

# Share of delta for messages that do not fit into their envelope, the best of those tried for short
# envelopes.
OVERFLOW_SHARE = 0.2
# Approximate number of blocks of values in the sum for a mean absolute difference.
MAX_BLOCKS = 2**16


@dataclass(frozen=True)
class SignedDummies(Mechanism[SignedDummiesParameters]):
    """Users report the truth and signed dummies; see `Mechanism`.

    Attributes
    ----------
    slots
        Number of messages in an envelope; by default the first of some lengths whose error is at
        most a tenth above the least.
    share
        Smallest share of the users that takes part, for which the promise holds.
    total
        Eps at which `calibrate` counts messages that do not fit; by default that of the target.
    """

    slots: int | None = None
    share: float = 0.9
    total: float | None = None
    name = "signed-dummies"
    form = SignedDummiesParameters
    estimators = raw_and_projected(noisy_shares)

    def __post_init__(self) -> None:
        check_sizes(2 if self.slots is None else self.slots, self.share)

    def curve(self, parameters: SignedDummiesParameters, setting: Setting) -> UpperCurve:
        """Return the exact curve for the smallest number of users, which holds for more users.

        An envelope whose messages do not fit is drawn anew. This changes the law of all messages by
        at most the probability of that event, for each of the two records.
        """
        return self._curve(parameters, setting, parameters.smallest)

    def achieved(self, parameters: SignedDummiesParameters, setting: Setting) -> UpperCurve:
        """Return the curve for the noise of all n, if its law is short enough to be summed."""
        promised = self._curve(parameters, setting, parameters.smallest)
        if (
            setting.n <= parameters.smallest
            or not parameters.noise.of_more(setting.n / parameters.smallest).known
        ):
            return promised
        once = self._curve(parameters, setting.once, setting.n)
        # It composes by the curve alone. Over rounds the promise, which composes by its losses, may
        # be smaller.
        return pointwise_minimum(
            promised, compose(replace(once, composable=Composable()), setting.rounds)
        )

    def _curve(
        self, parameters: SignedDummiesParameters, setting: Setting, users: int
    ) -> UpperCurve:
        """Return the curve for the noise of this many honest users; more noise hides more."""
        if setting.n < parameters.smallest:
            return no_guarantee()
        noise = parameters.noise.of_more(users / parameters.smallest).summable()
        over = parameters.anybody(setting.k, users)

        # There is no lower end: of data sets that attain it, only the law of all messages is known.
        once = UpperCurve(
            np.inf,
            upper=add_total_variation(noise.log_delta, float(np.log(over)) if over else -np.inf),
            composable=Composable(loss=lambda: replace(parameters.noise.loss, down=(), apart=over)),
        )
        return compose(once, setting.rounds)

    def calibrate(self, eps: float, log_delta: float, setting: Setting) -> SignedDummiesParameters:
        """Return the least noise: as many pairs as fit into the envelope, best size, least ratio.

        Over several rounds, what does not fit counts at the eps of all rounds.
        """
        if setting.rounds > 1:
            once = replace(self, total=eps)
            return calibrate_rounds_by_search(once, eps, log_delta, setting)
        check_budget(eps)
        if not -np.inf < log_delta < 0.0:
            raise InputError(
                f"delta must lie strictly between 0 and 1 for signed dummies (got log "
                f"delta={log_delta}); pure DP needs another mechanism"
            )
        counted = eps if self.total is None else self.total
        target = Target(
            eps,
            log_delta + float(np.log1p(-OVERFLOW_SHARE)),
            log_delta + float(np.log(OVERFLOW_SHARE) - np.logaddexp(0.0, counted)),
            setting.k,
            max(int(np.floor(self.share * setting.n)), 1),
        )
        if (best := best_noise(target, self.slots)) is None:
            raise InputError(
                f"signed dummies need more slots, or more users, for this promise (got "
                f"slots={self.slots or LENGTHS[-1]}, n={setting.n}, k={setting.k}, eps={eps}, "
                f"log delta={log_delta})"
            )
        return best

    def observe(
        self,
        counts: ArrayLike,
        parameters: SignedDummiesParameters,
        rng: np.random.Generator,
        repetitions: int = 1,
    ) -> Floats:
        """Draw the numbers of plus minus minus messages; the pairs cancel and reveal nothing."""
        counts = np.asarray(counts, dtype=np.int64)
        size = parameters.size * counts.sum() / parameters.smallest
        keep = 1.0 - parameters.ratio
        noise = [
            rng.negative_binomial(size, keep, counts.size)
            - rng.negative_binomial(size, keep, counts.size)
            for _ in range(repetitions)
        ]
        return np.asarray(counts + np.stack(noise), dtype=np.float64)

    def variance(self, shares: ArrayLike, n: float, parameters: SignedDummiesParameters) -> Floats:
        """Return the variance of each share, that of two negative binomial numbers."""
        variance = n / parameters.smallest * parameters.deviation**2
        return np.full(np.shape(shares), variance / n**2)

    def expected_distance(
        self, shares: ArrayLike, n: float, parameters: SignedDummiesParameters
    ) -> Floats:
        """Return it from the exact mean absolute difference of the two numbers."""
        law = stats.nbinom(parameters.size * n / parameters.smallest, 1.0 - parameters.ratio)
        last = np.ceil(law.isf(1e-17))
        # The middle value of each block of odd length represents the block.
        block = 2.0 * np.floor(last / MAX_BLOCKS) + 1.0
        below = law.cdf(np.arange(block // 2.0, last + block, block))
        error = 2.0 * block * float(below @ (1.0 - below))
        return np.full(np.shape(shares)[:-1], 0.5 * np.shape(shares)[-1] * error / n)

    def per_user(self, n: int, k: int, parameters: SignedDummiesParameters) -> PerUser:
        """Return the true message and the dummies; blanks fill the envelope up to its slots.

        A dishonest user may fill the envelope with messages of one cell and one sign.
        """
        del n
        q = parameters.ratio
        cell = 2.0 * parameters.size * q / (1.0 - q) + 2.0 * parameters.pairs
        return PerUser(
            messages=1.0 + k * cell / parameters.smallest, moved_by_one=float(parameters.slots)
        )
