"""Seeded random streams, and tables of Parquet."""

import numpy as np
import pandas as pd
import pytest

from shuffledp.pipeline.streams import stream
from shuffledp.pipeline.tables import (
    GROUP_ROWS,
    PRIVACY,
    read_metadata,
    read_tables,
    write_table,
    writing,
)


def test_streams_depend_on_seed_and_labels_only():
    first = stream(1, "release", "paris", 4.0).integers(2**62, size=4)
    assert (stream(1, "release", "paris", 4.0).integers(2**62, size=4) == first).all()
    for other in [
        (2, "release", "paris", 4.0),
        (1, "release", "paris", 6.0),
        (1, "releasep", "aris", 4.0),
    ]:
        assert (stream(*other).integers(2**62, size=4) != first).any()


def _table(rows=3):
    alike = {"k": 2, "eps0": 1.0, "eps": 0.5, "bound": "upper", "delta": 0.1, "log10_delta": -1.0}
    return pd.DataFrame({"n": np.arange(rows), **alike})


def test_equal_tables_have_equal_bytes_and_keep_metadata(tmp_path):
    for name in "ab":
        write_table(_table(), PRIVACY, tmp_path / name, {"seed": "1", "region": "paris"})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    metadata = read_metadata(tmp_path / "a")
    assert metadata == {"seed": "1", "region": "paris", "contents": "true data"}
    both = read_tables([tmp_path / "a", tmp_path / "b"])
    assert both["n"].tolist() == [0, 1, 2, 0, 1, 2]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]


@pytest.mark.parametrize("rows", [0, 5, GROUP_ROWS, GROUP_ROWS + 7])
def test_a_table_written_in_parts_has_the_same_bytes(tmp_path, rows):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    table = _table(rows)
    write_table(table, PRIVACY, whole, {"seed": "1"})
    step = 300_001
    with writing(PRIVACY, parts, {"seed": "1"}) as add:
        for i in range(0, rows, step):
            add(table[i : i + step])
    assert parts.read_bytes() == whole.read_bytes()


def test_columns_and_rows_can_be_selected(tmp_path):
    path = tmp_path / "year=2010" / "t.parquet"  # a folder named like a partition adds no column
    table = _table(GROUP_ROWS + 7)
    write_table(table, PRIVACY, path, {})
    assert list(read_tables([path]).columns) == PRIVACY.names
    assert read_tables([path, path], columns=["n", "k"], n=4)["n"].tolist() == [4, 4]
