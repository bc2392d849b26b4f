"""Bounds for every eps0-LDP randomiser: numeric clones, and the sharper bound by 2-RR.

Setting: n users, one report each, the same eps0-LDP randomiser R for all, shuffled; neighbours
differ in one record (replacement). ``E = exp(eps0)``, ``e = exp(eps)``.

Why 2-RR bounds every randomiser (`generic_log_delta`). Let the target hold x0 or x1, and let
``w(y) = min R_x(y)`` over the records present: every user's law contains w, whose mass is at least
1/E. Reveal which of the *other* users drew from w, and what the rest reported. By Bayes, as in
paper A's and C's privacy blankets, what is left has divergence

    delta = (1/n) E[(G_1 + ... + G_n)_+],   G = a - e b with mass w(y), else 0,

independent, with ``a = R_x0(y)/w(y)`` and ``b = R_x1(y)/w(y)``. Both lie in [1, E], and under the
measure w both have integral 1, so ``E[G] = 1 - e``.

1. Replace each (a, b) by a random corner of the square [1, E]^2 with the same mean. G is linear in
   (a, b), so this is a mean-preserving spread: G grows in the convex order.
2. Let u10, u01, u11, u00 be the masses of (E,1), (1,E), (E,E), (1,1). The two integrals give
   ``u10 = u01 = u`` and ``(E+1) u + E u11 + u00 = 1``. Hence G is the mixture, with these three
   weights, of

       X1: E-e and 1-eE with probability 1/(E+1) each, else 0   (the law of G for 2-RR),
       X2: E(1-e) with probability 1/E, else 0,
       X3: the constant 1-e.

   All have mean 1-e, so X3 is below X1 in the convex order (Jensen).
3. X2 is below X1 too, for 1 <= e <= E: with equal means it is enough that
   ``E(X1-t)_+ >= E(X2-t)_+`` for all t. For t >= 0 the right side is 0; for ``t <= E(1-e)`` it is
   ``E[X2]-t = E[X1]-t``, never more than the left side; and between, where 1-eE < t < 0, the left
   side minus the right is ``(E-e)/(E+1) - t/(E(E+1)) >= 0``.
4. A mixture of laws below X1 is below X1, and sums of independent terms keep the order. Since
   ``x -> x_+`` is convex, delta is at most that of 2-RR's weak adversary: the function
   `weak_adversary_log_delta` with k = 2.

2-RR's pair is symmetric, so the same holds for e < 1: the pair dominates, and it composes.
The clones bound has the same pair with 1/E in place of 2/(E+1), the chance of a decoy; fewer
decoys, never a smaller delta. It is kept because its proof also covers randomisers that are chosen
adaptively from one slot to the next, which the argument above does not.
"""

from dataclasses import replace

from shuffledp.accounting import pairs
from shuffledp.accounting.conventions import of_one_round
from shuffledp.accounting.one_round.certified import weak_adversary_log_delta
from shuffledp.accounting.pairs import hockey_stick
from shuffledp.accounting.setting import Setting


@of_one_round
def clones_log_delta(eps: float, setting: Setting) -> float:
    """Natural log of the clones delta: a guarantee for every shuffled eps0-LDP randomiser.

    Exact hockey-stick divergence of the clones pair, rounded up; replacement of one record, one
    report per user. Also holds when each slot's randomiser is chosen from the earlier outputs.
    Where all users share one fixed randomiser, `generic_log_delta` is never larger.

    Parameters
    ----------
    eps
        At least 0, any shape.
    setting
        One round of it; the number of cells plays no part.

    Returns
    -------
    Logarithms shaped like ``eps``; -inf where ``eps >= eps0``. Accuracy as for `upper_log_delta`.

    Raises
    ------
    InputError
        If an eps is negative or no number.

    Source: Feldman, McMillan and Talwar, "Hiding among the clones" (2021), the reduction behind
    Theorem 3.1; paper C, eq. (6.1), corrected.
    """
    return min(hockey_stick(pairs.clones(setting), eps, "upper").high, 0.0)


@of_one_round
def generic_log_delta(eps: float, setting: Setting) -> float:
    """Natural log of a delta for every shuffled eps0-LDP randomiser, the same for all users.

    The weak adversary's delta of 2-RR (`weak_adversary_log_delta`), which is the largest of any
    eps0-LDP randomiser: the module's docstring proves it. A guarantee for replacement of one
    record, one report per user, whatever the records; never above `clones_log_delta`. It does not
    cover randomisers that differ between users or depend on earlier outputs.

    Parameters, return value and errors as for `clones_log_delta`.
    """
    return float(weak_adversary_log_delta(eps, replace(setting, k=2)))


@of_one_round
def variation_ratio_log_delta(eps: float, setting: Setting) -> float:
    """Natural log of the variation-ratio delta with k-RR's parameters: NOT a guarantee.

    It is the divergence of two cells of the histogram of the data set in which all other users
    hold a third cell, hence a lower bound on what shuffled k-RR leaks (k >= 3), rounded down. It
    is published as an upper bound, which it is not: k=4, n=7, E=4, e=3/2 has a data set with delta
    0.112106 above its 0.112102.

    Parameters
    ----------
    eps
        At least 0, any shape.
    setting
        One round of it, at least 3 cells.

    Returns
    -------
    Logarithms shaped like ``eps``; -inf where delta is 0.

    Raises
    ------
    InputError
        If an eps is negative or no number, or ``k < 3``.
    """
    return hockey_stick(pairs.variation_ratio(setting), eps, "lower").low
