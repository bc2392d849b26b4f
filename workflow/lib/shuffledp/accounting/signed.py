"""Exact privacy of a histogram among signed dummies: plus and minus messages, and pairs of both.

Of a cell the analyst counts ``a = x + A + Z`` plus and ``b = B + Z`` minus messages: x true
records, A and B geometric of ratio q, Z negative binomial or Poisson. The noise alone has the law

    f(a, b) = (1 - q)^2 q^|a - b| G(min(a, b)),    G(t) = P(Z = t) + q^2 G(t - 1).

One record more multiplies it by ``r = f(a - 1, b) / f(a, b)``: by ``1 / q`` where ``a > b``, which
has mass ``q / (1 + q)``, and by ``q G(a - 1) / G(a)`` where ``a <= b``, of mass ``(1 - q) G(a)``.
The target adds 1 to one of two cells, so that ``delta = E (r - e^eps r')_+`` with independent r and
r', on every data set. After Ghazi, Kumar, Manurangsi, Pagh and Sinha (2021), who add up numbers.
"""

from dataclasses import dataclass
from functools import cached_property
from math import sqrt

import numpy as np
from scipy import stats
from scipy.signal import lfilter
from scipy.special import gammaln, xlogy

from shuffledp.accounting.rounds.privacy_loss import Loss, Outcomes, loss_of_cells
from shuffledp.numerics.arrays import UNIT, Floats

# What is left out of the law of the pairs.
_TAIL = 1e-40
# Smaller logs of their chances, below the mean, count as never.
_NOTHING = -600.0


@dataclass(frozen=True)
class SignedNoise:
    """Noise of one cell by all users together.

    Attributes
    ----------
    ratio
        q, in (0, 1).
    pairs
        Mean of Z, positive.
    shape
        Of the negative binomial law of Z; inf for a Poisson law.
    """

    ratio: float
    pairs: float
    shape: float = np.inf

    def _log_pairs(self, t: Floats) -> Floats:
        """Natural logs of P(Z = t)."""
        if self.shape == np.inf:
            return np.asarray(xlogy(t, self.pairs) - self.pairs - gammaln(t + 1.0))
        both = self.pairs + self.shape
        return np.asarray(
            gammaln(t + self.shape)
            - gammaln(self.shape)
            - gammaln(t + 1.0)
            + self.shape * np.log(self.shape / both)
            + t * np.log(self.pairs / both)
        )

    def _beyond(self, t: float) -> float:
        """P(Z > t), twice what the library says."""
        if self.shape == np.inf:
            return 2.0 * float(stats.poisson.sf(t, self.pairs))
        share = self.shape / (self.shape + self.pairs)
        return 2.0 * float(stats.nbinom.sf(t, self.shape, share))

    @property
    def _last(self) -> float:
        """What Z exceeds with about that chance: what is beyond is added, whatever it is."""
        depth = -float(np.log(_TAIL))
        if self.shape == np.inf:  # Bernstein
            return self.pairs + depth / 3.0 + sqrt(depth**2 / 9.0 + 2.0 * depth * self.pairs)
        return self.pairs + depth * (1.0 + self.pairs / self.shape)

    @cached_property
    def _law(self) -> tuple[Floats, Floats, float, float]:
        """Masses and ratios r of the noise alone, what is beyond, and units of rounding."""
        q = self.ratio
        last = float(np.ceil(self._last + np.log(_TAIL) / (2.0 * np.log(q))))
        t = np.arange(last + 1.0)
        logs = self._log_pairs(t)
        some = slice(int(np.argmax(logs > _NOTHING)), None)
        t, pairs = t[some], np.exp(logs[some])
        weights = np.asarray(lfilter([1.0], [1.0, -q * q], pairs), np.float64)  # G
        ratios = np.append(0.0, q * weights[:-1] / weights[1:])
        masses = (1.0 - q) * weights
        beyond = (q * q * float(weights[-1]) + self._beyond(last)) / (1.0 + q)
        beyond += last * np.exp(_NOTHING)
        exponents = np.abs(gammaln(t + 1.0)).max() + 2.0 * last * abs(np.log(self.pairs))
        units = 64.0 + 8.0 * float(exponents) + 8.0 * self.pairs + 2.0 * t.size
        masses, ratios = np.append(masses, q / (1.0 + q)), np.append(ratios, 1.0 / q)
        order = np.argsort(ratios)
        return masses[order], ratios[order], beyond, units

    @cached_property
    def loss(self) -> Loss:
        """Privacy loss: that of the two cells."""
        masses, ratios, beyond, units = self._law
        slack = UNIT * units
        some = ratios > 0.0
        losses, none = np.log(ratios[some]), float(masses[~some].sum())
        # Beyond, r is at most 1 / q, and r' may be 0.
        far = beyond / self.ratio * (1.0 + slack)
        own, other = masses[some] * ratios[some], masses[some]
        endless = none * (1.0 + slack) + beyond, none * (1.0 - slack)
        return loss_of_cells(
            [
                Outcomes(losses, own, far, 0.0, 2.0 * slack, 2.0 * slack),
                Outcomes(-losses, other, *endless, slack, 2.0 * slack),
            ]
        )

    def log_delta(self, eps: float) -> float:
        """Natural log of delta, rounded up; for replacement of one record, on every data set.

        Parameters
        ----------
        eps
            At least 0.
        """
        masses, ratios, beyond, units = self._law
        e, slack = np.exp(eps), UNIT * units
        first = np.append(np.cumsum((masses * ratios)[::-1])[::-1], 0.0)  # of r or more
        second = np.append(np.cumsum(masses[::-1])[::-1], 0.0)
        start = np.searchsorted(ratios, e * ratios * (1.0 - 4.0 * slack))
        p, q = masses * first[start], e * masses * ratios * second[start]
        # Beyond, r is at most 1 / q, and r' may be 0.
        value = (p - q).sum() + 8.0 * slack * (p + q).sum() + 2.0 * beyond / self.ratio
        return min(float(np.log(value)), 0.0)
