"""The public package: its names, version, imports and arguments."""

import ast
import doctest
import importlib
import json
import re
import sys
import tomllib
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import yaml
from waiting import run, run_python

import shuffledp
from shuffledp import Setting, queries
from shuffledp.accounting.bound_registry import BOUNDS
from shuffledp.errors import InputError

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "src"
SETTING = Setting(n=1000, k=5, eps0=1.0)
DRAWN = Setting(n=1000, k=5, eps0=1.0, sampling_rate=0.5)
EXTRAS = ("diffprivlib", "geopandas", "matplotlib", "pandas", "pyarrow", "shapely", "snakemake")


def loaded(code):
    """Return the modules that a new process has loaded after running some code."""
    done = run_python("-c", f"{code}\nimport sys; print(*sys.modules)")
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_the_stub_names_what_the_package_gives():
    stub = ast.parse((LIBRARY / "shuffledp" / "__init__.pyi").read_text())
    named = {alias.asname for node in ast.walk(stub) if isinstance(node, ast.ImportFrom)
             for alias in node.names}  # fmt: skip
    # These need the extra `maps`, so that `__all__` leaves it out.
    assert named | {"__version__"} == {*shuffledp.__all__, "area", "preview", "publish"}
    assert callable(shuffledp.publish)
    assert all(hasattr(shuffledp, name) for name in shuffledp.__all__)
    with pytest.raises(AttributeError, match="no_such"):
        _ = shuffledp.no_such


def public_functions():
    """Return the public functions and types by name; a module stands for its functions."""
    for name in sorted({*shuffledp.__all__} - {"__version__", "krr"}):
        yield name, getattr(shuffledp, name)
    yield "krr.randomise", shuffledp.krr.randomise
    yield "krr.invert", shuffledp.krr.invert


@pytest.mark.parametrize(
    "module", sorted({item.__module__ for _, item in public_functions()} | {"shuffledp"})
)
def test_examples_in_docstrings_come_true(module):
    failed, tried = doctest.testmod(importlib.import_module(module), optionflags=doctest.ELLIPSIS)
    assert failed == 0
    assert tried > 0


def test_importing_the_package_loads_nothing_heavy():
    assert "numpy" not in loaded("import shuffledp; shuffledp.__version__")
    assert "numpy" not in loaded("import shuffledp.cli")


def test_the_accountant_loads_no_extra_and_no_slow_part_of_scipy():
    ends = loaded(
        "import shuffledp.cli.answers; shuffledp.epsilon(1e-6, shuffledp.Setting(9, 3, 1.0))"
    )
    slow = {"scipy.stats", "tqdm", "dp_accounting"}
    assert not ends & {*EXTRAS, *slow}


def test_the_version_is_the_same_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert shuffledp.__version__ == project["version"]
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == project["version"]
    entities = json.loads((ROOT / "ro-crate-metadata.json").read_text())["@graph"]
    assert {each["version"] for each in entities if "version" in each} == {project["version"]}


def test_numbers_are_plain_and_arrays_stay_arrays():
    one = shuffledp.delta(0.1, SETTING)
    assert type(one.lower) is type(one.upper) is float
    many = shuffledp.delta([0.1, 0.2], SETTING)
    assert many.upper.shape == (2,)
    assert many.upper[0] == one.upper
    assert np.all(many.lower <= many.upper)


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
    listed = shuffledp.bounds(1e-6, SETTING)
    assert list(listed) == ["lower", "upper", "clones"]
    assert list(listed.values()) == sorted(listed.values())
    assert listed["upper"] == shuffledp.epsilon(1e-6, SETTING).upper


