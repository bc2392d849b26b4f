"""The default configuration passes; each mistake is named with its key."""

import copy
from pathlib import Path

import pytest
import yaml
from snakemake.utils import update_config

from shuffledp.accounting.bound_registry import BOUNDS
from shuffledp.errors import InputError
from shuffledp.pipeline import configuration
from shuffledp.pipeline.configuration import (
    check_configuration,
    effective_regions,
    leave_out,
)
from shuffledp.pipeline.schema import check_schema, check_unique_keys, set_defaults

ROOT = Path(__file__).parents[2]
DEFAULT = yaml.safe_load((ROOT / "config" / "config.yaml").read_text())
BASEMAPS = {
    name: ROOT / "resources" / "basemaps" / f"{name}.geojson" for name in ("paris", "san_francisco")
}
SCHEMA = yaml.safe_load((ROOT / "workflow" / "schemas" / "config.schema.yaml").read_text())
DEFAULTS = {key: spec["default"] for key, spec in SCHEMA["properties"].items() if "default" in spec}


def check(config):
    """Check a configuration that the schema has completed, as the workflow does."""
    check_configuration(DEFAULTS | config, BASEMAPS)


def changed(path, value):
    """Return the default configuration with one value replaced, or removed if it is None."""
    config = copy.deepcopy(DEFAULT)
    *parents, last = path.split("/")
    node = config
    for key in parents:
        node = node.setdefault(key, {})
    if value is None:
        del node[last]
    else:
        node[last] = value
    return config


def test_the_shipped_configurations_are_valid():
    for name in ("config", "gowalla", "mechanisms", "paper"):
        config = copy.deepcopy(DEFAULT)
        update_config(config, yaml.safe_load((ROOT / "config" / f"{name}.yaml").read_text()))
        leave_out(config)
        check_schema(config, SCHEMA)
        check(config)
    for path in (ROOT / "config").rglob("*.yaml"):
        check_unique_keys(path)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("source", "gowala", r"source.*gowala.*embedded"),
        ("regions/paris/box/south", 49.5, r"regions\.paris.*south.*north|regions\.paris.*49\.5"),
        ("regions/paris/grids/step", {"step": [5.0, 5.0]}, r"regions\.paris\.grids\.step"),
        ("regions/paris", {"outline": "absent.geojson", "n": ["all"],
          "grids": {"a": {"metres": 500}}}, r"paris.*absent\.geojson"),
        ("regions/lyon", {"box": DEFAULT["regions"]["paris"]["box"], "n": ["all"],
          "grids": {"a": {"metres": 500}}}, r"lyon.*embedded only for paris, san_fr"),
        ("eps", [0.5, 4], r"eps.*4.*below every eps0"),
        ("targets/colluding", 1000, r"targets.colluding: 1000 must be below.*paris.n: 1000"),
        ("sources/mine", {"kind": "file", "path": "x.csv"}, r"sources\.mine.*layout"),
        ("regions/paris/unit", "user", r"unit: user.*regions\.paris"),
        ("sources/mine", {"kind": "file", "path": "x", "layout": {"format": "csv", "header": False,
         "columns": {"latitude": "lat", "longitude": 1}}}, r"sources\.mine\.layout.*lat"),
        ("regions/paris/title", "San Francisco",
         "regions.paris.title: 'San Francisco' is also the title of san_francisco"),
        ("regions/paris/mechanisms", ["krr"], r"regions\.paris: mechanisms.*gaussian.*got krr"),
        ("targets/mechanisms", ["none"], "^targets.mechanisms: unknown mechanism 'none'"),
        ("mechanisms", ["oue"], "targets.mechanisms must name one of .*, which limits it to oue"),
        ("regions/paris/basemap", str(BASEMAPS["san_francisco"]),
         r"paris\.basemap: .*geojson shows another place .*-122\.\d+ to -122"),
        ("regions/paris/individual_every", 192, "individual_every .* 192 for the grid shape"),
    ],
)  # fmt: skip
def test_mistakes_in_relations_are_named(path, value, message):
    with pytest.raises(InputError, match=message):
        check(changed(path, value))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("repetition", 5, "^Additional .*'repetition' .*; did you mean repetitions?"),
        ("source", None, "'source' is a required property"),
        ("regions/paris/grids", None, "regions.paris: 'grids' is a required property"),
        ("regions/paris/box/north", "48,9", "regions.paris.box.north: '48,9' is not of type"),
        ("regions/paris/n", [1e3], r"regions.paris.n\[0\]: must be written without point"),
        ("regions/New York", DEFAULT["regions"]["paris"], "'New York' .* lower-case letters"),
        ("sources/a\n", {"kind": "embedded"}, r"sources: 'a\\n' is not accepted"),
        ("eps", [0.5, None], r"eps\[1\]: None is not of type 'number'"),
        ("target_delta", "1e-6", "target_delta: .*; YAML reads .* as in 1.0e-6"),
        ("run", "paper\n", "run: .* is not accepted. Name of a folder of results/"),
        ("sources/mine", {"kind": "download", "url": "file:///etc/passwd"},
         "sources.mine.url: this address is not accepted. Address that begins with http:// or"),
        ("sources/mine", {"kind": "file", "path": "a\0b", "layout": "snap"},
         "sources.mine.path: must not contain control characters"),
        ("a\x1b[2J\n", 1, r"'a\\x1b\[2J\\n' was unexpected"),
    ],
)  # fmt: skip
def test_the_schema_names_key_value_and_what_is_accepted(path, value, message):
    with pytest.raises(InputError, match=message) as refused:
        check_schema(changed(path, value), SCHEMA)
    assert all(line.isprintable() for line in str(refused.value).splitlines())


