"""Bounds for every eps0-LDP randomiser: numeric clones, and the sharper bound by 2-RR.

The reports of n users, one each, by the same eps0-LDP randomiser R are shuffled. Neighbours differ
in one record (replacement). ``E = exp(eps0)``, ``e = exp(eps)``.

2-RR bounds every randomiser (`generic_log_delta`); the proof follows. Let the target hold x0 or x1,
and let ``w(y) = min R_x(y)`` over the records present: every user's law contains w, whose mass is
at least 1/E. Reveal which of the *other* users drew from w, and what the others reported. By Bayes'
rule, as for the privacy blankets of papers A and C, the remaining divergence is

    delta = (1/n) E[(G_1 + ... + G_n)_+],   G = a - e b with mass w(y), else 0,

with independent G_i, ``a = R_x0(y)/w(y)`` and ``b = R_x1(y)/w(y)``. Both a and b lie in [1, E] and
have integral 1 under the measure w, so ``E[G] = 1 - e``.

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
In the clones bound, the probability of a decoy is 1/E instead of 2/(E+1): there are fewer decoys,
and delta is never smaller. The proof of that bound also covers randomisers that are chosen
adaptively from one user to the next; the argument above does not.

`strong_adversary_log_delta` is about paper C's strong adversary, who learns which users randomised,
the target included.

Each function takes eps >= 0 of any shape and the setting of one round, and returns natural
logarithms of the same shape. A negative eps or NaN is an `InputError`.
"""

from dataclasses import replace

import numpy as np

from shuffledp.accounting import pairs
from shuffledp.accounting.conventions import over_eps_of_one_round
from shuffledp.accounting.krr import weak_adversary_log_delta
from shuffledp.accounting.pairs import hockey_stick
from shuffledp.accounting.setting import Setting, probabilities


@over_eps_of_one_round
def clones_log_delta(eps: float, setting: Setting) -> float:
    """Return the natural log of the clones delta, a guarantee for any shuffled eps0-LDP randomiser.

    It is the exact hockey-stick divergence of the clones pair, rounded up, for replacement of one
    record and one report per user. It also holds if each randomiser is chosen adaptively, given the
    earlier outputs. If all users share one fixed randomiser, `generic_log_delta` is never larger.
    The result is as accurate as `upper_log_delta`, and -inf where ``eps >= eps0``; the number of
    cells does not matter.

    Source: Feldman, McMillan and Talwar, "Hiding among the clones" (2021), the reduction behind
    Theorem 3.1; paper C, eq. (6.1), corrected.
    """
    return min(hockey_stick(pairs.clones(setting), eps, "upper").high, 0.0)


@over_eps_of_one_round
def generic_log_delta(eps: float, setting: Setting) -> float:
    """Return the natural log of a delta for every eps0-LDP randomiser that all users share.

    It is the weak adversary's delta for 2-RR (`weak_adversary_log_delta`), which no other eps0-LDP
    randomiser exceeds; the module's docstring has the proof. It is a guarantee for
    replacement of one record and one report per user, for all data sets, and never above
    `clones_log_delta`. It does not cover randomisers that differ between users or depend on earlier
    outputs.
    """
    return float(weak_adversary_log_delta(eps, replace(setting, k=2)))


@over_eps_of_one_round
def variation_ratio_log_delta(eps: float, setting: Setting) -> float:
    """Return the natural log of the variation-ratio delta with k-RR's parameters: NOT a guarantee.

    It is the divergence of the counts of two cells if all other users hold a third cell, and hence
    a lower bound on the delta of shuffled k-RR (k >= 3), rounded down. It was published as an upper
    bound, which is wrong: for k=4, n=7, E=4, e=3/2 there is a data set with delta 0.112106, above
    its 0.112102. The result is -inf where delta is 0. Fewer than 3 cells are an `InputError`.
    """
    return hockey_stick(pairs.variation_ratio(setting), eps, "lower").low


@over_eps_of_one_round
def strong_adversary_log_delta(eps: float, setting: Setting) -> float:
    """Return the log of delta against paper C's strong adversary (Definition 8), rounded up.

    It is exactly ``1 - gamma`` times the divergence of `pairs.strong_adversary`, because the
    adversary sees whether the target randomised (with probability gamma). It is above the weak
    adversary's delta, and positive also for ``eps >= eps0``.
    """
    _, q = probabilities(setting.eps0, setting.k)
    log_truth = float(np.log(np.expm1(setting.eps0)) + np.log(q))
    return min(
        pairs.hockey_stick(pairs.strong_adversary(setting), eps, "upper").high + log_truth, 0.0
    )
