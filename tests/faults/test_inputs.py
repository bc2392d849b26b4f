"""A damaged file gives a clear error or the right table, never a traceback or a wrong one."""

import bisect
import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from workflow.conftest import BOX, ROOT, checkin_lines

from faults.damage import TEXT, damage_gzip, flip_bits
from faults.reader import read
from shuffledp.data.checkins import crop_checkins
from shuffledp.data.embedded import lay_checkins
from shuffledp.data.grid import grid_checkins
from shuffledp.data.regions import Box, Region, region_from_config
from shuffledp.data.sources import SNAP, layout_from_config
from shuffledp.errors import InputError
from shuffledp.pipeline.tables import SAMPLES, read_counts, read_metadata, read_tables, write_table
from shuffledp.studies.privacy import privacy_table
from shuffledp.studies.samples import read_samples, sample_table

ROWS = ("\n".join(checkin_lines(400)) + "\n").encode()
REGION = Region("town", Box(**BOX))
NAMES = ["u", "t", "lat", "lon", "loc"]
COLUMNS = ["user", "time", "latitude", "longitude", "location"]
NAMED = layout_from_config({"columns": dict(zip(COLUMNS, NAMES, strict=True))})
SHAPE = (3, 4)
FOREIGN = (b"PAR1", b"PK\x03\x04", b"\xff\xfe", b"\xfe\xff")


def expected(data, separator, share):
    """Return the rows in the region and how many are read and malformed, or None if refused."""
    if (
        data.startswith(FOREIGN)
        or b"\0" in data[:512]
        or data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")
    ):
        return None
    try:
        rows = read(data, separator, NAMES if separator == "," else None)
    except KeyError:
        return None
    read_rows = len(rows.good) + rows.malformed + rows.unplaced
    inside = [
        row
        for row in rows.good
        if BOX["south"] <= row[2] <= BOX["north"] and BOX["west"] <= row[3] <= BOX["east"]
    ]
    guessed = separator != "," and 2 * rows.malformed >= read_rows
    few = 100 * len(rows.good) < read_rows
    if not inside or rows.malformed > share * read_rows or guessed or few:
        return None
    return inside, read_rows, rows.malformed


def cell_counts(rows):
    """Count the check-ins of each cell by bisection."""
    counts = [0] * (SHAPE[0] * SHAPE[1])
    y, x = (
        [low + (high - low) * i / cells for i in range(1, cells)]
        for low, high, cells in (
            (BOX["south"], BOX["north"], SHAPE[0]),
            (BOX["west"], BOX["east"], SHAPE[1]),
        )
    )
    for row in rows:
        counts[bisect.bisect(y, row[2]) * SHAPE[1] + bisect.bisect(x, row[3])] += 1
    return counts


def check_against_reader(folder, written, data, separator, share):
    """Crop and count a file, and compare the result with the reader in plain Python."""
    source, cropped, grid = (
        folder / name for name in ("in.txt", "cropped.parquet", "grid.parquet")
    )
    source.write_bytes(written)
    right_answer = None if data is None else expected(data, separator, share)
    layout = NAMED if separator == "," else SNAP
    try:
        tally = crop_checkins(
            source, layout, REGION, cropped, max_malformed_share=share, metadata={}
        )
    except InputError as error:
        assert right_answer is None, f"refused, but it can be read: {error}"
        assert str(source) in str(error)
        assert "\n" not in str(error)
        assert sorted(path.name for path in folder.iterdir()) == ["in.txt"]
        return "refused"
    assert right_answer is not None, "accepted, but it must be refused"
    rows, read_rows, malformed = right_answer
    table = pq.read_table(cropped)
    users, *others = (table[name].to_pylist() for name in COLUMNS)
    assert list(zip(*others, strict=True)) == [row[1:] for row in rows]
    check_users(users, [row[0] for row in rows])
    assert (tally.read, tally.malformed, tally.kept) == (read_rows, malformed, len(rows))
    grid_checkins(cropped, REGION, {"shape": list(SHAPE)}, grid, {})
    assert read_counts(grid).tolist() == cell_counts(rows)
    cropped.unlink()
    grid.unlink()
    return "right"


def check_users(users, expected_users):
    """Compare numbers exactly; other identifiers need only be alike where they should be."""
    assert list(map(users.index, users)) == list(map(expected_users.index, expected_users))
    for user, expected_user in zip(users, expected_users, strict=True):
        assert user == expected_user if not isinstance(expected_user, bytes) else user is not None


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 200, 50))
def test_damaged_text(tmp_path, first):
    outcomes = []
    for seed in range(first, first + 50):
        random = np.random.default_rng(seed)
        kind = list(TEXT)[seed % len(TEXT)]
        separator = "," if random.random() < 0.4 else "\t"
        data = ROWS
        if separator == ",":
            data = b"u,t,lat,lon,loc\n" + data.replace(b"\t", b",")
        data = TEXT[kind](data, random, separator.encode())
        if separator == ",":  # tests/unit/test_text.py has another oracle of quoted fields
            data = data.replace(b'"', b"'")
        share = float(random.choice([0.0, 0.01, 1.0]))
        outcomes.append(check_against_reader(tmp_path, data, data, separator, share))
    assert {"right", "refused"} == set(outcomes), "both must be met"


