"""A bound when the users of every round are drawn at random (docs/rounds.md)."""

from shuffledp.accounting.bound import Bound
from shuffledp.accounting.central_limit import central_limit
from shuffledp.accounting.rounds.subsampling import subsampled_log_delta
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError


def sampled(bound: Bound, rate: float) -> Bound:
    """Bound that answers the same questions about rounds for which users are drawn.

    Parameters
    ----------
    bound
        A guarantee; over several rounds one with a dominating pair.
    rate
        Probability in ``(0, 1]`` with which each user takes part in a round, independently of the
        others and of other rounds.

    Returns
    -------
    The bound itself for a rate of 1. Settings given to the result are those before sampling.

    Raises
    ------
    InputError
        If the rate is out of range, or the bound is no guarantee.
    """
    if not 0.0 < rate <= 1.0:
        raise InputError(f"sampling rate must lie in (0, 1] (got {rate})")
    if rate == 1.0:
        return bound
    if not bound.guarantee:
        raise InputError(f"{bound.name} is no guarantee: with sampling only an upper end is known")
    pair = bound.dominating_pair

    def log_delta(eps: float, setting: Setting) -> float:
        return subsampled_log_delta(bound, eps, setting, rate)

    def lead(eps: float, setting: Setting) -> float:
        assert pair is not None
        return central_limit(pair, eps, setting, rate)

    return bound.upper_end(log_delta, None if pair is None else lead)
