"""What a mechanism gives when it calibrates itself to a target: (eps, delta) for n users."""

from dataclasses import dataclass, fields
from typing import Generic

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.mechanisms.protocol import Mechanism, P


@dataclass(frozen=True)
class Offer(Generic[P]):
    """Parameters that keep a target, what they cost and the error of the unbiased estimate.

    Attributes
    ----------
    parameters
        Of the mechanism.
    local_eps0
        What a user's own messages reveal before they are mixed; inf: all.
    messages
        Mean number of messages per user.
    cell_sd, largest_cell_sd
        Standard deviation of a cell's number of users: root mean square over the cells, and
        largest.
    tv_distance
        Expected total variation distance of the shares.
    """

    parameters: P
    local_eps0: float
    messages: float
    cell_sd: float
    largest_cell_sd: float
    tv_distance: float


def offer(
    mechanism: Mechanism[P], eps: float, log_delta: float, n: int, shares: ArrayLike
) -> Offer[P]:
    """Calibrate a mechanism to a target and predict its errors.

    Parameters
    ----------
    mechanism
        Any of the registry.
    eps, log_delta
        The target: central budget, and natural log of delta.
    n
        Number of users.
    shares
        Of the users in each cell, shape ``(k,)``.

    Raises
    ------
    InputError
        If the mechanism cannot meet the target; the message says why.
    """
    shares = np.asarray(shares, np.float64)
    parameters = mechanism.calibrate(eps, log_delta, n, shares.size)
    variance = mechanism.variance(shares, n, parameters)
    return Offer(
        parameters=parameters,
        local_eps0=mechanism.local_eps0(parameters),
        messages=mechanism.messages(n, shares.size, parameters),
        cell_sd=n * float(np.sqrt(variance.mean())),
        largest_cell_sd=n * float(np.sqrt(variance.max())),
        tv_distance=float(mechanism.expected_distance(shares, n, parameters)),
    )


def parameter_words(parameters: object) -> str:
    """Write the numbers and names among a mechanism's parameters: ``theta=0.6, nu=25``.

    All digits are kept: a rounded parameter might not keep the target.
    """
    values = {field.name: getattr(parameters, field.name) for field in fields(parameters)}  # type: ignore[arg-type]
    return ", ".join(
        f"{name}={value}" for name, value in values.items() if isinstance(value, int | float | str)
    )
