"""A test run lists the tests that it left out, and fails if one was required."""

import os
import re
import sys
from pathlib import Path

import pytest
from needs import INSTALLED, REQUIRED, needs, required
from waiting import run

TESTS = Path(__file__).parents[1]
EXAMPLES = """
import pytest
from needs import needs

@pytest.fixture
def browser():
    pytest.skip(needs("browser", "none is installed"))

def test_page(browser):
    pass

def test_quick():
    pass

@pytest.mark.slow
def test_long():
    pass

@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.faults
def test_fault(number):
    pass

@pytest.mark.skipif(True, reason=needs("data", "they are secret"))
def test_data():
    pass
"""
SETTINGS = """
[pytest]
markers =
    slow: long
    faults: breaks
addopts = -m "not slow and not faults"
"""
LEFT_OUT = [
    "1  slow: `make test-slow` runs them",
    "2  faults: `make faults` runs them",
    "1  needs data: they are secret",
]


@pytest.mark.parametrize(
    ("workers", "demanded", "status"),
    [([], "", 0), pytest.param(["-n", "2"], "site browser", 1, marks=pytest.mark.slow)],
)
def test_a_run_lists_what_it_left_out_and_fails_if_that_is_required(
    tmp_path, workers, demanded, status
):
    (tmp_path / "test_examples.py").write_text(EXAMPLES)
    (tmp_path / "pytest.ini").write_text(SETTINGS)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    environment |= {"PYTHONPATH": str(TESTS), REQUIRED: demanded}
    command = [sys.executable, "-m", "pytest", "-p", "tiers", *workers]
    result = run(command, 120, cwd=tmp_path, env=environment)
    assert result.returncode == status, result.stdout
    assert "1 passed, 2 skipped" in result.stdout
    summary = result.stdout.partition("tests left out, and why")[2]
    assert [line for line in LEFT_OUT if line not in summary] == []
    failures = summary.partition("FAILED: skipped for what should be here")[2]
    assert ("needs browser: none is installed" in failures) == bool(demanded)
    assert "secret" not in failures


def test_only_known_things_are_needed_and_required(monkeypatch):
    with pytest.raises(AssertionError, match="telescope"):
        needs("telescope", "none")
    monkeypatch.setenv(REQUIRED, "browsr site")
    with pytest.raises(ValueError, match=f"{REQUIRED}: browsr is none of"):
        required()


def test_ci_requires_all_that_it_installs():
    script = (TESTS.parent / ".ci" / "run").read_text()
    values = re.findall(rf'{REQUIRED}="(?:\${REQUIRED} )?([a-z ]+)"', script)
    assert sorted(" ".join(values).split()) == sorted(INSTALLED)
