"""Deltas of shuffled k-RR by who looks on, over rounds: the curves of several of paper C's figures.

The strong adversary learns who randomised, the target included; the weak one learns it of the
others only; a reader of the histogram learns it of nobody.
"""

from typing import Final, Literal

import numpy as np

from shuffledp.accounting import pairs
from shuffledp.papers.literature import fourier
from shuffledp.papers.literature.strong_adversary import strong_adversary_log_delta
from shuffledp.accounting.one_round import certified
from shuffledp.accounting.registry import BOUNDS
from shuffledp.accounting.rounds import shuffled_krr
from shuffledp.accounting.rounds.privacy_loss import default_step, rounded_up
from shuffledp.accounting.setting import Setting, probabilities
from shuffledp.papers.paper_c.printed import printed_pair_loss
from shuffledp.papers.profiles import LogDelta

# Algorithm 1's grid: C has L = 20 and m = 1e7. A step displaces eps by at most 1e-4 per round.
HALF_WIDTH: Final = 20.0
N_GRID: Final = 400_000
_PRINTED_HALF_WIDTH, _PRINTED_N_GRID = 10.0, 200_000
# Coarser than `composition`'s own grid: eps of the lower bound comes out smaller by some 1e-4.
_LOWER_STEPS = 4


def of_gamma(n: int, k: int, gamma: float, rounds: int = 1) -> Setting:
    """Paper C's parameters as a setting of k-RR.

    Parameters
    ----------
    n, k
        Numbers of users and of cells.
    gamma
        Probability in ``(0, 1)`` that a user reports a uniform cell.
    rounds
        How often the same users report.
    """
    return Setting(n, k, float(np.log(k / gamma - k + 1.0)), rounds)


def gamma(setting: Setting) -> float:
    """Probability that a user reports a uniform cell."""
    return setting.k * probabilities(setting.eps0, setting.k)[1]


def on_grid(loss: pairs.Pair | fourier.LossAtoms, rounds: int) -> fourier.FourierBounds:
    """Algorithm 1 on the grid of the figures."""
    return fourier.fourier_bounds(loss, rounds, HALF_WIDTH, N_GRID)


def weak(setting: Setting) -> LogDelta:
    """Log delta of the weak adversary: the certified upper bound, but for two and three cells."""
    if setting.rounds == 1:
        return lambda eps: float(certified.weak_adversary_log_delta(eps, setting))
    return lambda eps: BOUNDS["upper"].curve(setting).log_delta(eps).promised


def histogram(setting: Setting) -> LogDelta:
    """Log delta of the histograms of an explicit data set: the certified lower bound."""
    if setting.rounds == 1:
        return lambda eps: float(certified.lower_log_delta(eps, setting))
    pair = pairs.weak_adversary(setting) if setting.k == 2 else pairs.third_cell(setting)
    step = default_step(pair) / _LOWER_STEPS
    return lambda eps: float(shuffled_krr.composed_log_delta(eps, setting, "lower", step))


def strong(setting: Setting) -> LogDelta:
    """Log delta of the strong adversary: exact for one round, else Algorithm 1's upper end."""
    if setting.rounds == 1:
        return lambda eps: float(strong_adversary_log_delta(eps, setting))
    bounds = on_grid(strong_adversary_loss(setting), setting.rounds)
    return lambda eps: bounds.log_delta(eps).high


def strong_adversary_loss(setting: Setting) -> fourier.LossAtoms:
    """One round of paper C's strong adversary (Definition 8), rounded up.

    With probability gamma he sees that the target randomised, and the loss is 0; otherwise it is
    that of `pairs.strong_adversary`.
    """
    pair = pairs.strong_adversary(setting)
    loss = rounded_up(pair, default_step(pair))
    truth = float(np.expm1(setting.eps0)) * probabilities(setting.eps0, setting.k)[1]
    return fourier.LossAtoms(
        losses=np.append(loss.losses, 0.0),
        masses=np.append(truth * loss.mass, 1.0 - truth),
        infinite=truth * loss.infinite,
        left_out=0.0,
    )


def printed(setting: Setting, adversary: Literal["strong", "weak"]) -> LogDelta:
    """Log delta of a pair as printed, in the worse direction, by Algorithm 1 (right grid)."""
    grids = [
        fourier.fourier_bounds(
            printed_pair_loss(setting, adversary, direction),
            setting.rounds,
            _PRINTED_HALF_WIDTH,
            _PRINTED_N_GRID,
        ).right
        for direction in ("forward", "backward")
    ]
    # Algorithm 1's value may fall below 0 by rounding, where delta is some 1e-13.
    return lambda eps: float(np.log(max(1e-30, *(grid.delta(eps)[0] for grid in grids))))
