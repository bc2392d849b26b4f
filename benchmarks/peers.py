"""Compare this project with other programs and papers on the same work: ``make peers``.

Each row has a peer's number and ours for the same quantity, users, cells, eps, delta and
neighbours. A smaller number is better in every row, so a ratio above 1 says that ours is worse;
these rows come first. docs/peers.md explains them.

A peer's number is *published*, the value of a *formula* of a paper, the result of a *run* of its
program in this process, or, for programs that are none of our dependencies, *recorded* from a run
of the version or commit that is named.
"""

import csv
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass, field, fields
from functools import reduce
from math import exp, expm1, log, sinh, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from dp_accounting.pld.privacy_loss_distribution import from_two_probability_mass_functions
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import binom, multinomial, norm

from shuffledp import Setting, compare, epsilon, mechanism, publish
from shuffledp.accounting.additive import GeometricNoise
from shuffledp.mechanisms.prio3_histogram import upload_bytes
from shuffledp.mechanisms.protocol import envelope_bytes
from shuffledp.mechanisms.sparse import HashedDummies, SampleThreshold, sparse_ways
from shuffledp.mechanisms.target_calibration import TargetCalibration
from shuffledp.pipeline.files import replacing
from shuffledp.publishing.options import Levels, MapCells, Protection, Source

TABLE = Path("results/peers.csv")


@dataclass(frozen=True)
class Row:
    """One comparison. ``kind`` says where the peer's number is from; a ratio above 1 is worse."""

    peer: str
    quantity: str
    n: int
    k: int
    eps: float
    delta: float
    neighbours: str = field(default="replacement", init=False)
    theirs: float
    kind: str
    ours: float
    our_method: str

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs


# --- Error of a cell ------------------------------------------------------------------------------


def calibrated(name: str, n: int, k: int, eps: float, delta: float) -> TargetCalibration[Any]:
    (compared,) = compare(eps, delta, Setting(n, k), mechanisms=[name]).mechanisms
    assert compared.calibration is not None, compared.reason
    return compared.calibration


def error(name: str, n: int, k: int, eps: float, delta: float) -> float:
    """Return the standard deviation of a cell, in people."""
    return calibrated(name, n, k, eps, delta).cell_sd


def sageo_error(n: int, k: int, eps: float) -> float:
    """Return the smallest error of SAGeo-Shuffle over its sampling rate beta, in people.

    Its dummies have an asymmetric geometric law with ratios ql below its centre and qr above. The
    paper's expected squared error is (1 - beta) / (beta n) for all cells, plus the second moment of
    the dummies around their centre, over (beta n)^2, for each.
    """

    def squared(beta: float) -> float:
        ql = (exp(-eps / 2) - 1 + beta) / beta
        qr = beta / (exp(eps / 2) - 1 + beta)
        moment = sum(q * (1 + q) / (1 - q) ** 3 for q in (ql, qr)) / (ql / (1 - ql) + 1 / (1 - qr))
        return (1 - beta) * n / (beta * k) + moment / beta**2

    least = -expm1(-eps / 2) + 1e-9
    best = minimize_scalar(squared, bounds=(least, 1.0), method="bounded").fun
    return sqrt(min(best, squared(1.0)))


def augmented_shuffle() -> Iterator[Row]:
    """Murakami, Sei and Eriguchi (arXiv 2504.07362): Census, n = 602,156, k = 915."""
    n, k, delta = 602_156, 915, 1e-12
    peer, quantity = "SAGeo-Shuffle (2504.07362)", "error of a cell, people"
    for eps, name in ((0.1, "shuffler-dummies"), (1.0, "shuffler-dummies"), (1.0, "two-servers")):
        theirs, ours = sageo_error(n, k, eps), error(name, n, k, eps, delta)
        yield Row(peer, quantity, n, k, eps, delta, theirs, "formula", ours, name)