def test_damaged_gzip(tmp_path):
    outcomes = []
    for seed in range(60):
        random = np.random.default_rng(seed)
        written = damage_gzip(gzip.compress(ROWS, mtime=0), random)
        try:
            data = gzip.decompress(written)
        except Exception:
            data = None
        outcomes.append(check_against_reader(tmp_path, written, data, "\t", 0.01))
    assert {"right", "refused"} == set(outcomes), "both must be met"


def test_damaged_parquet(tmp_path):
    """Parquet has no checksums by default, so a flipped digit may pass but must not crash."""
    layout = layout_from_config({"format": "parquet", "columns": {n: n for n in COLUMNS}})
    rows = read(ROWS, "\t").good
    columns = dict(zip(COLUMNS, map(list, zip(*rows, strict=True)), strict=True))
    good, source, cropped = (tmp_path / name for name in ("good", "in.parquet", "out.parquet"))
    for seed in range(60):
        random = np.random.default_rng(seed)
        packing = str(random.choice(["none", "snappy", "zstd"]))
        pq.write_table(pa.table(columns), good, compression=packing)
        written = good.read_bytes()
        damage = [flip_bits, TEXT["bytes overwritten"], TEXT["file cut short"]][seed % 3]
        source.write_bytes(damage(written, random, b""))
        try:
            crop_checkins(source, layout, REGION, cropped, max_malformed_share=1, metadata={})
        except InputError as error:
            assert str(source) in str(error)
        else:
            table = pq.read_table(cropped)
            assert table.column_names == COLUMNS and table.num_rows > 0
            y, x = table["latitude"].to_numpy(), table["longitude"].to_numpy()
            assert ((BOX["south"] <= y) & (y <= BOX["north"])).all()
            assert ((BOX["west"] <= x) & (x <= BOX["east"])).all()


def _read_all(path):
    read_metadata(path)
    read_tables([path])
    sample_table(read_counts(path), ["all"], **DRAWN)


DRAWN = {"seed": 1, "region": "town", "grid": "shape"}


@pytest.mark.parametrize("stage", ["checkins", "grids", "samples"])
def test_damaged_intermediate_results(tmp_path, stage):
    """A result that a failing disk has damaged is named in the error."""
    source, cropped, grid = (tmp_path / name for name in ("in", "cropped.parquet", "grid.parquet"))
    source.write_bytes(ROWS)
    crop_checkins(source, SNAP, REGION, cropped, max_malformed_share=0, metadata={})
    grid_checkins(cropped, REGION, {"shape": list(SHAPE)}, grid, {})
    damaged, out = tmp_path / "damaged.parquet", tmp_path / "out.parquet"
    samples = tmp_path / "samples.parquet"
    write_table(sample_table(read_counts(grid), [50, "all"], **DRAWN), SAMPLES, samples, {})
    good = {"checkins": cropped, "grids": grid, "samples": samples}[stage].read_bytes()
    refused = 0
    for seed in range(40):
        random = np.random.default_rng(seed)
        damage = [flip_bits, TEXT["block zeroed"], TEXT["file cut short"]][seed % 3]
        damaged.write_bytes(damage(good, random, b""))
        try:
            if stage == "checkins":
                grid_checkins(damaged, REGION, {"shape": list(SHAPE)}, out, {})
            elif stage == "samples":
                privacy_table(read_samples(damaged), 1.0, [0.5], ["upper", "single-bin"])
            else:
                _read_all(damaged)
        except InputError as error:
            refused += 1
            assert str(damaged) in str(error)
    assert refused > 20


def test_damaged_cell_counts(tmp_path):
    good = (ROOT / "resources" / "cell_counts" / "paris.csv").read_bytes()
    head = b"\n".join(good.split(b"\n")[:40]) + b"\n"
    source, out = tmp_path / "counts.csv", tmp_path / "laid.txt.gz"
    kinds = [*TEXT, *["huge numbers"] * 4]
    for seed in range(100):
        random = np.random.default_rng(seed)
        data = TEXT[kinds[seed % len(kinds)]](head, random, b",")
        source.write_bytes(data)
        try:
            laid = lay_checkins(source, out, seed=1)
        except InputError as error:
            assert str(source) in str(error)
        else:
            rows = data.decode("utf-8-sig").splitlines()[1:]
            assert laid == sum(int(row.split(",")[4]) for row in rows)
            assert len(gzip.decompress(out.read_bytes()).splitlines()) == laid


OUTLINE = {"type": "Polygon", "coordinates": [[[2.0, 48.0], [2.1, 48.0], [2.1, 48.1], [2.0, 48.0]]]}
FEATURE = {"type": "Feature", "properties": {"name": "Town"}, "geometry": OUTLINE}


def test_damaged_outlines(tmp_path):
    path = tmp_path / "outline.geojson"
    text = json.dumps(FEATURE, indent=1).encode()
    cases = [b"[" * 100_000, b'{"type":' * 5000, b"\xff\xfe{", b"", b"[]", b'"type"', b"1"]
    damages = list(TEXT.values())
    for seed in range(100):
        damage = damages[seed % len(damages)]
        cases.append(damage(text, np.random.default_rng(seed), b","))
    for case in cases:
        path.write_bytes(case)
        try:
            region = region_from_config("town", {"outline": str(path)})
        except InputError as error:
            assert str(path) in str(error) or "box." in str(error)
        else:
            assert -180 <= region.box.west < region.box.east <= 180
            assert region.outline.is_valid
