"""Recompute paper A's Tables II and IV to VI, figures 1 and 2, and the numbers in its text.

Tables II and IV have values of delta. Parameters that the paper does not state, or contradicts, are
recovered: they are chosen so that the printed digits follow. n_x0 (``count``) is the number of
other users in the target's cell x0. The entries for paper A's own bound are computed by the
formula of Theorem IV.1 with every inner sum over r ended at s - 1 (`log_delta_as_tabulated`).

Tables V and VI and the distances in the text are random. Their setting is eps = eps0 = 4, where
delta is 0 and no Gaussian mechanism exists. The paper's Gaussian is what diffprivlib returns for
every tiny delta (`shuffledp.mechanisms.gaussian`), and the same is used here. A printed number is
called compatible if it lies inside the central 99 % of the repetitions and, in the tables, if the
percentiles of its column look uniform (Kolmogorov-Smirnov test, p >= 0.01): single values vary so
much that alone they hardly ever fail. A test of seven numbers that does not reject is weak
evidence, so no number of these tables is called reproduced.

The pipeline draws figures 3 to 7.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from itertools import groupby
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtr
from scipy.stats import kstest

from shuffledp.accounting import krr
from shuffledp.accounting.laws.binomial import log_pmf
from shuffledp.accounting.one_round import single_bin
from shuffledp.accounting.setting import Setting, probabilities
from shuffledp.mechanisms import estimators, randomised_response
from shuffledp.mechanisms.estimators import total_variation
from shuffledp.mechanisms.gaussian import CentralGaussian, gaussian_sigma, published_sigma
from shuffledp.mechanisms.randomised_response import KRandomisedResponse
from shuffledp.mechanisms.target_calibration import calibrations
from shuffledp.numerics.arrays import Floats, Integers
from shuffledp.papers.literature import clones, closed_forms
from shuffledp.papers.literature.as_printed import log_delta_as_printed
from shuffledp.papers.verdicts import Answer, Published, Recompute, from_log
from shuffledp.pipeline.streams import stream
from shuffledp.studies.privacy import table_of_deltas
from shuffledp.studies.releases import matched_budgets, releases

# --- Synthetic data: normal samples in 15 cells ---------------------------------------------------

SYNTHETIC_CELLS: Final = 15


def _shares(edges: NDArray[Any], deviation: float) -> Floats:
    """Return the probabilities of the cells between inner edges; the outer cells are unbounded."""
    return np.asarray(np.diff(ndtr(np.concatenate([[-np.inf], edges / deviation, [np.inf]]))))


# Edges between the whole numbers -7, ..., 7, and edges of equal widths.
_WHOLE_NUMBER_EDGES = np.arange(SYNTHETIC_CELLS - 1) - (SYNTHETIC_CELLS - 2) / 2.0
_EQUAL_WIDTH_EDGES = np.linspace(-3.0, 3.0, SYNTHETIC_CELLS + 1)[1:-1]

# Paper A states N(0, 2) and 15 cells, but neither whether 2 is the variance nor the edges of the
# cells. The first of these binnings is used.
BINNINGS: Final[Mapping[str, Floats]] = {
    "variance 2, rounded to whole numbers": _shares(_WHOLE_NUMBER_EDGES, np.sqrt(2.0)),
    "standard deviation 2, rounded to whole numbers": _shares(_WHOLE_NUMBER_EDGES, 2.0),
    "equal widths over three standard deviations": _shares(_EQUAL_WIDTH_EDGES, 1.0),
}
BINNING: Final = next(iter(BINNINGS))


def synthetic_counts(n: int, binning: str, rng: np.random.Generator) -> Integers:
    """Draw the histogram of ``n`` normal samples, shape ``(15,)``, by a key of `BINNINGS`."""
    return np.asarray(rng.multinomial(n, BINNINGS[binning]), dtype=np.int64)


# --- Tables II and IV: delta ----------------------------------------------------------------------

# Parameters of figure 1, and of the tables that state no others.
CELLS: Final = 10
X0_SHARE: Final = 0.8  # n_x0 as a share of n

# Table II: eps0 of the entries whose digits do not follow from the stated 0.49, which are those
# with n = 1000 and eps above a threshold; and the number of cells for n = 1000.
_RECOVERED_EPS0: Final = 0.5
_LARGE_N: Final = 1000
_EPS_THRESHOLD: Final = 0.05
_LARGE_N_CELLS: Final = 2

_ONE_DIFFERS = (
    "The other four numbers of the column follow from k=2, n_x0=1, eps0=0.5 with the inner sum of "
    "eq. (6) starting at r=1. This one follows neither with eps0=0.49, as in its row, nor with 0.5 "
    "(2.956E-58). Among k in 2..40, n_x0 in 0..999 and eps0 0.49 or 0.5, only k=2, n_x0=10, "
    "eps0=0.49 gives its digits (6.665E-58, truncated; sum starting at r=0), which may be chance: "
    "one number, two free parameters."
)
_SUM_BEGINS_AT_1 = (
    "The inner sum of eq. (6) starts at r=1, the sums of the privacy loss at r=0: all four numbers "
    "at eps >= 0.1 then agree, truncated. Starting at r=0, this one is {:.3E}."
)
_SUMS_END_EARLY = (
    "Inner sums end at r=s-1, as in A's appendix; ending at r=s, as in Theorem IV.1: {:.3E}."
)
_NO_COUNT_FITS = (
    "No n_x0 in 0..n-1 gives these digits; the reproduced cells of the row follow from this n_x0 "
    "only."
)


def proposed(eps: float, eps0: float, n: int, k: int, count: int) -> Answer:
    """Return paper A's delta for one setting, as printed and computed correctly.

    ``correct`` is the certified upper bound for the whole histogram, as a guarantee must be.
    ``count`` is the number of other users in the cell x0.
    """
    setting = Setting(n, k, eps0)
    upper = from_log(float(krr.upper_log_delta(eps, setting)))
    return Answer(
        as_printed=from_log(log_delta_as_tabulated(eps, setting, count)),
        single_bin=from_log(float(single_bin.log_delta(eps, setting, count))),
        lower=from_log(float(krr.lower_log_delta(eps, setting))),
        upper=upper,
        correct=upper,
    )


def table_iv(row: Published) -> Answer:
    """Recompute an entry of Table IV with n_x0 = 0.8 n; the paper states 80, which fits n = 100."""
    n = int(row.n)
    count = round(X0_SHARE * n)
    answer = proposed(float(row.eps), float(row.eps0), n, int(row.k), count)
    recovered = f"n_x0={count}" + ("" if n == 100 else " (recovered; 80 stated)")
    agrees = answer.as_printed is not None and row.agrees(answer.as_printed)
    note = _note_on_sums(row, count) if agrees else _NO_COUNT_FITS
    return replace(answer, recovered=recovered, note=note)


def _note_on_sums(row: Published, count: int) -> str:
    """Return a note with the delta of sums that end at r = s, empty if it has the same digits."""
    setting = Setting(int(row.n), int(row.k or CELLS), float(row.eps0))
    whole = from_log(float(log_delta_as_printed(float(row.eps), setting, count)))
    return "" if row.agrees(whole) else _SUMS_END_EARLY.format(whole)


def table_ii_eps0(row: Published) -> float:
    """Return the eps0 of a row of Table II: the stated 0.49, or 0.5 (recovered).

    The digits of n = 1000 and eps >= 0.1 follow from 0.5, those of all other rows from 0.49.
    """
    recovered = int(row.n) == _LARGE_N and float(row.eps) > _EPS_THRESHOLD
    return _RECOVERED_EPS0 if recovered else float(row.eps0)


def table_ii(row: Published) -> Answer:
    """Recompute an entry of Table II: the paper's own column, or one of the bounds it compares."""
    n, eps, eps0 = int(row.n), float(row.eps), table_ii_eps0(row)
    if row.bound != "proposed":
        return _earlier_bound(row, eps, Setting(n, CELLS, eps0))
    if n != _LARGE_N:
        count = round(X0_SHARE * n)
        recovered = f"k={CELLS}, n_x0={count} (recovered)"
        answer = proposed(eps, eps0, n, CELLS, count)
        return replace(answer, recovered=recovered, note=_note_on_sums(row, count))
    answer = proposed(eps, eps0, n, _LARGE_N_CELLS, 1)
    # Here the digits follow from one sum that starts at r = 1.
    log_delta = log_delta_as_tabulated(eps, Setting(n, _LARGE_N_CELLS, eps0), 1, first=1)
    recovered, note = "k, n_x0 unknown; k=2, n_x0=1 (assumed)", _ONE_DIFFERS
    if eps > _EPS_THRESHOLD:
        recovered = "k=2, n_x0=1, eps0=0.5 (recovered)"
        note = _SUM_BEGINS_AT_1.format(answer.as_printed)
    return replace(answer, as_printed=from_log(log_delta), recovered=recovered, note=note)


