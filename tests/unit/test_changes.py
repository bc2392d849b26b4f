"""Changes between windows of time have intervals that contain the truth as often as they say."""

import numpy as np
import pandas as pd

from shuffledp.studies.changes import COLUMNS, change_table

CELLS = pd.DataFrame(
    {
        "window": np.repeat(["a", "b", "c"], 2),
        "id": ["x", "y"] * 3,
        "name": ["X", "Y"] * 3,
    }
)


def test_changes_are_from_each_window_to_the_next():
    counts = np.array([1, 2, 5, 9, 5, 0])
    table = change_table(CELLS, counts, counts + 0.5, np.full(6, 3.0))
    assert list(table.columns) == list(COLUMNS)
    assert table["before"].tolist() == ["a", "a", "b", "b"]
    assert table["after"].tolist() == ["b", "b", "c", "c"]
    assert table["id"].tolist() == ["x", "y", "x", "y"]
    assert table["true_change"].tolist() == [4, 7, 0, -9]
    assert table["change"].tolist() == [4, 7, 0, -9]
    half = (table["high"] - table["low"]) / 2
    assert np.allclose(half, 2 * 3 * np.sqrt(2 * (1 + 2 / 5)))


def test_standard_errors_of_randomised_response_are_not_too_small():
    """Cells of k-RR are correlated; with few cells and little noise, this is seen best."""
    n, k, p = 400, 4, 0.8
    q = (1 - p) / (k - 1)
    counts = np.array([100, 200, 60, 40])
    rng = np.random.default_rng(8)
    reports = sum(
        rng.multinomial(count, np.where(np.arange(k) == cell, p, q), size=40_000)
        for cell, count in enumerate(counts)
    )
    estimates = (reports - n * q) / (p - q)
    cells = CELLS.iloc[:4]
    spread = np.diff(estimates.reshape(-1, 2, 2), axis=1).std(axis=0).ravel()
    table = change_table(cells, counts, estimates[0], estimates.std(axis=0))
    assert (table["standard_error"] >= 0.99 * spread).all()
    assert (table["standard_error"] <= 1.3 * spread).all()