def large_domain() -> Iterator[Row]:
    """FME (arXiv 2509.02004): Foursquare, top 50 of a million cells, and the shuffler's dummies."""
    n, k, eps, delta = 18_201, 10**6, 1.0, 1e-12
    peer = "FME (2509.02004)"
    hashed = sparse_ways(eps, log(delta), n, k)[2]
    assert isinstance(hashed, HashedDummies)
    published = n * sqrt(1.58961e-7)  # mean squared error of shares in the README of its code
    for ours, name in (
        (hashed.error(1000), hashed.name),
        (error("shuffler-dummies", n, k, eps, delta), "shuffler-dummies"),
    ):
        yield Row(peer, "error of a cell (theirs: the top 50), people", n, k, eps, delta, published,
                  "published", ours, name)  # fmt: skip
    # Each of two stages has eps / 2 and delta / 2. With RSA, the three layers of encryption have
    # sizes in the proportion of 1, 2 and 3. It opens 5 % of the empty buckets; the dummies of its
    # second stage follow by our bound.
    q = exp(-eps / 4)
    mean = np.ceil(log(delta / 2 * (1 + q) / (2 + (delta / 2 - 2) * q)) / log(q))
    buckets = round(sqrt((mean + 1) * 0.95 * n * k / ((2 + 2 + 3) * mean)))
    theirs = HashedDummies(hashed.eps, int(mean), buckets, round(-log(0.05) / -log(q)))
    yield Row(peer, "dummies by the shuffler, first stage, per user", n, k, eps, delta,
              buckets * mean / n, "formula", hashed.buckets * hashed.noise.mean / n,
              hashed.name)  # fmt: skip
    yield Row(peer, "dummies by the shuffler, per user", n, k, eps, delta, theirs.dummies(n, k) / n,
              "formula", hashed.dummies(n, k) / n, hashed.name)  # fmt: skip


def threshold_delta(eps: float, p: float, tau: int) -> float:
    """Return delta for adding or removing one user, if counts of samples below tau are hidden."""

    def law(people: int) -> np.ndarray:
        masses = binom.pmf(np.arange(people + 2), people, p)
        return np.append(masses[:tau].sum(), masses[tau:])

    def largest(people: int) -> float:
        few, more = law(people), law(people + 1)
        few = np.append(few, np.zeros(more.size - few.size))
        pairs = (few, more), (more, few)
        return max(float(np.maximum(a - exp(eps) * b, 0.0).sum()) for a, b in pairs)

    return max(largest(people) for people in range(tau - 1, round(3 * tau / p)))


def sample_and_threshold() -> Iterator[Row]:
    """Sample users, and hide small counts, as Nebula does (arXiv 2409.09676).

    A replacement is a removal and an addition: (e, d) for these is (2e, (1 + exp(e)) d) for it.
    """
    n, k, eps, delta, people, p = 100_000, 10_000, 1.0, 1e-8, 1000, 0.3
    e = eps / 2

    def keeps(tau: int) -> bool:
        return threshold_delta(e, p, tau) * (1 + exp(e)) <= delta

    theirs = next(tau for tau in range(1, n) if keeps(tau))
    ours = sparse_ways(eps, log(delta), n, k)[3]
    assert isinstance(ours, SampleThreshold) and ours.rate == p
    peer = "sample and threshold (Nebula, 2409.09676)"
    yield Row(peer, "people of the largest cell that is hidden on average", n, k, eps, delta,
              theirs / p, "formula", ours.threshold / p, ours.name)  # fmt: skip
    for name in ("two-servers", "shuffler-dummies"):
        yield Row(peer, f"error of a cell of {people:,}, people", n, k, eps, delta,
                  ours.error(people), "formula", error(name, n, k, eps, delta), name)  # fmt: skip


def prio3() -> Iterator[Row]:
    """Prio3Histogram over DAP: two aggregators, with noise as libprio draws it."""
    peer, name, eps, n = "Prio3Histogram (VDAF, DAP)", "two-servers", 1.0, 100_000
    two = sqrt(2 * GeometricNoise(eps).variance)
    yield Row(peer, "error of a cell, people (theirs with delta = 0)", n, 408, eps, 1e-8, two,
              "formula", error(name, n, 408, eps, 1e-8), name)  # fmt: skip
    for k in (48, 408, 10_000, 100_000):
        yield Row(peer, "bytes a user uploads", n, k, eps, 1e-8, upload_bytes(k), "formula",
                  envelope_bytes(), name)  # fmt: skip


# --- Trips ---------------------------------------------------------------------------------------

# Mean absolute errors of a pair, of departures and of arrivals that inf-tda 0.1 has for the trips
# below, run with opendp 0.12.1 and pandas 2.3.3, because it stops with newer ones.
INF_TDA = (3.79, 8.67, 249.0)


