"""A collection as README.md shows it, and as `make collect` does it."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from collect_guide import PACKAGE, follow
from collection_parts import free_port
from shuffledp_collect.campaign import read_campaign
from shuffledp_collect.device import read_ticket
from shuffledp_collect.messages import token

ROOT = PACKAGE.parents[1]


def environment():
    folder = Path(sys.executable).parent
    paths = {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    return os.environ | paths


def any_in(words, text):
    """Return whether one of many words is in a text, searching for their first 8 bytes."""
    begun = {int.from_bytes(word[:8], sys.byteorder): word for word in words}
    windows = np.lib.stride_tricks.sliding_window_view(np.frombuffer(text + bytes(8), np.uint8), 8)
    held = np.isin(windows.copy().view(np.uint64).ravel(), np.array([*begun], np.uint64))
    places = np.flatnonzero(held).tolist()
    return any(begun[int.from_bytes(text[i : i + 8], sys.byteorder)] in text for i in places)


@pytest.mark.slow
def test_the_guide_from_nothing_to_a_map(tmp_path):
    printed = follow(tmp_path, environment())
    assert (tmp_path / "map.png").stat().st_size > 10_000
    assert "600 people reported." in (tmp_path / "map.html").read_text(encoding="utf-8")
    opened = json.loads((tmp_path / "counts-1.json").read_text())
    assert opened["respondents"] == 600
    assert not (tmp_path / "campaign/analyst/round-1.key").exists()
    assert "south" in printed
    # Nothing that others get or could steal contains a ticket, a token or a date.
    made = read_campaign(tmp_path / "campaign/campaign.json")
    lines = (tmp_path / "campaign/issuer/tickets.txt").read_text().splitlines()
    tickets = [read_ticket(line, made) for line in lines]
    secret = [*tickets, *(token(made, number, each) for each in tickets for number in (1, 2))]
    secret += [each.hex().encode() for each in secret]
    files = [file for file in tmp_path.rglob("*") if file.is_file() and "issuer" not in file.parts]
    assert any_in(secret, bytes(5) + secret[7] + bytes(3)) and not any_in(secret, bytes(99))
    kept = {file.relative_to(tmp_path).as_posix(): file.read_bytes() for file in files}
    device = [name for name in kept if name.endswith(".counted")]
    assert {"map.html", "map.png", "counts-1.json", "round-1.sqlite"} < set(kept)
    assert len(device) == 1 and kept.pop(device[0]) == b""
    assert kept.pop("ticket.txt").decode().strip() == lines[0]
    assert [name for name, text in kept.items() if any_in(secret, text)] == []
    day = time.strftime("%Y-%m-%d").encode()
    assert [name for name, text in kept.items() if day in text] == []


@pytest.mark.slow
@pytest.mark.workflow
def test_a_collection_of_real_check_ins(tmp_path):
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
    script = PACKAGE / "benchmarks/collect.py"
    run(sys.executable, script, *("--people", 200, "--rounds", 1, "--port", free_port()))
    results = tmp_path / "results/collect"
    assert (results / "map-1.png").stat().st_size > 10_000
    page = (results / "page-1.html").read_text(encoding="utf-8")
    assert "200 people reported." in page and "Ville de Paris" in page
    assert (results / "estimates-1.csv").read_text().startswith("cell,estimate,standard_error")
