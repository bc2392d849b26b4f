"""Text divides into records as RFC 4180 says, and no record changes how others are read."""

import re

import pyarrow as pa
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from reading import BY_NAME, HERE, NAMED, read, write

from shuffledp.data import text
from shuffledp.data.records import Batch, CheckinError
from shuffledp.data.sources import SNAP, layout_from_config

# --- RFC 4180 -----------------------------------------------------------------------------------


def by_characters(data):
    """Return line and fields of each record, None for malformed fields; None if it is refused."""
    records, fields, field, state = [], [], "", "start"
    start, stray, data = 0, False, data + "\n"
    for i, c in enumerate(data):
        if state == "quoted":
            state = "mark" if c == '"' else state
            field += c if c != '"' else ""
        elif state == "mark" and c == '"':
            field, state = field + c, "quoted"
        elif c == "," or c == "\n":
            fields, field, state = [*fields, field], "", "start"
            if c == "\n":
                if data[start:i] not in ("", "\r"):
                    line = data[:start].count("\n") + 1
                    records.append((line, fields if len(fields) == 3 and not stray else None))
                start, fields, stray = i + 1, [], False
        elif c == "\r" and data[i + 1] == "\n":
            continue
        elif state == "mark":
            return None
        elif state == "start" and c == '"':
            state = "quoted"
        else:
            field, state, stray = field + c, "plain", stray or c == "\r"
    return None if state == "quoted" else records


def raw_batch(columns, place, layout, zone, dropped=(), refused=0, symptoms=None):
    """Stand in for `make_batch`: keep the fields as they are written, and where they are."""
    table = pa.table(columns)
    lines = pa.array([place(row) for row in range(table.num_rows)], pa.string())
    return Batch(table.append_column("line", lines), refused, 0, tuple(dropped))


def raw_records(path, quoting="rfc4180", size=text.BLOCK_BYTES):
    """Return line and fields of each record that the reader accepts, and its faults."""
    columns = {"user": "x", "time": "y", "place": "z"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "make_batch", raw_batch)
        patch.setattr(text.pieces_of, "__defaults__", (size,))
        rows, survey = read(path, columns=columns, quoting=quoting)
    fields = [[row[name].decode() for name in columns] for row in rows]
    lines = [int(row["line"].removeprefix("line ")) for row in rows]
    return list(zip(lines, fields, strict=True)), survey


PARTS = ["a", ",", '"', "\n", "\r", "\r\n", '""', '",', '"\n', "a,a,", '"a\na",']
BYTES = st.lists(st.sampled_from(PARTS), max_size=30).map("".join)
START = 'x,y,z\na,a,a\n"a",a,a\n'


@settings(max_examples=examples(400))
@given(BYTES, st.sampled_from([1, 3, 20, text.BLOCK_BYTES]))
def test_text_is_divided_as_by_a_machine_that_reads_characters(tmp_path_factory, data, size):
    path = write(tmp_path_factory.getbasetemp() / "a.csv", START + data)
    expected = by_characters(START + data)
    try:
        records, survey = raw_records(path, size=size)
    except CheckinError as error:
        assert expected is None
        assert re.search(r"line \d+ has (text after the|a) quotation mark", str(error))
        return
    assert records == [(line, fields) for line, fields in expected[1:] if fields]
    malformed = [f"line {line}" for line, fields in expected[1:] if fields is None]
    assert survey.malformed == len(malformed)
    assert [place for place, _ in survey.faults] == malformed[:5]
    try:
        assert raw_records(path, "strict")[0] == records
    except CheckinError as error:
        assert "has as many separators as a record" in str(error)


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_blocks_of_any_size_give_the_same_records_and_line_numbers(tmp_path, size):
    notes = ["", "x" * 50, '"a\r\nb"', '"say ""a, b"""', 'in"ner', "é", "a,b"]
    lines = [f"{i},,{note}" for i, note in enumerate(notes * 50)]
    lines[100:100] = ["\r\n" * 40, "\ufeff" * 3 + "17,,"]
    path = write(tmp_path / "a.csv", "x,y,z\r\n" + "\r\n".join(lines))
    records, survey = raw_records(path)
    assert (len(records), survey.malformed) == (301, 50)
    assert ["17", "", ""] in [fields for _, fields in records]
    again, other = raw_records(path, size=size)
    assert (again, other.faults) == (records, survey.faults)


