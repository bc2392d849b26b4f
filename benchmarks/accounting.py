"""Measure accuracy, speed and memory of the accountant and of the alternatives to it.

``make bench`` runs it. Every comparison is measured in the same run; quote ratios, since absolute
times depend on the machine. Each time is the median of several calls after a warm-up.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np

LOG_TARGET = float(np.log(1e-6))


def median_seconds(call: Callable[[], object], repeats: int) -> float:
    call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def show(what: str, seconds: float, limit: float | None = None) -> None:
    verdict = (
        "" if limit is None else f"  (limit {limit:g} s: {'ok' if seconds < limit else 'OVER'})"
    )
    print(f"  {what:<58}{seconds * 1e3:12.2f} ms{verdict}")


def import_time(repeats: int) -> None:
    code = "import time; t = time.perf_counter(); import shuffledp.accounting.bound_registry; "
    code += "print(time.perf_counter() - t)"
    command = [sys.executable, "-c", code]
    times = [
        float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        for _ in range(repeats + 1)
    ]
    show("import of every bound, new process", statistics.median(times[1:]), 0.5)


def speed(repeats: int) -> None:
    from shuffledp.accounting.bound_registry import BOUNDS
    from shuffledp.accounting.krr import lower_log_delta, upper_log_delta
    from shuffledp.accounting.setting import Setting

    def pair(eps: float, n: int) -> Callable[[], object]:
        setting = Setting(n, 408, 4.0)
        return lambda: (upper_log_delta(eps, setting), lower_log_delta(eps, setting))

    show("certified delta, n=1e6, k=408, eps0=4", median_seconds(pair(0.02, 10**6), repeats), 0.05)
    million, billion = Setting(10**6, 408, 4.0), Setting(10**9, 408, 4.0)
    for setting, limit in [(million, 0.5), (billion, 2.0)]:
        seconds = median_seconds(
            lambda s=setting: [
                BOUNDS[b].curve(s).epsilon(LOG_TARGET).only for b in ("lower", "upper")
            ],
            repeats,
        )
        show(f"certified epsilon, n={setting.n:.0e}, k=408, eps0=4", seconds, limit)
    curve = np.linspace(0.01, 0.2, 100)
    seconds = median_seconds(lambda: upper_log_delta(curve, Setting(10**5, 408, 4.0)), repeats)
    show("100-point curve of delta, n=1e5", seconds, 1.0)


def growth(repeats: int) -> None:
    from shuffledp.accounting.krr import upper_log_delta
    from shuffledp.accounting.setting import Setting

    for k, eps0 in [(408, 4.0), (3, 1.0)]:
        previous = None
        for exponent in range(3, 10):
            n = 10**exponent
            q = 1.0 / (np.exp(eps0) + k - 1)
            eps = min(5.0 * np.expm1(eps0) * np.sqrt(2.0 * q / n), 0.9 * eps0)  # delta near 1e-7
            seconds = median_seconds(partial(upper_log_delta, eps, Setting(n, k, eps0)), repeats)
            factor = "" if previous is None else f"  x{seconds / previous:.2f}"
            print(f"  k={k:<4} eps0={eps0:g}  n=1e{exponent}  {seconds * 1e3:9.2f} ms{factor}")
            previous = seconds


def widths() -> None:
    from shuffledp.accounting.bound_registry import BOUNDS
    from shuffledp.accounting.setting import Setting

    for n, limit in [(10**3, 1e-3), (10**4, 1e-4), (10**6, None), (10**9, 2e-4)]:
        worst, where = 0.0, (0, 0.0)
        for k in (2, 3, 4, 10, 100):
            for eps0 in (0.1, 0.5, 1.0, 1.15, 2.0, 3.0, 4.0):
                setting = Setting(n, k, eps0)
                low, high = (
                    BOUNDS[b].curve(setting).epsilon(LOG_TARGET).only for b in ("lower", "upper")
                )
                if high > 0 and (high - low) / high > worst:
                    worst, where = (high - low) / high, (k, eps0)
        note = "" if limit is None else f"  (limit {limit:.0e})"
        print(
            f"  n=1e{len(str(n)) - 1}: widest {worst:.2e}, at k={where[0]}, eps0={where[1]}{note}"
        )


def single_bin_direct(n: int, k: int, m: int, eps0: float, eps: float) -> float:
    """Evaluate paper A's corrected eq. (6) as a user would write it: sums over s and r, no tilt."""
    from scipy.stats import binom

    q = 1.0 / (np.exp(eps0) + k - 1)
    p = np.exp(eps0) * q
    law = np.convolve(binom.pmf(np.arange(m + 1), m, p), binom.pmf(np.arange(n - m), n - 1 - m, q))
    shifted, same = np.append(0.0, law), np.append(law, 0.0)
    high = p * shifted + (1 - p) * same
    low = q * shifted + (1 - q) * same
    return float(np.maximum(high - np.exp(eps) * low, 0).sum())


