"""Promises about the project itself: dependencies, direction of imports, documentation."""

import ast
import importlib
import inspect
import pkgutil
import re
import tomllib
from pathlib import Path

import pytest
import shuffledp
import yaml
from shuffledp.modules import module_files

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "workflow" / "lib" / "shuffledp"

# Who may import whom: each layer only those to its right (CONTRIBUTING.md).
LAYERS = {
    "cli": {
        "certificate",
        "verification",
        "accountant",
        "studies",
        "figures",
        "mechanisms",
        "randomisers",
        "accounting",
        "estimation",
        "geography",
        "krr",
    },
    "accountant": {"accounting"},
    "certificate": {"accounting"},
    "verification": set(),  # it shares nothing with what it checks
    "page": {"studies", "figures", "mechanisms", "accounting"},
    "studies": {"mechanisms", "accounting", "estimation", "geography", "krr"},
    "figures": {"mechanisms", "accounting", "estimation", "krr"},
    "mechanisms": {"randomisers", "accounting", "estimation", "krr"},
    "randomisers": {"accounting", "krr"},
    "accounting": {"krr"},
    "estimation": {"krr"},
    "geography": {"krr"},
    "krr": set(),
    "configuration": {"figures", "mechanisms", "accounting", "geography"},
}
# What any layer may import, and what imports no layer.
FOUNDATIONS = {
    "arrays",
    "curve",
    "errors",
    "files",
    "jobs",
    "modules",
    "roots",
    "schema",
    "selection",
    "streams",
    "tables",
    "version",
}
# They only name what is in the layers.
ENTRANCES = {"__init__", "__main__"}
CONFINED = {
    "snakemake": set(),
    "matplotlib": {"figures"},
    "geopandas": {"geography", "figures", "page"},
    "shapely": {"geography", "figures", "page"},
    "flint": {"verification"},
    "diffprivlib": {"mechanisms"},
}


def _imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _layer(path):
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


MODULES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_dependencies_point_one_way(path):
    layer = _layer(path)
    for name in _imported(path):
        top, *rest = name.split(".")
        if top in CONFINED:
            assert layer in CONFINED[top], f"{path.name} must not import {top}"
        if top != "shuffledp" or not rest:
            continue
        other = rest[0]
        if layer not in ENTRANCES and other != layer:
            allowed = FOUNDATIONS if layer in FOUNDATIONS else LAYERS[layer] | FOUNDATIONS
            assert other in allowed, f"{layer} must not import {other}"


def test_files_stay_readable():
    long = {str(p): n for p in MODULES if (n := len(p.read_text().splitlines())) > 400}
    assert not long


def _public(module):
    for name, item in vars(module).items():
        if name.startswith("_") or getattr(item, "__module__", None) != module.__name__:
            continue
        if inspect.isfunction(item) or inspect.isclass(item):
            yield name, item
            if inspect.isclass(item):
                for method, function in vars(item).items():
                    if not method.startswith("_") and inspect.isfunction(function):
                        yield f"{name}.{method}", function


@pytest.mark.parametrize(
    "name", [m.name for m in pkgutil.walk_packages(shuffledp.__path__, "shuffledp.")]
)
def test_every_public_name_is_documented(name):
    module = importlib.import_module(name)
    if not name.rpartition(".")[2].startswith("_") and module.__file__:
        assert module.__doc__ or Path(module.__file__).stat().st_size == 0
    missing = [public for public, item in _public(module) if not inspect.getdoc(item)]
    assert not missing


LOCKS = ["requirements.lock", "requirements-docs.lock"]


def _pins(lock=LOCKS[0]):
    lock = (ROOT / lock).read_text()
    return dict(re.findall(r"^([a-z0-9-]+)==([^\s;\\]+)", lock, flags=re.MULTILINE))


def test_conda_environment_agrees_with_the_lock():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    *from_conda, packages = environment["dependencies"]
    assert from_conda == ["python =3.11", "pip"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    declared = project["dependencies"] + extras["pipeline"] + extras["slurm"]
    names = {re.split(r"[><=\[]", line)[0] for line in declared} - {"shuffledp"}
    pins = _pins()
    assert packages == {"pip": [f"{name}=={pins[name]}" for name in sorted(names)]}


@pytest.mark.parametrize("lock", LOCKS)
def test_lock_is_hashed_and_names_no_index(lock):
    lock = (ROOT / lock).read_text().replace("\\\n", " ")
    pinned = re.compile(r"[a-z0-9._-]+==\S+( ; [^#]+?)?( +--hash=sha256:[0-9a-f]{64})+ *")
    lines = [line for line in lock.splitlines() if not line.lstrip().startswith("#")]
    assert lines
    assert [line for line in lines if not pinned.fullmatch(line)] == []


def test_one_numpy_for_every_python_so_that_results_are_the_same_bytes():
    lock = (ROOT / "requirements.lock").read_text()
    assert len(re.findall("^numpy==", lock, re.MULTILINE)) == 1


def test_the_packages_of_the_site_change_none_of_the_others():
    ours, added = (_pins(lock) for lock in LOCKS)
    assert len(added) > 50
    shared = ours.keys() & added.keys()
    assert {name: added[name] for name in shared} == {name: ours[name] for name in shared}


def test_module_files_are_the_transitive_closure():
    files = {path.name for path in module_files(["shuffledp.studies.privacy"])}
    assert {"privacy.py", "single_bin.py", "certified.py", "multinomial.py", "binomial.py"} <= files
    assert "download.py" not in files
    with pytest.raises(ValueError, match="no_such"):
        module_files(["shuffledp.no_such"])


def _hooks():
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    return [hook["entry"] for hook in local["hooks"]]


def test_hooks_are_the_tools_of_make_lint():
    makefile = (ROOT / "Makefile").read_text()
    recipe = re.search(r"^lint: .*\n((?:\t.*\n)+)", makefile, re.MULTILINE)[1]
    in_make = {line.split()[0].rpartition("/")[2] for line in recipe.splitlines()}
    assert {entry.split()[0].rpartition("/")[2] for entry in _hooks()} == in_make - {"snakemake"}


def test_hosted_jobs_call_make_alone():
    makefile = (ROOT / "Makefile").read_text()
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    called = [step["run"] for job in workflow["jobs"].values() for step in job["steps"]
              if "run" in step]  # fmt: skip
    assert called == [
        "make lint",
        "make test",
        "make run",
        "make report",
        "make docs",
        "make wheel",
    ]
    for command in called:
        assert f"\n{command.split()[1]}: " in makefile
