"""Counting of records for a published map: what counts, and how far one user can move it."""

import re
import zlib
from collections import Counter
from decimal import Decimal
from itertools import islice, permutations, product
from uuid import uuid4

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from effort import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from reading import crop, first_positions
from reading import write as write_file

from shuffledp.accounting.contributions import Contributions
from shuffledp.data.cells import make_cells
from shuffledp.data.read import kind_of_source
from shuffledp.data.records import CheckinError
from shuffledp.data.regions import Box, Region
from shuffledp.data.sources import Layout, layout_from_config
from shuffledp.data.values import to_identifier
from shuffledp.data.windows import windows_from_config
from shuffledp.errors import InputError
from shuffledp.publishing import counting as module
from shuffledp.publishing.counting import Histogram, count_records, read_counts

COLUMNS = {"user": "card", "time": "when", "latitude": "lat", "longitude": "lon"}
MAP = Region("map", Box(south=0.0, north=1.0, west=0.0, east=4.0))
CELLS = make_cells(MAP, {"shape": [1, 4]})
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


def counted(source, layout, histogram, **options):
    return histogram.filled(*count_records(source, layout, histogram, **options))


def count(path, contributions, windows=None):
    columns = dict(COLUMNS)
    if windows is None:
        del columns["time"]
    if contributions.unit == "record":
        del columns["user"]
    layout = Layout(kind_of_source(path), columns)
    return counted(path, layout, Histogram(CELLS, windows, contributions))


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
        users, _ = to_identifier(pa.array([user for user, _, _ in part]))
        bounded.add(place, users)
        for group in bounded._groups:
            group._reduce()
    return np.bincount(np.concatenate(list(bounded.places())), minlength=8)


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
    for number in range(examples(150)):
        rows = [*one_cell, *all_cells]
        if number:
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


def test_records_outside_the_cells_do_not_use_up_the_bound(tmp_path):
    rows = [(f"u{user}", cell) for user in range(200) for cell in (9, 9, 9, 0)]
    counts = count(write(tmp_path / "a.csv", rows), Contributions("user", 1))
    assert counts.tolist() == [200, 0, 0, 0]


