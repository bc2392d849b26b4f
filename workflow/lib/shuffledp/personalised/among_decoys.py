"""A report of any kind among decoys: the target's own divergence, over their random number.

Let w be a law, and let the density of user i's report be at least ``kappa_i w`` whatever the record
is. Then user i's report is a decoy, drawn from w, with chance kappa_i. Reveal which of the others
are none, and what they reported. By Bayes

    delta <= E_M[(1/M) E(G_1 + ... + G_M)_+],   G = (R(y|x0) - e R(y|x1)) / w(y),  y ~ w,

with M - 1 the number of decoys, R the target's law, x0 and x1 its two records, and ``e = exp`` of
the central budget.
"""

from dataclasses import dataclass

import numpy as np

from shuffledp.accounting.blanket.atoms import Atoms, excess, log_saddle_point
from shuffledp.accounting.blanket.mean_excess import log_mean_excess_high
from shuffledp.accounting.laws.mixture import RandomTrials
from shuffledp.numerics.arrays import UNIT, Floats, Integers
from shuffledp.personalised.decoys import log_mean_over_decoys

# Of M: each costs a transform, which need not be finer than they are.
_BLOCKS, _SPLITTING = 8, 1e-3
# Of the largest G: with so small a one among them no sum is positive.
_FARTHEST_BELOW = 1e100


@dataclass(frozen=True, eq=False)
class Target:
    """G's law but for the central eps.

    Attributes
    ----------
    log_first, log_second
        Logs of ``R(y|x0) / w(y)`` and ``R(y|x1) / w(y)`` at each atom, right to their rounding.
    masses
        Of the atoms.
    units
        Relative error of each mass, in units of rounding.
    """

    log_first: Floats
    log_second: Floats
    masses: Floats
    units: float

    def atoms(self, eps: float) -> Atoms:
        """G at a central eps."""
        # Exponents are products of two rounded factors.
        exponents = 8.0 * (eps + float(np.abs(self.log_first).max()))
        # Where the two terms nearly cancel, what exponents lose is no small part of G.
        values = excess(self.log_first, self.log_second, eps - exponents * UNIT)
        # A larger G is on the safe side; so far down it changes nothing, and squares are floats.
        if (top := float(values.max())) > 0.0:
            values = np.maximum(values, -_FARTHEST_BELOW * top)
        return Atoms(values, self.masses, self.units + exponents)


def decoys(log_kappa: Floats, counts: Integers) -> RandomTrials:
    """Others who are decoys with chances below 1, given by their logs, and how many have each."""
    return RandomTrials(log_kappa - np.log(-np.expm1(log_kappa)), counts)


def log_delta(eps: float, target: Target, others: RandomTrials) -> float:
    """Natural log of the target's delta, rounded up.

    Parameters
    ----------
    eps
        Central budget, at least 0.
    target
        Law of its ratios, for its worst records.
    others
        Log odds with which each of them is a decoy.
    """
    atoms = target.atoms(eps)

    def of(m: int) -> float:
        return min(log_mean_excess_high(atoms, m, _SPLITTING), 0.0)

    if of(1) == -np.inf:  # no G is positive
        return -np.inf
    return min(log_mean_over_decoys(others, of, lambda m: log_saddle_point(atoms, m), _BLOCKS), 0.0)


def lead(eps: float, target: Target, others: RandomTrials) -> float:
    """About `log_delta`, at once.

    Parameters
    ----------
    eps
        At least 0.
    target
        Laws of the report of whose record changes.
    others
        Whether each of the others is a decoy.
    """
    chances = 1.0 / (1.0 + np.exp(-others.log_odds))
    return log_saddle_point(target.atoms(eps), 1 + int(others.counts @ chances))