def log_delta_as_tabulated(eps: float, setting: Setting, count: int, first: int = 0) -> float:
    """Return the log of paper A's eq. (6) with every inner sum over r ended at s - 1, not at s.

    A's appendix writes the sums at the start of (11) and (15) in this way, as does a program that
    uses ``range(s)``; in Definition IV.2 and Theorem IV.1 they end at s. The omitted term is the
    probability that every report of x0 is another user's true value, which matters for small eps or
    small n. The result is never a guarantee. `count` is the number of other users in the cell x0,
    at most ``n - 1``. `first` is the first term of the inner sum of eq. (6): 1 for the column
    n = 1000 of Table II, else 0.
    """
    n, k, E = setting.n, setting.k, float(np.exp(setting.eps0))
    p, q = probabilities(setting.eps0, k)
    kappa2 = (k - 1.0) / (E + k - 2.0)
    s, r = np.arange(1.0, n + 1.0)[:, np.newaxis], np.arange(count + 1.0)
    # kappa3 mu(s, r): r of the `count` users in x0 and s - r of the n - count others report x0.
    law = log_pmf(r, float(count), p) + log_pmf(s - r, float(n - count), q)
    law = np.where(r < s, law, -np.inf)
    share = np.maximum(s - r, 0.0) / (n - count)
    mean = logsumexp(law, axis=1, b=share**2) - logsumexp(law, axis=1)
    with np.errstate(invalid="ignore"):  # the sum is empty where count < first
        loss = np.log(kappa2 + (E - kappa2) * np.exp(mean))
    from_first = np.where(r >= first, law, -np.inf)
    mass = logsumexp(from_first, axis=1, b=kappa2 + (E - kappa2) * share)
    counted = np.isfinite(mass) & (loss > eps)
    if eps >= setting.eps0 or not counted.any():
        return -np.inf
    return float(logsumexp(mass[counted] + np.log(-np.expm1(eps - loss[counted]))))