def trips() -> Iterator[Row]:
    """1,000,000 invented trips of as many people between 400 places; most pairs have none.

    inf-tda (arXiv 2412.09256) has zCDP and (1, 1e-6) for replacing a person, and gives whole
    numbers. dp_mobility_report 0.2.11 adds Laplace noise to every pair, rounds, and leaves out what
    is not above 0. Ours is pure, with the same eps for replacing a person.
    """
    n, k, eps = 1_000_000, 400, 1.0
    random = np.random.default_rng(1)
    begin, end = ((k * random.random(n) ** 4).astype(int) for _ in range(2))
    truth = np.bincount(begin * k + end, minlength=k * k).reshape(k, k)
    ids = np.array([f"{place:03}" for place in range(k)])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        places = {"id": ids, "latitude": random.random(k), "longitude": random.random(k)}
        pd.DataFrame(places).to_csv(folder / "places.csv", index=False)
        published = publish(
            Source(
                pd.DataFrame({"a": ids[begin], "b": ids[end]}), "trips", place="a", to_place="b"
            ),
            folder / "map",
            cells=MapCells(folder / "places.csv"),
            protection=Protection("record", eps / 2),
            levels=Levels({"total": "0.4"}),
            ledger=folder / "ledger.jsonl",
        )
        ours = published.to_frame()["estimate"].to_numpy().reshape(k, k)
    noisy = truth + np.rint(random.laplace(0.0, 2.0 / eps, (k, k)))
    reported = np.where(noisy > 0, noisy, 0)

    def errors(table: Any) -> list[float]:
        off = (table - truth, (table - truth).sum(axis=1), (table - truth).sum(axis=0))
        return [float(np.abs(each).mean()) for each in off]

    for peer, kind, delta, found in (
        ("inf-tda 0.1", "recorded", 1e-6, INF_TDA),
        ("dp_mobility_report 0.2.11", "formula", 0.0, errors(reported)),
    ):
        for quantity, theirs, mine in zip(
            ("a pair", "departures of a place", "arrivals of a place"),
            found,
            errors(ours),
            strict=True,
        ):
            yield Row(peer, f"error of {quantity}, trips", n, k * k, eps, delta, theirs, kind, mine,
                      "publish, total:0.4")  # fmt: skip


# --- eps of a local randomiser --------------------------------------------------------------------

# eps at delta = 1e-6 that other programs print for k-RR with n users, k cells and eps0.
RECORDED = {
    ("variation ratios, upper bound (wangsw/PrivacyAmplification 34ca048)", "certified"): [
        (10_000, 408, 4.0, 0.12997055),
        (100_000, 408, 4.0, 0.03788376),
        (10_000, 2, 1.0, 0.04320717),
    ],
    ("clones of any randomiser (apple/ml-shuffling-amplification 993d285)", "clones"): [
        (10_000, 408, 4.0, 0.62533570),
        (100_000, 408, 4.0, 0.17697317),
        (10_000, 2, 1.0, 0.05556169),
    ],
    # One report of 2-RR among n - 1 of the other record is a random allocation: one of n steps has
    # the law of that report, the others the law of the rest. Upper end, with a grid of 5e-5.
    ("random allocation (PLD_accounting 2.0, 2602.17284)", "certified"): [
        (10_000, 2, 1.0, 0.03596896)
    ],
}


def other_accountants() -> Iterator[Row]:
    """Programs that are none of our dependencies, as recorded."""
    for (peer, bound), settings in RECORDED.items():
        for n, k, eps0, theirs in settings:
            ours = epsilon(1e-6, Setting(n, k, eps0=eps0), bound=bound).promised
            yield Row(peer, f"eps of k-RR, eps0 = {eps0:g}", n, k, ours, 1e-6, theirs, "recorded",
                      ours, bound)  # fmt: skip


def blanket_by_fft(eps: float, n: int, k: int, eps0: float) -> float:
    """Return delta of k-RR by the privacy blanket on a grid, as Su, Cheng and Wang compute it.

    It is ``E[(G_1 + ... + G_n)_+] / n``. G is positive for the record's own cell, negative for that
    of its neighbour, less so for the other cells, and 0 for a user who reports the truth.
    """
    q = 1.0 / (exp(eps0) + k - 1)
    values = np.array([exp(eps0) - exp(eps), 1 - exp(eps + eps0), 1 - exp(eps), 0.0])
    step = expm1(eps0) / 1200
    places = np.ceil(values / step).astype(int)
    first, last = places.min(), places.max()
    law = np.bincount(places - first, [q, q, (k - 2) * q, 1 - k * q])
    size = 1 << int(n * (last - first)).bit_length()
    total = np.fft.irfft(np.fft.rfft(law, size) ** n, size)
    sums = (np.arange(size) + n * first) * step
    return float(np.maximum(total, 0.0) @ np.maximum(sums, 0.0)) / n


