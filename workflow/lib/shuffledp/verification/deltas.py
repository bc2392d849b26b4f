"""Compute deltas of shuffled k-RR in ball arithmetic from the definition of delta.

n users report by k-randomised response, with E = exp(eps0), p = E/(E+k-1) for the true cell and
q = 1/(E+k-1) for each other cell; the analyst sees the histogram. The target holds x0 (law P) or
x1 (law Q); e = exp(eps); a data set, which is the cells of the n-1 others, has
delta = sum (P - eQ)_+. Always eps < eps0: otherwise P <= eQ everywhere, and delta is 0.

LOWER end: the delta of the data set that the certificate names.
 * All others in one cell y: P is the law of n reports of y, reweighted by the mean over the reports
   of R(j|x0)/R(j|y); likewise Q. So delta = (1/n) E[(G_1+...+G_n)_+], with independent
   G = (R(j|x0) - e R(j|x1)) / R(j|y), j drawn from R(.|y).
 * k = 2: from the law of one count, as in "counts" below.
 * Otherwise: by convolution, user by user, for small n.

UPPER end: at least the delta of every data set, for both directions (exchanging the names x0 and x1
turns one into the other).
 * "blanket": a report is uniform with probability kq and else true. An adversary told which others
   randomised, and the true reports, has delta (1/n) E[(G_1+...+G_n)_+] whatever the others hold,
   where G is E-e, 1-eE, 1-e, 0 with probabilities q, q, (k-2)q, (E-1)q.
 * "counts" (k = 2): m others hold x0. For lo <= m <= hi tell the adversary hi-lo of them, so that
   lo in x0 and n-1-hi in x1 are left: delta(m) <= delta(lo) among n-(hi-lo) users. The other
   direction at m is this one at n-1-m, which is in a block, too.
 * "hidden" (k = 3): either all others hold x2 (a data set as above), or one holds y = x0 or x1.
   Tell the adversary who of the n-2 rest randomised, and the true reports. This leaves T = M+2
   reports with counts h, of which M ~ Bin(n-2, 3q) are uniform. Placing the target's and the hidden
   report among them in every way, delta = E[(sum_a r_a h_a L(h - 1_a))_+] / (n(n-1)), where
   r_y = E, r_a = 1 else, L(h) = sum d_b h_b, d = (E-e, 1-eE, 1-e), and (h, n-T) is multinomial of
   n with probabilities q, q, q, (E-1)q. That sum is (T-1 + (E-1)h_y) L(h) - (E-1) d_y h_y.

Windows and tilts are guessed with floats. A wrong guess makes a bound loose, never false: balls
bound what is left out. The lower end sums (P - eQ)_+ over fewer outputs.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from operator import mul

from flint import arb, arb_poly

from shuffledp.verification.laws import (
    Powers,
    Row,
    binomial,
    factorial,
    flip,
    outside,
    share,
    span,
    tilt,
    window,
)

LEVEL = 32.0  # windows leave out a probability of about exp(-LEVEL)
FINE_LEVEL = 54.0  # the same, for sums with more cancellation


class RefusedError(Exception):
    """The certificate is not proven; the message names the claim and the reason."""


class TooLongError(Exception):
    """Ball arithmetic would take too long; the message gives the estimated number of terms."""


@dataclass(frozen=True)
class Job:
    """A delta to compute: the approximate number of terms, and a function that returns a ball."""

    terms: int
    run: Callable[[], arb]


class RandomisedResponse:
    """k-randomised response at eps, in balls; expm1 is precise where eps is small."""

    def __init__(self, k: int, eps0: float, eps: float) -> None:
        big, small = arb(eps0), arb(eps)  # the exact doubles
        self.k = k
        self.E, self.e = big.exp(), small.exp()
        self.E_less_1 = big.expm1()
        self.q = 1 / (self.E_less_1 + k)
        self.p = self.E * self.q
        self.level = LEVEL - float(self.q.log())  # more where bounds are loose: if nq is small
        self.up = self.e * (big - small).expm1()  # E - e > 0
        self.down = -(big + small).expm1()  # 1 - eE < 0
        self.flat = -small.expm1()  # 1 - e <= 0


# --- Expectations over independent reports ------------------------------------------------


def excess(
    n: int,
    level: float,
    values: list[arb],
    weights: list[arb],
    partner: RandomisedResponse | None = None,
) -> Job:
    """Compute (1/n) E[L_+], L = v1 n1 + v2 n2 + v3 n3 + v4 n4, for multinomial (n1, n2, n3, n4).

    `values` and `weights` are v and the probabilities. v4 >= v3 is required, so that
    L = v1 n1 + v2 n2 + v4 (n3+n4) - gap n3 decreases in n3. With a partner, who is the hidden user
    of "hidden" above, compute (1/n(n-1)) E[(C L - (E-1) v1 n1)_+], C = T - 1 + (E-1) n1, instead.
    Then type 1 is the partner's cell and type 2 are users who did not randomise, so that v2 = 0 and
    T = n - n2. Both expressions are (scale (t - n3))_+ for given n1 and n2.

    What windows leave out: x_+ <= exp(ax) / (exp(1) a) for any a > 0, so with M = E exp(aG) at most
    M^n / (exp(1) a) times the probability of being outside under the tilted weights w exp(av) / M,
    for which a union bound is taken. With a partner, the value is at most
    sum_a r_a h_a L(h - 1_a)_+, and E[h_a f(h - 1_a)] = n q E[f(h')] with h' of n-1 trials: so at
    most (E+2) n q M^(n-1) / (exp(1) a) times the largest probability that h' + 1_a is outside.
    """
    gap = values[3] - values[2]
    if gap == 0:  # eps = 0: types 3 and 4 are equal and are merged
        weights = [weights[0], weights[1], arb(0), weights[2] + weights[3]]
        gap = arb(1)
    a = arb(tilt(n, values, weights))
    tilted = [w * (a * v).exp() for v, w in zip(values, weights, strict=True)]
    moment = sum(tilted, arb(0))
    in_pair = share(tilted[0] + tilted[1], tilted[2] + tilted[3])
    first_in_pair, third_in_rest = share(tilted[0], tilted[1]), share(tilted[2], tilted[3])
    sizes = window(n, in_pair, level)  # of s = n1 + n2

    def first(s: int) -> range:
        return window(s, first_in_pair, level)  # of n1, given s

    def third(s: int) -> range:
        return window(n - s, third_in_rest, level)  # of n3, given s

    def run() -> arb:
        spans = (
            span(first(s) for s in sizes),
            span(flip(s, first(s)) for s in sizes),
            span(third(s) for s in sizes),
            span(flip(n - s, third(s)) for s in sizes),
        )
        tables = [Powers(w, js) for w, js in zip(weights, spans, strict=True)]
        total, missed_n1, missed_n3 = arb(0), arb(0), arb(0)
        step = (values[0] - values[1]) / gap
        for s in sizes:
            n1s, n3s, rest = first(s), third(s), n - s
            missed_n1 = missed_n1.max(outside(s, first_in_pair, n1s))
            missed_n3 = missed_n3.max(outside(rest, third_in_rest, n3s))
            row = Row(n3s, map(mul, tables[2].at(n3s), tables[3].against(rest, n3s)))
            base = (s * values[1] + rest * values[3]) / gap
            masses = map(mul, tables[0].at(n1s), tables[1].against(s, n1s))
            for n1, mass in zip(n1s, masses, strict=True):
                t = base + n1 * step
                if partner is None:
                    total += mass * row.excess(t)
                elif n1 + rest >= 2:  # T = n1 + n3 + n4 reports; fewer have the value 0
                    scale = n1 + rest - 1 + partner.E_less_1 * n1
                    t -= partner.E_less_1 * values[0] * n1 / (scale * gap)
                    total += mass * scale * row.excess(t)
        total *= factorial(n) * gap
        missed = outside(n, in_pair, sizes) + missed_n1 + missed_n3
        left = missed / (arb(1).exp() * a)
        if partner is None:
            return (total + arb(0).union(left * moment**n)) / n
        left *= (partner.E + 2) * n * weights[0] * moment ** (n - 1)
        return (total + arb(0).union(left)) / n / (n - 1)

    middle = sizes[len(sizes) // 2]
    return Job(len(sizes) * (len(first(middle)) + len(third(middle))), run)


def one_cell(n: int, mech: RandomisedResponse, cell: str) -> Job:
    """Compute delta if all others are in one cell, x0, x1 or x2, for k >= 3.

    The types of `excess` are x0, x1 and two classes of other cells.
    """
    k, q, p, big = mech.k, mech.q, mech.p, mech.E
    up, down, flat = mech.up, mech.down, mech.flat
    if cell == "x0":
        return excess(n, mech.level, [arb(0), down, flat, up / big], [arb(0), q, (k - 2) * q, p])
    if cell == "x1":
        return excess(n, mech.level, [up, arb(0), down / big, flat], [q, arb(0), p, (k - 2) * q])
    return excess(n, mech.level, [up, down, flat, flat / big], [q, q, (k - 3) * q, p])


def blanket(n: int, mech: RandomisedResponse) -> Job:
    """Compute the privacy blanket's bound; types are x0, x1, other cells and true reports."""
    q = mech.q
    weights = [q, q, (mech.k - 2) * q, mech.E_less_1 * q]
    return excess(n, mech.level, [mech.up, mech.down, mech.flat, arb(0)], weights)


def hidden(n: int, mech: RandomisedResponse, cell: str) -> Job:
    """Compute the bound "hidden" for k = 3 if the hidden user holds x0 or x1.

    The types of `excess` are this cell, true reports, and the other cells by value.
    """
    up, down, flat, q = mech.up, mech.down, mech.flat, mech.q
    values = [up, arb(0), down, flat] if cell == "x0" else [down, arb(0), flat, up]
    return excess(n, mech.level, values, [q, mech.E_less_1 * q, q, q], mech)


def among_dummies(chances: int, k: int, rate: arb, eps: float) -> Job:
    """Compute delta of true reports among dummies: each chance adds one with probability `rate`.

    The dummies' counts (B0, B1, rest) are multinomial of the chances; the target adds 1 to B0 (law
    P) or to B1 (Q). Counts h with probability q = rate/k in N = chances + 1 trials obey
    h B(h) = N q B(h - 1), so that P is the law of N trials reweighted by h0 / (N q) and Q that by
    h1 / (N q). All other reports are known and do not change delta; the other cells depend on
    B0 + B1 alone.
    """
    q, zero = rate / k, arb(0)
    values = [1 / q, -arb(eps).exp() / q, zero, zero]
    rest = (1 - rate) + (k - 2) * q
    return excess(chances + 1, LEVEL - float(q.log()), values, [q, q, zero, rest])


# --- Other data sets ----------------------------------------------------------------------


def two_cells(n: int, m: int, mech: RandomisedResponse) -> Job:
    """Compute delta for k = 2 and m others in x0: sum (P(s) - eQ(s))_+ over counts s of x0.

    With f the law of the others' count, P(s) = p f(s-1) + q f(s) and Q(s) = q f(s-1) + p f(s), so
    P(s) - e Q(s) = (E-e) q (f(s-1) - K f(s)), K = (eE-1) / (E-e). Tilt: g(s) = f(s) K^s / norm is
    again the law of a sum of two binomial counts, so log-concave, and
    P(s) - e Q(s) = (E-e) q norm K^(1-s) (g(s-1) - g(s)): positive only beyond the top of g.
    """
    tilt_by = -mech.down / mech.up  # K
    # Numerator and denominator of the tilted probability to report x0, for holders of x0 and x1.
    one, two = (mech.E * tilt_by, 1 + mech.E * tilt_by), (tilt_by, mech.E + tilt_by)
    xs, ys = window(m, one[0] / one[1], FINE_LEVEL), window(n - 1 - m, two[0] / two[1], FINE_LEVEL)

    def run() -> arb:
        left = binomial(m, one[0] / one[1], 1 / one[1], xs)
        right = binomial(n - 1 - m, two[0] / two[1], mech.E / two[1], ys)
        missed = arb(0).union(1 - sum(left, arb(0)) * sum(right, arb(0)))
        inside = arb_poly(left) * arb_poly(right)
        # g(s) for s = start, start + 1, ...; of the first and last entry only a bound is known
        start = xs.start + ys.start - 1
        size = len(xs) + len(ys) - 1
        g = [missed] + [inside[i] + missed for i in range(size)] + [missed]
        top = max(range(size + 2), key=lambda i: float(g[i]))
        while top > 0 and not g[top - 1] <= g[top]:
            top -= 1
        if top == 0:
            raise RefusedError(
                f"cannot find where the law is largest for n = {n} and {m} others in x0"
            )
        # g rises up to the top, so no term before it counts; beyond the window the terms
        # K^(top - s) (g(s) - g(s+1))_+ add up to at most what is left out
        total, power = missed, arb(1)
        for i in range(top, size + 1):
            total += power * (g[i] - g[i + 1]).max(arb(0))
            power /= tilt_by
        norm = (mech.q * one[1]) ** m * (mech.q * two[1]) ** (n - 1 - m)
        return mech.up * mech.q * norm * tilt_by ** -(start + top) * total

    return Job(4 * (len(xs) + len(ys)), run)


def many_cells(n: int, mech: RandomisedResponse, others: dict[str, int]) -> Job:
    """Compute delta by convolution over the users, for k >= 3; k-3 empty cells are one category."""
    categories = 3 if mech.k == 3 else 4

    def report(cell: int) -> list[arb]:
        return [mech.p if j == cell else mech.q for j in range(3)] + [(mech.k - 3) * mech.q]

    def add(law: dict[tuple[int, ...], arb], cell: int) -> dict[tuple[int, ...], arb]:
        after: dict[tuple[int, ...], arb] = {}
        chances = report(cell)[:categories]
        for (a, b, c), mass in law.items():
            keys = ((a + 1, b, c), (a, b + 1, c), (a, b, c + 1), (a, b, c))
            for key, chance in zip(keys, chances, strict=False):
                old = after.get(key)
                after[key] = mass * chance if old is None else old + mass * chance
        return after

    def run() -> arb:
        law: dict[tuple[int, ...], arb] = {(0, 0, 0): arb(1)}
        for cell, name in enumerate(("x0", "x1", "x2")):
            for _ in range(others[name]):
                law = add(law, cell)
        first, second = add(law, 0), add(law, 1)
        terms = ((first[h] - mech.e * second[h]).max(arb(0)) for h in first)
        return sum(terms, arb(0))

    return Job(categories * math.comb(n + categories - 1, categories), run)
