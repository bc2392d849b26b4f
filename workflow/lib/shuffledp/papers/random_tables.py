"""Paper A's random numbers: Tables V and VI and the distances in its text.

The paper's setting is eps = eps0 = 4, where delta is 0 and no Gaussian exists. Its Gaussian is
what diffprivlib returns for every tiny delta (`shuffledp.mechanisms.gaussian`), and so it is here.

A printed number counts as compatible if it lies inside the central 99 % of the repetitions and,
in the tables, if the percentiles of its column look uniform (Kolmogorov-Smirnov, p >= 0.01):
single values vary so much that alone they hardly ever fail. A test of seven numbers that does not
reject is weak evidence, and so nothing here is called reproduced.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from typing import Final

import numpy as np
from scipy.stats import kstest

from shuffledp.accounting.setting import Setting
from shuffledp.mechanisms import estimators, krr
from shuffledp.mechanisms.gaussian import gaussian_sigma, published_sigma
from shuffledp.numerics.arrays import Floats, Integers
from shuffledp.pipeline.streams import stream
from shuffledp.papers.answer import Answer
from shuffledp.papers.published import Published
from shuffledp.papers.synthetic import BINNING, BINNINGS, synthetic_counts
from shuffledp.studies.sweeps import matched_budgets

REPETITIONS: Final = 1000
MATCHED_DELTA: Final = 1e-6
_CENTRAL: Final = (0.5, 99.5)
_REJECTED: Final = 0.01
_EPS0: Final = 4.0
_LACKED: Final = 14  # check-ins of San Francisco that the embedded counts lack (docs/data.md)
# Of Table VI's cells; the paper does not say. Of the four of `numberings` it is the only one that
# neither city rejects.
NUMBERING: Final = "by columns from the south-west"


@dataclass(frozen=True)
class Errors:
    """Absolute errors of the cells as shares of n, shape ``(repetitions, k)``, by mechanism.

    ``matched_ratio`` is how much larger the Gaussian's are at the shuffle model's certified
    privacy, ``(matched_eps, 1e-6)``.
    """

    by_mechanism: Mapping[str, Floats]
    matched_eps: float
    matched_ratio: float


def repeated_errors(counts: Integers, rng: np.random.Generator, repetitions: int) -> Errors:
    """Errors of the Gaussian as published and of shuffle+INV at eps0 = 4.

    Parameters
    ----------
    counts
        True histogram, shape ``(k,)``.
    rng, repetitions
        Source of randomness; independent releases of each mechanism.
    """
    n = int(counts.sum())
    reports = krr.randomise(counts, _EPS0, rng, repetitions)
    estimates = estimators.project_simplex(krr.invert(reports, _EPS0))
    sigma = published_sigma(_EPS0)
    noise = rng.normal(0.0, sigma, reports.shape)
    errors = {"gaussian": np.abs(noise) / n, "shuffle+INV": np.abs(estimates - counts / n)}
    eps, matched = _matched(n, counts.size)
    return Errors(errors, eps, matched / sigma)


@lru_cache
def _matched(n: int, k: int) -> tuple[float, float]:
    """Eps of the shuffle model at the matched delta, and the Gaussian's standard deviation."""
    (budget,) = matched_budgets(Setting(n, k, _EPS0), [], [MATCHED_DELTA])
    return budget.eps, gaussian_sigma(budget.eps, budget.log_delta)


def percentile(sample: Floats, value: float) -> float:
    """Per cent of a sample below a value, ties counted half."""
    return float(100.0 * np.mean((sample < value) + 0.5 * (sample == value)))


def _answer(row: Published, sample: Floats, errors: Errors, recovered: str, note: str) -> Answer:
    at = percentile(sample, float(row.published))
    median = float(np.median(sample))
    gaussian = row.mechanism == "gaussian"
    plausible = _CENTRAL[0] <= at <= _CENTRAL[1]
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


# --- Tables V and VI: single cells --------------------------------------------------------------


def _column_fit(rows: Sequence[Published], errors: Floats) -> float:
    """Kolmogorov-Smirnov p-value of a column's percentiles; column j of ``errors`` is row j's."""
    at = [percentile(errors[:, j], float(row.published)) for j, row in enumerate(rows)]
    return float(kstest(np.array(at) / 100.0, "uniform").pvalue)


