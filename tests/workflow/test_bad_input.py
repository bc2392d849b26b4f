"""Each mistake ends the run with a message that says what to do, and no wrong result."""

import gzip
import hashlib
import os
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from workflow.conftest import checkin_lines

pytestmark = pytest.mark.workflow
GRID = "results/grids/town.shape.parquet"


def _fails(clone, message, target=GRID):
    """Run to a failure; its message is on the terminal, without a traceback of ours."""
    result = clone.run(target, check=False)
    text = result.stdout + result.stderr
    assert result.returncode != 0
    assert "Traceback" not in text, text
    for part in message if isinstance(message, list) else [message]:
        assert part in text, text
    assert not (clone.path / target).exists()
    return text


def _write(clone, lines, name="check-ins.txt"):
    (clone.path / name).write_text("\n".join(lines) + "\n")


def _edited(column, value, rows=range(100)):
    lines = checkin_lines()
    for number in rows:
        fields = lines[number].split("\t")
        fields[column] = value
        lines[number] = "\t".join(fields)
    return lines


@pytest.mark.parametrize(
    "value",
    ["abc", *(pytest.param(value, marks=pytest.mark.slow) for value in ("nan", "95.0", "", "inf"))],
)
def test_unusable_coordinates_above_the_tolerated_share(clone, value):
    _write(clone, _edited(2, value))
    _fails(clone, ["check-ins.txt", "line 1"])


def test_malformed_rows_below_the_share_are_counted(clone):
    _write(clone, _edited(2, "abc", rows=range(5)))
    clone.run(GRID)
    log = (clone.path / "results/logs/crop_checkins.town.log").read_text()
    assert "5 malformed" in log, log


def test_swapped_coordinates_are_detected(clone):
    swapped = []
    for line in checkin_lines():
        user, when, latitude, longitude, location = line.split("\t")
        swapped.append("\t".join([user, when, longitude, latitude, location]))
    _write(clone, swapped)
    text = _fails(clone, "latitude")
    assert "swapped" in text or "exchange" in text, text


def test_empty_crop_says_where_the_data_are(clone):
    clone.config["regions"]["town"]["box"] = {"south": 0, "north": 1, "west": 0, "east": 1}
    _fails(clone, ["town", "check-ins.txt"])


def test_missing_columns(clone):
    layout = {"format": "csv", "header": True, "columns": {"latitude": "lat", "longitude": "lon"}}
    clone.config["sources"]["tiny"]["layout"] = layout
    _write(clone, ["latitude,longitude", "48.01,2.02"])
    _fails(clone, ["check-ins.txt", "lat"])


def test_truncated_and_corrupt_gzip(clone):
    clone.config["sources"]["tiny"]["path"] = "check-ins.txt.gz"
    packed = gzip.compress("\n".join(checkin_lines(20_000)).encode())
    (clone.path / "check-ins.txt.gz").write_bytes(packed[:-2000])
    _fails(clone, "check-ins.txt.gz")
    middle = len(packed) // 2
    (clone.path / "check-ins.txt.gz").write_bytes(
        packed[:middle] + b"\0" * 9 + packed[middle + 9 :]
    )
    _fails(clone, "check-ins.txt.gz")


def test_wrong_checksum(clone):
    clone.config["sources"]["tiny"]["checksum"] = "sha256:" + "0" * 64
    digest = hashlib.sha256((clone.path / "check-ins.txt").read_bytes()).hexdigest()
    _fails(clone, ["check-ins.txt", digest])


def test_a_missing_file_is_named_with_region_source_key_and_folder(clone):
    clone.config["sources"]["tiny"]["path"] = "data/mine.csv"
    where = clone.path / "data" / "mine.csv"
    text = _fails(clone, f"config: sources.tiny.path: there is no {where}, which regions.town")
    assert text.count("sources.tiny.path") == 1
    (clone.path / "data").mkdir()
    _write(clone, checkin_lines(), "data/mine.csv")
    assert "sources.tiny.path" not in clone.run("--dry-run", GRID).stderr


def test_more_users_than_check_ins(clone):
    clone.config["regions"]["town"]["n"] = [10**6]
    _fails(clone, ["1000000", "check-ins"], "results/privacy/town.shape.parquet")


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_unwritable_results(clone):
    (clone.path / "results").mkdir()
    (clone.path / "results").chmod(0o500)
    _fails(clone, "results")


def test_results_is_a_file(clone):
    (clone.path / "results").write_text("in the way")
    result = clone.run(GRID, check=False)
    assert result.returncode != 0
    assert "results" in result.stdout + result.stderr


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"source": "nowhere"}, "there is no source 'nowhere'"),
        ({"eps": [0.5, 1.0]}, "below every eps0"),
        ({"eps0": [0]}, "eps0"),
        ({"repetition": 3}, "repetition"),
    ],
)
def test_configuration_errors_stop_before_any_job(clone, change, message):
    clone.config.update(change)
    result = clone.run(GRID, check=False)
    text = result.stdout + result.stderr
    assert result.returncode != 0
    assert message in text, text
    assert not (clone.path / "results").exists()


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("individual_every", 12, ".individual_every must be below the number of cells, which is"),
        ("title", "東京", ".title: the font of the figures has no sign for 東京"),
    ],
)
def test_what_only_late_jobs_would_meet_stops_before_any_job(clone, key, value, message):
    clone.config["regions"]["town"][key] = value
    result = clone.run(GRID, check=False)
    text = result.stdout + result.stderr
    assert result.returncode != 0
    assert f"config: regions.town{message}" in text, text
    assert not (clone.path / "results").exists()


def test_a_key_given_twice_in_an_overlay_stops_before_any_job(clone):
    (clone.path / "over.yaml").write_text("eps: [0.1]\nseed: 4\neps: [0.2]\n")
    overlay = ["--configfile", "config/config.yaml", "over.yaml", "--"]
    result = clone.run(*overlay, GRID, check=False)
    text = result.stdout + result.stderr
    assert result.returncode != 0
    assert "config: eps is given twice, in lines 1 and 3 of " in text, text
    assert not (clone.path / "results").exists()


def test_unknown_region(clone):
    result = clone.run("results/grids/atlantis.shape.parquet", check=False)
    text = result.stdout + result.stderr
    assert result.returncode != 0
    assert "atlantis" in text, text
    assert "Traceback" not in text, text


@pytest.mark.slow
def test_download_through_the_pipeline_is_cached(clone):
    """A real server; the file is fetched once even if the workflow forgets its outputs."""
    served = clone.path / "served"
    served.mkdir()
    data = gzip.compress("\n".join(checkin_lines()).encode())
    (served / "check-ins.txt.gz").write_bytes(data)
    requests = []

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, directory=str(served), **kwargs)

        def do_GET(self):
            requests.append(self.path)
            super().do_GET()

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        clone.config["sources"]["tiny"] = {
            "kind": "download",
            "url": f"http://127.0.0.1:{server.server_port}/check-ins.txt.gz",
            "checksum": "md5:" + hashlib.md5(data).hexdigest(),
            "layout": "snap",
        }
        clone.run(GRID)
        assert len(requests) == 1
        clone.run("--forceall", GRID)
        assert len(requests) == 1
    finally:
        server.shutdown()
        server.server_close()
