"""Compute deltas of shuffled k-RR in ball arithmetic, from the definition of delta.

n users report by k-randomised response, with E = exp(eps0), p = E/(E+k-1) for the true cell and
q = 1/(E+k-1) for each other cell; the analyst sees the histogram. The target holds x0 (law P) or
x1 (law Q); e = exp(eps); a data set (the cells of the n-1 others) has delta = sum (P - eQ)_+.
Throughout eps < eps0: otherwise P <= eQ everywhere, and delta is 0.

LOWER end: the delta of the one data set named.
 * All others in one cell y. P is the law of n reports of y, reweighted by the mean over the reports
   of R(j|x0)/R(j|y); likewise Q. So delta = (1/n) E[(G_1+...+G_n)_+], with independent
   G = (R(j|x0) - e R(j|x1)) / R(j|y), j drawn from R(.|y).
 * k = 2: the law of one count, as in "counts" below.
 * Otherwise: convolve user by user (small n only).

UPPER end: at least the delta of every data set, for the target's exchange in either direction
(exchanging the names x0 and x1 turns one direction into the other).
 * "blanket": a report is uniform with probability kq and else true. An adversary told which others
   randomised, and the true reports, has delta (1/n) E[(G_1+...+G_n)_+] whatever the others hold, G
   being E-e, 1-eE, 1-e, 0 with probabilities q, q, (k-2)q, (E-1)q.
 * "counts" (k = 2): m others hold x0. For lo <= m <= hi tell the adversary hi-lo of them, so that
   lo in x0 and n-1-hi in x1 are left: delta(m) <= delta(lo) among n-(hi-lo) users. Q against P
   at m is P against Q at n-1-m, which is in some block, too.
 * "hidden" (k = 3): either all others hold x2 (a data set as above), or one holds y = x0 or x1.
   Tell the adversary about the n-2 rest: who randomised, and the true reports. What is left are
   T = M+2 reports, M ~ Bin(n-2, 3q) uniform, with counts h. Placing the target's and the hidden
   report among them in every way, delta = E[(sum_a r_a h_a L(h - 1_a))_+] / (n(n-1)), where
   r_y = E, r_a = 1 else, L(h) = sum d_b h_b, d = (E-e, 1-eE, 1-e), and (h, n-T) is multinomial of
   n with probabilities q, q, q, (E-1)q. That sum is (T-1 + (E-1)h_y) L(h) - (E-1) d_y h_y.

Windows and tilts are guessed with floats. A wrong guess makes a bound loose, never false: what is
left out is bounded by balls. The lower end is a sum of fewer (P - eQ)_+.
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

LEVEL = 32.0  # windows leave out about exp(-LEVEL)
FINE_LEVEL = 54.0  # the same, for sums in which more cancels


class RefusedError(Exception):
    """The certificate is not proven; the message names the claim and the reason."""


class TooLongError(Exception):
    """Ball arithmetic would take too long; the message gives the estimated number of terms."""


@dataclass(frozen=True)
class Job:
    """A delta to compute: its approximate number of terms, and a function that returns a ball."""

    terms: int
    run: Callable[[], arb]


class Mechanism:
    """k-randomised response in balls; differences use expm1, which is precise for small eps."""

    def __init__(self, k: int, eps0: float, eps: float) -> None:
        big, small = arb(eps0), arb(eps)  # the exact doubles
        self.k = k
        self.E, self.e = big.exp(), small.exp()
        self.E_less_1 = big.expm1()
        self.q = 1 / (self.E_less_1 + k)
        self.p = self.E * self.q
        self.level = LEVEL - float(self.q.log())  # bounds are less sharp if nq is small
        self.up = self.e * (big - small).expm1()  # E - e > 0
        self.down = -(big + small).expm1()  # 1 - eE < 0
        self.flat = -small.expm1()  # 1 - e <= 0


# ---------------------------------------------------------------- expectations over iid reports


def excess(
    n: int, level: float, values: list[arb], weights: list[arb], partner: Mechanism | None = None
) -> Job:
    """Compute (1/n) E[L_+], L = v1 n1 + v2 n2 + v3 n3 + v4 n4, for multinomial (n1, n2, n3, n4).

    v4 >= v3 is needed, so that L = v1 n1 + v2 n2 + v4 (n3+n4) - gap n3 falls in n3. With a partner
    (see "hidden" above: type 1 is the partner's cell, type 2 are users who did not randomise, so
    v2 = 0 and T = n - n2) (1/n(n-1)) E[(C L - (E-1) v1 n1)_+], C = T - 1 + (E-1) n1, instead.
    Both are (scale (t - n3))_+ for given n1 and n2.

    Left out of the windows: x_+ <= exp(ax) / (exp(1) a) for any a > 0, so with M = E exp(aG) at
    most M^n / (exp(1) a) times the probability of being outside under the tilted weights
    w exp(av) / M, for which a union bound is taken. With a partner, the value is at most
    sum_a r_a h_a L(h - 1_a)_+, and E[h_a f(h - 1_a)] = n q E[f(h')] with h' of n-1: so at most
    (E+2) n q M^(n-1) / (exp(1) a) times the greatest chance that h' + 1_a is outside.

    Parameters
    ----------
    n
        Number of trials.
    level
        As for `window`.
    values, weights
        Values and probabilities of the four types.
    partner
        k-RR with a hidden user, or None.
    """
    gap = values[3] - values[2]
    if gap == 0:  # eps = 0: types 3 and 4 are alike; put them together
        weights = [weights[0], weights[1], arb(0), weights[2] + weights[3]]
        gap = arb(1)
    a = arb(tilt(n, values, weights))
    tilted = [w * (a * v).exp() for v, w in zip(values, weights, strict=True)]
    moment = sum(tilted, arb(0))
    pair = share(tilted[0] + tilted[1], tilted[2] + tilted[3])
    one, three = share(tilted[0], tilted[1]), share(tilted[2], tilted[3])
    sizes = window(n, pair, level)  # of s = n1 + n2

    def first(s: int) -> range:
        return window(s, one, level)  # of n1, given s

    def third(s: int) -> range:
        return window(n - s, three, level)  # of n3, given s

    def run() -> arb:
        spans = (
            span(first(s) for s in sizes),
            span(flip(s, first(s)) for s in sizes),
            span(third(s) for s in sizes),
            span(flip(n - s, third(s)) for s in sizes),
        )
        tables = [Powers(w, js) for w, js in zip(weights, spans, strict=True)]
        total, missed_one, missed_three = arb(0), arb(0), arb(0)
        step = (values[0] - values[1]) / gap
        for s in sizes:
            ones, threes, rest = first(s), third(s), n - s
            missed_one = missed_one.max(outside(s, one, ones))
            missed_three = missed_three.max(outside(rest, three, threes))
            row = Row(threes, map(mul, tables[2].at(threes), tables[3].against(rest, threes)))
            base = (s * values[1] + rest * values[3]) / gap
            masses = map(mul, tables[0].at(ones), tables[1].against(s, ones))
            for n1, mass in zip(ones, masses, strict=True):
                t = base + n1 * step
                if partner is None:
                    total += mass * row.excess(t)
                elif n1 + rest >= 2:  # T = n1 + n3 + n4 reports; with one or none the value is 0
                    scale = n1 + rest - 1 + partner.E_less_1 * n1
                    t -= partner.E_less_1 * values[0] * n1 / (scale * gap)
                    total += mass * scale * row.excess(t)
        total *= factorial(n) * gap
        missed = outside(n, pair, sizes) + missed_one + missed_three
        left = missed / (arb(1).exp() * a)
        if partner is None:
            return (total + arb(0).union(left * moment**n)) / n
        left *= (partner.E + 2) * n * weights[0] * moment ** (n - 1)
        return (total + arb(0).union(left)) / n / (n - 1)

    middle = sizes[len(sizes) // 2]
    return Job(len(sizes) * (len(first(middle)) + len(third(middle))), run)


def alike(n: int, mech: Mechanism, cell: str) -> Job:
    """Compute delta if all others are in one cell, k >= 3. Types: x0, x1 and two more.

    Parameters
    ----------
    n
        Number of users.
    mech
        k-RR, with eps.
    cell
        `x0`, `x1` or `x2`.
    """
    k, q, p, big = mech.k, mech.q, mech.p, mech.E
    up, down, flat = mech.up, mech.down, mech.flat
    if cell == "x0":
        return excess(n, mech.level, [arb(0), down, flat, up / big], [arb(0), q, (k - 2) * q, p])
    if cell == "x1":
        return excess(n, mech.level, [up, arb(0), down / big, flat], [q, arb(0), p, (k - 2) * q])
    return excess(n, mech.level, [up, down, flat, flat / big], [q, q, (k - 3) * q, p])


def blanket(n: int, mech: Mechanism) -> Job:
    """Compute the privacy blanket's bound. Types: x0, x1, other cells, not randomised."""
    q = mech.q
    weights = [q, q, (mech.k - 2) * q, mech.E_less_1 * q]
    return excess(n, mech.level, [mech.up, mech.down, mech.flat, arb(0)], weights)


def hidden(n: int, mech: Mechanism, cell: str) -> Job:
    """Compute "hidden" for k = 3. Types: the cell, not randomised, other cells by value.

    Parameters
    ----------
    n
        Number of users.
    mech
        k-RR with k = 3, with eps.
    cell
        `x0` or `x1`.
    """
    up, down, flat, q = mech.up, mech.down, mech.flat, mech.q
    values = [up, arb(0), down, flat] if cell == "x0" else [down, arb(0), flat, up]
    return excess(n, mech.level, values, [q, mech.E_less_1 * q, q, q], mech)


def among_dummies(chances: int, k: int, rate: arb, eps: float) -> Job:
    """Compute delta of true reports among dummies: at each chance, one per cell with rate/k.

    The dummies' counts (B0, B1, rest) are multinomial of the chances; the target adds 1 to B0 (law
    P) or to B1 (Q). By h B(h) = N q B(h - 1) of N = chances + 1 trials, for a count h of
    probability q, P is the law of N trials reweighted by h0 / (N q), Q by h1 / (N q). All other
    reports are known and move no delta, and the other cells depend on B0 + B1 alone.

    Parameters
    ----------
    chances
        Number of chances of all users together.
    k
        Number of cells.
    rate
        Probability that a chance makes a dummy.
    eps
        At least 0.
    """
    q, zero = rate / k, arb(0)
    values = [1 / q, -arb(eps).exp() / q, zero, zero]
    rest = (1 - rate) + (k - 2) * q
    return excess(chances + 1, LEVEL - float(q.log()), values, [q, q, zero, rest])


# ---------------------------------------------------------------- other data sets


def two_cells(n: int, m: int, mech: Mechanism) -> Job:
    """Compute delta for k = 2 with m others in x0: sum (P(s) - eQ(s))_+ over counts s of x0.

    With f the law of the others' count, P(s) = p f(s-1) + q f(s) and Q(s) = q f(s-1) + p f(s), so
    P(s) - e Q(s) = (E-e) q (f(s-1) - K f(s)), K = (eE-1) / (E-e). Tilt: g(s) = f(s) K^s / norm is
    again the law of a sum of two binomial counts, so log-concave, and
    P(s) - e Q(s) = (E-e) q norm K^(1-s) (g(s-1) - g(s)): positive only past the top of g.

    Parameters
    ----------
    n
        Number of users.
    m
        Number of others in x0.
    mech
        2-RR, with eps.
    """
    tilt_by = -mech.down / mech.up  # K
    one = (mech.E * tilt_by, 1 + mech.E * tilt_by)  # odds of x0 under the tilt, for holders of x0
    two = (tilt_by, mech.E + tilt_by)  # and of x1
    xs, ys = window(m, one[0] / one[1], FINE_LEVEL), window(n - 1 - m, two[0] / two[1], FINE_LEVEL)

    def run() -> arb:
        left = binomial(m, one[0] / one[1], 1 / one[1], xs)
        right = binomial(n - 1 - m, two[0] / two[1], mech.E / two[1], ys)
        missed = arb(0).union(1 - sum(left, arb(0)) * sum(right, arb(0)))
        inside = arb_poly(left) * arb_poly(right)
        # g(s) for s = start, start + 1, ...; the first and last entries are only bounded
        start = xs.start + ys.start - 1
        size = len(xs) + len(ys) - 1
        g = [missed] + [inside[i] + missed for i in range(size)] + [missed]
        top = max(range(size + 2), key=lambda i: float(g[i]))
        while top > 0 and not g[top - 1] <= g[top]:
            top -= 1
        if top == 0:
            raise RefusedError(
                f"cannot find where the law is largest, for n = {n}, {m} others in x0"
            )
        # g rises up to top, so no terms before it; past the window K^(top - s) (g(s) - g(s+1))_+
        # add up to at most what is left out
        total, power = missed, arb(1)
        for i in range(top, size + 1):
            total += power * (g[i] - g[i + 1]).max(arb(0))
            power /= tilt_by
        norm = (mech.q * one[1]) ** m * (mech.q * two[1]) ** (n - 1 - m)
        return mech.up * mech.q * norm * tilt_by ** -(start + top) * total

    return Job(4 * (len(xs) + len(ys)), run)


def mixed(n: int, mech: Mechanism, others: dict[str, int]) -> Job:
    """Compute delta by convolution of users, k >= 3. The k-3 empty cells are one category.

    Parameters
    ----------
    n
        Number of users.
    mech
        k-RR, with eps.
    others
        Numbers of others in x0, x1 and a third cell.
    """
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
