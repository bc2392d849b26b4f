"""Pairs of laws P and Q that an adversary must distinguish, one pair for each adversary and bound.

One user is the target, whose record is x0 under P and x1 under Q. The adversary sees n reports,
counted in up to four categories: x0, x1 and two more. The target reports category j with
probability R(j|x); each of the other n - 1 reports is in j with probability p_j. If B
is the multinomial law of n reports with these probabilities, the likelihood ratios are linear in
the counts h (docs/accounting.md):

    dP/dB = (1/n) sum_j (R(j|x0) / p_j) h_j,    dQ/dB = (1/n) sum_j (R(j|x1) / p_j) h_j.

A `Pair` holds the *logarithms* of the coefficients. Differences of the coefficients themselves
would lose ever more digits as eps approaches eps0.
"""

from dataclasses import dataclass, replace

import numpy as np

from shuffledp.accounting.conventions import Side
from shuffledp.accounting.laws.conditional import WeightedSum
from shuffledp.accounting.laws.mixture import Mixture, RandomTrials, log_mixture_excess
from shuffledp.accounting.laws.multinomial import ZERO, LogInterval, log_mean_excess
from shuffledp.accounting.setting import Setting, probabilities
from shuffledp.errors import InputError

Four = tuple[float, float, float, float]


def _difference(log_x: float, log_y: float, eps: float = 0.0) -> float:
    """Return ``exp(log_x) - exp(eps + log_y)`` without cancellation."""
    if log_y == -np.inf:
        return float(np.exp(log_x))
    if log_x == -np.inf:
        return -float(np.exp(log_y + eps))
    # This order is exact where log_y and log_x are equal, even if eps is far below both.
    excess = (log_y - log_x) + eps
    if excess >= 0.0:
        return -float(np.exp(log_x) * np.expm1(excess))
    return float(np.exp(log_y + eps) * np.expm1(-excess))


@dataclass(frozen=True)
class Pair:
    """Two laws P and Q of counts whose densities with respect to a multinomial B are linear.

    For counts h, ``dP/dB = (scale / n) sum_j exp(log_ratios_p_j) h_j``, and dQ/dB likewise with
    ``log_ratios_q``.

    Attributes
    ----------
    trials
        n, at least 1, which includes the target's report. The number of other reports may also be
        random; then P and Q are mixtures and category 4 is empty.
    probabilities
        Probabilities of the four categories under B; the first two are positive.
    log_ratios_p, log_ratios_q
        ``log(R(j|x0) / p_j)`` and ``log(R(j|x1) / p_j)``, up to the scale; -inf for a ratio of 0.
        Only the first category favours P: in the others ``log_ratios_p <= log_ratios_q``.
    scale
        Common factor of all ratios, stored separately so that differences of logs are exact.
    """

    trials: int | RandomTrials
    probabilities: Four
    log_ratios_p: Four
    log_ratios_q: Four
    scale: float = 1.0

    @property
    def largest_loss(self) -> float:
        """Largest ``log(P / Q)``: the hockey-stick divergence is 0 for eps at or above it."""
        return self.log_ratios_p[0] - self.log_ratios_q[0]

    def _weights(self, eps: float) -> Four:
        a, b, c, d = (
            self.scale * _difference(first, second, eps)
            for first, second in zip(self.log_ratios_p, self.log_ratios_q, strict=True)
        )
        return a, -b, -c, -d

    def weighted_sum(self, eps: float) -> WeightedSum:
        """Return ``n (dP/dB - exp(eps) dQ/dB)`` as a weighted sum of the counts of n trials."""
        assert not isinstance(self.trials, RandomTrials)
        return WeightedSum(
            self.trials, *self.probabilities, *self._weights(eps), units=self._units(eps)
        )

    def _units(self, eps: float) -> float:
        """Return the relative error of the weights, mainly due to their logs, in rounding units."""
        logs = np.abs([v for v in (*self.log_ratios_p, *self.log_ratios_q) if np.isfinite(v)])
        return float(16.0 + 2.0 * (eps + logs.max()))

    def _mixture(self, eps: float) -> Mixture:
        """Return the weighted sum for a random number of trials."""
        assert isinstance(self.trials, RandomTrials)
        a, b, c, _ = self._weights(eps)
        p, _, p3, _ = self.probabilities
        return Mixture(self.trials, p, p3, a, b, c, units=self._units(eps))


