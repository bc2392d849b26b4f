"""Check-ins laid out from the shipped counts have these counts, and a script remakes them."""

import gzip
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from real_data import GOWALLA, needs_gowalla
from waiting import run_python

from shuffledp.data.checkins import Tally, crop_checkins
from shuffledp.data.embedded import lay_checkins
from shuffledp.data.grid import count_checkins
from shuffledp.data.regions import Box, Region
from shuffledp.data.sources import SNAP, Layout

ROOT = Path(__file__).parents[2]
COUNTS = ROOT / "resources" / "cell_counts"
PARIS = Region("paris", Box(south=48.8286, north=48.8798, west=2.2855, east=2.3909))
SAN_FRANCISCO = Region(
    "san_francisco", Box(south=37.7228, north=37.7946, west=-122.5153, east=-122.3789)
)
POINTS = Layout("csv", {name: name for name in ("user", "latitude", "longitude")})
# Numbers of cells and totals of the real check-ins: docs/accounting.md; paper A on its data.
GRIDS = [
    (PARIS, {"shape": [12, 16]}, 12 * 16, 11_190),
    (PARIS, {"step": [0.00427, 0.0066]}, 11 * 15, 10_260),
    (SAN_FRANCISCO, {"shape": [17, 24]}, 17 * 24, 123_094),
    (SAN_FRANCISCO, {"step": [0.0044875, 0.005683]}, 16 * 24, 123_094),
]
REAL = {
    "paris": (GOWALLA / "paris_checkins.txt.gz", SNAP),
    "san_francisco": (GOWALLA / "san_francisco_points.csv.gz", POINTS),
}


def laid(tmp_path, region, seed=1) -> Path:
    text, cropped = tmp_path / "laid.txt.gz", tmp_path / "laid.parquet"
    number = lay_checkins(COUNTS / f"{region.name}.csv", text, seed=seed)
    tally = crop_checkins(text, SNAP, region, cropped, max_malformed_share=0, metadata={})
    assert tally == Tally(read=number, kept=number)
    return cropped


@pytest.mark.parametrize("seed", [0, 1, 2**40])
@pytest.mark.parametrize(("region", "spec", "k", "total"), GRIDS)
def test_totals_on_the_grids_of_the_paper(tmp_path, region, spec, k, total, seed):
    cells, tally = count_checkins(region, spec, laid(tmp_path, region, seed))
    assert len(cells) == k
    assert tally.kept == cells["count"].sum() == total


@pytest.mark.parametrize(("region", "spec", "k", "total"), GRIDS)
@needs_gowalla
def test_counts_of_every_cell_are_the_real_ones(tmp_path, region, spec, k, total):
    source, layout = REAL[region.name]
    real = tmp_path / "real.parquet"
    crop_checkins(source, layout, region, real, max_malformed_share=0, metadata={})
    expected, _ = count_checkins(region, spec, real)
    cells, _ = count_checkins(region, spec, laid(tmp_path, region))
    assert_array_equal(cells["count"], expected["count"])
    assert (len(expected), expected["count"].sum()) == (k, total)


@needs_gowalla
def test_shipped_counts_are_what_the_script_makes(tmp_path):
    script = ROOT / "resources" / "regenerate.py"
    files = [f"--{name.replace('_', '-')}={source}" for name, (source, _) in REAL.items()]
    assert run_python(script, *files, "--output", tmp_path).returncode == 0
    for name in REAL:
        shipped = (COUNTS / f"{name}.csv").read_bytes()
        assert (tmp_path / f"{name}.csv").read_bytes() == shipped


def write_counts(path: Path, *rows) -> Path:
    text = "\n".join(",".join(map(str, row)) for row in (["south,west,north,east,count"], *rows))
    path.write_text(text + "\n")
    return path


def test_laid_rows_are_like_those_of_snap(tmp_path):
    counts = write_counts(tmp_path / "c.csv", (1, 2, 1.5, 3, 40), (-3, -2, -2, -1.5, 60))
    laid_file = tmp_path / "new" / "laid.txt.gz"
    assert lay_checkins(counts, laid_file, seed=1) == 100
    assert [path.name for path in laid_file.parent.iterdir()] == ["laid.txt.gz"]
    rows = [
        line.split("\t") for line in gzip.decompress(laid_file.read_bytes()).decode().split("\n")
    ]
    assert rows.pop() == [""]
    assert [row[0] for row in rows] == [str(user) for user in range(100)]
    assert {row[1] for row in rows} == {"2010-01-01T00:00:00Z"}
    places = [int(row[4]) for row in rows]
    assert (places.count(0), places.count(1)) == (40, 60)
    for row, place in zip(rows, places, strict=True):
        south, west, north, east = [(1, 2, 1.5, 3), (-3, -2, -2, -1.5)][place]
        assert south < float(row[2]) < north and west < float(row[3]) < east
    assert len({(row[2], row[3]) for row in rows}) == 100


@settings(
    deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    south=st.floats(-89, 89),
    west=st.floats(-179, 179),
    height=st.floats(2e-8, 1),
    width=st.floats(2e-8, 1),
    seed=st.integers(0, 2**63),
)
def test_printed_positions_are_strictly_inside(tmp_path, south, west, height, width, seed):
    north, east = south + height, west + width
    counts = write_counts(tmp_path / "c.csv", (south, west, north, east, 50))
    lay_checkins(counts, tmp_path / "l.gz", seed=seed)
    for line in gzip.decompress((tmp_path / "l.gz").read_bytes()).decode().splitlines():
        _, _, latitude, longitude, _ = line.split("\t")
        assert south < float(latitude) < north and west < float(longitude) < east