# Earlier bounds in Table II: a function (n, eps, eps0) that returns the log of the formula as
# printed, and its description. The last two are no guarantee, and only serve to reproduce.
_TABULATED: Final[Mapping[str, tuple[Callable[[int, float, float], float], str]]] = {
    "erlingsson": (
        lambda n, eps, eps0: -n * (eps / (12.0 * eps0)) ** 2,
        "exp(-n (eps/(12 eps0))^2)",
    ),
    "balle": (
        lambda n, eps, eps0: -n * eps**2 * np.exp(-2.0 * eps0),
        "exp(-n eps^2/exp(2 eps0)), a big-O bound without its constant",
    ),
    "feldman": (
        lambda n, eps, eps0: -n * eps**2 / np.expm1(eps0),
        "exp(-n eps^2/(exp(eps0)-1)), a big-O bound without its constant, squared wrongly",
    ),
}


def _earlier_bound(row: Published, eps: float, setting: Setting) -> Answer:
    """Return the delta of a bound of another paper, as printed in Table II and correctly."""
    formula, formula_text = _TABULATED[row.bound]
    as_printed = float(formula(setting.n, eps, setting.eps0))
    correct, theorem = _correct_log_delta(row.bound, eps, setting, as_printed)
    eps0, stated = setting.eps0, float(row.eps0)
    return Answer(
        as_printed=from_log(as_printed),
        correct=None if correct is None else from_log(correct),
        recovered="" if eps0 == stated else f"eps0={eps0:g} (recovered; {stated:g} stated)",
        note=f"As printed: {formula_text} (recovered); correct: {theorem}.",
    )


def _correct_log_delta(
    bound: str, eps: float, setting: Setting, as_printed: float
) -> tuple[float | None, str]:
    """Return an earlier bound's correct log delta, None if it does not apply, and its source."""
    if bound == "erlingsson":
        name = "Erlingsson et al. 2019, Corollary 9"
        outside = closed_forms.erlingsson_domain(setting, as_printed)
        if outside:
            return None, f"none, outside the range of {name}: {outside.partition(' (')[0]}"
        return as_printed, name
    if bound == "balle":
        name = f"Balle et al. 2019, Theorem 3.1 with k={CELLS} (assumed)"
        value = float(closed_forms.balle_krr_log_delta(eps, setting))
        return (value, name) if value < 0 else (None, f"none, {name} covers no delta below 1 there")
    name = "Feldman et al. 2021, the clones bound computed numerically"
    return float(clones.clones_log_delta(eps, setting)), name


