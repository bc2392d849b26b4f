"""The default configuration passes; each mistake is named with its key."""

import copy
import json
from pathlib import Path

import jsonschema
import pytest
import yaml
from shuffledp.configuration import ConfigurationError, check_configuration

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
    jsonschema.validate(DEFAULT, SCHEMA)
    gowalla = yaml.safe_load((ROOT / "config" / "gowalla.yaml").read_text())
    merged = DEFAULT | gowalla
    jsonschema.validate(merged, SCHEMA)
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
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(_with(path, value), SCHEMA)


def _described(node, where=""):
    for name, child in node.get("properties", {}).items():
        yield f"{where}{name}", child
        yield from _described(child, f"{where}{name}.")
    if isinstance(node.get("additionalProperties"), dict):
        yield from _described(node["additionalProperties"], f"{where}*.")


def test_every_key_is_documented():
    readme = (ROOT / "config" / "README.md").read_text()
    for key, _ in _described(SCHEMA):
        assert f"`{key.rpartition('.')[2]}`" in readme, key
    assert json.dumps(SCHEMA)
