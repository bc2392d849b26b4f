"""The steps of the Containerfile, as far as a machine without images can perform them."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from git import Repo
from needs import needs
from waiting import run

from workflow.conftest import ROOT, make_clone

pytestmark = pytest.mark.workflow

STEPS = re.findall(
    r"^(FROM|RUN|ENV|COPY|WORKDIR|CMD) (.+)$",
    re.sub(r"\\\n\s*", "", (ROOT / "Containerfile").read_text()),
    re.MULTILINE,
)
# Debian's packages are the base image's business: here is what they bring.
OF_DEBIAN = "apt-get"


def without_git(folder):
    """A folder of this machine's programs but git, which the image does not have."""
    folder.mkdir()
    for name in ("/usr/bin", "/bin"):
        for program in Path(name).iterdir():
            if not program.name.startswith("git") and not (folder / program.name).exists():
                (folder / program.name).symlink_to(program)
    (folder / "python3").unlink(missing_ok=True)
    (folder / "python3").symlink_to(Path(sys.base_prefix, "bin", "python3"))
    return folder


class Container:
    """A folder that stands for the image's root: paths of the steps are below it."""

    def __init__(self, root):
        self.root = root
        (root / "tmp").mkdir(parents=True)
        self.environment = {
            "PATH": str(without_git(root / "bin")),
            "HOME": str(root / "tmp"),
            **{key: value for key, value in os.environ.items() if key.startswith("PIP_")},
        }
        self.folder, self.command = root, []

    def inside(self, text):
        return re.sub(r"(?<![\w.])/(?=(opt|tmp|clone)\b)", f"{self.root}/", text)

    def perform(self, step, words):
        if step == "ENV":
            for setting in self.inside(words).split():
                key, _, value = setting.partition("=")
                self.environment[key] = value.replace("$PATH", self.environment["PATH"])
        elif step == "COPY":
            source, target = words.split()
            shutil.copy(ROOT / source, self.inside(target))
        elif step == "WORKDIR":
            self.folder = Path(self.inside(words))
        elif step == "CMD":
            self.command = json.loads(words)
        elif step == "RUN" and OF_DEBIAN not in words:
            return self.run(["sh", "-c", self.inside(words)])
        return None

    def run(self, command):
        path = shutil.which(command[0], path=self.environment["PATH"])
        return run([path, *command[1:]], seconds=1800, cwd=self.folder, env=self.environment)


@pytest.fixture(scope="module")
def container(tmp_path_factory):
    made = Container(tmp_path_factory.mktemp("container") / "root")
    for step, words in STEPS:
        done = made.perform(step, words)
        if done is not None and done.returncode:
            told = done.stdout + done.stderr
            if "No matching distribution" in told or "connection" in told.lower():
                pytest.skip(needs("index", f"it cannot be reached: {told[-300:]}"))
            raise AssertionError(told)
    return made


def test_each_step_is_one_that_is_performed():
    assert [step for step, _ in STEPS] == [
        *("FROM", "RUN", "RUN", "ENV", "COPY", "RUN", "ENV", "WORKDIR", "CMD")
    ]
    lines = (ROOT / "Containerfile").read_text().splitlines()
    assert sum(line[:1].isalpha() for line in lines) == len(STEPS)


@pytest.mark.faults
def test_what_the_container_starts_makes_the_page_of_a_clone_without_git(container):
    """With the packages of the lock alone, and without the program git."""
    assert container.folder.parent == container.root
    clone = make_clone(container.folder)
    clone.config["regions"]["town"]["n"] = ["all"]
    clone.config["eps0"] = [1]
    clone.write_configuration()
    repository = Repo.init(clone.path)
    repository.index.add(["Snakefile"])
    commit = repository.index.commit("One").hexsha
    assert shutil.which("git", path=container.environment["PATH"]) is None
    done = container.run([*container.command, "--", "results/report.html"])
    assert done.returncode == 0, done.stdout + done.stderr
    page = (clone.path / "results" / "report.html").read_text(encoding="utf-8")
    assert f"{commit}, perhaps with changes: git is missing or refuses to compare files" in page
