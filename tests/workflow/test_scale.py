"""The smallest scale study runs the real workflow and reports the expected jobs."""

import re
import sys
from pathlib import Path

import pytest
from waiting import run

pytestmark = pytest.mark.workflow
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "scale.py"
SMALLEST = "--cells 12 --users 3000 --cities 1 --regions 2 --rows 500 --repetitions 1"


def _rows(text, pattern):
    rows = re.findall(rf"^\| {pattern} \|.*$", text, re.MULTILINE)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in rows]


@pytest.mark.faults
def test_the_smallest_study(tmp_path):
    result = run([sys.executable, SCRIPT, *SMALLEST.split()], seconds=3600, cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    runs = [row[:4] for row in _rows(result.stdout, r"1 \| [\d,]+ \| \d+ \| \d+")]
    # Jobs crop and grid, then make five tables and a figure, then release with more repetitions.
    assert runs == [["1", "500", "1", "2"], ["1", "3,000", "1", "6"], ["1", "3,000", "10", "2"]]
    cpu, memory = result.stdout.split("Peak memory")
    rules = {"account_privacy", "collect_privacy", "draw_estimates", "draw_samples"}
    rules |= {"grid_checkins", "release_histograms", "summarise_utility"}
    for part in (cpu, memory):
        rows = _rows(part, r"`\w+` \| [\d,]+ \| 1")
        assert {row[0].strip("`") for row in rows} == rules
        assert all(float(row[3]) > 0.0 for row in rows)
    # Each region has 20 jobs, and three jobs serve all of them.
    (graph,) = _rows(memory, r"2 \| \d+ \| [\d.]+ \| \d+")
    assert graph[:2] == ["2", "43"]
