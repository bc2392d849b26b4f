"""The central comparators: Gaussian noise on the true histogram, calibrated exactly; geometric.

Histograms that differ in one record (replacement) are sqrt(2) apart in L2 norm; one bin, 1.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfcx, log_ndtr

from shuffledp.arrays import Floats, Integers
from shuffledp.roots import brentq

HISTOGRAM_SENSITIVITY = float(np.sqrt(2.0))
# Below this delta diffprivlib's calibration is not accurate (it returns one sigma for 1e-17 on).
DIFFPRIVLIB_DELTA = 1e-12
_AGREEMENT = 1e-6


def gaussian_log_delta(eps: float, sigma: float, sensitivity: float) -> float:
    """Natural log of the exact delta of Gaussian noise (Balle and Wang 2018, Theorem 8).

    ``delta = Phi(D / 2s - eps s / D) - e^eps Phi(-D / 2s - eps s / D)``. Since
    ``e^eps phi(b) = phi(a)`` for the two arguments, it is ``phi(a)`` times a difference of Mills
    ratios, which does not underflow.
    """
    a = sensitivity / (2.0 * sigma) - eps * sigma / sensitivity
    b = a - sensitivity / sigma
    if a > 0.0:
        return float(log_ndtr(a) + np.log(-np.expm1(eps + log_ndtr(b) - log_ndtr(a))))
    # Phi(x) = phi(x) sqrt(pi / 2) erfcx(-x / sqrt 2)
    mills = erfcx(-a / np.sqrt(2.0)) - erfcx(-b / np.sqrt(2.0))
    if mills <= 0.0:  # so much noise that the two ratios agree to the last digit
        return -np.inf
    return float(np.log(0.5 * mills) - 0.5 * a * a)


def gaussian_sigma(
    eps: float, log_delta: float, sensitivity: float = HISTOGRAM_SENSITIVITY
) -> float:
    """Smallest standard deviation that gives (eps, delta)-DP, for any delta down to 1e-10000.

    Parameters
    ----------
    eps
        Positive.
    log_delta
        Natural log of delta, negative and finite: no Gaussian is (eps, 0)-DP.
    sensitivity
        L2 sensitivity; by default that of a histogram under replacement of one record.

    Returns
    -------
    Standard deviation, rounded up (relative 1e-10).

    Raises
    ------
    ValueError
        If eps is not positive or delta is not in (0, 1).

    Source: Balle and Wang, "Improving the Gaussian mechanism" (2018), Algorithm 1.
    """
    if not eps > 0.0:
        raise ValueError(f"eps must be positive for a Gaussian (got eps={eps})")
    if not (-np.inf < log_delta < 0.0):
        raise ValueError(
            f"delta must lie strictly between 0 and 1 for a Gaussian (got log delta={log_delta}); "
            "pure DP needs another mechanism, such as two-sided geometric noise"
        )
    # The classical sigma is sufficient up to eps = 1 and the right order of magnitude beyond.
    guess = sensitivity / eps * np.sqrt(2.0 * (1.0 - log_delta)) + sensitivity

    def gap(log_sigma: float) -> float:
        value = gaussian_log_delta(eps, float(np.exp(log_sigma)), sensitivity)
        return max(value, -1e300) - log_delta

    low, high = np.log(guess) - 2.0, np.log(guess) + 2.0
    while gap(low) < 0.0:
        low -= 2.0
    while gap(high) > 0.0:
        high += 2.0
    return float(np.exp(brentq(gap, low, high, xtol=1e-13)) * (1.0 + 1e-10))


def diffprivlib_sigma(eps: float, delta: float, sensitivity: float) -> float:
    """Standard deviation that diffprivlib's ``GaussianAnalytic`` uses.

    Not a guarantee below delta of about 1e-16, where it stops growing: paper A's Gaussian at
    eps = eps0 is explained by just that.
    """
    return float(_diffprivlib(eps, delta, sensitivity, 0)._scale)


def _diffprivlib(eps: float, delta: float, sensitivity: float, seed: int):  # type: ignore[no-untyped-def]
    # Importing diffprivlib imports all of scikit-learn: only when it is needed.
    from diffprivlib.mechanisms import GaussianAnalytic

    return GaussianAnalytic(
        epsilon=eps,
        delta=delta,
        sensitivity=sensitivity,
        random_state=np.random.RandomState(seed),
    )


def gaussian_release(
    counts: ArrayLike,
    eps: float,
    log_delta: float,
    rng: np.random.Generator,
    repetitions: int = 1,
    sensitivity: float = HISTOGRAM_SENSITIVITY,
) -> Floats:
    """Histograms with Gaussian noise that is exactly (eps, delta)-DP.

    Sampled by diffprivlib where its calibration agrees with ours to 1e-6 (delta of 1e-12 and
    more), by NumPy with our own standard deviation elsewhere.

    Returns
    -------
    Floats of shape ``(repetitions, k)``, in counts.
    """
    counts = np.asarray(counts, dtype=np.float64)
    sigma = gaussian_sigma(eps, log_delta, sensitivity)
    if log_delta >= np.log(DIFFPRIVLIB_DELTA):
        theirs = diffprivlib_sigma(eps, float(np.exp(log_delta)), sensitivity)
        if abs(theirs / sigma - 1.0) < _AGREEMENT:
            return diffprivlib_release(
                counts, eps, float(np.exp(log_delta)), rng, repetitions, sensitivity
            )
    return counts + rng.normal(0.0, sigma, size=(repetitions, counts.size))


def diffprivlib_release(
    counts: ArrayLike,
    eps: float,
    delta: float,
    rng: np.random.Generator,
    repetitions: int,
    sensitivity: float,
) -> Floats:
    """Histograms with the noise of diffprivlib's ``GaussianAnalytic``, right or wrong.

    See `diffprivlib_sigma` for when it is not (eps, delta)-DP. Shape as in `gaussian_release`.
    """
    counts = np.asarray(counts, dtype=np.float64)
    mechanism = _diffprivlib(eps, delta, sensitivity, int(rng.integers(2**32)))
    noisy = [
        mechanism.randomise(float(value)) for _ in range(repetitions) for value in counts.tolist()
    ]
    return np.array(noisy).reshape(repetitions, counts.size)


def james_stein(noisy: ArrayLike, sigma: float) -> Floats:
    """Shrink Gaussian releases towards 0 by the positive-part James-Stein estimator.

    ``(1 - (k - 2) sigma^2 / |y|^2)_+ y`` for each row (Balle and Wang 2018, section 4.2).

    Parameters
    ----------
    noisy
        Histograms with independent noise of standard deviation ``sigma``, shape ``(..., k)``.
    sigma
        In the same unit as ``noisy``.

    Returns
    -------
    Shape ``(..., k)``.
    """
    noisy = np.asarray(noisy, dtype=np.float64)
    square = (noisy**2).sum(axis=-1, keepdims=True)
    shrinkage = 1.0 - (noisy.shape[-1] - 2) * sigma**2 / np.where(square > 0.0, square, np.inf)
    return np.asarray(np.clip(shrinkage, 0.0, 1.0) * noisy)


def soft_threshold(noisy: ArrayLike, sigma: float) -> Floats:
    """Move Gaussian releases towards 0 by ``sigma sqrt(2 log k)``, at most to 0.

    For sparse histograms (Balle and Wang 2018, section 4.2). Parameters as for `james_stein`.
    """
    noisy = np.asarray(noisy, dtype=np.float64)
    threshold = sigma * np.sqrt(2.0 * np.log(noisy.shape[-1]))
    return np.asarray(np.sign(noisy) * np.maximum(np.abs(noisy) - threshold, 0.0))


def geometric_release(
    counts: ArrayLike, eps: float, rng: np.random.Generator, repetitions: int = 1
) -> Integers:
    """Histograms that are (eps, 0)-DP, where no Gaussian exists: two-sided geometric noise.

    Replacing one record changes two cells by one each, so each cell has noise z with probability
    proportional to ``exp(-eps |z| / 2)``.

    Parameters
    ----------
    counts
        True histogram, shape ``(k,)``, integers.
    eps
        Positive.

    Returns
    -------
    Integers of shape ``(repetitions, k)``.

    Raises
    ------
    ValueError
        If eps is not positive.

    Source: Ghosh, Roughgarden and Sundararajan (2009).
    """
    if not eps > 0.0:
        raise ValueError(f"eps must be positive (got eps={eps})")
    counts = np.asarray(counts, dtype=np.int64)
    success = -np.expm1(-0.5 * eps)
    shape = (repetitions, counts.size)
    noise = rng.geometric(success, shape) - rng.geometric(success, shape)
    return np.asarray(counts + noise, dtype=np.int64)
