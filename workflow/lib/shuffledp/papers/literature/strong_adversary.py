"""Paper C's strong adversary, who learns of everybody who randomised, the target included."""

import numpy as np

from shuffledp.accounting import pairs
from shuffledp.accounting.conventions import of_one_round
from shuffledp.accounting.setting import Setting, probabilities


@of_one_round
def strong_adversary_log_delta(eps: float, setting: Setting) -> float:
    """Natural log of the delta of paper C's strong adversary (Definition 8), rounded up.

    Exactly ``1 - gamma`` times the divergence of `pairs.strong_adversary`, since the adversary
    sees whether the target randomised. Above the weak adversary's delta, and positive also for
    ``eps >= eps0``. Parameters, shape and errors as for `upper_log_delta`.
    """
    _, q = probabilities(setting.eps0, setting.k)
    log_truth = float(np.log(np.expm1(setting.eps0)) + np.log(q))
    return min(
        pairs.hockey_stick(pairs.strong_adversary(setting), eps, "upper").high + log_truth, 0.0
    )
