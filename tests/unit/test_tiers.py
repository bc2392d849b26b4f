"""A test run lists the tests that it left out, and fails if one was required."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from needs import INSTALLED, REQUIRED, needs, required

TESTS = Path(__file__).parents[1]
EXAMPLES = """
import pytest
from needs import needs

def test_of_every_day():
    pass

@pytest.mark.slow
def test_of_long_ones():
    pass

@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.faults
def test_that_breaks_things(number):
    pass

@pytest.mark.skipif(True, reason=needs("data", "they are secret"))
def test_on_data():
    pass
"""
WITHOUT_BROWSER = """
@pytest.fixture
def browser():
    pytest.skip(needs("browser", "none is installed"))

def test_of_a_page(browser):
    pass
"""
INI = """
[pytest]
markers =
    slow: long
    faults: breaks
addopts = -m "not slow and not faults"
"""


def run(folder, tests, *options, required=""):
    (folder / "test_examples.py").write_text(tests)
    (folder / "pytest.ini").write_text(INI)
    plain = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tiers", *options],
        cwd=folder,
        env=plain | {"PYTHONPATH": str(TESTS)} | {REQUIRED: required},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


LEFT_OUT = [
    "1  slow: `make test-slow` runs them",
    "2  faults: `make faults` runs them",
    "1  needs data: they are secret",
]


def test_a_run_ends_with_what_it_left_out(tmp_path):
    done = run(tmp_path, EXAMPLES)
    assert done.returncode == 0, done.stdout
    _, _, end = done.stdout.partition("tests left out, and why")
    assert [line for line in LEFT_OUT if line not in end] == []
    assert "FAILED" not in done.stdout


@pytest.mark.slow
def test_a_run_in_workers_fails_if_it_left_out_what_is_required(tmp_path):
    done = run(tmp_path, EXAMPLES + WITHOUT_BROWSER, "-n", "2", required="site browser")
    assert done.returncode == 1, done.stdout
    assert "1 passed, 2 skipped" in done.stdout
    _, _, end = done.stdout.partition("tests left out, and why")
    assert [line for line in LEFT_OUT if line not in end] == []
    _, _, end = end.partition("FAILED: skipped for what should be here")
    assert "needs browser: none is installed" in end
    assert "secret" not in end


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