NUMBERS: Final[Mapping[str, Recompute]] = {
    "II": table_ii,
    **dict.fromkeys(("IVa", "IVb", "IVc"), table_iv),
}


# --- Random numbers: Tables V and VI, and distances in the text -----------------------------------

REPETITIONS: Final = 1000
MATCHED_DELTA: Final = 1e-6
_CENTRAL_PERCENTILES: Final = (0.5, 99.5)
_MIN_P_VALUE: Final = 0.01
_EPS0: Final = 4.0
# Check-ins of San Francisco that are missing from the embedded counts (docs/run-data.md).
_MISSING_CHECKINS: Final = 14
# Order of the cells in Table VI, which the paper does not state. Only this one of the four
# `numberings` is rejected for neither city.
NUMBERING: Final = "by columns from the south-west"


@dataclass(frozen=True)
class Errors:
    """Absolute errors of the cells in simulated releases.

    They are shares of n, shape ``(repetitions, k)`` for each mechanism. ``matched_eps`` is the
    certified eps of shuffled k-RR at delta = 1e-6, and ``matched_ratio`` the factor by which the
    Gaussian's errors grow if it has that eps and delta.
    """

    by_mechanism: Mapping[str, Floats]
    matched_eps: float
    matched_ratio: float


def repeated_errors(counts: Integers, rng: np.random.Generator, repetitions: int) -> Errors:
    """Simulate the errors of the Gaussian as published and of shuffle+INV (k-RR) at eps0 = 4.

    ``counts`` is the true histogram, shape ``(k,)``; ``repetitions`` is the number of independent
    releases of each mechanism.
    """
    n = int(counts.sum())
    reports = randomised_response.randomise(counts, _EPS0, rng, repetitions)
    estimates = estimators.project_simplex(randomised_response.invert(reports, _EPS0))
    sigma = published_sigma(_EPS0)
    noise = rng.normal(0.0, sigma, reports.shape)
    errors = {"gaussian": np.abs(noise) / n, "shuffle+INV": np.abs(estimates - counts / n)}
    eps, matched = _matched(n, counts.size)
    return Errors(errors, eps, matched / sigma)


@lru_cache
def _matched(n: int, k: int) -> tuple[float, float]:
    """Return the certified eps of shuffled k-RR at delta = 1e-6, and the Gaussian's sigma there."""
    (budget,) = matched_budgets(Setting(n, k, _EPS0), [], [MATCHED_DELTA])
    return budget.eps, gaussian_sigma(budget.eps, budget.log_delta)


def percentile(sample: Floats, value: float) -> float:
    """Return the percentage of a sample that is below a value; ties count half."""
    return float(100.0 * np.mean((sample < value) + 0.5 * (sample == value)))


def _random_answer(
    row: Published, sample: Floats, errors: Errors, recovered: str, note: str
) -> Answer:
    """Compare a printed random number with a sample of simulated ones."""
    at = percentile(sample, float(row.published))
    median = float(np.median(sample))
    gaussian = row.mechanism == "gaussian"
    plausible = _CENTRAL_PERCENTILES[0] <= at <= _CENTRAL_PERCENTILES[1]
    extremes = "" if plausible else f"Repetitions: {sample.min():.2g} to {sample.max():.2g}."
    privacy = (
        f"No Gaussian exists at eps=eps0 (delta is 0). At equal privacy, eps="
        f"{errors.matched_eps:.3g} and delta={MATCHED_DELTA:g}, its median is "
        f"{median * errors.matched_ratio:.2g}."
        if gaussian
        else ""
    )
    return Answer(
        as_printed=Decimal(median),
        correct=None if gaussian else Decimal(median),
        recovered=recovered,
        percentile=at,
        plausible=plausible,
        note=" ".join(filter(None, (note, extremes, privacy))),
    )


def random_answers(
    published: Sequence[Published], histograms: Mapping[str, Integers], seed: int, repetitions: int
) -> Iterator[tuple[Published, Answer]]:
    """Yield the numbers that are random or counted from the check-ins, with their answers.

    A column of Table V or VI is tested as a whole, so its rows are recomputed together.
    ``histograms`` has the check-ins by region, shape ``(rows, columns)`` from the south-west.
    """
    of = {
        table: [row for row in published if (row.paper, row.table) == ("A", table)]
        for table in ("V", "VI", "V-C2 text", "V-D text")
    }
    yield from table_v(of["V"], seed, repetitions)
    yield from table_vi(of["VI"], histograms, seed, repetitions)
    yield from ((row, text_distance(row, seed, repetitions)) for row in of["V-C2 text"])
    yield from ((row, checkins(row, histograms)) for row in of["V-D text"])


