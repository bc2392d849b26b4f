"""The noise of paper D's Algorithm 1 (shuffled noisy SGD), and the privacy that it gives.

One client is visited at each step. Its records' gradients are clipped to norm C, summed, divided
by the number m of clients, and get normal noise of standard deviation ``sigma`` in each
coordinate. Replacing one record moves the sum by at most ``2 C / m``, so one step is
``2 C / (m sigma)``-GDP for a record. The client is visited in each of the T epochs, at the same
place of a permutation that is drawn once: all T releases together are sqrt(T) times that, exactly
if every iterate is seen. Nothing here counts on shuffling.
"""

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.rounds import tradeoff
from shuffledp.errors import InputError
from shuffledp.mechanisms.gaussian import classical_sigma
from shuffledp.numerics.arrays import Floats


def noise_scale(budgets: ArrayLike, delta: float, clip: float, clients: int) -> Floats:
    """Standard deviation of each coordinate's noise at a step: Algorithm 1, step 6.

    ``(2 C / m) sqrt(2 log(1.25 / delta)) / eps``, the classical Gaussian mechanism for one record.

    Parameters
    ----------
    budgets
        Of each client, for one step and one record, above 0; any shape.
    delta
        Of the step, between 0 and 1.
    clip
        Largest norm C of a record's gradient.
    clients
        Their number m.

    Raises
    ------
    InputError
        If a budget is not positive and finite (its noise would have no end), or delta, the norm
        or the number is out of range.
    """
    eps = np.asarray(budgets, np.float64)
    wrong = eps[~((eps > 0.0) & np.isfinite(eps))]
    if wrong.size:
        raise InputError(
            f"budgets must be positive and finite (got {wrong[0]}): a client with budget 0 cannot "
            "take part in training"
        )
    if not 0.0 < delta < 1.0:
        raise InputError(f"delta must lie strictly between 0 and 1 (got {delta})")
    if not (clip > 0.0 and clients >= 1):
        raise InputError(f"clip must be positive and clients at least 1 (got {clip}, {clients})")
    return classical_sigma(eps, delta, 2.0 * clip / clients)


def record_mu(sigma: ArrayLike, clip: float, clients: int, epochs: int = 1) -> Floats:
    """The mu of Gaussian DP that a record has after all epochs, whatever else is known.

    Holds for every data set and the replacement of one record, for whoever sees every iterate,
    all other records and the permutation. Of a whole client with r records it is r times that.

    Parameters
    ----------
    sigma
        As `noise_scale` gives it, or more; any shape.
    clip, clients
        As there.
    epochs
        Visits of the client.
    """
    sensitivity = 2.0 * clip / clients
    return np.asarray(np.sqrt(epochs) * sensitivity / np.asarray(sigma, np.float64))


def gdp_epsilon(mu: float, delta: float) -> float:
    """Smallest eps at which mu-GDP gives delta; rounded up.

    Parameters
    ----------
    mu
        Positive.
    delta
        Between 0 and 1.
    """
    return tradeoff.gdp_epsilon(mu, float(np.log(delta)))