SECRET = "c0ffee"


@pytest.mark.parametrize(
    "address",
    [
        f"https://me:{SECRET}@example.org/checkins.txt",
        f"https://{SECRET}@example.org/checkins.txt",
        f"ftp://me:{SECRET}@example.org/a,b",
        f"https://example.org/a b?access_token={SECRET}",
        f"htps://me:se/{SECRET}@example.org/checkins.txt",
        f"https://me:se/{SECRET}@example.org/checkins.txt",
    ],
)
def test_an_address_with_a_secret_is_refused_without_showing_it(address):
    config = changed("sources/mine", {"kind": "download", "url": address, "layout": "snap"})
    with pytest.raises(InputError, match="address") as refused:
        check_schema(config, SCHEMA)
        check(config)
    assert SECRET not in str(refused.value)
    assert "\n" not in str(refused.value)


# --- regions with values of their own -----------------------------------------------------------


OWN = {"unit": "user", "eps0": [5], "mechanisms": ["krr", "gaussian"], "bounds": ["upper"]}


def test_a_region_has_its_own_values_or_the_common_ones():
    config = DEFAULTS | changed("regions/paris", DEFAULT["regions"]["paris"] | OWN)
    check_schema(config, SCHEMA)
    config["mechanisms"] = ["two-servers", "gaussian", "oue"]
    regions = effective_regions(config)
    assert regions["san_francisco"]["targets"]["mechanisms"] == ["gaussian", "two-servers"]
    assert regions["paris"]["targets"]["mechanisms"] == ["gaussian", "krr"]
    assert {key: regions["paris"][key] for key in OWN} == OWN
    common = {key: config[key] for key in (*OWN, "source")}
    assert {key: regions["san_francisco"][key] for key in common} == common
    assert regions["paris"]["source"] == config["source"]


def test_a_source_needs_users_only_where_the_unit_is_a_user():
    layout = {"format": "csv", "header": False, "columns": {"latitude": 2, "longitude": 3}}
    nobody = {"kind": "file", "path": "check-ins.txt", "layout": layout}
    named = {"kind": "file", "path": "check-ins.txt", "layout": "snap"}
    config = DEFAULT | {"sources": {"nobody": nobody, "named": named}, "source": "nobody"}
    paris = {k: v for k, v in DEFAULT["regions"]["paris"].items() if k != "basemap"}
    protected = {**paris, "title": "Protected", "source": "named", "unit": "user"}
    check(config | {"regions": {"paris": paris, "lyon": protected}})
    with pytest.raises(InputError, match=r"column `user` .* regions\.paris"):
        check(config | {"regions": {"paris": paris | {"unit": "user"}, "lyon": protected}})


