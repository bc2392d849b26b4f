"""A mutated configuration is refused with a clear message, or it can be run."""

import copy
import json
import math
from urllib.parse import urlsplit

import numpy as np
import pytest
from unit.test_configuration import BASEMAPS, DEFAULT, DEFAULTS, SCHEMA
from workflow.conftest import BOX

from faults.mutation import KINDS, mutated
from shuffledp.errors import InputError
from shuffledp.pipeline import configuration
from shuffledp.pipeline.schema import check_schema

BASE = {
    **DEFAULT,
    "source": "mine",
    "sources": {
        "embedded": {"kind": "embedded"},
        "mine": {
            "kind": "file",
            "path": "check-ins.txt",
            "checksum": "md5:" + "0" * 32,
            "layout": {
                "format": "csv",
                "separator": ";",
                "header": True,
                "columns": {"latitude": "lat", "longitude": 3, "user": "who"},
            },
        },
        "far": {"kind": "download", "url": "https://example.org/a.txt.gz", "layout": "snap"},
    },
    "regions": {
        "paris": {
            "title": "Paris",
            "source": "embedded",
            "box": {"south": 48.8286, "north": 48.8798, "west": 2.2855, "east": 2.3909},
            "grids": {"shape": {"shape": [12, 16]}, "step": {"step": [0.00427, 0.0066]}},
            "n": [1000, 2000, "all"],
            "individual_every": 20,
        },
        "town": {"box": BOX, "grids": {"metric": {"metres": 500}}, "n": ["all"], "source": "far"},
        "village": {
            "outline": "outline.geojson",
            "grids": {"a": {"shape": [3, 4]}},
            "n": [400],
            "unit": "user",
            "eps0": [2],
            "eps": [0.5, 1],
            "repetitions": 4,
            "mechanisms": ["krr", "gaussian"],
            "bounds": ["upper", "clones"],
        },
    },
}
OUTLINE = {"type": "Polygon", "coordinates": [[[2, 48], [2.1, 48], [2.1, 48.1], [2, 48]]]}


@pytest.fixture
def outline(tmp_path, monkeypatch):
    (tmp_path / "outline.geojson").write_text(json.dumps(OUTLINE))
    monkeypatch.chdir(tmp_path)


def completed(config):
    """Complete a configuration as the workflow does: no empty regions, the defaults added."""
    config = copy.deepcopy(config)
    configuration.leave_out(config)
    return DEFAULTS | config


def refusal(config):
    """Return the message with which a configuration is refused, or None."""
    try:
        config = completed(config)
        check_schema(config, SCHEMA)
        configuration.check_configuration(config, BASEMAPS)
    except InputError as error:
        assert len(str(error)) < 6000
        return str(error)
    return None


def _is_whole(value, low, high=math.inf):
    return type(value) is int and low <= value <= high


def _is_number(value, low, high):
    return type(value) in (int, float) and low <= value <= high


def assert_usable_sweeps(config):
    assert _is_whole(config["repetitions"], 1, 100_000)
    assert len(config["eps0"]) > 0 and all(_is_number(e, 1e-9, 20) for e in config["eps0"])
    assert len(config["eps"]) > 0
    assert all(_is_number(e, 1e-9, min(config["eps0"])) for e in config["eps"])
    assert max(config["eps"]) < min(config["eps0"])
    assert "gaussian" in config.get("mechanisms", ["gaussian"])
    assert config["bounds"]
    assert config["unit"] in ("checkin", "user")


def assert_usable(config):
    """Check what every later stage relies on, without the schema or the library."""
    config = completed(config)
    assert _is_whole(config["seed"], 0)
    assert _is_number(config["max_malformed_share"], 0, 1)
    assert 0 < config["target_delta"] < 1
    assert not set(config["run"]) & set("/. \n")
    for spec in config["regions"].values():
        assert_usable_sweeps({**config, **spec})
    titles = [spec.get("title", name) for name, spec in config["regions"].items()]
    assert len(set(titles)) == len(titles) > 0
    for name, spec in config["regions"].items():
        source = config["sources"][spec.get("source", config["source"])]
        assert source["kind"] in ("file", "download") or name in BASEMAPS
        assert name.replace("_", "a").isalnum() and name.isascii()
        assert all(n == "all" or _is_whole(n, 2) for n in spec["n"])
        assert _is_whole(spec.get("individual_every", 1), 1)
        assert spec["grids"]
        if "box" in spec:
            box = spec["box"]
            assert -90 <= box["south"] < box["north"] <= 90
            assert -180 <= box["west"] < box["east"] <= 180
        for grid, cells in spec["grids"].items():
            assert grid.replace("_", "a").isalnum()
            ((_, size),) = cells.items()
            assert all(number > 0 for number in (size if isinstance(size, list) else [size]))
    for source in config["sources"].values():
        if source["kind"] == "download":
            assert urlsplit(source["url"]).hostname
            name = urlsplit(source["url"]).path.rpartition("/")[2]
            assert name and name.isascii() and not set(name) & set("\"'`$;|&<>(){}*!# \\\n")
        if source["kind"] == "file":
            assert source["path"].isprintable()


def test_the_unchanged_configuration_is_valid(outline):
    assert refusal(BASE) is None
    assert_usable(BASE)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_mutated_configurations(outline, kind):
    mutants = [mutated(BASE, kind, np.random.default_rng(seed)) for seed in range(40)]
    accepted = [config for config in mutants if refusal(config) is None]
    for config in accepted:
        assert_usable(config)
    assert len(accepted) < len(mutants)
