"""Read and crop tables that a test writes."""

import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shuffledp.data.checkins import crop_checkins
from shuffledp.data.read import read_records
from shuffledp.data.records import CheckinError, Survey
from shuffledp.data.regions import Box, Region
from shuffledp.data.sources import Layout, layout_from_config

UTC = datetime.UTC
WORLD = Region("world", Box(south=-90, north=90, west=-180, east=180))
PARIS = Region("paris", Box(south=48.8286, north=48.8798, west=2.2855, east=2.3909))
BY_NAME = {"latitude": "lat", "longitude": "lon"}
NAMED = layout_from_config({"columns": BY_NAME})
HERE = "7\t2010-07-25T11:40:18Z\t48.86\t2.33\t15"


def write(path, content):
    """Write text, bytes, or the columns of a Parquet file; return the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, dict):
        pq.write_table(pa.table(content), path)
    else:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(source, layout=None, **spec):
    """Return the records of a file or folder as dictionaries, and the survey of what was read."""
    layout = layout if isinstance(layout, Layout) else layout_from_config(spec)
    survey, rows = Survey(source, layout), []
    for part, batch in read_records(source, layout, progress=False):
        survey.add(part, batch)
        rows += batch.rows.to_pylist()
    return rows, survey


def crop(source, layout, region=PARIS, *, share=0.0, windows=None):
    """Return the rows of a crop as dictionaries, and the tally."""
    out = source.parent / "out" / "cropped.parquet"
    options = {"max_malformed_share": share, "metadata": {"a": "b"}, "windows": windows}
    tally = crop_checkins(source, layout, region, out, **options)
    assert [path.name for path in out.parent.iterdir()] == [out.name]
    return pq.read_table(out).to_pylist(), tally


def refusal(source, layout, *arguments, **options):
    """Return the message with which a file is refused, having checked that nothing is written."""
    out = source.parent / "out" / "cropped.parquet"
    before = out.read_bytes() if out.exists() else None
    with pytest.raises(CheckinError) as caught:
        crop(source, layout, *arguments, **options)
    assert (out.read_bytes() if out.exists() else None) == before
    assert str(source) in str(caught.value) and "\n" not in str(caught.value)
    return str(caught.value)


def first_positions(values):
    """Return for each value where an equal one is first: equal patterns mean equal identities."""
    first = {}
    return [first.setdefault(value, position) for position, value in enumerate(values)]