def _column_fit(rows: Sequence[Published], errors: Floats) -> float:
    """Return the Kolmogorov-Smirnov p-value of the percentiles of a column of a table.

    Column j of ``errors`` holds the simulated errors of ``rows[j]``.
    """
    at = [percentile(errors[:, j], float(row.published)) for j, row in enumerate(rows)]
    return float(kstest(np.array(at) / 100.0, "uniform").pvalue)


def _column_answers(
    rows: Sequence[Published], errors: Errors, cells: Sequence[int], recovered: str, note: str = ""
) -> Iterator[tuple[Published, Answer]]:
    """Yield the answers for a column of a table; ``cells`` has the index of each row's cell."""
    samples = errors.by_mechanism[rows[0].mechanism][:, cells]
    fit = _column_fit(rows, samples)
    whole = f"Column of {len(rows)}: p={fit:.2g}."
    if fit < _MIN_P_VALUE:
        printed = np.array([float(row.published) for row in rows])
        ratio = np.median(printed / np.median(samples, axis=0))
        whole += f" Rejected as a whole: typically {ratio:.2g} of the simulated errors."
    for j, row in enumerate(rows):
        answer = _random_answer(row, samples[:, j], errors, recovered, f"{whole} {note}".strip())
        yield row, replace(answer, plausible=answer.plausible and fit >= _MIN_P_VALUE)


def _grouped(
    rows: Sequence[Published], key: Callable[[Published], str]
) -> Iterator[tuple[str, list[Published]]]:
    for value, group in groupby(sorted(rows, key=key), key):
        yield value, list(group)


def table_v(
    rows: Sequence[Published], seed: int, repetitions: int
) -> Iterator[tuple[Published, Answer]]:
    """Recompute Table V: errors of single cells of the synthetic histogram; x0 counts from 1."""
    for n, of_size in _grouped(rows, lambda row: row.n):
        errors = _synthetic_errors(int(n), BINNING, seed, repetitions)
        for _, column in _grouped(of_size, lambda row: row.mechanism):
            cells = [int(row.x0) - 1 for row in column]
            yield from _column_answers(column, errors, cells, f"{BINNING} (assumed)")


def _synthetic_errors(n: int, binning: str, seed: int, repetitions: int) -> Errors:
    rng = stream(seed, "paper A, synthetic", binning, n)
    return repeated_errors(synthetic_counts(n, binning, rng), rng, repetitions)


def numberings(rows: int, columns: int) -> dict[str, Integers]:
    """Return the possible orders of the cells of a grid, as row-major indices from the south-west.

    Entry x0 - 1 of an order is the index of cell x0, if cells are counted from 1 as in Table III.
    """
    index = np.arange(rows * columns).reshape(rows, columns)
    return {
        "by rows from the south-west": index.ravel(),
        "by rows from the north-west": index[::-1].ravel(),
        "by columns from the south-west": index.T.ravel(),
        "by columns from the north-west": index[::-1].T.ravel(),
    }


def table_vi(
    rows: Sequence[Published], histograms: Mapping[str, Integers], seed: int, repetitions: int
) -> Iterator[tuple[Published, Answer]]:
    """Recompute Table VI: errors of single cells of the real histograms, numbered by `NUMBERING`.

    A note says how well a column fits if the cells are numbered in another order; the error of the
    Gaussian does not depend on the cell.
    """
    for region, printed in _grouped(rows, lambda row: row.region):
        counts = histograms[region]
        rng = stream(seed, "paper A, table VI", region)
        errors = repeated_errors(counts.ravel(), rng, repetitions)
        recovered = (
            f"n={counts.sum()}, k={counts.size}; cells {NUMBERING}, counted from 1 (assumed)"
        )
        for mechanism, column in _grouped(printed, lambda row: row.mechanism):
            cells = {
                order: [int(index[int(row.x0) - 1]) for row in column]
                for order, index in numberings(*counts.shape).items()
            }
            note = ""
            if mechanism == "shuffle+INV":
                samples = errors.by_mechanism[mechanism]
                fits = [
                    f"{_column_fit(column, samples[:, index]):.2g} {order}"
                    for order, index in cells.items()
                    if order != NUMBERING
                ]
                note = f"With the cells in another order p is {', '.join(fits)}."
            yield from _column_answers(column, errors, cells[NUMBERING], recovered, note)


