"""Compute binomial probabilities in balls for windows of counts, and bound those outside."""

import math
from collections.abc import Iterable
from itertools import accumulate

from flint import arb


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
