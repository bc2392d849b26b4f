"""Promises about the project itself: dependencies, direction of imports, documentation."""

import ast
import importlib
import inspect
import pkgutil
import re
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
import shuffledp
import yaml
from shuffledp.mechanisms.catalogue import CATALOGUE
from shuffledp.pipeline.modules import module_files, script_modules, with_mechanisms

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "workflow" / "lib" / "shuffledp"

# Who may import whom: each package only those that the table of docs/architecture.md names.
BELOW = {
    package: set(re.findall(r"`(\w+)`", below))
    for package, below in re.findall(
        r"^\| `(\w+)` \| .* \| ([^|]+) \|$",
        (ROOT / "docs" / "architecture.md")
        .read_text(encoding="utf-8")
        .partition("| may import")[2],
        re.MULTILINE,
    )
}
# The rules alone read a configuration, which may name anything.
ABOVE = PACKAGE / "pipeline" / "configuration.py"
# At the root: public names, the command's entry, errors and version, which import no package.
ROOT_FILES = {"__init__.py", "__init__.pyi", "__main__.py", "errors.py", "py.typed", "version.py"}
CONFINED = {
    "snakemake": set(),
    "matplotlib": {"figures", "papers"},
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


MODULES = sorted(PACKAGE.rglob("*.py"))


def _may_import(path, name):
    package, *inside = path.relative_to(PACKAGE).parts
    top, *rest = name.split(".")
    if top in CONFINED:
        return package in CONFINED[top]
    if top != "shuffledp" or not rest:
        return True
    if rest[:2] == ["pipeline", "configuration"]:
        return False  # it is for the rules
    anyone = not inside or path == ABOVE or rest[0] in {package, "errors", "version"}
    return anyone or rest[0] in BELOW[package]


def test_dependencies_point_one_way():
    wrong = [
        f"{path.relative_to(PACKAGE)} must not import {name}"
        for path in MODULES
        for name in _imported(path)
        if not _may_import(path, name)
    ]
    assert len(MODULES) > 100
    assert wrong == []


def _imports_by_module():
    """The modules of the library, and those that each imports anywhere, under TYPE_CHECKING too."""
    names = {path: ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
             for path in MODULES}  # fmt: skip
    modules = {name.removesuffix(".__init__"): path for path, name in names.items()}
    return {
        name: {
            found if found in modules else found.rpartition(".")[0]
            for found in _imported(path)
            if found.startswith("shuffledp.")
        }
        for name, path in modules.items()
    }


def test_imports_form_no_cycle():
    TopologicalSorter(_imports_by_module()).prepare()


def test_the_root_holds_entrances_only():
    assert {path.name for path in PACKAGE.iterdir() if path.is_file()} == ROOT_FILES
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}
    assert folders == set(BELOW)


def _public(module):
    for name, item in vars(module).items():
        if name.startswith("_") or getattr(item, "__module__", None) != module.__name__:
            continue
        if inspect.isroutine(item) or inspect.isclass(item):  # functions with a cache, too
            yield name, item
            if inspect.isclass(item):
                for method, function in vars(item).items():
                    if not method.startswith("_") and inspect.isroutine(function):
                        yield f"{name}.{method}", getattr(item, method)


def _undocumented(name):
    module = importlib.import_module(name)
    empty = not module.__file__ or Path(module.__file__).stat().st_size == 0
    if not name.rpartition(".")[2].startswith("_") and not module.__doc__ and not empty:
        yield name
    yield from (f"{name}.{each}" for each, item in _public(module) if not inspect.getdoc(item))


def test_every_public_name_is_documented():
    names = [found.name for found in pkgutil.walk_packages(shuffledp.__path__, "shuffledp.")]
    assert len(names) > 100
    assert [missing for name in names for missing in _undocumented(name)] == []


LOCKS = ["requirements.lock", "requirements-docs.lock"]


def _pins(lock=LOCKS[0]):
    lock = (ROOT / lock).read_text()
    return dict(re.findall(r"^([a-z0-9-]+)==([^\s;\\]+)", lock, flags=re.MULTILINE))


def test_no_docstring_opens_without_a_sentence():
    own = [path for path in PACKAGE.rglob("*.py") if not {"collection", "cli"} & {*path.parts}]
    text = "".join(path.read_text("utf-8") for path in own if path.name != "collected.py")
    assert re.findall(r'^ *r?"""(?:Of|As|That|What)\b.*', text, re.MULTILINE) == []


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


def _modules(script, *modules):
    return [*script_modules(ROOT / "workflow" / "scripts" / f"{script}.py"), *modules]


def _home(name):
    return Path(*CATALOGUE[name].module.split(".")).with_suffix(".py")


def _files(names):
    library = ROOT / "workflow" / "lib"
    return {path.relative_to(library) for path in module_files(names)}


def test_what_shows_mechanisms_depends_on_none_of_their_modules():
    homes = {_home(name) for name in CATALOGUE}
    figures = (ROOT / "workflow" / "lib" / "shuffledp" / "figures").glob("[!_]*.py")
    shown = [_modules("draw_figure", f"shuffledp.figures.{path.stem}") for path in figures]
    assert len(shown) > 8
    for names in [*shown, _modules("write_page"), _modules("compare_mechanisms"),
                  _modules("grid_checkins"), _modules("tabulate_individual")]:  # fmt: skip
        assert with_mechanisms(names, [CATALOGUE["krr"].module]) == names
        assert not homes & _files(names), names


def test_what_looks_mechanisms_up_depends_on_those_that_it_is_given():
    names = _modules("release_histograms")
    found = _files(with_mechanisms(names, [CATALOGUE["user-dummies"].module]))
    assert _home("user-dummies") in found
    assert not {_home("hadamard"), _home("local-hashing")} & found
    assert not {_home("user-dummies"), _home("hadamard")} & _files(names)


def _hooks():
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    return [hook["entry"] for hook in local["hooks"]]


def test_hooks_are_the_tools_of_make_lint():
    makefile = (ROOT / "Makefile").read_text()
    recipe = re.search(r"^lint: .*\n((?:\t.*\n)+)", makefile, re.MULTILINE)[1]
    in_make = {line.split()[0].rpartition("/")[2] for line in recipe.splitlines()}
    assert {entry.split()[0].rpartition("/")[2] for entry in _hooks()} == in_make - {"snakemake"}


def test_hosted_tests_begin_with_the_oldest_python():
    ci = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]
    pythons = ci["test"]["strategy"]["matrix"]["python"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={pythons[0]}"
    assert pythons == [f"3.{11 + number}" for number in range(len(pythons))]