def decomposition() -> Iterator[Row]:
    """Su, Cheng and Wang (arXiv 2504.07414): the optimal decomposition, by FFT in floats."""
    n, k, eps0 = 1000, 408, 4.0
    theirs = brentq(lambda eps: log(blanket_by_fft(eps, n, k, eps0) / 1e-6), 0.1, 1.0, xtol=1e-7)
    ours = epsilon(1e-6, Setting(n, k, eps0=eps0)).promised
    yield Row("privacy blanket by FFT (Su, Cheng, Wang, 2504.07414)", "eps of k-RR, eps0 = 4", n, k,
              ours, 1e-6, theirs, "formula", ours, "certified")  # fmt: skip


def blanket_eps(n: int, k: int, eps0: float, delta: float) -> float:
    """Return eps of k-RR by the blanket divergence, summed over all relevant counts in floats.

    Takagi and Liew evaluate it by FFT within a relative error that the user chooses; this is the
    limit of a small one.
    """
    q = 1.0 / (exp(eps0) + k - 1)
    shares = [q, q, (k - 2) * q]
    halves = [8 * sqrt(n * share) + 8 for share in shares]
    axes = [np.arange(max(0, int(n * p - half)), min(n, int(n * p + half)) + 1)
            for p, half in zip(shares, halves, strict=True)]  # fmt: skip
    a, b, c = (axis.ravel() for axis in np.meshgrid(*axes, indexing="ij"))
    cells = np.stack([a, b, c, n - a - b - c], axis=-1)
    masses = multinomial.pmf(cells, n, [*shares, 1 - k * q])

    def excess(eps: float) -> float:
        gains = exp(eps0) * a + b + c - exp(eps) * (a + exp(eps0) * b + c)
        return float(masses @ np.maximum(gains, 0.0)) / n - delta

    return float(brentq(excess, 0.0, eps0, xtol=1e-9))


def blanket_divergence() -> Iterator[Row]:
    """Takagi and Liew (arXiv 2601.19154): the blanket divergence at finite n."""
    for n, k, eps0 in ((10_000, 408, 4.0), (10_000, 2, 1.0)):
        theirs, ours = blanket_eps(n, k, eps0, 1e-6), epsilon(1e-6, Setting(n, k, eps0=eps0))
        yield Row("blanket divergence (Takagi, Liew, 2601.19154)", f"eps of k-RR, eps0 = {eps0:g}",
                  n, k, ours.promised, 1e-6, theirs, "formula", ours.promised,
                  "certified")  # fmt: skip


def gaussian_limit(eps: float, n: int, eps0: float) -> float:
    """Return the leading term of delta of 2-RR for many users.

    It is ``mu (phi(t) - t Phi(-t))`` at eps = t mu, with mu^2 = I / n. With two cells the Fisher
    constant I is ``(p - q)^2 / (p q)``, p and q = 1 - p for a true and a false report, in all data.
    """
    mu = 2 * sinh(eps0 / 2) / sqrt(n)
    t = eps / mu
    return float(mu * (norm.pdf(t) - t * norm.cdf(-t)))


def asymptotics() -> Iterator[Row]:
    """Shvets (arXiv 2602.09029): the Gaussian limit for records of two kinds; not a bound."""
    for n in (10_000, 1_000_000):
        theirs = brentq(lambda eps, n=n: gaussian_limit(eps, n, 1.0) - 1e-6, 0.0, 1.0, xtol=1e-12)
        ours = epsilon(1e-6, Setting(n, 2, eps0=1.0)).promised
        yield Row("Gaussian limit (Shvets, 2602.09029)", "eps of k-RR, eps0 = 1", n, 2, ours, 1e-6,
                  theirs, "formula", ours, "certified")  # fmt: skip