def hockey_stick(pair: Pair, eps: float, side: Side | None = None) -> LogInterval:
    """Return an interval around the log of the hockey-stick divergence ``sum (P - exp(eps) Q)_+``.

    It is as wide as that of `log_mean_excess` or, if n is random, of `log_mixture_excess`. Both
    ends are -inf if eps is at least the largest loss. If only one ``side`` is required, the other
    end may be infinite.
    """
    if eps >= pair.largest_loss:
        return ZERO
    if isinstance(pair.trials, RandomTrials):
        return log_mixture_excess(pair._mixture(eps), side)
    return log_mean_excess(pair.weighted_sum(eps), side)


@dataclass(frozen=True)
class SymmetricForm:
    """A pair whose laws are exchanged by exchanging the first two categories.

    With ``s = n1 + n2``, ``u = n1 - n2`` and ``D = a s + b n3 + c``, the laws are
    ``P = B (D + g u) / (2 n)`` and ``Q = B (D - g u) / (2 n)``.

    Attributes
    ----------
    n
        Number of trials.
    q, p3, p4
        Probability of each of the first two categories, of the third and of the fourth. Each is
        given, because 1 minus the others might have no correct digit.
    gain, weight_s, weight_3, constant
        ``g, a, b, c`` of the formula; ``a >= g > 0``, ``b, c >= 0``.
    weight_difference
        ``a - g``, which may be below the last digit of a.
    units
        Relative error of each weight, in units of rounding.
    """

    n: int
    q: float
    p3: float
    p4: float
    gain: float
    weight_s: float
    weight_3: float
    constant: float
    weight_difference: float
    units: float

    @property
    def deviation(self) -> float:
        """Approximate standard deviation of the loss."""
        return float(self.gain * np.sqrt(2.0 * self.q / self.n))

    @property
    def largest_density_ratio(self) -> float:
        """Largest value of ``dP/dB``."""
        return (self.weight_s + self.gain) / 2.0 + self.constant / (2.0 * self.n)


def symmetric_form(pair: Pair) -> SymmetricForm:
    """Return the pair in terms of the sum and the difference of its first two counts.

    Raises ValueError if exchanging these categories does not exchange the laws, or n is random.
    """
    first, second, p = pair.log_ratios_p, pair.log_ratios_q, pair.probabilities
    mirrored = (first[1], first[0], *first[2:]) == second and p[0] == p[1]
    if not mirrored or isinstance(pair.trials, RandomTrials):
        raise ValueError(f"the pair needs mirrored laws and a fixed number of trials, got {pair}")
    n, scale = pair.trials, pair.scale
    ratios = np.exp(first)
    return SymmetricForm(
        n=n,
        q=p[0],
        p3=p[2],
        p4=p[3],
        gain=scale * _difference(first[0], first[1]),
        weight_s=scale * float(ratios[0] + ratios[1] - 2.0 * ratios[3]),
        weight_3=scale * 2.0 * _difference(first[2], first[3]),
        constant=scale * 2.0 * n * float(ratios[3]),
        weight_difference=scale * 2.0 * _difference(first[1], first[3]),
        units=pair._units(0.0),
    )


# --- Adversaries and bounds -----------------------------------------------------------------------


