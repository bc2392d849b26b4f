"""Paper C's pairs as printed: NOT A GUARANTEE, for reproducing its figures only.

They forget one of the two cells that are compared. The right pairs: `shuffledp.accounting.pairs`.
"""

from typing import Literal

import numpy as np

from shuffledp.accounting.laws.binomial import log_cdf, log_pmf, log_sf
from shuffledp.papers.literature.fourier import LossAtoms
from shuffledp.accounting.setting import Setting, probabilities
from shuffledp.numerics.arrays import Floats

_WIDTH, _MARGIN = 9.3, 20.0


def _window(mean: float, variance: float, largest: float) -> Floats:
    half = _WIDTH * np.sqrt(variance) + _MARGIN
    return np.arange(max(np.floor(mean - half), 0.0), min(np.ceil(mean + half), largest) + 1.0)


def printed_pair_loss(
    setting: Setting,
    adversary: Literal["strong", "weak"],
    direction: Literal["forward", "backward"] = "forward",
) -> LossAtoms:
    """Loss of a pair of section 5 as printed.

    ``"strong"``: eq. (5.1), ``Bin(n-1, gamma/k) + 1`` against ``Bin(n-1, gamma/k)``. ``"weak"``:
    Theorem 10, the counts ``N1|B`` against ``N2|B`` together with B. Both forget the other one of
    the two cells that are compared, and come out too small: the right pairs are
    `pairs.strong_adversary` and `pairs.weak_adversary`.

    Parameters
    ----------
    setting
        One round of it; ``gamma = k / (exp(eps0) + k - 1)``.
    adversary
        Which of the two.
    direction
        ``"forward"`` is P against Q as the paper names them, ``"backward"`` Q against P.
    """
    law = _printed_strong if adversary == "strong" else _printed_weak
    first, second, left_out = law(setting)
    if direction == "backward":
        first, second = second, first
    endless = np.isneginf(second)
    used = ~endless & np.isfinite(first)
    return LossAtoms(
        losses=first[used] - second[used],
        masses=np.exp(first[used]),
        infinite=float(np.exp(first[endless]).sum()),
        left_out=left_out,
    )


def _printed_strong(setting: Setting) -> tuple[Floats, Floats, float]:
    n, (_, q) = setting.n, probabilities(setting.eps0, setting.k)
    count = _window((n - 1) * q, (n - 1) * q * (1.0 - q), n)
    first, second = log_pmf(count - 1.0, n - 1, q), log_pmf(count, n - 1, q)
    left_out = np.exp(log_cdf(count[0] - 1.0, n - 1, q)) + np.exp(log_sf(count[-1], n - 1, q))
    return first, second, float(left_out)


def _printed_weak(setting: Setting) -> tuple[Floats, Floats, float]:
    n, k = setting.n, setting.k
    p, q = probabilities(setting.eps0, k)
    gamma = k * q
    blanket = _window((n - 1) * gamma, (n - 1) * gamma * (1.0 - gamma), n - 1)
    mean = blanket[-1] / k
    half = _WIDTH * np.sqrt(mean) + _MARGIN
    count = np.arange(max(np.floor(blanket[0] / k - half), 0.0), np.ceil(mean + half) + 1.0)
    b = blanket[:, None]
    log_b = log_pmf(b, n - 1, gamma)
    with np.errstate(divide="ignore"):
        there = log_b + log_pmf(count, b, 1.0 / k)
        before = log_b + log_pmf(count - 1.0, b, 1.0 / k)
    first = np.logaddexp(np.log(p) + before, np.log1p(-p) + there)
    second = np.logaddexp(np.log(q) + before, np.log1p(-q) + there)
    outside = np.exp(log_cdf(blanket[0] - 1.0, n - 1, gamma)) + np.exp(
        log_sf(blanket[-1] + 1.0, n - 1, gamma)
    )
    beside = np.exp(log_cdf(count[0] - 1.0, blanket, 1.0 / k)) + np.exp(
        log_sf(count[-1], blanket, 1.0 / k)
    )
    return first.ravel(), second.ravel(), float(outside + beside.max())


def printed_clones_loss(setting: Setting) -> LossAtoms:
    """Loss of paper C's eq. (6.1) as printed.

    ``(A + D, C - A)`` against ``(A, C - A + D)``, C ~ Bin(n-1, 1/E), A ~ Bin(C, 1/2),
    D ~ Bern(E/(E+1)): with D = 0 the target adds nothing, where the clones pair has it add the
    other one of the two reports. Exchanging the coordinates exchanges the two laws, so that one
    direction is enough.

    Parameters
    ----------
    setting
        One round of it; the number of cells plays no part.
    """
    n, eps0 = setting.n, setting.eps0
    decoy, truth = np.exp(-eps0), 1.0 / (1.0 + np.exp(-eps0))
    mean = (n - 1) * decoy
    half = _WIDTH * np.sqrt(mean) + _MARGIN
    total = np.arange(max(np.floor(mean - half), 0.0), min(np.ceil(mean + half), n) + 1.0)[:, None]
    a = np.arange(max(np.floor(0.5 * total[0, 0] - half), 0.0), 0.5 * total[-1, 0] + half + 1.0)

    def log_clones(first: Floats, both: Floats) -> Floats:
        return log_pmf(both, n - 1, decoy) + log_pmf(first, np.maximum(both, 0.0), 0.5)

    nothing = np.log1p(-truth) + log_clones(a, total)
    first = np.logaddexp(np.log(truth) + log_clones(a - 1.0, total - 1.0), nothing).ravel()
    second = np.logaddexp(np.log(truth) + log_clones(a, total - 1.0), nothing).ravel()
    used = np.isfinite(first) & np.isfinite(second)
    masses = np.exp(first)
    return LossAtoms(
        losses=first[used] - second[used],
        masses=masses[used],
        infinite=float(masses[np.isneginf(second)].sum()),
        left_out=max(1.0 - float(masses.sum()), 0.0),
    )
