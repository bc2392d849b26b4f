"""A clone of the workflow in a folder of its own, and check-ins to run it on."""

import os
import re
import shlex
import shutil
import sys
from copy import deepcopy
from dataclasses import dataclass, field
from fcntl import LOCK_EX, flock
from pathlib import Path

import numpy as np
import pytest
import yaml
from waiting import run

ROOT = Path(__file__).parents[2]
BOX = {"south": 48.0, "north": 48.06, "west": 2.0, "east": 2.08}


def checkin_lines(rows=2500, seed=1):
    """Return SNAP lines of synthetic check-ins, two thirds of them clustered in the box."""
    rng = np.random.default_rng(seed)
    inside = rng.random(rows) < 2 / 3
    latitude = np.where(inside, 48.0 + 0.06 * rng.beta(2, 5, rows), rng.uniform(-80, 80, rows))
    longitude = np.where(inside, 2.0 + 0.08 * rng.beta(3, 3, rows), rng.uniform(10, 170, rows))
    return [
        f"{i % 97}\t2010-10-{1 + i % 28:02d}T12:00:{i % 60:02d}Z\t{a:.7f}\t{o:.7f}\t{i % 31}"
        for i, (a, o) in enumerate(zip(latitude, longitude, strict=True))
    ]


@dataclass
class Clone:
    """One copy of the repository; every run writes its configuration first."""

    path: Path
    config: dict
    environment: dict = field(default_factory=dict)

    def write_configuration(self):
        (self.path / "config" / "config.yaml").write_text(
            yaml.safe_dump(self.config, sort_keys=False)
        )

    def run(self, *arguments, cores=2, check=True, seconds=900):
        self.write_configuration()
        result = run(
            [sys.executable, "-m", "snakemake", "--cores", str(cores), *arguments],
            seconds,
            cwd=self.path,
            env={**os.environ, **self.environment},
        )
        if check:
            assert result.returncode == 0, result.stdout + result.stderr
        return result

    def refusal(self, *arguments):
        """Return what a run prints that must fail without a traceback."""
        result = self.run(*arguments, check=False)
        text = result.stdout + result.stderr
        assert result.returncode != 0 and "Traceback" not in text, text
        return text

    def plan(self, *targets):
        """Return every file that a run to the targets makes, with its inputs."""
        lines = self.run("--detailed-summary", *targets).stdout.splitlines()
        head, *rows = [line.split("\t") for line in lines]
        files = [dict(zip(head, row, strict=True)) for row in rows]
        return {row["output_file"]: row["input-file(s)"].split(",") for row in files}

    def outputs(self, *folders):
        """Return the bytes of every result by its path."""
        return {
            str(path.relative_to(self.path)): path.read_bytes()
            for folder in folders
            for path in sorted((self.path / "results" / folder).rglob("*"))
            if path.is_file()
        }


def tiny_config(source):
    return {
        "seed": 3,
        "source": "tiny",
        "sources": {"tiny": source},
        "regions": {
            "town": {
                "box": BOX,
                "grids": {"shape": {"shape": [3, 4]}},
                "n": [400, "all"],
                "individual_every": 3,
            }
        },
        "eps0": [1, 2],
        "eps": [0.1, 0.5],
        "target_delta": 1.0e-6,
        "repetitions": 3,
        "max_malformed_share": 0.01,
    }


def make_clone(path):
    """Copy the repository's workflow to a new folder, with synthetic check-ins beside it."""
    path.mkdir()
    for name in ["Snakefile", "environment.yml", "pyproject.toml"]:
        shutil.copy(ROOT / name, path / name)
    for name in ["config", "profiles", "workflow", "resources"]:
        ignore = shutil.ignore_patterns("automatic", "*.egg-info")
        shutil.copytree(ROOT / name, path / name, ignore=ignore)
    (path / "check-ins.txt").write_text("\n".join(checkin_lines()) + "\n")
    config = tiny_config({"kind": "file", "path": "check-ins.txt", "layout": "snap"})
    return Clone(path, config)


def nothing_to_do(result):
    """Return whether Snakemake found no job to run."""
    return "Nothing to be done" in result.stdout + result.stderr


# Results of a finished run, one of each kind of table.
TABLES = [
    "results/utility/town.shape.parquet",
    "results/privacy/town.shape.parquet",
    "results/utility/comparison.csv",
    "results/utility/town.shape.individual.eps0-1.csv",
]


def _made_once(tmp_path_factory, name, files=(), **config):
    """Return a clone with a finished run that all workers of xdist share.

    The first worker that needs it makes the run; the workers' folders have a common parent.
    """
    folder = tmp_path_factory.getbasetemp()
    folder = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    path = folder / f"{name} run of é"
    with (folder / f"{name}.lock").open("w") as lock:
        flock(lock, LOCK_EX)
        if not path.exists():
            clone = make_clone(folder / f"un{name} run of é")
            clone.config |= config
            clone.run(*files)
            clone.path.rename(path)
    return Clone(path, yaml.safe_load((path / "config" / "config.yaml").read_text()))


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """Return a finished run of `TABLES`, for tests that only read it; others take a `copy`."""
    return _made_once(tmp_path_factory, "finished", TABLES)


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """Return a finished plain run, with figures and targets; to be copied likewise."""
    mechanisms = ["gaussian", "krr", "user-dummies"]
    targets = {"eps": [1], "delta": 1e-6, "mechanisms": mechanisms}
    return _made_once(tmp_path_factory, "whole", targets=targets, eps0=[1])


def copy(finished, path):
    """Copy a finished run with the times and records that tell Snakemake it is complete."""
    shutil.copytree(finished.path, path)
    return Clone(path, deepcopy(finished.config))


def run_overlay(clone, overlay, mine, *targets):
    """Run the default configuration with an overlay of the repository and the user's own keys."""
    clone.config = yaml.safe_load((ROOT / "config" / "config.yaml").read_text())
    (clone.path / "mine.yaml").write_text(yaml.safe_dump(mine))
    clone.run("--configfile", "config/config.yaml", overlay, "mine.yaml", "--", *targets)


def documented_example(clone, folder, page, name):
    """Write the example of a page into a folder, and return it and the command that runs it."""
    text = (ROOT / "docs" / page).read_text()
    example = re.search(r"```yaml\n(.*?)```", text, re.DOTALL)[1]
    (command,) = re.findall(rf"^\$ snakemake (.* {name}\.yaml -- {name})$", text, re.MULTILINE)
    folder.mkdir()
    (folder / f"{name}.yaml").write_text(example)
    clone.config = yaml.safe_load((ROOT / "config" / "config.yaml").read_text())
    clone.write_configuration()
    words = [word.replace("~/shuffledp", str(clone.path)) for word in shlex.split(command)]
    return yaml.safe_load(example), [sys.executable, "-m", "snakemake", *words]


@pytest.fixture
def clone(tmp_path):
    # Nothing may break on the space and the letter outside ASCII in the path.
    return make_clone(tmp_path / "clone of é")
