"""Shuffled k-RR whose users also send uniform dummies (mixDUMP; docs/accounting.md)."""

from shuffledp.accounting import pairs
from shuffledp.accounting.conventions import of_one_round
from shuffledp.accounting.setting import LARGEST_N, Setting
from shuffledp.errors import InputError


def chance_of_dummy(dummies: float, chances: int) -> float:
    """Probability that a chance makes a dummy, of so many a user and ``dummies`` on average.

    Raises
    ------
    InputError
        If the mean number is not in ``[0, chances]``, or chances are no whole number.
    """
    if not (chances >= 1 and chances == int(chances) and 0.0 <= dummies <= chances):
        raise InputError(
            f"lambda dummies of a user must lie in [0, r], of a whole number r of chances (got "
            f"lambda={dummies}, r={chances})"
        )
    return dummies / chances


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
    rate = chance_of_dummy(dummies, chances)
    if setting.n * chances > LARGEST_N:
        raise InputError(
            f"n r must be at most {LARGEST_N:,} chances of a dummy (got n={setting.n}, r={chances})"
        )
    if dummies == 0.0:
        return min(pairs.hockey_stick(pairs.weak_adversary(setting), eps, "upper").high, 0.0)
    pair = pairs.among_dummies(setting, setting.n * chances, rate)
    return min(pairs.hockey_stick(pair, eps, "upper").high, 0.0)
