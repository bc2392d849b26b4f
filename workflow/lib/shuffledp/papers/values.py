"""Every number that the papers print beside what comes out: results/reproduction/values.csv."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from shuffledp.numerics.arrays import Integers
from shuffledp.pipeline.tables import CHECKED, reading
from shuffledp.papers import delta_tables, headlines, random_tables
from shuffledp.papers.answer import Answer
from shuffledp.papers.published import Published


def read_histogram(grid: Path) -> Integers:
    """Check-ins of a rectangular grid file, shape ``(rows, columns)`` from the south-west."""
    with reading(grid):
        table = pq.read_table(grid, columns=["row", "column", "count"], **CHECKED)
    row, column = table["row"].to_numpy(), table["column"].to_numpy()
    counts = np.zeros((row.max() + 1, column.max() + 1), dtype=np.int64)
    counts[row, column] = table["count"].to_numpy()
    return counts


def answers(
    published: Sequence[Published],
    histograms: Mapping[str, Integers],
    *,
    seed: int,
    repetitions: int = random_tables.REPETITIONS,
) -> list[tuple[Published, Answer]]:
    """Recompute printed numbers, in their order.

    Parameters
    ----------
    published
        Rows of any of the papers' tables.
    histograms
        Check-ins by region, shape ``(rows, columns)`` from the south-west, on paper A's grids.
    seed, repetitions
        Of the random numbers.

    Raises
    ------
    ValueError
        If a table is not known.
    """
    single: dict[tuple[str, str], Callable[[Published], Answer]] = {
        ("A", "II"): delta_tables.table_ii,
        ("A", "V-C2 text"): lambda r: random_tables.text_distance(r, seed, repetitions),
        ("A", "V-D text"): lambda r: random_tables.checkins(r, histograms),
        ("B", "Fig 4a headline"): headlines.headline,
        ("B", "Fig 5a headline"): headlines.headline,
        ("B", "text 1"): headlines.interactions,
        ("C", "text 6.3"): headlines.duration,
        ("D", "Fig 3 caption"): headlines.optimal_composition,
        ("D", "eq. (15)"): headlines.normal_law,
        ("D", "text 4.1"): headlines.accuracy,
        **{("A", f"IV{part}"): delta_tables.table_iv for part in "abc"},
    }
    # Columns of these tables are judged together.
    fifth, sixth = ([row for row in published if row.table == table] for table in ("V", "VI"))
    found = dict(random_tables.table_v(fifth, seed, repetitions))
    found |= random_tables.table_vi(sixth, histograms, seed, repetitions)
    for row in published:
        if row not in found:
            if (row.paper, row.table) not in single:
                raise ValueError(f"no such table: {row.paper}, {row.table}")
            found[row] = single[row.paper, row.table](row)
    return [(row, found[row]) for row in published]


def values_table(results: Sequence[tuple[Published, Answer]]) -> pd.DataFrame:
    """One row per printed number, all columns text.

    The columns of the printed numbers, and after the parameters: ``recovered``, ``published``,
    ``as_printed``, ``single_bin``, ``lower``, ``upper``, ``correct`` (see `Answer`),
    ``relative_difference_*`` (``|value / published - 1|``), ``percentile``, ``verdict``, ``note``.
    """
    rows = []
    for row, answer in results:
        printed = dict(vars(row))
        number = printed.pop("published")
        computed = answer.row(row)
        rows.append(
            {**printed, "recovered": computed["recovered"], "published": number, **computed}
        )
    return pd.DataFrame(rows, dtype=str)
