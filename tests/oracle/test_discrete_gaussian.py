"""Discrete Gaussian noise, against laws in balls and direct convolution."""

from math import ceil, exp, sqrt

import numpy as np
import pytest
from effort import long, nightly
from flint import arb, arb_poly, ctx

from oracle import enumerated
from shuffledp.accounting.additive import GaussianNoise
from shuffledp.accounting.setting import Setting
from shuffledp.mechanisms.two_servers import GaussianServersParameters, TwoServers

DEVIATIONS = 11  # laws leave out a tail of about exp(-60)
# What tails change of a delta is far below this.
LEFT_OUT = 1e-20


@pytest.fixture(autouse=True)
def _precision():
    with ctx.workprec(300):
        yield


def pair_of_view(view, sigma, nu, least=0.0):
    """Return the pair of laws that a view sees, of noises whose probability is above a limit."""
    reach = ceil(DEVIATIONS * sigma)
    noise = enumerated.discrete_gaussian(sigma, None if view == "shuffler" else nu, reach)
    if view == "public":
        deep = [enumerated.discrete_gaussian(sigma, each, 2 * reach) for each in (nu, None)]
        noise = enumerated.summed(*deep, range(-nu - reach, reach + 1), arb(-120).exp())
    kept = {z: p for z, p in noise.items() if p > least}
    return enumerated.noisy_pair(kept, ends=view == "analyst" and nu <= reach)


def log_delta_of_view(view, sigma, nu, eps, rounds=1):
    """Return the upper end of a view of noise by both servers."""
    parameters, setting = GaussianServersParameters(sigma, nu), Setting(50, 5, rounds=rounds)
    curves = {"analyst": TwoServers().curve(parameters, setting)}
    return (curves | TwoServers().views(parameters, setting))[view].log_delta(eps).promised


SETTINGS = [
    (view, sigma, nu, eps)
    for view in ("analyst", "shuffler", "public")
    for sigma in (0.4, 0.77, 1.0, 1.6)
    for nu in ((0, 2, 5) if view != "shuffler" else (0,))
    for eps in (0.0, 0.3, 1.0, 2.5)
]


@pytest.mark.parametrize(("view", "sigma", "nu", "eps"), SETTINGS)
def test_every_view_has_the_delta_of_its_law(view, sigma, nu, eps):
    pair = pair_of_view(view, sigma, nu)
    high = exp(log_delta_of_view(view, sigma, nu, eps))
    for direction in (pair, [(q, p) for p, q in pair]):
        truth = float(enumerated.stick(direction, eps))
        assert truth - (1.0 + exp(eps)) * LEFT_OUT <= high
        assert high <= truth * (1.0 + 1e-9) + (1.0 + exp(eps)) * LEFT_OUT + 1e-15


@pytest.mark.parametrize("view", ["analyst", "shuffler", "public"])
@pytest.mark.parametrize(("sigma", "nu", "eps"), [(0.6, 1, 0.5), (0.5, 3, 1.5), (0.8, 0, 3.0)])
def test_two_rounds_have_the_delta_of_all_pairs_of_outcomes(view, sigma, nu, eps):
    """Enumerate both rounds; outcomes with the same probabilities are joined."""
    once = pair_of_view(view, sigma, nu, least=1e-14)
    p, q = (np.array([float(each[side]) for each in once]) for side in (0, 1))
    missing = 4.0 * (1.0 - p.sum()) + 1e-12
    truth = float(np.maximum(np.outer(p, p) - exp(eps) * np.outer(q, q), 0.0).sum())
    high = exp(log_delta_of_view(view, sigma, nu, eps, 2))
    slack = (1.0 + exp(eps)) * missing
    assert truth - slack <= high <= truth * (1.0 + (2e-2 if view == "public" else 1e-9)) + slack


