"""Each mistake ends the run with a message that names the remedy, and without a wrong result."""

import gzip
import hashlib

import pytest
from unit.http_server import FileServer

from workflow.conftest import checkin_lines, copy, tiny_config

pytestmark = pytest.mark.workflow
GRID = "results/grids/town.shape.parquet"


def _fails(clone, message, *arguments):
    """Run until the expected failure; the terminal shows its message but no traceback."""
    arguments = arguments or (GRID,)
    text = clone.refusal(*arguments)
    for part in message if isinstance(message, list) else [message]:
        assert part in text, text
    assert not (clone.path / arguments[-1]).exists()
    return text


def _damage(clone, rows):
    """Write check-ins of which the first rows have no number as latitude."""
    lines = [line.split("\t") for line in checkin_lines()]
    for fields in lines[:rows]:
        fields[2] = "abc"
    (clone.path / "check-ins.txt").write_text("".join("\t".join(each) + "\n" for each in lines))


@pytest.mark.slow
def test_a_job_explains_why_it_refuses_its_input_and_the_next_run_succeeds(clone):
    """The configuration's share of malformed rows decides; unit tests cover the other refusals."""
    _damage(clone, rows=100)
    _fails(clone, ["check-ins.txt", "line 1: latitude is not a number", "max_malformed_share=0.01"])
    _damage(clone, rows=5)
    clone.run(GRID)
    log = (clone.path / "results/logs/crop_checkins.town.log").read_text()
    assert "5 malformed" in log, log


def test_a_missing_file_is_named_with_region_source_key_and_folder(clone):
    clone.config["sources"]["tiny"]["path"] = "data/mine.csv"
    where = clone.path / "data" / "mine.csv"
    text = _fails(clone, f"config: sources.tiny.path: there is no {where}, which regions.town")
    assert text.count("sources.tiny.path") == 1


@pytest.mark.slow
def test_an_absent_source_is_no_error_if_its_check_ins_exist(finished, tmp_path):
    """The run succeeds and says once which check-ins it uses; without them it is an error."""
    clone = copy(finished, tmp_path / "copy")
    (clone.path / "check-ins.txt").unlink()
    checkins = "results/checkins/town.parquet"
    run = clone.run("--dry-run", GRID)
    text = run.stdout + run.stderr
    assert "Nothing to be done" in text
    assert "error" not in text.lower()
    assert text.count("sources.tiny.path: there is no") == 1
    assert f"{checkins}, made from it before, is used as it is" in text
    for path in (checkins, GRID):
        (clone.path / path).unlink()
    text = _fails(clone, "config: sources.tiny.path: there is no")
    assert "made from it before" not in text


@pytest.mark.slow
def test_wrong_checksum(clone):
    clone.config["sources"]["tiny"]["checksum"] = "sha256:" + "0" * 64
    digest = hashlib.sha256((clone.path / "check-ins.txt").read_bytes()).hexdigest()
    _fails(clone, ["check-ins.txt", digest])


# One mistake for each check of workflow/rules/common.smk; what each check finds else
# is in tests/unit/test_configuration.py. Every tier sees the last of them.
TOWN = tiny_config({})["regions"]["town"]
MISTAKES = [
    (
        {"regions": {"town": TOWN, "grid_checkins": TOWN}},
        "regions.grid_checkins: a step of the workflow has that name",
    ),
    ({"repetition": 3}, "('repetition' was unexpected); did you mean repetitions?"),
    ({"source": "nowhere"}, "config: source: there is no source 'nowhere'"),
    ({"bounds": ["best"]}, "config: regions.town: unknown bound 'best'"),
    (
        {"title": "東京"},
        "config: regions.town.title: the font of the figures has no glyph for 東京",
    ),
    ({"basemap": "absent.geojson"}, "config: regions.town.basemap: absent.geojson cannot be read"),
    ({"individual_every": 12}, "config: regions.town.individual_every must be below the number of"),
]


@pytest.mark.parametrize(
    ("change", "message"),
    [*(pytest.param(*each, marks=pytest.mark.slow) for each in MISTAKES[:-1]), MISTAKES[-1]],
)
def test_configuration_errors_stop_before_any_job(clone, change, message):
    of_town = {"title", "basemap", "individual_every"} >= change.keys()
    (clone.config["regions"]["town"] if of_town else clone.config).update(change)
    text = _fails(clone, message)
    assert not (clone.path / "results").exists(), text


@pytest.mark.slow
def test_a_key_given_twice_in_an_overlay_stops_before_any_job(clone):
    (clone.path / "over.yaml").write_text("eps: [0.1]\nseed: 4\neps: [0.2]\n")
    overlay = ["--configfile", "config/config.yaml", "over.yaml", "--"]
    _fails(clone, "over.yaml, line 3: eps is given twice, in lines 1 and 3", *overlay, GRID)
    assert not (clone.path / "results").exists()


@pytest.mark.slow
def test_unknown_region(clone):
    _fails(clone, "atlantis", "results/grids/atlantis.shape.parquet")


@pytest.mark.slow
def test_a_download_is_kept_and_a_secret_in_an_address_is_shown_nowhere(clone):
    """The file is fetched once from a real server, even if the workflow forgets its outputs."""
    data = gzip.compress("\n".join(checkin_lines()).encode())
    with FileServer(data) as server:
        sound = server.url("check-ins.txt.gz")
        source = {"kind": "download", "url": sound, "layout": "snap"}
        source["checksum"] = "md5:" + hashlib.md5(data).hexdigest()
        clone.config["sources"]["tiny"] = source
        shown = ""
        for secret in (sound.replace("//", "//me:c0ffee@"), f"{sound}?access_token=c0ffee"):
            source["url"] = secret
            shown += _fails(clone, "config: sources.tiny.url: the address holds a user name, ")
        assert server.requests == []
        source["url"] = sound
        for arguments in ([GRID], ["--forceall", GRID]):
            run = clone.run(*arguments)
            shown += run.stdout + run.stderr
        assert len(server.requests) == 1
    assert "c0ffee" not in shown
    files = [path for path in clone.path.rglob("*") if path.is_file()]
    assert any(path.name == "check-ins.txt.gz.log" for path in files)
    assert not [path for path in files if b"c0ffee" in path.read_bytes()]