def text_distance(row: Published, seed: int, repetitions: int) -> Answer:
    """Recompute a total variation distance of section V-C2, for each way of binning the data."""
    samples = {}
    for binning in BINNINGS:
        errors = _synthetic_errors(int(row.n), binning, seed, repetitions)
        samples[binning] = 0.5 * errors.by_mechanism[row.mechanism].sum(axis=1)
    others = "; ".join(
        f"{np.median(sample):.3g} with {binning} (percentile "
        f"{percentile(sample, float(row.published)):.1f})"
        for binning, sample in samples.items()
        if binning != BINNING
    )
    note = f"Other medians: {others}."
    return _random_answer(row, samples[BINNING], errors, f"{BINNING} (assumed)", note)


def checkins(row: Published, histograms: Mapping[str, Integers]) -> Answer:
    """Count the check-ins on paper A's grid, from which partial strips are dropped."""
    count = int(histograms[row.region].sum())
    missing = int(row.published) - count
    recovered = "steps of the grid; partial strips are dropped (recovered)"
    if 0 < missing <= _MISSING_CHECKINS:
        return Answer(
            recovered=recovered,
            note=f"{count:,} check-ins lie on the grid; the other {missing} are missing from the "
            "embedded counts, which is no error of the paper (docs/run-data.md).",
        )
    return Answer(as_printed=Decimal(count), correct=Decimal(count), recovered=recovered)


# --- Figures 1 and 2 ------------------------------------------------------------------------------

# Ranges of Table III. Figure 1 does not state n, k and n_x0; those of Table IV(a) are used.
SURFACE_N: Final = 100
SURFACE_COUNT: Final = round(X0_SHARE * SURFACE_N)
BUDGETS: Final = np.round(np.arange(0.1, 3.01, 0.1), 1)

SIZES: Final = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
_FIGURE_REPETITIONS: Final = 200
_COMPARED: Final = (CentralGaussian(), KRandomisedResponse())


def surface_table() -> pd.DataFrame:
    """Return the data of figure 1: delta over eps and eps0, as printed and certified.

    The columns are those of `pipeline.tables.PRIVACY`, with rows only for eps < eps0, because delta
    is 0 from eps0 on.
    """
    bounds: dict[str, Callable[[float, Setting], Floats]] = {
        "single-bin-as-printed": lambda e, s: log_delta_as_printed(e, s, SURFACE_COUNT),
        "upper": krr.upper_log_delta,
    }
    rows = [
        (setting, eps, name, float(bound(eps, setting)))
        for name, bound in bounds.items()
        for setting in (Setting(SURFACE_N, CELLS, eps0) for eps0 in BUDGETS)
        for eps in BUDGETS
        if eps < setting.eps0
    ]
    return table_of_deltas(rows)


def distance_table(seed: int) -> pd.DataFrame:
    """Simulate the data of figure 2: total variation distances on synthetic data over n, eps0 = 4.

    The Gaussian is calibrated once as published, with eps = eps0, and once to the certified
    privacy of shuffled k-RR at delta = 1e-6. The columns are those of `pipeline.tables.DISTANCES`.
    """
    return pd.concat([_distances(n, seed) for n in SIZES], ignore_index=True)


def _distances(n: int, seed: int) -> pd.DataFrame:
    labels = ("paper A, figure 2", n)
    counts = synthetic_counts(n, BINNING, stream(seed, *labels))
    setting = Setting(n, counts.size, _EPS0)
    budgets = matched_budgets(setting, [], [MATCHED_DELTA])
    parts = [
        pd.DataFrame(
            {
                "n": n,
                "eps0": _EPS0,
                "eps": release.calibration.eps,
                "delta": np.exp(release.calibration.log_delta),
                "log10_delta": release.calibration.log_delta / np.log(10.0),
                "calibration": release.calibration.name,
                "mechanism": release.mechanism,
                "estimator": release.estimator,
                "repetition": np.arange(_FIGURE_REPETITIONS),
                "tv_distance": total_variation(release.estimates, counts / n),
            }
        )
        for mechanism in _COMPARED
        for release in releases(
            mechanism,
            counts,
            calibrations(mechanism, setting, budgets),
            _FIGURE_REPETITIONS,
            seed=seed,
            labels=labels,
        )
    ]
    return pd.concat(parts, ignore_index=True)
