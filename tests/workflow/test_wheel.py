"""The built wheel works in a clean environment with the core packages alone."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from needs import needs

ROOT = Path(__file__).parents[2]
EXAMPLE = re.search(
    r"^```console\n\$ (shuffledp epsilon .*)\n(?s:(.*?))\n```$",
    (ROOT / "docs" / "choosing.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)

pytestmark = [pytest.mark.workflow, pytest.mark.slow]


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def build(folder):
    """Build the wheel from a copy, because building leaves files beside the source."""
    source = folder / "source"
    shutil.copytree(
        ROOT / "src",
        source / "src",
        ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"),
    )
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    built = run(*pip, "-w", str(folder), str(source))
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Return the commands of an environment with the wheel and its locked dependencies."""
    folder = tmp_path_factory.mktemp("wheel")
    wheel = build(folder)
    lock = (ROOT / "requirements.lock").read_text()
    pins = folder / "pins.txt"
    pins.write_text("\n".join(re.findall(r"^[a-z0-9-]+==[^\\\n]+", lock, re.MULTILINE)))
    run(sys.executable, "-m", "venv", str(folder / "venv"))
    bin_ = folder / "venv" / "bin"
    installed = install(bin_, str(wheel))
    if "No matching distribution" in installed.stderr or "connection" in installed.stderr.lower():
        pytest.skip(needs("index", f"it cannot be reached: {installed.stderr[-300:]}"))
    assert installed.returncode == 0, installed.stderr
    return bin_


def install(environment, *packages):
    """Install packages in their locked versions."""
    pins = environment.parents[1] / "pins.txt"
    pip = [str(environment / "python"), "-m", "pip", "install", "-q", "-c", str(pins)]
    return run(*pip, *packages)


def python(environment, code):
    done = run(str(environment / "python"), "-I", "-c", code)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_only_the_core_is_installed(environment):
    code = "from importlib import metadata as m; print(*(d.name for d in m.distributions()))"
    names = set(python(environment, code).split())
    assert names - {"pip", "setuptools"} == {"numpy", "scipy", "shuffledp", "tqdm"}


def test_a_documented_example_prints_what_the_page_shows(environment):
    command, printed = EXAMPLE.groups()
    program, *arguments = shlex.split(command)
    done = run(str(environment / program), *arguments)
    assert done.stdout.strip() == printed.strip(), done.stderr


def test_the_public_names_work_and_have_help_and_types(environment):
    code = """
import importlib.resources, pydoc, shuffledp
print(shuffledp.__version__)
print(shuffledp.epsilon(1e-6, shuffledp.Setting(n=100_000, k=408, eps0=4.0)).upper)
print("smallest eps" in pydoc.render_doc(shuffledp.epsilon))
print("calibrate" in pydoc.render_doc(shuffledp))
files = importlib.resources.files(shuffledp)
print(files.joinpath("py.typed").is_file() and files.joinpath("__init__.pyi").is_file())
"""
    version, eps, *true = python(environment, code).split()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert version == project["version"]
    assert float(eps) == pytest.approx(0.03788052, abs=1e-8)
    assert true == ["True"] * 3


def test_a_missing_extra_is_named(environment, tmp_path):
    done = run(str(environment / "shuffledp"), "verify", "certificate.json")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "pip install '.[verify]' in a clone" in done.stderr
    (tmp_path / "taps.csv").write_text("lat,lon\n0.5,0.5\n")
    words = "publish taps.csv --latitude lat --longitude lon --unit record --cells shape:2x2"
    words += " --box 0 1 0 1 --eps 1 --ledger l.jsonl --output map"
    done = run(str(environment / "shuffledp"), *words.split(), cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "which is not installed: run pip install '.[maps]' in a clone" in done.stderr


def test_the_tutorial_in_python_runs_on_the_wheel(environment):
    installed = install(environment, "matplotlib", "dp-accounting")
    assert installed.returncode == 0, installed.stderr
    notebook = json.loads((ROOT / "docs" / "python.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    code = "\n".join("".join(cell["source"]) for cell in cells)
    where = {**os.environ, "MPLBACKEND": "agg"}
    done = run(str(environment / "python"), "-I", "-c", code, cwd=ROOT / "docs", env=where)
    assert done.returncode == 0, done.stderr
    assert "11,190 check-ins in 192 cells" in done.stdout
    assert "pessimistic but not certified" in done.stdout