def comparisons(repeats: int) -> None:
    from shuffledp.accounting.krr import upper_log_delta
    from shuffledp.accounting.one_round.single_bin import log_delta
    from shuffledp.accounting.setting import Setting
    from shuffledp.papers.literature import clones

    n, k, eps0, eps, m = 10**4, 16, 1.0, 0.0186, 2000
    setting = Setting(n, k, eps0)
    exact = float(np.exp(upper_log_delta(eps, setting)))
    direct = median_seconds(lambda: single_bin_direct(n, k, m, eps0, eps), repeats)
    tilted = median_seconds(lambda: log_delta(eps, setting, m, "forward"), repeats)
    show("single-bin, direct evaluation of A's eq. (6)", direct)
    show("single-bin, ours", tilted)
    print(f"  {'ratio':<58}{direct / tilted:12.1f} x")
    for e in (0.0186, 0.3):
        theirs_log10 = np.log10(max(single_bin_direct(n, k, m, eps0, e), 5e-324))
        ours_log10 = float(log_delta(e, setting, m, "forward")) / np.log(10)
        label = f"log10 delta at eps={e}, theirs and ours"
        print(f"  {label:<58}{theirs_log10:12.3f}{ours_log10:12.3f}")
    numeric = median_seconds(lambda: clones.clones_log_delta(eps, setting), repeats)
    show("numeric clones bound (same kernel)", numeric)
    loose = float(np.exp(clones.clones_log_delta(eps, setting)))
    print(f"  {'its delta over the certified upper':<58}{loose / exact:12.4g} x")


def paper_c() -> None:
    """Compare paper C's Fourier accountant (section 6.3) with the numeric clones bound, n = 1e6."""
    from shuffledp.accounting import pairs
    from shuffledp.accounting.bound_registry import BOUNDS
    from shuffledp.accounting.setting import Setting
    from shuffledp.papers.literature.fourier import fourier_bounds

    setting = Setting(10**6, 2, 9.0)
    pair = pairs.clones(setting)

    def fourier(rounds: int) -> Callable[[], object]:
        return lambda: fourier_bounds(pair, rounds).log_delta(0.5)

    numeric = median_seconds(lambda: BOUNDS["clones"].curve(setting).epsilon(LOG_TARGET).only, 3)
    one, four = (median_seconds(fourier(rounds), 1) for rounds in (1, 4))
    show("numeric clones, one eps, n=1e6, eps0=9", numeric)
    show("Fourier accountant on the same pair, m=1e7", one)
    print(f"  {'ratio (paper C: about 4, with other code)':<58}{one / numeric:12.1f} x")
    print(f"  {'four rounds over one (paper C: little more)':<58}{four / one:12.2f} x")


# Difficult queries; each runs in its own process, and its time includes the start-up.
HARD_ROUND = (
    "calibrate --n 1e6 --k 3 --eps .1 --delta 1e-6",
    "calibrate --n 1e9 --k 10 --eps .1 --delta 1e-300",
    "delta --n 1e10 --k 2 --eps0 1 --eps 1e-4",
    "delta --n 1e9 --k 16 --eps0 .5 --eps .35",
    "delta --n 1000001 --k 3 --eps0 .05 --eps .045",
)
HARD_ROUNDS = (
    "epsilon --n 1e7 --k 16 --eps0 4 --rounds 10000 --delta 1e-30",
    "epsilon --n 2 --k 16 --eps0 .001 --rounds 10000 --delta 1e-6",
    "epsilon --n 1e9 --k 3 --eps0 .05 --rounds 2 --delta 1e-9",
    "epsilon --n 1e7 --k 3 --eps0 8 --rounds 1000 --delta 1e-15",
    "epsilon --n 1e5 --k 16 --eps0 4 --rounds 10 --delta 1e-18",
    "delta --n 1e6 --k 100 --eps0 1 --eps .1 --rounds 2 --sampling-rate .001",
)


def hard_queries() -> None:
    for queries, limit in ((HARD_ROUND, 2.0), (HARD_ROUNDS, 10.0)):
        for query in queries:
            command = [sys.executable, "-m", "shuffledp", *query.split()]
            start = time.perf_counter()
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            seconds = time.perf_counter() - start
            memory = usage.ru_maxrss / 1024
            good = status == 0 and seconds < limit and memory < 500
            print(f"  {query:<72}{seconds:6.1f} s {memory:5.0f} MB  {'ok' if good else 'OVER'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7, help="calls per median (default 7)")
    repeats = parser.parse_args().repeats
    print("Speed")
    import_time(repeats)
    speed(repeats)
    print("Peak memory so far: ", end="")
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB (limit 300 MB)")
    print("Cost of one certified upper delta (factor per decade of n; sqrt would be x3.16)")
    growth(repeats)
    print("Hard queries (limits: one round 2 s, rounds 10 s, 500 MB)")
    hard_queries()
    print("Width of the certified interval, relative in eps, delta = 1e-6")
    widths()
    print("Against what one would call otherwise")
    comparisons(repeats)
    print("Paper C's claim of time")
    paper_c()


if __name__ == "__main__":
    main()
