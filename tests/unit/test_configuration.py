"""The default configuration passes; each mistake is named with its key."""

import copy
import re
from pathlib import Path

import pytest
import yaml
from shuffledp import configuration
from shuffledp.configuration import ConfigurationError, check_configuration
from shuffledp.errors import InputError
from shuffledp.schema import check_schema

ROOT = Path(__file__).parents[2]
DEFAULT = yaml.safe_load((ROOT / "config" / "config.yaml").read_text())
CITIES = {"paris", "san_francisco"}
SCHEMA = yaml.safe_load((ROOT / "workflow" / "schemas" / "config.schema.yaml").read_text())


def _with(path, value):
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
    check_configuration(DEFAULT, CITIES)
    check_schema(DEFAULT, SCHEMA)
    gowalla = yaml.safe_load((ROOT / "config" / "gowalla.yaml").read_text())
    merged = DEFAULT | gowalla
    check_schema(merged, SCHEMA)
    check_configuration(merged, CITIES)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("source", "gowala", r"source.*gowala.*embedded"),
        ("regions/paris/source", "mine", r"regions\.paris\.source.*mine"),
        ("regions/paris/box/south", 49.5, r"regions\.paris.*south.*north|regions\.paris.*49\.5"),
        ("regions/paris/box/east", 2.0, r"regions\.paris.*west.*east|regions\.paris.*2\.0"),
        ("regions/paris/grids/shape", {"shape": [1, 1]}, r"regions\.paris\.grids\.shape.*2"),
        ("regions/paris/grids/step", {"step": [5.0, 5.0]}, r"regions\.paris\.grids\.step"),
        ("regions/lyon", {"outline": "absent.geojson", "n": ["all"],
          "grids": {"a": {"metres": 500}}}, r"lyon.*absent\.geojson"),
        ("regions/lyon", {"box": DEFAULT["regions"]["paris"]["box"], "n": ["all"],
          "grids": {"a": {"metres": 500}}}, r"lyon.*embedded only for paris, san_fr"),
        ("eps", [0.5, 4], r"eps.*4.*below every eps0"),
        ("sources/embedded/url", "http://x", r"sources\.embedded\.url"),
        ("sources/mine", {"kind": "file", "path": "x.csv"}, r"sources\.mine.*layout"),
        ("sources/mine", {"kind": "download", "layout": "snap"}, r"sources\.mine.*url"),
        ("sources/mine", {"kind": "file", "path": "x", "layout": {"format": "csv", "header": False,
         "columns": {"latitude": "lat", "longitude": 1}}}, r"sources\.mine\.layout.*lat"),
    ],
)  # fmt: skip
def test_mistakes_in_relations_are_named(path, value, message):
    with pytest.raises(ConfigurationError, match=message):
        check_configuration(_with(path, value), CITIES)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("seeds", 1),
        ("seed", -1),
        ("seed", "one"),
        ("eps0", []),
        ("eps0", [0]),
        ("eps0", [-1]),
        ("eps0", ["four"]),
        ("eps", [0]),
        ("target_delta", 0),
        ("target_delta", 1),
        ("repetitions", 0),
        ("regions", {}),
        ("regions/Paris; rm", {}),
        ("regions/paris/n", [1.5]),
        ("regions/paris/n", ["some"]),
        ("regions/paris/grids/shape", {"shape": [0, 3]}),
        ("regions/paris/grids/shape", {"shape": [3, 3], "metres": 5}),
        ("regions/paris/outline", "a.geojson"),
        ("regions/paris/box/north", 91),
        ("sources/mine", {"kind": "ftp"}),
        ("sources/mine", {"kind": "download", "url": "file:///etc/passwd"}),
        ("max_malformed_share", 2),
    ],
)
def test_the_schema_refuses(path, value):
    above = path.rpartition("/")[0] or path
    with pytest.raises(InputError, match=re.escape(above.replace("/", "."))):
        check_schema(_with(path, value), SCHEMA)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("repetition", 5, "repetition: there is no such key; did you mean repetitions?"),
        ("colour", 5, "colour: there is no such key (keys: seed, source, unit, sources, "),
        ("seed", None, "seed: this key is missing"),
        ("regions/paris/grids", None, "regions.paris.grids: this key is missing"),
        ("regions/paris/box", None, "regions.paris: give either box or outline, and not both"),
        ("regions/paris/outline", "a", "regions.paris: give either box or outline, and not both"),
        ("regions/paris/box/north", "48,9", "regions.paris.box.north: '48,9' is not of type"),
        ("regions/paris/n", ["some"],
         "regions.paris.n[0]: must be a whole number from 2 or the word all (got 'some')"),
        ("regions/New York", DEFAULT["regions"]["paris"],
         "regions: the name 'New York' must be made of lower-case letters, digits and _, and"),
        ("target_delta", "1e-6",
         "target_delta: '1e-6' is text to YAML, which reads a number only with a point before"),
        ("repetitions", "1e3", "repetitions: '1e3' is text to YAML"),
        ("sources/mine", {"kind": "file", "layout": {"format": "csv"}},
         "sources.mine.layout.columns: this key is missing"),
        ("sources/mine", {"kind": "file", "layout": 3},
         "sources.mine.layout: must be the word snap or a mapping with the keys format, columns"),
        ("unit", "person", "unit: 'person' is not one of ['checkin', 'user']"),
        ("regions", None, "regions: this key is missing"),
    ],
)  # fmt: skip
def test_mistakes_are_said_in_words(path, value, message):
    with pytest.raises(InputError) as refused:
        check_schema(_with(path, value), SCHEMA)
    (line,) = str(refused.value).splitlines()
    assert line.startswith(message)


def test_many_mistakes_are_all_counted():
    config = _with("eps0", ["a"] * 12) | {"eps": [0]}
    with pytest.raises(InputError) as refused:
        check_schema(config, SCHEMA)
    lines = str(refused.value).splitlines()
    assert len(lines) == 11
    assert lines[-1] == "and 4 more"  # 12 words, no two of which may be alike, and an eps of 0


def _keys(node):
    """Keys that a part of the schema names itself, its choices included."""
    keys = set(node.get("properties", {}))
    return keys.union(*(_keys(choice) for choice in node.get("oneOf", [])))


def _documented():
    """First column of the tables of config/README.md, by heading."""
    readme = (ROOT / "config" / "README.md").read_text()
    return {
        part.partition("\n")[0]: set(re.findall(r"^\| `(\w+)`", part, re.MULTILINE))
        for part in readme.split("\n## ")
    }


def test_exactly_the_keys_of_the_schema_are_documented():
    documented = _documented()
    top = SCHEMA["properties"]
    source = top["sources"]["additionalProperties"]
    assert documented["# Configuration"] == _keys(SCHEMA)
    assert documented["A source"] == _keys(source) | _keys(source["properties"]["layout"])
    assert documented["A region"] == _keys(top["regions"]["additionalProperties"])


@pytest.mark.parametrize("name", ["region_from_config", "make_lattice"])
def test_a_defect_is_not_a_mistake_in_the_configuration(monkeypatch, name):
    def broken(*arguments):
        raise ValueError("negative area")

    monkeypatch.setattr(configuration, name, broken)
    with pytest.raises(ValueError, match="negative area") as caught:
        check_configuration(DEFAULT, CITIES)
    assert not isinstance(caught.value, InputError)