def _column(
    rows: Sequence[Published], errors: Errors, cells: Sequence[int], recovered: str, note: str
) -> Iterator[tuple[Published, Answer]]:
    samples = errors.by_mechanism[rows[0].mechanism][:, cells]
    fit = _column_fit(rows, samples)
    whole = f"Column of {len(rows)}: p={fit:.2g}."
    if fit < _REJECTED:
        printed = np.array([float(row.published) for row in rows])
        ratio = np.median(printed / np.median(samples, axis=0))
        whole += f" Taken together not explained: typically {ratio:.2g} of what comes out."
    for j, row in enumerate(rows):
        answer = _answer(row, samples[:, j], errors, recovered, f"{whole} {note}".strip())
        if fit < _REJECTED and answer.plausible:
            answer = replace(answer, plausible=False)
        yield row, answer


def _columns(
    rows: Sequence[Published], key: Callable[[Published], tuple[str, ...]]
) -> Mapping[tuple[str, ...], list[Published]]:
    found: dict[tuple[str, ...], list[Published]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def table_v(
    rows: Sequence[Published], seed: int, repetitions: int
) -> Iterator[tuple[Published, Answer]]:
    """Recompute Table V: errors of single cells of the synthetic histogram, cell x0 - 1.

    Parameters
    ----------
    rows
        The printed numbers.
    seed, repetitions
        As for `table_vi`.
    """
    for (n, _), column in _columns(rows, lambda row: (row.n, row.mechanism)).items():
        errors = _synthetic_errors(int(n), BINNING, seed, repetitions)
        cells = [int(row.x0) - 1 for row in column]
        yield from _column(column, errors, cells, f"{BINNING} (assumed)", "")


def _synthetic_errors(n: int, binning: str, seed: int, repetitions: int) -> Errors:
    rng = stream(seed, "paper A, synthetic", binning, n)
    return repeated_errors(synthetic_counts(n, binning, rng), rng, repetitions)


def numberings(rows: int, columns: int) -> dict[str, Integers]:
    """Ways of numbering the cells of a grid: row-major indices from the south-west, in order.

    All count from 1, as Table III counts the cells of the synthetic data.
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
    """Recompute Table VI: errors of single cells of the real histograms.

    The cells are numbered by `NUMBERING` in both cities.

    Parameters
    ----------
    rows
        The printed numbers.
    histograms
        Check-ins by region, shape ``(rows, columns)`` from the south-west.
    seed, repetitions
        Name the streams; independent releases.
    """
    for (region,), found in _columns(rows, lambda row: (row.region,)).items():
        counts = histograms[region]
        rng = stream(seed, "paper A, table VI", region)
        errors = repeated_errors(counts.ravel(), rng, repetitions)
        index = numberings(*counts.shape)
        recovered = (
            f"n={counts.sum()}, k={counts.size}; cells {NUMBERING}, counted from 1 (assumed)"
        )
        for (mechanism,), column in _columns(found, lambda row: (row.mechanism,)).items():
            cells = {
                order: [int(every[int(row.x0) - 1]) for row in column]
                for order, every in index.items()
            }
            note = ""
            if mechanism == "shuffle+INV":  # Gaussian noise knows no cells
                note = _other_orders(column, errors.by_mechanism[mechanism], cells)
            yield from _column(column, errors, cells[NUMBERING], recovered, note)


def _other_orders(
    column: Sequence[Published], errors: Floats, cells: Mapping[str, list[int]]
) -> str:
    fits = [
        f"{_column_fit(column, errors[:, found]):.2g} {order}"
        for order, found in cells.items()
        if order != NUMBERING
    ]
    return f"With the cells in another order p is {', '.join(fits)}."


# --- Single numbers -----------------------------------------------------------------------------


def text_distance(row: Published, seed: int, repetitions: int) -> Answer:
    """Recompute a total variation distance of section V-C2, for each way of binning the data.

    Parameters
    ----------
    row
        The printed number.
    seed, repetitions
        As for `table_vi`.
    """
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
    return _answer(row, samples[BINNING], errors, f"{BINNING} (assumed)", note)


def checkins(row: Published, histograms: Mapping[str, Integers]) -> Answer:
    """Count the check-ins on the grid that paper A used, partial strips dropped."""
    found = int(histograms[row.region].sum())
    missing = int(row.published) - found
    recovered = "the grid's steps and that partial strips are dropped (recovered)"
    if 0 < missing <= _LACKED:
        return Answer(
            recovered=recovered,
            note=f"The counts used are {missing} short, which is theirs, not the paper's "
            f"(docs/data.md): {found:,} lie on the grid.",
        )
    return Answer(as_printed=Decimal(found), correct=Decimal(found), recovered=recovered)