STRAY = {
    '"a"b': "line 3 has text after the quotation mark that closes a field",
    '"a" ': "line 3 has text after the quotation mark that closes a field",
    '"a': "line 3 has a field with line breaks that may hide records",
    '"a,""': "line 3 has a field with line breaks that may hide records",
}


@pytest.mark.parametrize("note", STRAY)
def test_a_stray_quotation_mark_refuses_the_file_with_its_line_and_remedies(tmp_path, note):
    lines = ["lat,lon,note", "1,2,a", f"3,4,{note}", "", "5,6,a", '7,8,b"']
    path = write(tmp_path / "a.csv", "\n".join(lines) + "\n")
    with pytest.raises(CheckinError) as caught:
        read(path, NAMED)
    assert str(caught.value).startswith(f"{path}, {STRAY[note]}")
    for remedy in ("set quoting: none", "as RFC 4180 says", "parquet"):
        assert remedy in str(caught.value)
    rows, _ = read(path, columns=BY_NAME, quoting="none")
    assert [row["latitude"] for row in rows] == [1, *[3] * ("," not in note), 5, 7]


def test_a_stray_mark_before_a_field_with_line_breaks_refuses_the_file(tmp_path):
    lines = ["user,note,lat,lon", '7,"\nb",1,2', "8,x,1,2"]
    sound = write(tmp_path / "a.csv", "\n".join(lines) + "\n")
    assert len(read(sound, NAMED)[0]) == 2
    lines.insert(1, '6,x,1,"')
    stray = write(tmp_path / "b.csv", "\n".join(lines) + "\n")
    with pytest.raises(CheckinError, match="line 2 has a field with line breaks"):
        read(stray, NAMED)


# --- Forms of text ------------------------------------------------------------------------------

TABBED = layout_from_config({"separator": "\t", "columns": BY_NAME})
COMMAS = layout_from_config({"separator": ";", "decimal": ",", "columns": BY_NAME})
BY_POSITION = layout_from_config({"separator": ";", "columns": {"latitude": 1, "longitude": 0}})
FORMS = {
    "line ends and mark": (f"\ufeff{HERE}\r\n\r\n{HERE}\r\n\n{HERE}", SNAP, [2.33] * 3, 0),
    "damaged first line": ("8Z\t48.86\n" + f"{HERE}\n" * 3, SNAP, [2.33] * 3, 1),
    "a mark in a file without marks": (f'{HERE}\n"7\t\t48.86\t2.34\t1\n', SNAP, [2.33, 2.34], 0),
    "quoted fields": ('n,"lon",lat\n"é, b",2.33,"48.86"\n"a ""b""",2,48\n', NAMED, [2.33, 2], 0),
    "quotation marks between tabs": ('n\tlat\tlon\n5" pipe\t48.86\t2.33\n', TABBED, [2.33], 0),
    "first line of Excel": ("sep=;\r\nx;y\n2.33;48.86\n", BY_POSITION, [2.33], 0),
    "carriage return": ("\n\nlat,lon\n48.86,2.33\n48.86,2\r.33\n", NAMED, [2.33], 1),
    "NUL": (f"lat,lon,{'n' * 600}\n48.86,2.33,a\0b\n48.86\0,2.34,\n", NAMED, [2.33], 1),
    "not UTF-8": (b"lat,lon,note\n48.86,2.33,\xff\n48.8\xff,2.33,\n", NAMED, [2.33], 1),
    "decimal commas": ("lat;lon\n48,86;2,33\n48.86;2,33\n", COMMAS, [2.33], 1),
    "decimal commas beside a word": ("lat;lon\n48,86;2,33\n48.86;2,33\n1;x\n", COMMAS, [2.33], 2),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_text(tmp_path, form):
    content, layout, longitudes, malformed = FORMS[form]
    rows, survey = read(write(tmp_path / "a.csv", content), layout)
    assert [row["longitude"] for row in rows] == longitudes
    assert survey.malformed == malformed
