"""A collection as docs/collect.md tells it, and as `make collect` does it."""

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return str(server.getsockname()[1])


def environment():
    folder = Path(sys.executable).parent
    paths = {"PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": f"{ROOT}/workflow/lib"}
    return os.environ | paths


@pytest.mark.slow
def test_the_page_from_nothing_to_a_map(tmp_path):
    page = (ROOT / "docs" / "collect.md").read_text()
    port = free_port()
    script = "\n".join(re.findall(r"^```bash\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    script = script.replace("--port 8000", f"--port {port}").replace(
        "--rounds 2 ", f"--rounds 2 --address http://127.0.0.1:{port} "
    )
    # `wait` for the server that was told to stop: nothing is left behind.
    done = subprocess.run(
        ["bash", "-c", f"set -eum\n{script}\nwait || true"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "map.png").stat().st_size > 10_000
    opened = json.loads((tmp_path / "counts-1.json").read_text())
    assert opened["respondents"] == 600
    assert not (tmp_path / "campaign/analyst/round-1.key").exists()
    assert "south" in done.stdout


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
    # Everything anew, without the key: the counts are what they were.
    run(*target[:-2], "--forceall", *target[-2:])
    assert counts.read_bytes() == first