def log_delta_by_convolution(sigma, nu, eps, rounds):
    """Return log delta of all rounds, from a power of a polynomial in balls.

    The total finite loss is ``D / sigma^2`` with D the sum over rounds of ``1 + z - z'``. If
    ``z' = -nu``, the loss is infinite.
    """
    law = enumerated.discrete_gaussian(sigma, nu, ceil(DEVIATIONS * sigma))
    values = sorted(law)
    finite = [z for z in values if nu is None or z > -nu]
    first, second = arb_poly([law[z] for z in values]), [law[z] for z in reversed(finite)]
    delta = arb(0) if nu is None else 1 - (1 - law[-nu]) ** rounds
    start = rounds * (1 + values[0] - finite[-1])
    for index, mass in enumerate(((first * arb_poly(second)) ** rounds).coeffs(), start):
        loss = arb(index) / arb(sigma) ** 2
        if loss > eps:
            delta -= mass * (eps - loss).expm1()
    return float(delta.log())


@pytest.mark.parametrize(
    ("sigma", "nu", "eps", "rounds"),
    [
        (3.0, None, 1.0, 3),
        (6.0, None, 0.5, 12),
        (2.5, 12, 2.0, 5),
        (6.0, 30, 1.0, 12),
        (25.1, None, 1.0, 12),  # about delta = 1e-8, as in the following
        (25.1, 156, 1.0, 12),
        nightly(52.3, 330, 1.0, 52),
    ],
)
def test_rounds_have_the_delta_of_a_direct_convolution(sigma, nu, eps, rounds):
    truth = log_delta_by_convolution(sigma, nu, eps, rounds)
    high = GaussianNoise(sigma, nu=np.inf if nu is None else nu).curve(rounds).upper(eps)
    assert truth - 1e-14 <= high <= truth + 1e-8


def deltas_on_a_grid(sigma, nu, eps, rounds):
    """Return deltas of the public view over rounds, with losses rounded down and up to a grid."""
    z, y = (np.arange(low, 15 * int(sigma) + 1.0) for low in (-nu, -15 * int(sigma)))
    dummies, noise = (np.exp(-0.5 * (each / sigma) ** 2) for each in (z, y))
    law = np.convolve(dummies / dummies.sum(), noise / noise.sum())
    law = law[law > 1e-30]
    loss = np.log(law[:-1] / law[1:])
    step, size = 2e-5, 2**19  # losses of all rounds, modulo the length of the grid
    deltas = []
    for rounding in (np.floor, np.ceil):
        transform = np.ones(size // 2 + 1, complex)
        for losses, mass in ((loss, law[:-1]), (-loss, law[1:])):
            index = rounding(losses / step).astype(np.int64) % size
            transform *= np.fft.rfft(np.bincount(index, mass, minlength=size)) ** rounds
        total = np.fft.irfft(transform, size)
        above = step * np.arange(size // 2) - eps
        deltas.append(float(total[: size // 2] @ np.maximum(-np.expm1(-above), 0.0)))
    return deltas


@pytest.mark.parametrize(("sigma", "nu", "rounds"), [(25.1, 156, 12), long(52.3, 330, 52)])
def test_rounds_of_the_public_view_lie_between_convolutions_of_rounded_losses(sigma, nu, rounds):
    below, above = deltas_on_a_grid(sigma, nu, 0.69, rounds)
    high = exp(log_delta_of_view("public", sigma, nu, 0.69, rounds))
    assert 5e-9 < below <= high <= above < 2e-8


@pytest.mark.parametrize(("sigma", "nu"), [(0.1, 0), (0.1, 3), (20.0, 70), (300.0, 40), (3e3, 0)])
def test_what_a_law_leaves_out_is_counted(sigma, nu):
    """Compare masses with a direct sum over a wider range."""
    losses = GaussianNoise(sigma, nu=nu).cell_losses
    z = np.arange(-nu, ceil(50.0 * sigma) + 1.0)
    weights = np.exp(-(z**2) / (2.0 * sigma**2))
    weights /= weights.sum()
    first = max(nu - int(sigma * sqrt(1400.0)), 0)  # the rest is below exp(-700)
    np.testing.assert_allclose(losses.mass, weights[first : first + losses.mass.size], rtol=1e-10)
    both = GaussianNoise(sigma, nu=nu, servers=2).cell_losses
    for cells in (losses, both):
        assert 1.0 - 1e-9 < cells.mass.sum() + cells.unlisted < 1.0 + 1e-9
