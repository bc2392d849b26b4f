"""Compute deltas of shuffled k-RR in ball arithmetic from the definition of delta.

n users report by k-randomised response, with E = exp(eps0): a report is the true cell with
probability p = E/(E+k-1), and each other cell with probability q = 1/(E+k-1). The analyst sees the
histogram of the reports. Its law is P if one user, the target, holds cell x0, and Q if the target
holds x1. A data set is the cells of the n-1 other users; with e = exp(eps), its delta is
sum (P - eQ)_+. Always eps < eps0, since otherwise P <= eQ everywhere, and delta is 0.

The LOWER end of a certificate is the delta of the data set that it names.
 * If all others hold the same cell y, P is the law of n reports of y, reweighted by the mean over
   the reports of R(j|x0)/R(j|y), where R(j|x) is the probability of the report j of x; likewise Q.
   So delta = (1/n) E[(G_1+...+G_n)_+], with independent G = (R(j|x0) - e R(j|x1)) / R(j|y) and j
   drawn from R(.|y).
 * For k = 2, delta follows from the law of one count, as in "counts" below.
 * Otherwise delta is computed by convolution, user by user, for small n.

The UPPER end bounds the delta of every data set, for both directions of the divergence (exchanging
the names x0 and x1 turns one into the other). The certificate names one of three arguments.
 * "blanket": a report is uniform with probability kq and otherwise true. An adversary who is told
   which others sent uniform reports, and the true reports, has delta (1/n) E[(G_1+...+G_n)_+]
   whatever the others hold, where G is E-e, 1-eE, 1-e, 0 with probabilities q, q, (k-2)q, (E-1)q.
 * "counts" (k = 2): let m of the others hold x0. For lo <= m <= hi, tell the adversary the records
   of hi-lo of them, so that lo in x0 and n-1-hi in x1 remain. Hence delta(m) is at most delta(lo)
   among n-(hi-lo) users. The other direction at m is this one at n-1-m, which also is in a block.
 * "hidden" (k = 3): either all others hold x2 (the data set above), or at least one, the hidden
   user, holds y = x0 or x1. Tell the adversary which of the other n-2 users sent uniform reports,
   and their true reports. T = M+2 reports with counts h remain, of which M ~ Bin(n-2, 3q) are
   uniform. Placing the reports of the target and the hidden user among them in every way gives
   delta = E[(sum_a r_a h_a L(h - 1_a))_+] / (n(n-1)), where r_y = E, r_a = 1 for other a,
   L(h) = sum d_b h_b, d = (E-e, 1-eE, 1-e), and (h, n-T) is multinomial of n trials with
   probabilities q, q, q, (E-1)q. That sum is (T-1 + (E-1)h_y) L(h) - (E-1) d_y h_y.

Sums are restricted to truncation windows, and expectations are tilted. Both are chosen in floats. A
poor choice makes a bound loose but never false, because balls bound what is left out. The lower end
sums (P - eQ)_+ over fewer outputs.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import accumulate
from operator import mul

from flint import arb, arb_poly

LEVEL = 32.0  # windows leave out a probability of about exp(-LEVEL)
FINE_LEVEL = 54.0  # the level for sums with more cancellation


class RefusedError(Exception):
    """A certificate is malformed or not proven; the message gives the reason."""


class TooLongError(Exception):
    """A certificate is too large to be checked in ball arithmetic; the message gives the size."""


@dataclass(frozen=True)
class Job:
    """A delta to be computed: approximate number of terms, and a function that returns a ball."""

    terms: int
    run: Callable[[], arb]


class RandomisedResponse:
    """Constants of k-randomised response at one eps, in balls; expm1 is precise for small eps."""

    def __init__(self, k: int, eps0: float, eps: float) -> None:
        big, small = arb(eps0), arb(eps)  # the exact doubles
        self.k = k
        self.E, self.e = big.exp(), small.exp()
        self.E_less_1 = big.expm1()
        self.q = 1 / (self.E_less_1 + k)
        self.p = self.E * self.q
        self.level = LEVEL - float(self.q.log())  # larger if q is small, where bounds are loose
        self.up = self.e * (big - small).expm1()  # E - e > 0
        self.down = -(big + small).expm1()  # 1 - eE < 0
        self.flat = -small.expm1()  # 1 - e <= 0


# --- Binomial laws in windows of counts, and bounds on what is outside ----------------------


def window(n: int, x: arb, level: float) -> range:
    """Return a window outside which Bin(n, x) has a probability of about exp(-level).

    It is computed in floats; `outside` bounds the probability in balls.
    """
    prob = min(max(float(x), 0.0), 1.0)
    reach = 1 + level / 3 + math.sqrt(level**2 / 9 + 2 * level * n * prob * (1 - prob))
    return range(max(0, math.floor(n * prob - reach)), min(n, math.ceil(n * prob + reach)) + 1)


def outside(n: int, x: arb, js: range) -> arb:
    """Bound the probability that Bin(n, x), or Bin(n-1, x) + (0 or 1), is outside a window.

    By Bernstein's inequality, a one-sided deviation from the mean by t or more has a probability of
    at most exp(-t^2 / 2(variance + t/3)). Here t is 1 too small, which covers Bin(n-1, x) + 1.
    """
    bound = arb(0)
    reaches = [js.stop - 1 - n * x] if js.stop <= n else []
    reaches += [n * x - js.start] if js.start > 0 else []
    for t in reaches:
        if not t > 0:
            return arb(1)
        bound += (-t * t / (2 * (n * x * (1 - x) + t / 3))).exp()
    return bound


def share(a: arb, b: arb) -> arb:
    """Return a / (a + b), or the ball [0, 1] if a + b may be 0."""
    return a / (a + b) if a + b > 0 else arb(0.5, 0.5)


def span(windows: Iterable[range]) -> range:
    """Return the smallest range that contains all windows."""
    listed = list(windows)
    return range(min(w.start for w in listed), max(w.stop for w in listed))


def flip(n: int, js: range) -> range:
    """Return the window of the values n - j, for j in a window."""
    return range(n - js.stop + 1, n - js.start + 1)


def factorial(n: int) -> arb:
    """Return n! from its logarithm, because exact factorials would be huge."""
    return arb(n + 1).lgamma().exp()


class Powers:
    """Table of x^j / j! for j in a window."""

    def __init__(self, x: arb, js: range) -> None:
        self.start = js.start
        value = arb(1) if js.start == 0 else (x.log() * js.start).exp() / factorial(js.start)
        self.values = [value]
        for j in js[1:]:
            value = value * x / j
            self.values.append(value)

    def at(self, js: range) -> list[arb]:
        """Return the entries for j in a window."""
        return self.values[js.start - self.start : js.stop - self.start]

    def against(self, n: int, js: range) -> list[arb]:
        """Return the entries for n - j, with j in a window."""
        return self.at(flip(n, js))[::-1]


class Row:
    """Masses f(j) in a window, with cumulative sums that make `excess` fast."""

    def __init__(self, js: range, masses: Iterable[arb]) -> None:
        self.low, self.high = js.start, js.stop - 1
        self.sums = list(accumulate(masses))  # at c: sum of f(j), j <= c
        self.twice = list(accumulate(self.sums, initial=arb(0)))  # at c: sum of (c-j) f(j), j <= c

    def excess(self, t: arb) -> arb:
        """Return sum_j (t-j)_+ f(j).

        It equals sum_{j <= c} (c-j) f(j) + (t-c) sum_{j <= c} f(j), with c = floor t. If t may be
        on either side of an integer c, the ball t - c has both signs. For t < c the formula is
        below the true value; without its negative second part it is above. So the ball contains the
        true value.
        """
        low, high = self.low, self.high
        if t <= low:
            return arb(0)
        c = high if t >= high else min(max(int(float(t)), low), high)
        while c > low and t < c:
            c -= 1
        while c < high and not t <= c + 1:
            c += 1
        return self.twice[c - low] + (t - c) * self.sums[c - low]


def tilt(n: int, values: list[arb], weights: list[arb]) -> float:
    """Return approximately the x that minimises n log M(x) - log x, with M(x) = E exp(x G).

    G has the given values, at least one of them positive, and weights as probabilities.
    """
    atoms = [(float(v), float(w)) for v, w in zip(values, weights, strict=True) if w != 0]
    top = max(v for v, _ in atoms)
    low, high = -700.0, 12.0
    for _ in range(60):
        y = math.exp((low + high) / 2)
        tilted = [(v / top, w * math.exp(y * (v / top - 1))) for v, w in atoms]
        slope = n * y * sum(r * w for r, w in tilted) / sum(w for _, w in tilted)
        low, high = (low, (low + high) / 2) if slope > 1 else ((low + high) / 2, high)
    return math.exp(low) / top


def binomial(n: int, x: arb, y: arb, js: range) -> list[arb]:
    """Return the probabilities of Bin(n, x) in a window, given y = 1 - x."""
    down = Powers(y, flip(n, js)).against(n, js)
    return [factorial(n) * a * b for a, b in zip(Powers(x, js).values, down, strict=True)]


# --- Expectations over independent reports ------------------------------------------------


def excess(
    n: int,
    level: float,
    values: list[arb],
    weights: list[arb],
    partner: RandomisedResponse | None = None,
) -> Job:
    """Compute (1/n) E[L_+], L = v1 n1 + v2 n2 + v3 n3 + v4 n4, for multinomial (n1, n2, n3, n4).

    `values` are the v and `weights` the probabilities of four types of reports. v4 >= v3 is
    required, so that L = v1 n1 + v2 n2 + v4 (n3+n4) - gap n3 decreases in n3. With a partner, who
    is the hidden user of the argument "hidden" above, (1/n(n-1)) E[(C L - (E-1) v1 n1)_+] with
    C = T - 1 + (E-1) n1 is computed instead. Then type 1 is the partner's cell, and type 2 are
    users whose reports are true, so that v2 = 0 and T = n - n2. Given n1 and n2, both expressions
    have the form (scale (t - n3))_+.

    The part outside the windows is bounded as follows. Since x_+ <= exp(ax) / (exp(1) a) for any
    a > 0, it is at most M^n / (exp(1) a), with M = E exp(aG), times the probability of being
    outside under the tilted weights w exp(av) / M, for which a union bound is taken. With a
    partner, the expression is at most sum_a r_a h_a L(h - 1_a)_+, and E[h_a f(h - 1_a)] =
    n q E[f(h')] with h' of n-1 trials. So that part is at most (E+2) n q M^(n-1) / (exp(1) a) times
    the largest probability that h' + 1_a is outside.
    """
    gap = values[3] - values[2]
    if gap == 0:  # if eps = 0, types 3 and 4 have equal values and are merged
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
    """Compute delta of the data set in which all others hold x0, x1 or x2, for k >= 3.

    The types of `excess` are reports of x0, of x1, of the others' cell and of the remaining cells,
    in the order that it requires. If the others' cell is x0 or x1, one type is empty.
    """
    k, q, p, big = mech.k, mech.q, mech.p, mech.E
    up, down, flat = mech.up, mech.down, mech.flat
    if cell == "x0":
        return excess(n, mech.level, [arb(0), down, flat, up / big], [arb(0), q, (k - 2) * q, p])
    if cell == "x1":
        return excess(n, mech.level, [up, arb(0), down / big, flat], [q, arb(0), p, (k - 2) * q])
    return excess(n, mech.level, [up, down, flat, flat / big], [q, q, (k - 3) * q, p])


def blanket(n: int, mech: RandomisedResponse) -> Job:
    """Compute the bound "blanket"; the types of `excess` are x0, x1, other cells, true reports."""
    q = mech.q
    weights = [q, q, (mech.k - 2) * q, mech.E_less_1 * q]
    return excess(n, mech.level, [mech.up, mech.down, mech.flat, arb(0)], weights)


def hidden(n: int, mech: RandomisedResponse, cell: str) -> Job:
    """Compute the bound "hidden" for k = 3 and a hidden user who holds x0 or x1.

    The types of `excess` are this cell, true reports, and the two other cells in order of value.
    """
    up, down, flat, q = mech.up, mech.down, mech.flat, mech.q
    values = [up, arb(0), down, flat] if cell == "x0" else [down, arb(0), flat, up]
    return excess(n, mech.level, values, [q, mech.E_less_1 * q, q, q], mech)


def among_dummies(chances: int, k: int, rate: arb, eps: float) -> Job:
    """Compute delta of true reports among `chances` possible dummies, each sent with `rate`.

    The dummies' counts in the target's two cells, B0 and B1, are multinomial of the chances with
    probability q = rate/k each. The target adds 1 to B0 (law P) or to B1 (Q). The binomial law B of
    N = chances + 1 trials obeys h B(h) = N q B'(h - 1), with B' of N - 1 trials, so that P is the
    law of N trials reweighted by h0 / (N q), and Q that by h1 / (N q). The true reports of other
    users do not change delta; the counts of other cells depend on B0 + B1 alone.
    """
    q, zero = rate / k, arb(0)
    values = [1 / q, -arb(eps).exp() / q, zero, zero]
    rest = (1 - rate) + (k - 2) * q
    return excess(chances + 1, LEVEL - float(q.log()), values, [q, q, zero, rest])


# --- Other data sets ----------------------------------------------------------------------


def two_cells(n: int, m: int, mech: RandomisedResponse) -> Job:
    """Compute delta of the data set in which m of the others hold x0, for k = 2.

    It is the sum of (P(s) - eQ(s))_+ over the counts s of x0. With f the law of the others' count,
    P(s) = p f(s-1) + q f(s) and Q(s) = q f(s-1) + p f(s), so
    P(s) - e Q(s) = (E-e) q (f(s-1) - K f(s)), K = (eE-1) / (E-e). The tilted law
    g(s) = f(s) K^s / norm is again that of a sum of two binomial counts, so log-concave, and
    P(s) - e Q(s) = (E-e) q norm K^(1-s) (g(s-1) - g(s)) is positive only beyond the mode of g.
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
        # g(s) for s = start, start + 1, ...; the first and last entry are bounds only
        start = xs.start + ys.start - 1
        size = len(xs) + len(ys) - 1
        g = [missed] + [inside[i] + missed for i in range(size)] + [missed]
        top = max(range(size + 2), key=lambda i: float(g[i]))
        while top > 0 and not g[top - 1] <= g[top]:
            top -= 1
        if top == 0:
            raise RefusedError(
                f"cannot find the mode of the count's law for n = {n} and {m} others in x0"
            )
        # g increases up to the mode, so no term before it is positive. Beyond the window, the terms
        # K^(top - s) (g(s) - g(s+1))_+ add up to at most the probability that is left out.
        total, power = missed, arb(1)
        for i in range(top, size + 1):
            total += power * (g[i] - g[i + 1]).max(arb(0))
            power /= tilt_by
        norm = (mech.q * one[1]) ** m * (mech.q * two[1]) ** (n - 1 - m)
        return mech.up * mech.q * norm * tilt_by ** -(start + top) * total

    return Job(4 * (len(xs) + len(ys)), run)


def many_cells(n: int, mech: RandomisedResponse, others: dict[str, int]) -> Job:
    """Compute delta for k >= 3 by convolution over users; the k-3 empty cells are merged."""
    categories = 3 if mech.k == 3 else 4

    def report(cell: int) -> list[arb]:
        return [mech.p if j == cell else mech.q for j in range(3)] + [(mech.k - 3) * mech.q]

    def add(law: dict[tuple[int, ...], arb], cell: int) -> dict[tuple[int, ...], arb]:
        after: dict[tuple[int, ...], arb] = {}
        probabilities = report(cell)[:categories]
        for (a, b, c), mass in law.items():
            keys = ((a + 1, b, c), (a, b + 1, c), (a, b, c + 1), (a, b, c))
            for key, probability in zip(keys, probabilities, strict=False):
                old = after.get(key)
                after[key] = mass * probability if old is None else old + mass * probability
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