def enumerated(n: int, k: int, eps0: float) -> tuple[dict, dict]:
    """Return both laws of the dominating pair over every outcome, as dp_accounting takes them."""
    q = 1.0 / (np.expm1(eps0) + k)
    n1, n2, n3 = (axis.ravel() for axis in np.meshgrid(*[np.arange(n + 1)] * 3, indexing="ij"))
    kept = n1 + n2 + n3 <= n
    n1, n2, n3 = n1[kept], n2[kept], n3[kept]
    cells = np.stack([n1, n2, n3, n - n1 - n2 - n3], axis=-1)
    with np.errstate(divide="ignore"):
        base = multinomial.logpmf(cells, n, [q, q, (k - 2) * q, 1 - k * q]) - np.log(n)
        upper = base + np.log(np.expm1(eps0) * n1 + n1 + n2 + n3)
        lower = base + np.log(np.expm1(eps0) * n2 + n1 + n2 + n3)
    names = range(n1.size)
    return tuple(  # type: ignore[return-value]
        {name: v for name, v in zip(names, law, strict=True) if v > -70} for law in (lower, upper)
    )


def dummies(n: int, k: int, dummies_each: float) -> tuple[dict, dict]:
    """Return both laws of the pair of dummies by users over all relevant outcomes."""
    q = dummies_each / k
    most = int(n * q + 12 * np.sqrt(n * q) + 12)
    a, b = (axis.ravel() for axis in np.meshgrid(*[np.arange(most)] * 2, indexing="ij"))

    def law(first: np.ndarray, second: np.ndarray) -> dict[int, float]:
        logs = multinomial.logpmf(
            np.stack([first, second, n - first - second], axis=-1), n, [q, q, 1 - 2 * q]
        )
        return {i: float(v) for i, v in enumerate(logs) if v > -70}

    return law(a, b - 1), law(a - 1, b)


def composed(*parts: tuple[tuple[dict, dict], int]) -> Any:
    """Return dp_accounting's composition of pairs of laws, each for a number of rounds."""
    plds = [
        from_two_probability_mass_functions(*pair, value_discretization_interval=1e-4).self_compose(
            rounds
        )
        for pair, rounds in parts
    ]
    return reduce(lambda one, other: one.compose(other), plds)


# Upper end of eps of the 35 rounds below that PLD_accounting 2.0 has on a grid of 1e-4.
PLD_ACCOUNTING = 2.71213623


def dp_accounting() -> Iterator[Row]:
    """Google's dp_accounting on every outcome of our pairs; its time grows like n^3.

    PLD_accounting takes its discretised pairs and composes each for its rounds.
    """
    peer = "dp_accounting 0.6.0"
    krr = Setting(100, 16, eps0=1.0, rounds=30)
    noise = mechanism("user-dummies", dummies=0.8, chances=1)
    noisy = Setting(10**4, 192, mechanism=noise, rounds=5)
    ledgers: list[tuple[str, list[Setting], Callable[[], Any]]] = [
        ("one round of k-RR", [Setting(150, 16, eps0=1.0)],
         lambda: composed((enumerated(150, 16, 1.0), 1))),
        ("35 rounds: k-RR, dummies by users", [krr, noisy],
         lambda: composed((enumerated(100, 16, 1.0), 30), (dummies(10**4, 192, 0.8), 5))),
    ]  # fmt: skip
    for what, ledger, build in ledgers:
        start = time.perf_counter()
        theirs = float(build().get_epsilon_for_delta(1e-6))
        their_seconds = time.perf_counter() - start
        start = time.perf_counter()
        ours = epsilon(1e-6, ledger).promised
        our_seconds = time.perf_counter() - start
        n, k = ledger[0].n, ledger[0].k
        for quantity, peers, mine in (("eps", theirs, ours), ("s", their_seconds, our_seconds)):
            yield Row(
                peer, f"{what}, {quantity}", n, k, ours, 1e-6, peers, "run", mine, "certified"
            )
    yield Row("PLD_accounting 2.0", f"{what}, eps", n, k, ours, 1e-6, PLD_ACCOUNTING, "recorded",
              ours, "certified")  # fmt: skip


COMPARISONS = (
    augmented_shuffle,
    large_domain,
    sample_and_threshold,
    prio3,
    trips,
    other_accountants,
    decomposition,
    blanket_divergence,
    asymptotics,
    dp_accounting,
)


def main() -> None:
    rows = [row for comparison in COMPARISONS for row in comparison()]
    rows.sort(key=lambda row: -row.ratio)
    names = [field.name for field in fields(Row)] + ["ratio"]
    lines = [[*astuple(row), row.ratio] for row in rows]
    with replacing(TABLE) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([names, *lines])
    print("| " + " | ".join(names) + " |")
    print("|" + "---|" * len(names))
    for line in lines:
        cells = (f"{cell:.6g}" if isinstance(cell, float) else f"{cell:,}" if isinstance(cell, int)
                 else cell for cell in line)  # fmt: skip
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
