"""One check-in per user is kept at random, and files without users are refused."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shuffledp.data.users import one_per_user


def write(path, users, **more):
    rows = len(users)
    table = pa.table(
        {
            "user": pa.array(users, pa.int64()),
            "time": pa.nulls(rows, pa.timestamp("us", "UTC")),
            "latitude": np.linspace(48.83, 48.87, rows),
            "longitude": np.linspace(2.29, 2.38, rows),
            "location": pa.array(range(rows), pa.int64()),
            **more,
        }
    )
    pq.write_table(table.replace_schema_metadata({"source_sha256": "ab"}), path)
    return table


def test_every_user_once_in_the_order_of_the_source(tmp_path):
    users = [7, 7, None, 3, 7, 3, None, 11]
    table = write(tmp_path / "in.parquet", users)
    assert one_per_user(tmp_path / "in.parquet", tmp_path / "out.parquet", seed=1, region="x") == 3
    kept = pq.read_table(tmp_path / "out.parquet")
    assert sorted(kept["user"].to_pylist()) == [3, 7, 11]
    locations = kept["location"].to_pylist()
    assert locations == sorted(locations)
    assert kept.equals(table.take(pa.array(locations)))
    assert kept.schema.names == table.schema.names
    assert pq.read_schema(tmp_path / "out.parquet").metadata[b"source_sha256"] == b"ab"


def test_the_choice_is_uniform_and_seeded(tmp_path):
    write(tmp_path / "in.parquet", [1, 2, 1, 2, 1, 1, 2])

    def chosen(seed, region="x"):
        one_per_user(tmp_path / "in.parquet", tmp_path / "out.parquet", seed=seed, region=region)
        return tuple(pq.read_table(tmp_path / "out.parquet")["location"].to_pylist())

    assert chosen(5) == chosen(5)
    tries = 200
    counts = Counter(location for seed in range(tries) for location in chosen(seed))
    assert len({chosen(5, region) for region in "abcdefgh"}) > 1
    for members in ((0, 2, 4, 5), (1, 3, 6)):
        expected = tries / len(members)
        # Chi-square with at most 3 degrees of freedom: above 22 once in ten thousand.
        assert sum((counts[row] - expected) ** 2 / expected for row in members) < 22