@pytest.mark.parametrize(
    "call",
    [
        lambda: shuffledp.delta(-0.1, SETTING),
        lambda: shuffledp.epsilon(0.0, SETTING),
        lambda: shuffledp.calibrate(float("nan"), 1e-6, Setting(1000, 5)),
        lambda: shuffledp.calibrate(0.0, 1e-20, Setting(1000, 5)),
        # A field that is ignored would make a promise that does not hold.
        lambda: shuffledp.rdp(2, Setting(1000, 5, 1.0, colluding=100)),
        lambda: shuffledp.rdp(2, Setting(1000, 5, 1.0, response_rate=0.5)),
        lambda: shuffledp.compare(1, 1e-6, Setting(1000, 5, sampling_rate=0.5)),
        lambda: shuffledp.calibrate(1, 1e-6, Setting(1000, 5, dummies=1.0), "two-servers"),
        lambda: shuffledp.plan(n=1000, k=5, eps0=1.0, eps=1.0, dummies=1.0),
    ],
)
def test_arguments_out_of_range_are_refused(call):
    with pytest.raises(InputError):
        call()


WRONG = ["krr", "1", None, [None], object(), 1j, float("nan")]
FREE = Setting(1000, 5)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("n", lambda value: Setting(value, 5, 1.0)),
        ("eps0", lambda value: Setting(1000, 5, value)),
        ("rate", lambda value: Setting(1000, 5, 1.0, sampling_rate=value)),
        ("dummies", lambda value: Setting(1000, 5, 1.0, dummies=value)),
        ("eps", lambda value: shuffledp.delta(value, SETTING)),
        ("delta", lambda value: shuffledp.epsilon(value, SETTING)),
        ("eps", lambda value: shuffledp.calibrate(value, 1e-6, FREE)),
        ("mechanism", lambda value: shuffledp.calibrate(1.0, 1e-6, FREE, value or "")),
        ("delta", lambda value: shuffledp.bounds(value, SETTING)),
        ("shares", lambda value: shuffledp.compare(1, 1e-6, FREE, shares=value or "")),
        ("eps", lambda value: shuffledp.plan(n=1000, k=5, eps0=1.0, eps=value or "")),
        ("order", lambda value: shuffledp.rdp(value, SETTING)),
        ("alpha", lambda value: shuffledp.fdp(value, SETTING)),
        ("rows|probabilities|matrix", lambda value: shuffledp.matrix(value, 9, eps=1.0)),
        ("budgets", lambda value: shuffledp.personal_budgets(1e-6, value, k=5)),
        ("setting|schedule", lambda value: shuffledp.epsilon(1e-6, value)),
        ("bound", lambda value: shuffledp.delta(0.1, SETTING, bound=value)),
    ],
)
def test_values_of_a_wrong_type_are_named(name, call, wrong):
    if name == "mechanism" and wrong == "krr":
        return
    with pytest.raises(InputError, match=name):
        call(wrong)


def test_the_name_of_a_mechanism_is_no_mechanism():
    with pytest.raises(InputError, match=r"shuffledp\.mechanism\(.*, got mechanism='two-servers'"):
        Setting(1000, 5, mechanism="two-servers")
    with pytest.raises(InputError, match="unknown mechanism 'none'"):
        shuffledp.mechanism("none")
    with pytest.raises(InputError, match="eps must be a number, got eps='1'"):
        shuffledp.mechanism("discrete-laplace", eps="1")
    by_text = shuffledp.mechanism("two-servers", "eps=0.5, nu=20")
    assert by_text == shuffledp.mechanism("two-servers", eps=0.5, nu=20)