def weak_adversary(setting: Setting) -> Pair:
    """Return the pair of an adversary who knows which other users reported a uniform cell.

    The first three categories count these reports and the target's, by place: x0, x1, elsewhere.
    The fourth counts the other users' truthful reports, which carry no information. The pair
    dominates that of every data set (docs/accounting.md). It corrects paper C's Theorem 10, which
    compares one-dimensional marginals.
    """
    eps0, k = setting.eps0, setting.k
    _, q = probabilities(eps0, k)
    return Pair(
        trials=setting.n,
        probabilities=(q, q, (k - 2) * q, float(np.expm1(eps0) * q)),
        log_ratios_p=(eps0, 0.0, 0.0, -np.inf),
        log_ratios_q=(0.0, eps0, 0.0, -np.inf),
    )


def all_hold_third_cell(setting: Setting) -> Pair:
    """Return the pair of histograms where all other users hold the same third cell.

    Reports of that cell are the fourth category, those of the other k - 3 cells the third. Raises
    `InputError` if there is no such cell.
    """
    eps0, k = setting.eps0, setting.k
    if k < 3:
        raise InputError(f"k must be at least 3 for a third cell, got k={k}")
    p, q = probabilities(eps0, k)
    return Pair(
        trials=setting.n,
        probabilities=(q, q, (k - 3) * q, p),
        log_ratios_p=(eps0, 0.0, 0.0, -eps0),
        log_ratios_q=(0.0, eps0, 0.0, -eps0),
    )


def all_hold_x0(setting: Setting) -> Pair:
    """Return the pair of histograms where all other users hold the target's cell x0."""
    eps0, k = setting.eps0, setting.k
    p, q = probabilities(eps0, k)
    return Pair(
        trials=setting.n,
        probabilities=(p, q, 0.0, (k - 2) * q),
        log_ratios_p=(0.0, 0.0, 0.0, 0.0),
        log_ratios_q=(-eps0, eps0, 0.0, 0.0),
    )


def all_hold_x1(setting: Setting) -> Pair:
    """Return the pair of histograms where all other users hold the alternative cell x1."""
    eps0, k = setting.eps0, setting.k
    p, q = probabilities(eps0, k)
    return Pair(
        trials=setting.n,
        probabilities=(q, p, 0.0, (k - 2) * q),
        log_ratios_p=(eps0, -eps0, 0.0, 0.0),
        log_ratios_q=(0.0, 0.0, 0.0, 0.0),
    )


def _one_report_among(trials: int, q: float, rest: float) -> Pair:
    """Return the pair of laws of ``(N1 + 1, N2)`` and ``(N1, N2 + 1)``.

    N1 and N2 are two counts of a trinomial law of trials - 1 trials with probabilities q, q, rest.
    """
    return Pair(
        trials=trials,
        probabilities=(q, q, 0.0, rest),
        log_ratios_p=(0.0, -np.inf, -np.inf, -np.inf),
        log_ratios_q=(-np.inf, 0.0, -np.inf, -np.inf),
        scale=1.0 / q,
    )


def strong_adversary(setting: Setting) -> Pair:
    """Return the pair of the weak adversary given that the target's report is truthful.

    It consists of the laws of ``(N1 + 1, N2)`` and ``(N1, N2 + 1)``, where N1 and N2 are two counts
    of a trinomial law of n - 1 trials, each with probability q, and corrects paper C's eq. (5.1).
    It serves paper C's strong adversary (Definition 8), who also sees whether the report is
    truthful: with probability gamma = kq it is uniform and reveals nothing. Hence the delta of the
    strong adversary is ``1 - gamma`` times the divergence of this pair.
    """
    _, q = probabilities(setting.eps0, setting.k)
    return _one_report_among(setting.n, q, float((np.expm1(setting.eps0) + setting.k - 2) * q))


def dummies(total_chances: int, k: int, rate: float, co_rate: float) -> Pair:
    """Return the pair where all users report their true cell and add dummies.

    Its divergence is the exact delta of every data set. The target adds 1 to the number of dummies
    in x0 or in x1; given the sum of these two numbers, the other cells have the same law under P
    and Q.

    Parameters
    ----------
    total_chances
        Number of potential dummies of all users together, at least 0. Each is sent independently,
        to a uniform cell.
    k
        Number of cells, at least 2.
    rate, co_rate
        Probability in ``(0, 1]`` that each of them is sent, and its complement, both accurate to a
        few units of rounding.
    """
    return _one_report_among(total_chances + 1, rate / k, co_rate + rate * ((k - 2.0) / k))


