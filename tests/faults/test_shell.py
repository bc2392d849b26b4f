"""No value of a configuration reaches a shell, and no character in a path breaks a run."""

import json

import pytest
from workflow.conftest import make_clone

EVIL = ["$(touch pwned)", "`touch pwned`", "; touch pwned;", "'\"; touch pwned #", "| touch pwned"]


@pytest.fixture
def evil_clone(tmp_path):
    """Return a clone whose folder and configuration contain names that a shell would act on."""
    clone = make_clone(tmp_path / "it's a $(touch pwned) 東京 `touch pwned` ;&")
    source = clone.path / "data & $(touch pwned); 'ünïcödé' \"x\".txt"
    (clone.path / "check-ins.txt").rename(source)
    clone.config["sources"]["tiny"]["path"] = source.name
    clone.config["regions"]["town"]["title"] = "".join(EVIL) + " & Токио <b>é</b> {x} %s \\"
    return clone


def assert_nothing_executed(clone):
    traces = [path for path in clone.path.parent.rglob("pwned*") if path.is_file()]
    assert traces == []


@pytest.mark.faults
def test_whole_run_with_shell_metacharacters(evil_clone):
    """Titles, paths, an outline and an overlay have names that a shell would act on."""
    box = evil_clone.config["regions"]["town"].pop("box")
    ring = [[box[x], box[y]] for x, y in [("west", "south"), ("east", "south"), ("east", "north")]]
    outline = {"type": "Polygon", "coordinates": [[*ring, ring[0]]]}
    name = "$(touch pwned) `touch pwned` é.geojson"
    (evil_clone.path / name).write_text(json.dumps(outline))
    evil_clone.config["regions"]["town"]["outline"] = name
    overlay = "config/mine $(touch pwned) ünïcödé 'x'.yaml"
    (evil_clone.path / overlay).write_text("repetitions: 2\n")
    evil_clone.run("all", "--configfile", "config/config.yaml", overlay)
    assert_nothing_executed(evil_clone)
    assert (evil_clone.path / "results" / "figures" / "comparison.png").exists()
    evil_clone.run("--report", "results/report.html", "all")
    assert_nothing_executed(evil_clone)
