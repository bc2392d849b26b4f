"""End-to-end audit: the best attack on simulated releases never beats the claimed delta."""

import numpy as np
import pytest
from effort import long
from shuffledp.accounting.one_round import certified
from shuffledp.accounting.setting import Setting, probabilities
from shuffledp.mechanisms.krr import randomise

TRIALS = 600_000


def _excess(histograms, others_law, target_law, other_law, eps):
    """Sign of P - e Q from the likelihoods themselves: linear in the counts over a multinomial."""
    return histograms @ ((target_law - np.exp(eps) * other_law) / others_law) > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "k", "eps0", "eps", "crowd"),
    [
        (100, 4, 1.0, 0.1, 2),
        (100, 4, 1.0, 0.1, 0),
        (50, 3, 3.0, 1.0, 2),
        long(300, 20, 4.0, 0.3, 7),
    ],
)
def test_likelihood_ratio_attack(n, k, eps0, eps, crowd):
    """All others hold the cell `crowd`; the attacker guesses whether the target holds 0 or 1."""
    p, q = probabilities(eps0, k)
    channel = np.full((k, k), q) + np.eye(k) * (p - q)
    rng = np.random.default_rng(9)
    shares = []
    for cell in (0, 1):
        counts = np.zeros(k, dtype=int)
        counts[crowd] += n - 1
        counts[cell] += 1
        releases = randomise(counts, eps0, rng, TRIALS)
        shares.append(_excess(releases, channel[crowd], channel[0], channel[1], eps).mean())
    advantage = shares[0] - np.exp(eps) * shares[1]
    error = np.sqrt((shares[0] + np.exp(2 * eps) * shares[1]) / TRIALS)
    upper = float(np.exp(certified.upper_log_delta(eps, Setting(n, k, eps0))))
    assert advantage <= upper + 5 * error
    if crowd > 1:
        # This is the data set of the lower bound: the attack reaches it.
        lower = float(np.exp(certified.lower_log_delta(eps, Setting(n, k, eps0))))
        assert advantage >= lower - 5 * error
        assert lower > 10 * error, "the audit has the power to see the difference"
