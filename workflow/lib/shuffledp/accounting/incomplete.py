"""What is left of privacy where some users collude or send nothing, and k-RR among dummies.

Colluders tell the analyst their messages, or send what they like: what hides the target are the
others. Who drops out sends nothing, neither report nor dummies.
"""

from collections.abc import Callable

import numpy as np

from shuffledp.accounting import pairs
from shuffledp.accounting.bound import Bound
from shuffledp.accounting.conventions import of_one_round
from shuffledp.accounting.rounds.subsampling import subsampled_log_delta
from shuffledp.accounting.setting import LARGEST_N, Setting
from shuffledp.arrays import UNIT
from shuffledp.errors import InputError


def incomplete_log_delta(
    log_delta: Callable[[int], float], n: int, *, colluding: int = 0, response: float = 1.0
) -> float:
    """Natural log of a delta for a user who responds, rounded up, at an eps.

    It holds against an analyst who knows who dropped out, and everything of the colluders.

    Parameters
    ----------
    log_delta
        Natural log of a delta that holds for so many honest users, all of whom respond; it falls
        with their number.
    n
        Number of users, at least 1.
    colluding
        How many of the others are not honest, in ``0..n-1``.
    response
        Probability in ``(0, 1]`` with which each user responds, independently of the others and of
        all data. If dropping out depends on the data, only the delta of the fewest who may respond
        holds.

    Returns
    -------
    With dropouts, a little above the mean delta over the number of those who respond.

    Raises
    ------
    InputError
        If an argument is out of range.
    """
    if not (0 <= colluding < n and colluding == int(colluding)):
        raise InputError(
            f"colluding users must be whole and below n: the target is honest (got "
            f"colluding={colluding}, n={n})"
        )
    if not 0.0 < response <= 1.0:
        raise InputError(f"response rate must lie in (0, 1] (got {response})")

    def of(eps: float, setting: Setting) -> float:
        del eps
        return log_delta(setting.n)

    honest = Bound("honest", "upper", "", "", log_delta_function=of)
    # Cells and budgets are the caller's.
    found = subsampled_log_delta(honest, 0.0, Setting(n - colluding, 2, 1.0), response)
    # That is for a user who may have dropped out, too.
    log_response = float(np.log(response))
    slack = 64.0 * UNIT * (1.0 + abs(found) + abs(log_response)) if found > -np.inf else 0.0
    return min(found - log_response + slack, 0.0)


@of_one_round
def krr_among_dummies_log_delta(
    eps: float, setting: Setting, dummies: float, chances: int = 1
) -> float:
    """Natural log of a delta of shuffled k-RR whose users also send uniform dummies, rounded up.

    For every data set and replacement of one record, against an analyst who also learns which of
    the other users told the truth.

    Parameters
    ----------
    eps
        At least 0, any shape.
    setting
        One round of it.
    dummies, chances
        Every user takes so many chances of one dummy each, and sends ``dummies`` on average, in
        ``[0, chances]``.

    Returns
    -------
    Logarithms shaped like ``eps``; -inf where ``eps >= eps0``.

    Raises
    ------
    InputError
        If an argument is out of range.
    """
    if not (chances >= 1 and chances == int(chances) and 0.0 <= dummies <= chances):
        raise InputError(
            f"lambda dummies of a user must lie in [0, r], of a whole number r of chances (got "
            f"lambda={dummies}, r={chances})"
        )
    if setting.n * chances > LARGEST_N:
        raise InputError(
            f"n r must be at most {LARGEST_N:,} chances of a dummy (got n={setting.n}, r={chances})"
        )
    if dummies == 0.0:
        return min(pairs.hockey_stick(pairs.weak_adversary(setting), eps, "upper").high, 0.0)
    pair = pairs.among_dummies(setting, setting.n * chances, dummies / chances)
    return min(pairs.hockey_stick(pair, eps, "upper").high, 0.0)