TYPED = """
from collections.abc import Mapping
from typing import Any
import numpy as np
import shuffledp
from opendp.mod import PrivacyProfile
from shuffledp import Setting
from shuffledp.publishing.options import Protection

setting = Setting(100_000, 408, eps0=4)
one: float | None = shuffledp.epsilon(1e-6, setting).upper
two: float = shuffledp.delta(0.1, [setting]).promised + shuffledp.log_delta(0.1, setting).promised
many = shuffledp.epsilon([1e-6, 1e-8], setting).upper
found = shuffledp.calibrate(1, 1e-6, Setting(1000, 5), "two-servers")
again = shuffledp.epsilon(1e-6, found.setting)
eps0: float = shuffledp.calibrate(1, 1e-6, Setting(1000, 5)).eps0
n: int = shuffledp.plan(k=5, eps0=1, eps=1, delta=1e-6).setting.n
for each in shuffledp.compare(1, 1e-6, Setting(1000, 5), mechanisms=["krr"]).mechanisms:
    sd: float = each.calibration.cell_sd if each.calibration else 0.0
shown: int = min(way.shown_from for way in shuffledp.compare_sparse(1, 1e-6, 1000, 5))
renyi: float = shuffledp.rdp(2, setting) + shuffledp.fdp(0.05, setting)
least: float = min(shuffledp.bounds(1e-6, setting).values())
text: str = shuffledp.certify(0.1, setting).text
proven: bool = all(each.proven for each in shuffledp.verify("certificate.json"))
named = Setting(1000, 5, mechanism=shuffledp.mechanism("two-servers", eps=0.5, nu=20))
high: float = shuffledp.matrix([[0.7, 0.3], [0.3, 0.7]], 9, eps=0.1).ends.promised
own = shuffledp.personal_budgets(1e-6, shuffledp.read_budgets("budgets.csv"), k=5)[0].eps
schedule: list[Setting] = shuffledp.read_rounds("schedule.csv")
version: str = shuffledp.__version__
protection = Protection("record", 1)
public = shuffledp.publish("a.csv", "map", ledger="a", cells="h3:8", protection=protection)
counted: float = shuffledp.area("map", cells=["a"])["count"][0]
errors: float = shuffledp.preview(cells="h3:8", protection=protection)["error"][0]
statement: Mapping[str, object] = public.statement
ends: shuffledp.Interval[Any] = shuffledp.epsilon(1e-6, setting)
reports = shuffledp.krr.randomise([9, 1], 1.0, np.random.default_rng())
share: float = shuffledp.krr.invert(reports, 1.0).sum()
pld = shuffledp.to_dp_accounting(setting, value_discretization_interval=1e-4)
row = shuffledp.from_dp_accounting(pld, pld.neighboring_relation)
interval: float = pld.self_compose(10).compose(row).value_discretization_interval
joint: float | None = shuffledp.epsilon(1e-6, [setting, Setting(9, 3, mechanism=row)]).upper
profile: PrivacyProfile = shuffledp.to_opendp_profile([setting])
shuffledp.write_curve("curve.csv", shuffledp.epsilon(1e-6, setting).curve, [0.5, 1.0])
shuffledp.to_dp_accounting(0.5)  # type: ignore[arg-type]
shuffledp.epsilon(1e-6).upper  # type: ignore[call-arg]
"""


@pytest.mark.slow
def test_the_whole_api_is_typed(tmp_path):
    used = {*re.findall(r"\bshuffledp\.(\w+)", TYPED), "Setting"}
    assert {*shuffledp.__all__, "area", "preview", "publish"} <= used
    (tmp_path / "typed.py").write_text(TYPED)
    command = [sys.executable, "-m", "mypy", "--strict", str(tmp_path / "typed.py")]
    done = run(command, 600, cwd=ROOT)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    "given",
    [
        {"eps0": np.float16(1.1)},
        {"eps0": Fraction(11, 10)},
        {"n": np.int32(100_000)},
        {"k": np.int16(400)},
        {"rounds": np.int8(3)},
        {"sampling_rate": np.float32(0.1)},
        {"response_rate": np.float16(0.1)},
        {"dummies": np.float32(0.1)},
    ],
    ids=str,
)
def test_numbers_of_other_types_count_as_what_they_are(given):
    (name, value), plain = *given.items(), {"n": 100_000, "k": 400, "eps0": 1.0}
    exact = int(value) if isinstance(value, np.integer) else float(value)
    results = [shuffledp.delta(0.05, Setting(**plain | {name: each})) for each in (value, exact)]
    assert repr(results[0]) == repr(results[1])
