"""Promises about the project itself: dependencies, direction of imports, documentation."""

import ast
import importlib
import inspect
import pkgutil
import re
import tomllib
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
import yaml

import shuffledp
from shuffledp.pipeline import fingerprints

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "shuffledp"

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
# At the root: public names and what they are made of, the command's entry, errors and version.
API = {"input_files", "queries", "results"}
CONFINED = {
    "snakemake": set(),
    "matplotlib": {"figures", "papers"},
    "geopandas": {"data", "figures", "publishing"},
    "shapely": {"data", "figures", "publishing"},
    "opendp": {"interoperability", "publishing"},
    "flint": {"verification"},
    "diffprivlib": {"mechanisms"},
    "dp_accounting": {"interoperability"},
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
    anyone = anyone or (package == "cli" and rest[0] in API)
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


@cache
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


def _pins():
    lock = (ROOT / "requirements.lock").read_text()
    return dict(re.findall(r"^([a-z0-9-]+)==([^\s;\\]+)", lock, flags=re.MULTILINE))


def test_conda_environment_agrees_with_the_lock():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    *from_conda, packages = environment["dependencies"]
    assert from_conda == ["python =3.11", "pip"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    kept = ("maps", "pipeline", "slurm")
    declared = sum((extras[name] for name in kept), project["dependencies"])
    names = {re.split(r"[><=\[]", line)[0] for line in declared} - {"shuffledp"}
    pins = _pins()
    assert packages == {"pip": ["-e .", *(f"{name}=={pins[name]}" for name in sorted(names))]}


def test_the_lock_is_hashed_and_names_no_index():
    lock = (ROOT / "requirements.lock").read_text().replace("\\\n", " ")
    pinned = re.compile(r"[a-z0-9._-]+==\S+( ; [^#]+?)?( +--hash=sha256:[0-9a-f]{64})+ *")
    lines = [line for line in lock.splitlines() if not line.lstrip().startswith("#")]
    assert lines
    assert [line for line in lines if not pinned.fullmatch(line)] == []


SCRIPTS = ROOT / "workflow" / "scripts"


def _packages_of(script):
    """Packages of the library whose modules a script imports, directly or not."""
    imports = _imports_by_module()
    waiting = {name if name in imports else name.rpartition(".")[0] for name in _imported(script)}
    reached = set()
    while waiting:
        reached |= waiting & imports.keys()
        waiting = set().union(*(imports[name] for name in reached)) - reached
    return {name.split(".")[1] for name in reached if "." in name}


@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*.py")), ids=lambda path: path.stem)
def test_a_rule_depends_on_all_code_that_its_script_can_use(script):
    rules = "".join(path.read_text() for path in (ROOT / "workflow" / "rules").glob("*.smk"))
    used = _packages_of(script)
    assert not used & {"cli", "interoperability", "publishing", "verification"}
    for rule in rules.split("\nrule ")[1:]:
        body = rule.partition("\nuse rule ")[0]
        # A download is kept whatever changes in the code.
        if f'"../scripts/{script.name}"' in body and not body.startswith("fetch_file:"):
            code = "code=DRAWING" in body, "code=COMPUTING" in body and "figures" not in used
            assert any(code), body


SOURCE = '"""Module."""\n\ndef f(x):\n    """Say {x}."""\n    return x in {"a", "b"}\n'


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        ("Say {x}.", "Return\n\n    it.", False),
        (SOURCE, f"# A remark.\n{SOURCE}\n\n# Another.\n", False),
        (SOURCE, "def f(x):\n    return x in {'a',\n 'b'}", False),
        ('"b"', '"c"', True),
        (" in ", " not in ", True),
        ("def f", "def g", True),
        ("(x)", "(x=1)", True),
    ],
)
def test_only_a_change_of_code_changes_a_fingerprint(tmp_path, monkeypatch, old, new, changes):
    monkeypatch.setattr(fingerprints, "_PACKAGE", tmp_path)
    (tmp_path / "errors.py").write_text(SOURCE)
    before = fingerprints.computing_fingerprint()
    (tmp_path / "errors.py").write_text(SOURCE.replace(old, new, 1))
    assert (fingerprints.computing_fingerprint() != before) == changes


def test_fingerprints_follow_the_code_of_their_packages(tmp_path, monkeypatch):
    for name in (
        *("accounting/curve.py", "accounting/laws/sums.py", "figures/style.py", "cli/main.py"),
        "errors.py",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text("a = 1\n")
    monkeypatch.setattr(fingerprints, "_PACKAGE", tmp_path)

    def changed_by(name, text):
        both = [fingerprints.computing_fingerprint, fingerprints.drawing_fingerprint]
        before = [each() for each in both]
        (tmp_path / name).write_text(text)
        return [each() != old for each, old in zip(both, before, strict=True)]

    assert changed_by("accounting/curve.py", "a = 2\n") == [True, True]
    assert changed_by("accounting/laws/sums.py", "a = 2\n") == [True, True]
    assert changed_by("accounting/sum.py", "a = 1\n") == [True, True]
    assert changed_by("errors.py", "a = 2\n") == [True, True]
    assert changed_by("figures/style.py", "a = 2\n") == [False, True]
    assert changed_by("cli/main.py", "a = 2\n") == [False, False]