def test_which_records_of_a_user_count_is_drawn_anew_each_time(tmp_path):
    source = write(tmp_path / "a.csv", [(f"u{i % 1_000}", i // 1_000) for i in range(4_000)])
    results = {tuple(count(source, Contributions("user", 1)).tolist()) for _ in range(3)}
    assert len(results) > 1


def test_a_full_buffer_changes_no_bound(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_BUFFER_RECORDS", 10)
    monkeypatch.setattr(module, "_GROUPS", 3)
    source = write(tmp_path / "a.csv", [(f"u{i % 5}", i % 4) for i in range(100)])
    assert count(source, Contributions("user", 3)).sum() == 15


def test_a_record_with_line_breaks_counts_once_or_refuses_the_file(tmp_path):
    lines = [f"{card},0.5,{card % 2 * 2}.5,ok" for card in range(300)]
    inner = [f"{5000 + card},0.5,2.5,x" for card in range(60)]
    lines += ['300,0.5,0.5,"a list:', *inner, 'end"']
    (source := tmp_path / "a.csv").write_text("\n".join(["card,lat,lon,note", *lines]) + "\n")
    columns = {"user": "card", "latitude": "lat", "longitude": "lon"}
    histogram = Histogram(CELLS, None, Contributions("user", 1))
    layout = layout_from_config({"columns": columns, "quoting": "rfc4180"})
    assert counted(source, layout, histogram).tolist() == [151, 0, 150, 0]
    with pytest.raises(CheckinError, match="line 302 has a field with line breaks"):
        count_records(source, Layout("csv", columns), histogram)


@pytest.mark.parametrize("spec", [{"shape": [20, 30]}, {"step": [0.01, 0.01]}])
def test_a_record_on_an_edge_counts_north_and_east_of_it(tmp_path, spec):
    cells = make_cells(Region("map", Box(40.60, 40.80, -74.10, -73.80)), spec)
    nodes = [(Decimal(y) / 100, Decimal(x) / 100)
             for y in range(4060, 4081) for x in range(-7410, -7379)]  # fmt: skip
    (source := tmp_path / "a.csv").write_text("lat,lon\n" + "".join(f"{y},{x}\n" for y, x in nodes))
    layout = Layout("csv", {"latitude": "lat", "longitude": "lon"})
    counts = counted(source, layout, Histogram(cells, None, Contributions("record")))
    expected = Counter(
        (min(int((y - Decimal("40.60")) * 100), 19), min(int((x + Decimal("74.10")) * 100), 29))
        for y, x in nodes
    )
    assert {divmod(i, 30): number for i, number in enumerate(counts.tolist())} == expected


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
        layout = Layout(suffix, columns, time_format=time_format)
        histogram = Histogram(CELLS, years, Contributions("record"))
        counts.append(counted(source, layout, histogram).tolist())
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


def test_many_malformed_rows_are_refused_and_a_few_are_not_mentioned(tmp_path, capfd, caplog):
    good = [("a", 0)] * 200
    source = write(tmp_path / "a.csv", [*good, ("a", 400)])
    assert count(source, Contributions("record"))[0] == 200
    assert capfd.readouterr() == ("", "")
    assert not caplog.records
    source = write(tmp_path / "a.csv", [*good, *[("a", 400)] * 3])
    with pytest.raises(CheckinError, match=r"3 of 203 rows are malformed, more than max_m"):
        count(source, Contributions("record"))


def test_records_in_no_cell_are_refused_without_their_number(tmp_path):
    source = write(tmp_path / "a.csv", [("a", 50)] * 123)
    with pytest.raises(CheckinError, match="no record lies in a cell") as error:
        count(source, Contributions("record"))
    assert "123" not in str(error.value)


# --- Odd records ----------------------------------------------------------------------------

MARK = b"\xef\xbb\xbf"
PIECES = [b"a", b'"', b'""', b'",', b" ", b",", b"\t", b"\r", b"\n", b"\r\n", b"\0", b"\x1a",
          b"\xe9", b"\xff", b"\xc3\xa9", MARK, b"\n" + MARK]  # fmt: skip
ODD = st.lists(st.sampled_from(PIECES), max_size=4).map(b"".join)
USERS = [b"7", b"007", b"7.0", b" 7", b"+7", b"7e0", b"-7", b"-07.", b"9" * 25, b"\xff", b"NA", b"",
         b"nan", b"7\n", b"1e400", b"0x7", b"7,5"]  # fmt: skip
TIMES = [b"2024-01-05", b"2024-01-05T12:00:00Z", b"2024-01-12 12:00:00.123456789", b"", b"now",
         b"20240112T1200,5", b"2024/01/05", b"2024-01-12T00:00+01", b"2024-01-05\n",
         b"0001-01-01T00:00:00+09:00"]  # fmt: skip
NUMBERS = [*[b"0.5"] * 9, b"nan", b"NAN", b"+0.5", b" 0.5 ", b"1e400", b"", b"5E-1", b"north",
           b"91", b".5", b"0x1", b"0.5\0"]  # fmt: skip
RECORD = st.tuples(*(st.sampled_from(each) | ODD for each in (USERS, TIMES, NUMBERS)), ODD)
SOUND = [(b"base", b"2024-01-%02dT12:00:00Z" % day, b"0.5", b"") for day in (5, 12)]


def user_of(written):
    """Return the form in which an identifier is compared."""
    written = written.strip(b" \t\n\v\f\r")
    number = re.fullmatch(rb"(-?)([0-9]+)(\.0*)?", written)
    return number[1] + str(int(number[2])).encode() if number else written


def longitude(user):
    """Return the longitude at which all records of a user are, so that chance decides nothing."""
    return b"%d.5" % (zlib.crc32(user_of(user)) % 4)


def as_text(record, quoting, loose):
    """Write a record; the fields of a loose one may break the rules."""
    user, time, latitude, note = record
    if quoting == "none":
        user, time, latitude = (field.replace(b"\n", b" ") for field in (user, time, latitude))
    if quoting == "none":
        fields = [re.sub(rb"\n" if loose else rb"[\r\n,]", b" ", field) for field in (user, note)]
        east = longitude(re.sub(rb"^(\xef\xbb\xbf)+", b"", fields[0]))
        return b",".join([fields[0], time, latitude, east, fields[1]]) + b"\n"
    fields = [user, time, latitude, longitude(user), note]
    for index, field in enumerate(fields):
        begins_oddly = index == 0 and field.startswith((MARK, b'"'))
        is_raw = loose and b"\n" not in field and not begins_oddly
        if not is_raw and (begins_oddly or any(mark in field for mark in b'",\r\n')):
            fields[index] = b'"' + field.replace(b'"', b'""') + b'"'
    return b",".join(fields) + b"\n"


def results(source, layout):
    """Return the counts of records and of users, and the rows of the crop."""
    units = [Contributions("record"), Contributions("user", 1, windows=2)]
    counts = [
        counted(source, layout, Histogram(CELLS, WEEKS, unit), max_malformed_share=1)
        for unit in units
    ]
    rows, tally = crop(source, layout, MAP, share=1.0, windows=WEEKS)
    assert tally.kept == counts[0].sum()
    return counts, rows


def check_one_record(before, after):
    """Check that a record was added to one cell, or to none, and that all others are the same."""
    for less, more in zip(before[0], after[0], strict=True):
        assert (more - less).min() >= 0 and (more - less).sum() <= 1

    def without(rows, index):
        rows = [*rows[:index], *rows[index + 1 :]]
        users = first_positions([row["user"] for row in rows])
        return [row | {"user": user} for user, row in zip(users, rows, strict=True)]

    (_, less), (_, more) = before, after
    assert len(more) - len(less) in (0, 1)
    indices = range(len(more)) if len(more) > len(less) else [len(more)]
    assert any(without(more, index) == without(less, len(less)) for index in indices)


@settings(max_examples=examples(300))
@given(st.lists(RECORD, max_size=6), RECORD, st.integers(0, 8), st.sampled_from(["strict", "none"]))
@example([(b"7", b"2024-01-05", b"0.5", b"\na")], (b"8", b"", b"0.5", b'"'), 0, "strict")
@example([(b"\nb", b"2024-01-05", b"0.5", b"a")], (b"8", b"", b"0.5", b'"'), 0, "strict")
def test_an_odd_record_changes_no_count_but_its_own(tmp_path_factory, others, own, where, quoting):
    folder = tmp_path_factory.getbasetemp() / "odd"
    header = b"card,when,lat,lon," + b"n" * 600 + b"\n"  # long: a NUL at the beginning refuses it
    layout = layout_from_config({"columns": COLUMNS, "quoting": quoting})
    records = [*others, *SOUND]
    lines = [as_text(each, quoting, loose=False) for each in records]
    try:
        before = results(write_file(folder / "a.csv", header + b"".join(lines)), layout)
        lines.insert(where, as_text(own, quoting, loose=True))
        after = results(write_file(folder / "a.csv", header + b"".join(lines)), layout)
        check_one_record(before, after)
    except CheckinError as error:
        assert quoting == "strict"
        assert "quotation mark" in str(error)

    layout, found = layout_from_config({"format": "parquet", "columns": COLUMNS}), []
    for each in (records, [*records[:where], own, *records[where:]]):
        columns = {
            name: [field.decode("latin-1") for field in column]
            for name, column in zip(COLUMNS.values(), zip(*each, strict=True), strict=False)
        }
        columns["lon"] = [longitude(user.encode()).decode() for user in columns["card"]]
        found.append(results(write_file(folder / "a.parquet", columns), layout))
    check_one_record(*found)


# --- Counts ---------------------------------------------------------------------------------

HISTOGRAM = Histogram(CELLS, None, Contributions("record"))
COUNTS = Layout("csv", {"place": "cell", "count": "count"})


def counts_of(tmp_path, text):
    (tmp_path / "counts.csv").write_text(text)
    return HISTOGRAM.filled(*read_counts(tmp_path / "counts.csv", COUNTS, HISTOGRAM))


def test_counts_are_read_by_the_ids_of_cells(tmp_path):
    assert CELLS.table["id"].tolist() == ["1-1", "1-2", "1-3", "1-4"]
    assert counts_of(tmp_path, "count,cell\n7,1-2\n1000.0,1-4\n").tolist() == [0, 7, 0, 1000]
    pd.DataFrame({"cell": ["1-3"], "count": [4]}).to_parquet(tmp_path / "counts.parquet")
    layout = Layout("parquet", COUNTS.columns)
    found = read_counts(tmp_path / "counts.parquet", layout, HISTOGRAM)
    assert [each.tolist() for each in found] == [[2], [4]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cell,count\n1-9,1\n", "not the id of a cell"),
        ("cell,count\n1-2,1\n1-2,3\n", "twice: add up"),
        ("cell,count\n1-2,-1\n", "the first is line 2: count is not a whole number, at least 0"),
        ("cell,count\n1-2,1\n,5\n", "has counts without the id of a cell"),
        ("cell,number\n1-2,1\n", "has no column 'count'"),
    ],
)
def test_files_that_are_no_counts_are_refused(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        counts_of(tmp_path, text)


def test_records_without_a_place_or_with_an_unknown_one_do_not_count(tmp_path):
    (source := tmp_path / "a.csv").write_text("zone,card\n1-3,7\n,8\n9-9,9\n1-3,10\n")
    layout = Layout("csv", {"place": "zone", "user": "card"})
    histogram = Histogram(CELLS, None, Contributions("user", 1))
    assert counted(source, layout, histogram).tolist() == [0, 0, 2, 0]
    source.write_text("zone,card\n1-3,7\n1-3,8,9\n")
    with pytest.raises(CheckinError, match="1 of 2 rows are malformed"):
        count_records(source, layout, histogram)