def clones(setting: Setting) -> Pair:
    """Return the pair of the clones bound, which holds for any eps0-LDP randomiser.

    Let ``E = exp(eps0)``. Each other user is a clone with probability 1/E:
    ``C ~ Bin(n-1, 1/E)``, ``A ~ Bin(C, 1/2)``, ``D ~ Bern(E/(E+1))``, ``P = (A+D, C-A+1-D)`` and
    ``Q = (A+1-D, C-A+D)``. Paper C's eq. (6.1) lacks the terms 1 - D. If B is the multinomial law
    of n trials with probabilities 1/(2E), 1/(2E) and the rest, then
    ``P(n1, n2) = B(n1, n2) 2E (E n1 + n2) / (n (E+1))``. The setting's k is not used.
    """
    eps0 = setting.eps0
    half = float(0.5 * np.exp(-eps0))
    return Pair(
        trials=setting.n,
        probabilities=(half, half, 0.0, float(-np.expm1(-eps0))),
        log_ratios_p=(eps0, 0.0, -np.inf, -np.inf),
        log_ratios_q=(0.0, eps0, -np.inf, -np.inf),
        scale=float(2.0 / (1.0 + np.exp(-eps0))),
    )


def variation_ratio(setting: Setting) -> Pair:
    """Return the pair of the variation-ratio bound with k-RR's parameters.

    The other users' counts are ``(A, C-A)``, ``C ~ Bin(n-1, 2q)``, ``A ~ Bin(C, 1/2)``. The target
    adds (1, 0), (0, 1) or (0, 0) with probabilities p, q and 1-p-q under P, and q, p and 1-p-q
    under Q. These are the counts of x0 and x1 where all other users hold a third cell. Raises
    `InputError` if there is none (k = 2).
    """
    pair = all_hold_third_cell(setting)
    first, second, _, _ = pair.probabilities
    # The target adds to neither cell with probability 1-p-q, each other user with 1-2q.
    neither = float(np.log((setting.k - 2.0) / (np.expm1(setting.eps0) + setting.k - 2.0)))
    return replace(
        pair,
        probabilities=(first, second, 0.0, 1.0 - 2.0 * first),
        log_ratios_p=(*pair.log_ratios_p[:2], neither, neither),
        log_ratios_q=(*pair.log_ratios_q[:2], neither, neither),
    )


def among_dummies(setting: Setting, total_chances: int, rate: float) -> Pair:
    """Return the weak adversary's pair if users also send dummies to uniform cells.

    All users together have ``total_chances`` potential dummies; each is sent independently with
    probability ``rate``. Dummies count as uniform reports.
    """
    with np.errstate(divide="ignore"):
        dummy_log_odds = np.log(rate) - np.log1p(-rate)
    uniform_log_odds = np.log(setting.k) - setting.eps0 - np.log(-np.expm1(-setting.eps0))
    counts = np.array([setting.n - 1, total_chances], np.int64)
    return personalised(setting, RandomTrials(np.array([uniform_log_odds, dummy_log_odds]), counts))


def personalised(setting: Setting, others: RandomTrials) -> Pair:
    """Return the weak adversary's pair if the other users have personal budgets.

    The adversary sees the target's report and the other users' uniform reports, whose number is
    random. eps0 is the target's budget; ``others`` has the log odds of a uniform report by each
    other user.
    """
    eps0, k = setting.eps0, setting.k
    _, q = probabilities(eps0, k)
    return Pair(
        trials=others,
        probabilities=(1.0 / k, 1.0 / k, (k - 2.0) / k, 0.0),
        log_ratios_p=(eps0, 0.0, 0.0, -np.inf),
        log_ratios_q=(0.0, eps0, 0.0, -np.inf),
        scale=k * q,
    )
