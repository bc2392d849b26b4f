"""Tables and figures carry units, descriptions and a mark of their contents; damage is detected."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shuffledp.data.grid import read_cells
from shuffledp.errors import InputError
from shuffledp.figures import style
from shuffledp.pipeline import tables
from shuffledp.pipeline.columns import PUBLIC, SIMULATED, TRUE
from shuffledp.pipeline.tables import (
    RELEASES,
    SAMPLES,
    contents_of,
    read_metadata,
    read_tables,
    run_metadata,
    write_table,
)

SCHEMAS = {name: each for name, each in vars(tables).items() if isinstance(each, pa.Schema)}


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_column_of_a_table_has_a_unit_and_a_description(name):
    for field in SCHEMAS[name]:
        assert field.metadata[b"unit"] and field.metadata[b"description"], field.name
        assert not field.metadata[b"description"].endswith(b"."), field.name
    assert SCHEMAS[name].metadata[b"contents"].decode() in {TRUE, SIMULATED, PUBLIC}


def sample(rows=50_000):
    rng = np.random.default_rng(1)
    return pd.DataFrame({"n": 10**6, "cell": np.arange(rows), "count": rng.integers(0, 99, rows)})


def test_files_carry_units_and_a_mark_of_their_contents(tmp_path):
    write_table(sample(3), SAMPLES, tmp_path / "s.parquet", {"seed": "7"})
    schema = pq.read_schema(tmp_path / "s.parquet")
    assert schema.field("count").metadata[b"unit"] == b"records"
    assert schema.metadata == {b"contents": b"true data", b"seed": b"7"}
    # The mark of the input is not inherited: it does not describe the table.
    assert run_metadata(tmp_path / "s.parquet") == {"seed": "7"}
    write_table(sample(3), SAMPLES, tmp_path / "p.parquet", {"contents": PUBLIC})
    assert read_metadata(tmp_path / "p.parquet")["contents"] == PUBLIC


def test_the_strictest_mark_counts(tmp_path):
    assert contents_of([]) == PUBLIC
    write_table(sample(3), SAMPLES, tmp_path / "odd.parquet", {"contents": "secret"})
    write_table(RELEASES.empty_table().to_pandas(), RELEASES, tmp_path / "r.parquet", {})
    (tmp_path / "map.geojson").touch()
    (tmp_path / "t.csv").touch()
    pq.write_table(pa.table({"a": [1]}), tmp_path / "unmarked.parquet")
    drawn = [tmp_path / "r.parquet", tmp_path / "map.geojson"]
    assert contents_of(drawn) == SIMULATED
    assert contents_of([tmp_path / "map.geojson"]) == PUBLIC
    for name in ("t.csv", "unmarked.parquet", "odd.parquet"):
        assert contents_of([tmp_path / name, *drawn]) == TRUE


def test_a_figure_says_what_it_shows(tmp_path):
    figure = style.new_figure(1.0, 2.0)
    for path in style.save(figure, tmp_path / "figure", TRUE):
        assert b"contents: true data" in path.read_bytes(), path


def flipped(data, places):
    for place in places:
        changed = bytearray(data)
        changed[place >> 3] ^= 1 << (place & 7)
        yield bytes(changed)


def test_no_flipped_bit_of_a_page_is_read(tmp_path):
    path = tmp_path / "s.parquet"
    write_table(sample(), SAMPLES, path, {})
    data, whole = path.read_bytes(), read_tables([path])
    footer = int.from_bytes(data[-8:-4], "little") + 8
    places = np.random.default_rng(2).integers(32, 8 * (len(data) - footer), 300).tolist()
    refused = 0
    for damaged in flipped(data, places):
        path.write_bytes(damaged)
        try:
            table = read_tables([path])
        except InputError as error:
            assert str(error).startswith(f"{path} is damaged (")
            assert str(error).endswith("delete it and run again to make it anew")
            assert "\n" not in str(error)
            refused += 1
        else:
            # Nothing reads the flipped bit, such as a statistic in the header of a page.
            pd.testing.assert_frame_equal(table, whole)
    assert refused > 250


def test_damaged_cells_are_refused(tmp_path):
    path = tmp_path / "g.parquet"
    path.write_bytes(b"PAR1 and no more")
    with pytest.raises(InputError, match="is damaged"):
        read_cells(path)
