"""Counting of records for a published map: what counts, and how far one user can move it."""

from itertools import islice, permutations, product
from uuid import uuid4

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from shuffledp.accounting.contributions import Contributions
from shuffledp.errors import InputError
from shuffledp.geography.cells import make_cells
from shuffledp.geography.checkins import CheckinError
from shuffledp.geography.regions import Box, Region
from shuffledp.geography.text_files import text_blocks
from shuffledp.geography.windows import windows_from_config
from shuffledp.publishing import contributions as module
from shuffledp.publishing.contributions import (
    Histogram,
    UserNumbers,
    count_records,
    read_counts,
    record_layout,
)

COLUMNS = {"identifier": "card", "time": "when", "latitude": "lat", "longitude": "lon"}
CELLS = make_cells(Region("map", Box(south=0.0, north=1.0, west=0.0, east=4.0)), {"shape": [1, 4]})
WEEKS = windows_from_config({"period": {"from": "2024-01-01", "to": "2024-01-14"}, "every": "week"})


def write(path, rows):
    """Write records: pairs of a user and a cell from 0 to 3, optionally with a day."""
    lines = ["card,when,lat,lon"]
    lines += [
        f"{user},2024-01-{day[0] if day else 1:02d}T12:00:00Z,0.5,{cell + 0.5}"
        for user, cell, *day in rows
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def count(path, contributions, windows=None):
    columns = dict(COLUMNS)
    if windows is None:
        del columns["time"]
    if contributions.unit == "record":
        del columns["identifier"]
    layout = record_layout(path, columns, ",")
    return count_records(path, layout, Histogram(CELLS, windows, contributions))


def test_every_record_counts_if_records_are_protected(tmp_path):
    source = write(tmp_path / "a.csv", [("a", 0), ("a", 0), ("a", 1), ("b", 3)])
    assert count(source, Contributions("record")).tolist() == [2, 1, 0, 1]


def test_at_most_m_records_of_a_user_count(tmp_path):
    rows = [("a", cell) for cell in [0, 0, 0, 0, 1, 2, 3]] + [("b", 1)]
    source = write(tmp_path / "a.csv", rows)
    for m in range(1, 9):
        assert count(source, Contributions("user", m)).sum() == min(m, 7) + 1
        distinct = count(source, Contributions("user", m, distinct=True))
        assert distinct.sum() == min(m, 4) + 1
        assert distinct.max() <= 2


def test_windows_share_the_bound_unless_it_holds_for_each(tmp_path):
    rows = [("a", cell, day) for cell, day in product([0, 1, 2], [1, 2, 9])] + [("a", 0, 20)]
    source = write(tmp_path / "a.csv", rows)
    assert count(source, Contributions("user", 2), WEEKS).sum() == 2
    each = count(source, Contributions("user", 2, windows=2), WEEKS)
    assert [each[:4].sum(), each[4:].sum()] == [2, 2]
    assert count(source, Contributions("record"), WEEKS).tolist() == [2, 2, 2, 0, 1, 1, 1, 0]


def kept(rows, priorities, contributions, buffer):
    """Count records with given priorities, in batches of a few."""
    bounded = module._Bounded(8, 4, contributions)
    remaining = iter(priorities)
    bounded._priorities = lambda size: np.fromiter(islice(remaining, size), np.uint64)
    for start in range(0, len(rows), buffer):
        part = rows[start : start + buffer]
        place = np.array([window * 4 + cell for _, cell, window in part])
        users = pa.array([user.encode() for user, _, _ in part])
        bounded.add(place, {"identifier": users})
        for group in bounded._groups:
            group._reduce()
    return bounded.counts()


@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize("windows", [1, 2])
@pytest.mark.parametrize("m", [1, 2, 3])
def test_a_user_moves_the_histogram_by_at_most_the_sensitivity(m, windows, distinct):
    rng = np.random.default_rng(m)
    contributions = Contributions("user", m, distinct, windows)
    largest_l1 = largest_l2 = 0
    # The first user has all records in one cell of each window, which moves the histogram most
    # unless users count once in each cell; then the second has.
    one_cell = [("a", 0, window) for window in range(windows) for _ in range(m)]
    all_cells = [("b", cell, window) for window in range(windows) for cell in range(m)]
    for example in range(examples(150)):
        rows = [*one_cell, *all_cells]
        if example:
            users = rng.choice(["a", "b", "c"], int(rng.integers(1, 16)))
            rows = [
                (str(user), int(rng.integers(0, rng.integers(1, 5))), int(rng.integers(0, 2)))
                for user in users
            ]
        n = len(rows)
        priorities = rng.permutation(n)
        whole = kept(rows, priorities, contributions, int(rng.integers(1, 20)))
        for user in "abc":
            # Neighbours share the random numbers of all records that both have.
            rest = [i for i in range(n) if rows[i][0] != user]
            without = kept([rows[i] for i in rest], priorities[rest], contributions, 3)
            moved = whole - without
            assert (moved >= 0).all()
            largest_l1 = max(largest_l1, int(moved.sum()))
            largest_l2 = max(largest_l2, int((moved**2).sum()))
    assert largest_l1 == contributions.l1
    assert largest_l2 <= contributions.l2_squared
    # The bound is reached, so that no smaller sensitivity would do.
    assert largest_l2 == contributions.l2_squared


def test_the_order_of_records_and_the_size_of_batches_change_nothing():
    rows = [("a", 0, 0), ("a", 1, 0), ("b", 1, 0), ("a", 1, 1), ("b", 2, 1)]
    results = set()
    for order in permutations(range(5)):
        for batch in (1, 2, 5):
            shuffled = kept(
                [rows[i] for i in order], list(order), Contributions("user", 2, True), batch
            )
            results.add(tuple(shuffled.tolist()))
    assert len(results) == 1


def test_every_record_of_a_user_counts_equally_often_wherever_it_is_in_the_file(tmp_path):
    # The first record of each of 4,000 users is in cell 0, and nine others in cell 1.
    rows = [(f"u{user}", int(place > 0)) for user in range(4_000) for place in range(10)]
    counts = count(write(tmp_path / "a.csv", rows), Contributions("user", 1))
    assert counts.sum() == 4_000
    assert abs(counts[0] - 400) < 7 * np.sqrt(4_000 * 0.1 * 0.9)


def test_a_full_buffer_changes_no_bound(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_BUFFER_RECORDS", 10)
    monkeypatch.setattr(module, "_GROUPS", 3)
    source = write(tmp_path / "a.csv", [(f"u{i % 5}", i % 4) for i in range(100)])
    assert count(source, Contributions("user", 3)).sum() == 15


def test_users_are_told_apart_by_what_is_written():
    texts = [
        b"7",
        b"07",
        b"7.0",
        b" 7 ",
        b"-7",
        b"0x7",
        b"A7",
        b"a7",
        b"\xff7",
        rb"\xff7",
        b"1" * 19,
    ]
    identifiers = pa.array([*texts, None, b"", b"NA"], pa.binary())
    numbers, known = UserNumbers().number(identifiers)
    assert known.tolist() == [True] * 11 + [False] * 3
    assert numbers[0] == numbers[3]
    assert len(set(numbers[:11].tolist())) == 10


def test_integers_in_their_usual_form_have_the_same_numbers_among_other_users():
    texts = [b"0", b"7", b"-12", b"9" * 18, None]
    users = UserNumbers()
    alone, _ = users.number(pa.array(texts, pa.binary()))
    mixed, _ = users.number(pa.array([*texts, b"07", b"\xff"], pa.binary()))
    assert alone[:4].tolist() == [0, 7, -12, 10**18 - 1]
    assert mixed[:5].tolist() == alone.tolist()
    for other in (b"+7", b"-0", b"9" * 19, "٧".encode(), b"\xff"):
        assert users.number(pa.array([other], pa.binary()))[0][0] >= 2 * 10**18
    assert users.number(pa.array([b"7\n"], pa.binary()))[0][0] == 7


def test_bytes_that_are_not_utf8_are_one_user_to_both_readers(tmp_path):
    # A row with too many fields makes the second reader read the block.
    lines = [b"card,lat,lon", b"\xff,0.5,0.5", *[b"b,0.5,3.5"] * 300]
    plain, mixed = tmp_path / "a.csv", tmp_path / "b.csv"
    plain.write_bytes(b"\n".join(lines) + b"\n")
    mixed.write_bytes(b"\n".join([*lines, b"x,0.5,0.5,9"]) + b"\n")
    numbers = []
    for source in (plain, mixed):
        layout = record_layout(source, {"identifier": "card", "latitude": "lat",
                                        "longitude": "lon"}, ",")  # fmt: skip
        table = next(iter(module._rows(source, layout)))
        numbers.append(UserNumbers().number(table["identifier"])[0].tolist())
    assert numbers[0] == numbers[1]


ODD = st.lists(
    st.sampled_from([*b"a\" ,;#\\'\t\r\0\x1a\xe9\xff", *(b'""', b'",', b"\xc3\xa9", b"\xe2\x82")]),
    max_size=5,
).map(lambda parts: b"".join(bytes([part]) if isinstance(part, int) else part for part in parts))
QUOTED = ODD.map(lambda text: b'"' + text.replace(b'"', b'""') + b'"')
LATITUDES = st.sampled_from([b"0.5", b"0.5", b"", b"+0.5", b"north", b"nan"])
# What follows the number of a user, the latitude and a note.
ROW = st.tuples(ODD | st.just(b""), LATITUDES, ODD | QUOTED)


def row_of(number, row, longitude):
    suffix, latitude, note = row
    return b"u%d%s,%s,%s,%s\n" % (number, suffix, latitude, longitude, note)


@given(st.lists(ROW, max_size=8), ROW, st.floats(0.0, 1.0), st.booleans())
def test_a_row_changes_no_count_but_its_own(tmp_path_factory, others, own, where, regular):
    """Not even a row that is refused, which decides how the rows of its block are read."""
    folder = tmp_path_factory.mktemp("rows", numbered=True)
    lines = [row_of(number, row, b"2.5") for number, row in enumerate(others)]
    lines += [b"%d,0.5,1.5,%s\n" % (n, b'"a"' if regular else b"a") for n in range(1000)]
    added = [*lines]
    added.insert(int(where * len(lines)), row_of(999, own, b"0.5"))
    layout = {"identifier": "card", "latitude": "lat", "longitude": "lon"}
    counts = []
    for rows in (lines, added):
        source = folder / "a.csv"
        source.write_bytes(b"card,lat,lon,note\n" + b"".join(rows))
        histogram = Histogram(CELLS, None, Contributions("user", 1))
        try:
            counts.append(count_records(source, record_layout(source, layout, ","), histogram))
        except CheckinError as error:
            assert "cannot be split into rows" in str(error)
            return
    moved = counts[1] - counts[0]
    assert moved.min() == 0 and moved.sum() <= 1


@pytest.mark.parametrize("size", range(95, 106))
def test_a_line_is_too_long_wherever_blocks_begin(tmp_path, size):
    line, source = b"x" * size + b"\n", tmp_path / "a.csv"
    for before in range(0, 120, 7):
        source.write_bytes(b"y" * before + b"\n" + line)
        text = b"".join(text_blocks(source, 100, progress=False))
        assert text.endswith(line if size <= 100 else b"\n\0\n")


def test_byte_order_marks_of_joined_files_are_dropped_wherever_blocks_begin(tmp_path):
    source = tmp_path / "a.csv"
    for before in range(0, 99, 7):
        source.write_bytes(b"y" * before + b"\n" + 50 * b"\xef\xbb\xbf17,1\n")
        text = b"".join(text_blocks(source, 100, progress=False))
        assert text == b"y" * before + b"\n" + 50 * b"17,1\n"


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("time_format", [None, "%Y-%m-%dT%H:%M:%S.%fZ"])
def test_a_time_with_nanoseconds_changes_no_other_time(tmp_path, suffix, time_format):
    years = windows_from_config({"period": {"from": "1600-01-01", "to": "1799-12-31"}})
    times = ["1650-01-02T03:04:05.6Z"] * 3 + ["1750-01-02T03:04:05.6Z"] * 400
    counts = []
    for more in ([], ["2020-01-01T00:00:00.000000001Z"]):
        table = pd.DataFrame({"when": times + more, "lat": 0.5, "lon": 0.5})
        source = tmp_path / f"a.{suffix}"
        table.to_csv(source, index=False) if suffix == "csv" else table.to_parquet(source)
        columns = {"time": "when", "latitude": "lat", "longitude": "lon"}
        layout = record_layout(source, columns, ",", time_format)
        histogram = Histogram(CELLS, years, Contributions("record"))
        counts.append(count_records(source, layout, histogram).tolist())
    assert counts == [[403, 0, 0, 0]] * 2


@pytest.mark.parametrize("kind", [pa.binary(), pa.binary(8), pa.large_binary(), pa.binary_view()])
def test_every_byte_of_a_binary_identifier_counts(tmp_path, kind):
    """Among counters of eight bytes are many that begin or end with white space."""
    users = [number.to_bytes(8, "little") for number in range(10_000)]
    columns = {"card": pa.array(users, pa.binary()).cast(kind), "lat": np.full(len(users), 0.5)}
    pq.write_table(pa.table(columns | {"lon": columns["lat"]}), tmp_path / "a.parquet")
    assert count(tmp_path / "a.parquet", Contributions("user", 1)).tolist() == [10_000, 0, 0, 0]


def test_identifiers_are_uuids_in_parquet(tmp_path):
    users = pa.array([uuid4().bytes for _ in range(3)] * 2, pa.uuid())
    columns = {"card": users, "lat": np.full(6, 0.5), "lon": np.full(6, 1.5)}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    assert count(tmp_path / "a.parquet", Contributions("user", 1)).tolist() == [0, 3, 0, 0]


def test_records_without_a_user_do_not_count(tmp_path):
    source = write(tmp_path / "a.csv", [("", 0), ("NA", 1), ("a", 2)])
    assert count(source, Contributions("user", 1)).tolist() == [0, 0, 1, 0]


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet", "folder"])
def test_all_formats_of_records_are_read(tmp_path, kind):
    table = pd.DataFrame({"card": [1, 1, 2], "lat": 0.5, "lon": [0.5, 1.5, 3.5]})
    source = tmp_path / f"a.{kind}"
    if kind == "folder":
        source.mkdir()
        table.iloc[:1].to_parquet(source / "1.parquet")
        table.iloc[1:].to_parquet(source / "2.parquet")
    elif kind == "parquet":
        table.to_parquet(source)
    else:
        table.to_csv(source, index=False)
    assert count(source, Contributions("user", 1), None).sum() == 2
    assert count(source, Contributions("record"), None).tolist() == [1, 1, 0, 1]


def test_columns_may_be_positions_in_a_file_without_a_header(tmp_path):
    source = tmp_path / "a.txt"
    source.write_text("a\t0.5\t0.5\nb\t0.5\t3.5\n")
    layout = record_layout(source, {"latitude": 1, "longitude": 2}, "\t")
    histogram = Histogram(CELLS, None, Contributions("record"))
    assert count_records(source, layout, histogram).tolist() == [1, 0, 0, 1]
    with pytest.raises(InputError, match="all names, or all positions"):
        record_layout(source, {"latitude": 1, "longitude": "lon"}, "\t")


def test_many_malformed_rows_are_refused_and_a_few_are_not_mentioned(tmp_path, capfd, caplog):
    good = [("a", 0)] * 200
    source = write(tmp_path / "a.csv", [*good, ("a", np.nan)])
    assert count(source, Contributions("record"))[0] == 200
    assert capfd.readouterr() == ("", "")
    assert not caplog.records
    source = write(tmp_path / "a.csv", [*good, *[("a", np.nan)] * 3])
    with pytest.raises(CheckinError, match="more than 1% of the rows are malformed; the first is"):
        count(source, Contributions("record"))


def test_records_in_no_cell_are_refused_without_their_number(tmp_path):
    source = write(tmp_path / "a.csv", [("a", 50)] * 123)
    with pytest.raises(CheckinError, match="no record lies in a cell") as error:
        count(source, Contributions("record"))
    assert "123" not in str(error.value)


# --- Counts ---------------------------------------------------------------------------------

HISTOGRAM = Histogram(CELLS, None, Contributions("record"))


def counts_of(tmp_path, text):
    (tmp_path / "counts.csv").write_text(text)
    return read_counts(tmp_path / "counts.csv", HISTOGRAM)


def test_counts_are_read_by_the_ids_of_cells(tmp_path):
    assert CELLS.table["id"].tolist() == ["1-1", "1-2", "1-3", "1-4"]
    assert counts_of(tmp_path, "count,cell\n7,1-2\n1e3,1-4\n").tolist() == [0, 7, 0, 1000]
    pd.DataFrame({"cell": ["1-3"], "count": [4]}).to_parquet(tmp_path / "counts.parquet")
    assert read_counts(tmp_path / "counts.parquet", HISTOGRAM).tolist() == [0, 0, 4, 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cell,count\n1-9,1\n", "not the id of a cell"),
        ("cell,count\n1-2,1\n1-2,3\n", "twice: add up"),
        ("cell,count\n1-2,-1\n", "whole number of records, at least 0"),
        ("cell,count\n1-2,1.5\n", "whole number"),
        ("cell,count\n1-2,\n", "whole number"),
        ("cell,number\n1-2,1\n", "columns cell and count"),
        ("", "columns cell and count"),
    ],
)
def test_files_that_are_no_counts_are_refused(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        counts_of(tmp_path, text)


def test_a_missing_file_of_counts_is_named(tmp_path):
    with pytest.raises(InputError, match=r"none\.csv cannot be read"):
        read_counts(tmp_path / "none.csv", HISTOGRAM)
