"""A collection as docs/collect.md tells it, and as `make collect` does it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from collect_page import follow, free_port

ROOT = Path(__file__).parents[2]


def environment():
    folder = Path(sys.executable).parent
    paths = {"PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": f"{ROOT}/workflow/lib"}
    return os.environ | paths


@pytest.mark.slow
def test_the_page_from_nothing_to_a_map(tmp_path):
    printed = follow(tmp_path, environment())
    assert (tmp_path / "map.png").stat().st_size > 10_000
    assert "600 people reported." in (tmp_path / "map.html").read_text(encoding="utf-8")
    opened = json.loads((tmp_path / "counts-1.json").read_text())
    assert opened["respondents"] == 600
    assert not (tmp_path / "campaign/analyst/round-1.key").exists()
    assert "south" in printed


@pytest.mark.slow
@pytest.mark.workflow
def test_batches_are_opened_by_the_pipeline_once(tmp_path):
    snakemake = [sys.executable, "-m", "snakemake", "--cores", "2", "--snakefile"]
    snakemake += [ROOT / "Snakefile", "--configfile", ROOT / "config/config.yaml"]

    def run(*words):
        done = subprocess.run(
            list(map(str, words)),
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    run(*snakemake, "--", "results/grids/paris.shape.parquet")
    script = ROOT / "benchmarks/collect.py"
    run(sys.executable, script, *("--people", 200, "--rounds", 1, "--port", free_port()))
    target = [*snakemake, "results/collect/config.yaml", "--", "collections"]
    run(*target)
    counts = tmp_path / "results/collections/paris_1/counts.json"
    first = counts.read_bytes()
    assert (tmp_path / "results/figures/collected.paris_1.png").is_file()
    page = (tmp_path / "results/collections/paris_1/page.html").read_text(encoding="utf-8")
    assert "200 people reported." in page and "Ville de Paris" in page
    # Everything anew, without the key: the counts are what they were.
    run(*target[:-2], "--forceall", *target[-2:])
    assert counts.read_bytes() == first
