"""What is left of privacy where some users collude or send nothing, and k-RR among dummies.

Colluders tell the analyst their messages, or send what they like: what hides the target are the
others. Who drops out sends nothing, neither report nor dummies.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shuffledp.accounting import pairs
from shuffledp.accounting.bound import Bound
from shuffledp.accounting.central_limit import central_limit
from shuffledp.accounting.conventions import of_one_round
from shuffledp.accounting.rounds.subsampling import subsampled_log_delta
from shuffledp.accounting.setting import LARGEST_N, Setting
from shuffledp.arrays import UNIT
from shuffledp.errors import InputError


@dataclass(frozen=True)
class Crowd:
    """Which of the users hide a target who responds.

    Attributes
    ----------
    colluding
        How many of the others are not honest, at least 0 and below the number of users: they tell
        the analyst all they sent, or send what they like.
    response
        Probability in ``(0, 1]`` with which each user responds, independently of the others and of
        all data. If dropping out depends on the data, only the delta of the fewest who may respond
        holds.

    Raises
    ------
    InputError
        If one is out of range.
    """

    colluding: int = 0
    response: float = 1.0

    def __post_init__(self) -> None:
        if not (self.colluding >= 0 and self.colluding == int(self.colluding)):
            raise InputError(
                f"colluding users must be a whole number, at least 0 (got {self.colluding})"
            )
        if not 0.0 < self.response <= 1.0:
            raise InputError(f"response rate must lie in (0, 1] (got {self.response})")

    def honest(self, n: int) -> int:
        """How many of n users are honest, the target among them.

        Raises
        ------
        InputError
            If nobody is.
        """
        if self.colluding >= n:
            raise InputError(
                f"colluding users must be fewer than n, since the target is honest (got "
                f"colluding={self.colluding}, n={n})"
            )
        return n - self.colluding

    def __str__(self) -> str:
        """What to say after a number of users; empty for everybody."""
        words = f", {self.colluding:,.0f} collude" if self.colluding else ""
        return words if self.response == 1.0 else f"{words}, response rate {self.response:g}"


EVERYBODY = Crowd()


def incomplete_log_delta(log_delta: Callable[[int], float], n: int, crowd: Crowd) -> float:
    """Natural log of a delta for a user who responds, rounded up, at an eps.

    It holds against an analyst who knows who dropped out, and everything of the colluders.

    Parameters
    ----------
    log_delta
        Natural log of a delta that holds for so many honest users, all of whom respond; the true
        one falls with their number.
    n
        Number of users, at least 1.
    crowd
        Who of them colludes or drops out.

    Returns
    -------
    With dropouts, a little above the mean delta over the number of those who respond.

    Raises
    ------
    InputError
        If everybody colludes.
    """

    def of(eps: float, setting: Setting) -> float:
        del eps
        return log_delta(setting.n)

    complete = Bound("complete", "upper", "", "", log_delta_function=of)
    # Cells and budgets are the caller's.
    return _responding_log_delta(complete, 0.0, Setting(crowd.honest(n), 2, 1.0), crowd.response)


def _responding_log_delta(bound: Bound, eps: float, setting: Setting, response: float) -> float:
    """Log delta of a user who responds, the mean over those who do, rounded up."""
    found = subsampled_log_delta(bound, eps, setting, response)
    # That is for a user who may have dropped out, too.
    log_response = float(np.log(response))
    slack = 64.0 * UNIT * (1.0 + abs(found) + abs(log_response)) if found > -np.inf else 0.0
    return min(found - log_response + slack, 0.0)


def incomplete(bound: Bound, crowd: Crowd) -> Bound:
    """Bound that answers the same questions where users collude or drop out.

    Parameters
    ----------
    bound
        Any; with dropouts a guarantee.
    crowd
        Who colludes or drops out.

    Returns
    -------
    The bound itself if nobody does. Settings given to the result count all users. With dropouts it
    is an upper bound, of one round.

    Raises
    ------
    InputError
        If there are dropouts and the bound is no guarantee.
    """
    if crowd == EVERYBODY:
        return bound
    if crowd.response < 1.0:
        bound = _responding(bound, crowd.response)

    def honest(setting: Setting) -> Setting:
        return replace(setting, n=crowd.honest(setting.n))

    def shifted(function: Callable[..., Any] | None) -> Any:
        """The same function of a setting of honest users."""
        if function is None:
            return None
        return lambda *arguments: function(
            *(honest(each) if isinstance(each, Setting) else each for each in arguments)
        )

    return replace(
        bound,
        log_delta_function=shifted(bound.log_delta_function),
        epsilon_function=shifted(bound.epsilon_function),
        domain=shifted(bound.domain),
        over_counts=shifted(bound.over_counts),
        dominating_pair=shifted(bound.dominating_pair),
        ceiling=shifted(bound.ceiling),
        lead=shifted(bound.lead),
        rdp_function=shifted(bound.rdp_function),
    )


def _responding(bound: Bound, response: float) -> Bound:
    if not bound.guarantee:
        raise InputError(f"{bound.name} is no guarantee: with dropouts only an upper end is known")
    pair = bound.dominating_pair

    def log_delta(eps: float, setting: Setting) -> float:
        if setting.rounds > 1:
            raise InputError(
                "a response rate is for one round; for several give as n the fewest who respond "
                f"in all of them (got rounds={setting.rounds})"
            )
        return _responding_log_delta(bound, eps, setting, response)

    def lead(eps: float, setting: Setting) -> float:
        assert pair is not None
        mean = 1 + round((setting.n - 1) * response)
        return central_limit(pair, eps, replace(setting, n=mean))

    return bound.upper_end(log_delta, None if pair is None else lead)


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


def among_dummies(bound: Bound, dummies: float) -> Bound:
    """`upper` of k-RR whose users also send so many uniform dummies on average.

    Each takes as few chances of one as can do. Raises `InputError` if the bound is another one, or
    the number is below 0.
    """
    if dummies == 0.0:
        return bound
    if bound.name != "upper":
        raise InputError(f"{bound.name} knows no dummies: only upper, the certified end, does")
    if not 0.0 < dummies < LARGEST_N:
        raise InputError(f"dummies of a user must be a mean number, at least 0 (got {dummies})")
    chances = int(np.ceil(dummies))

    def log_delta(eps: float, setting: Setting) -> float:
        return float(krr_among_dummies_log_delta(eps, setting, dummies, chances))

    return replace(bound.upper_end(log_delta), composes=False)
