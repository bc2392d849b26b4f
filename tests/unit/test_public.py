"""The public package: its names, help, version and imports."""

import ast
import doctest
import pydoc
import re
import subprocess
import sys
import tomllib
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
import shuffledp
import yaml
from shuffledp import Setting, queries, version
from shuffledp.accounting.registry import BOUNDS
from shuffledp.accounting.setting import probabilities
from shuffledp.errors import InputError

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "workflow" / "lib"
SETTING = Setting(n=1000, k=5, eps0=1.0)
DRAWN = Setting(n=1000, k=5, eps0=1.0, sampling_rate=0.5)
EXTRAS = ("diffprivlib", "geopandas", "matplotlib", "pandas", "pyarrow", "shapely", "snakemake")


def loaded(code):
    """Return the modules that a new process has loaded after running some code."""
    code = f"import sys; sys.path.insert(0, {str(LIBRARY)!r})\n{code}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_stub_names_what_the_package_gives():
    stub = ast.parse((LIBRARY / "shuffledp" / "__init__.pyi").read_text())
    named = {alias.name for node in ast.walk(stub) if isinstance(node, ast.ImportFrom)
             for alias in node.names}  # fmt: skip
    assert named | {"__version__"} == set(shuffledp.__all__)
    assert all(hasattr(shuffledp, name) for name in shuffledp.__all__)
    with pytest.raises(AttributeError, match="no_such"):
        _ = shuffledp.no_such


def test_help_shows_every_name():
    shown = pydoc.render_doc(shuffledp, renderer=pydoc.plaintext)
    for name in set(shuffledp.__all__) - {"__version__", "krr"}:
        assert re.search(rf"^    (class )?{name}\(", shown, re.MULTILINE), name
    assert "epsilon(delta: 'ArrayLike | Decimal" in pydoc.render_doc(
        shuffledp.epsilon, renderer=pydoc.plaintext
    )


@pytest.mark.parametrize("module", [shuffledp, queries])
def test_examples_in_docstrings_come_true(module):
    failed, tried = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert failed == 0
    assert tried > 0


def test_importing_the_package_loads_nothing_heavy():
    assert "numpy" not in loaded("import shuffledp; shuffledp.__version__")
    assert "numpy" not in loaded("import shuffledp.cli")


def test_the_accountant_loads_no_extra_and_no_slow_part_of_scipy():
    ends = loaded(
        "import shuffledp.cli.answers; shuffledp.epsilon(1e-6, shuffledp.Setting(9, 3, 1.0))"
    )
    slow = {"scipy.stats", "scipy.optimize", "scipy.fft", "tqdm", "dp_accounting"}
    assert not ends & {*EXTRAS, *slow}


def test_the_version_is_the_same_everywhere(monkeypatch, tmp_path):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert shuffledp.__version__ == project["version"]
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == project["version"]
    # Outside a clone it comes from the metadata of the installed wheel.
    monkeypatch.setattr(version, "_PROJECT", tmp_path / "absent.toml")
    monkeypatch.setattr(version, "version", lambda name: {"shuffledp": "9.9"}[name])
    assert version.find_version() == "9.9"


def test_another_project_around_the_package_does_not_lend_its_version(monkeypatch, tmp_path):
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "other"\nversion = "3"\n')
    monkeypatch.setattr(version, "_PROJECT", tmp_path / "pyproject.toml")
    monkeypatch.setattr(version, "version", lambda name: "9.9")
    assert version.find_version() == "9.9"


def test_numbers_are_plain_and_arrays_stay_arrays():
    one = shuffledp.delta(0.1, SETTING)
    assert type(one.lower) is type(one.upper) is float
    many = shuffledp.delta([0.1, 0.2], SETTING)
    assert many.upper.shape == (2,)
    assert many.upper[0] == one.upper
    assert np.all(many.lower <= many.upper)


def test_epsilon_inverts_delta():
    eps = shuffledp.epsilon(1e-8, SETTING)
    assert shuffledp.delta(eps.upper, SETTING).upper <= 1e-8
    assert shuffledp.delta(eps.lower, SETTING).lower >= 1e-8


def test_deltas_too_small_for_floats():
    many = Setting(n=10_000, k=16, eps0=1.0)
    eps = shuffledp.epsilon(Decimal("1e-500"), many)
    assert 0.0 < eps.lower <= eps.upper < 1.0
    ends = shuffledp.delta(eps.upper, many)
    assert (ends.lower, ends.upper) == (0.0, 5e-324)
    assert shuffledp.delta(1.0, SETTING).upper == 0.0


def test_a_bound_with_one_end():
    assert shuffledp.delta(0.1, SETTING, bound="clones").lower is None
    assert shuffledp.epsilon(1e-6, SETTING, bound="single-bin").upper is None
    assert shuffledp.log_delta([0.1, 0.2], DRAWN).upper.shape == (2,)


def test_applicable_bounds_are_listed_smallest_first(monkeypatch):
    few = ("clones", "upper", "exact-2rr", "lower")  # all of them take a while
    monkeypatch.setattr(queries, "BOUNDS", {name: BOUNDS[name] for name in few})
    found = shuffledp.bounds(1e-6, SETTING)
    assert list(found) == ["lower", "upper", "clones"]
    assert list(found.values()) == sorted(found.values())
    assert found["upper"] == shuffledp.epsilon(1e-6, SETTING).upper


@pytest.mark.parametrize(
    "call",
    [
        lambda: shuffledp.delta(-0.1, SETTING),
        lambda: shuffledp.delta(0.1, SETTING, bound="none"),
        lambda: shuffledp.delta(0.1, Setting(1000, 5, 1.0, sampling_rate=2.0)),
        lambda: shuffledp.epsilon(0.0, SETTING),
        lambda: shuffledp.epsilon([0.1, 2.0], SETTING),
        lambda: shuffledp.calibrate(float("nan"), 1e-6, Setting(1000, 5)),
        lambda: shuffledp.calibrate(0.1, 1e-6, Setting(0, 5)),
        lambda: probabilities(1.0, 1),
    ],
)
def test_arguments_out_of_range_are_refused(call):
    with pytest.raises(InputError):
        call()