NAMED = {
    **DEFAULT,
    "source": "named",
    "sources": {"named": {"kind": "file", "path": "check-ins.txt", "layout": "snap"}},
    "unit": "user",
}


def test_a_bound_on_each_users_records_may_be_common_or_a_regions_own():
    config = NAMED | {"records_per_user": 3}
    paris = config["regions"]["paris"]
    config["regions"] = config["regions"] | {"paris": paris | {"records_per_user": 1}}
    check(config)
    regions = effective_regions(DEFAULTS | config)
    assert regions["san_francisco"]["records_per_user"] == 3
    assert (regions["paris"]["records_per_user"], regions["paris"]["distinct"]) == (1, False)
    check_schema(config | {"distinct": True}, SCHEMA)
    assert effective_regions(DEFAULTS | DEFAULT)["paris"]["records_per_user"] == 1


TARGETS = {"eps": [1], "delta": 1e-6}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"unit": "checkin"}, r"paris: records_per_user .* needs unit: user, .* unit: checkin"),
        (
            {"unit": "checkin", "records_per_user": 1, "distinct": True},
            r"paris: distinct .* needs unit: user, got distinct: true with unit: checkin",
        ),
        ({"targets": TARGETS | {"colluding": 1}}, "colluding is only .* got records_per_user: 3"),
        ({"targets": TARGETS | {"response_rate": 0.9}}, r"response_rate is only"),
    ],
)
def test_several_records_per_user_are_refused_where_nothing_is_proven(more, message):
    config = NAMED | {"records_per_user": 3, "regions": {"paris": DEFAULT["regions"]["paris"]}}
    check(config)
    with pytest.raises(InputError, match=message):
        check(config | more)


def test_a_region_may_exceed_what_is_common():
    """A larger eps is no mistake where the region's own eps0 is larger as well."""
    config = changed("regions/paris", DEFAULT["regions"]["paris"] | {"eps": [5], "eps0": [8]})
    check(config)


def test_defaults_complete_what_a_configuration_leaves_out():
    config = {"source": "embedded", "eps": [0.5]}
    set_defaults(config, SCHEMA)
    assert config == DEFAULTS | {"source": "embedded", "eps": [0.5]}
    assert set(DEFAULTS["bounds"]) == configuration._COMMON_BOUNDS <= set(BOUNDS)


# --- keys given twice ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("seed: 1\nrepetitions: 3\nseed: 2\n", "line 3: seed is given twice, in lines 1 and 3"),
        ("seed: 1\neps0:\n\t- 3\n", "line 3: found character '\\\\t' that cannot start any token"),
        ("seed: 1\nrun: caf\u00e9\n".encode("latin-1"), "invalid continuation byte"),
        ('seed: !!python/object/apply:os.system ["true"]', "line 1: could not determine a const"),
        ("eps: [1]\nseed: " + "9" * 5000, "mine.yaml: Exceeds the limit"),
    ],
)  # fmt: skip
def test_a_broken_file_is_named_with_its_line(tmp_path, content, message):
    path = tmp_path / "mine.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=message) as refused:
        check_unique_keys(path)
    assert str(refused.value).startswith(str(path))
    assert str(refused.value).isprintable()


def test_regions_and_sources_alone_are_a_complete_configuration():
    """A module may have only these: the schema's defaults are the values of the default run."""
    own = ("source", "sources", "regions")
    config = {key: DEFAULT[key] for key in own}
    check_schema(config, SCHEMA)
    check(config)
    shared = DEFAULT.keys() & DEFAULTS.keys() - {*own, "targets"}
    assert {"seed", "eps0", "eps", "repetitions", "target_delta"} <= shared
    assert {key: DEFAULT[key] for key in shared} == {key: DEFAULTS[key] for key in shared}
