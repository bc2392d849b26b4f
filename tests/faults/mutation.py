"""Seeded mutations of a configuration, like mistakes of typing, of copying and of YAML."""

import copy
import datetime
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

Random = np.random.Generator

SHELL = ["$(touch pwned)", "`touch pwned`", "a; touch pwned", "'; touch pwned; '", "x | tee pwned"]
SHELL += ['"$(touch pwned)"', "it's $(touch pwned)", "& touch pwned &", "> pwned", "{wildcards}"]
VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 1.0, 3.0, 0.5, -0.0, 10**30, -(10**30), 2**63, 1e308, 1e-320),
    *(math.nan, math.inf, -math.inf, "nan", "NaN", ".inf", "1", "1e5", "one", "", " ", "\0", "\n"),
    *("é", "東京", "\u202e", "\ud7ff", "😀", "a" * 5000, "../..", "/", "~", "*", "%s", "{", "}"),
    *([], {}, [[]], [None], {"": None}, {1: 2}, [1, "all"], ["all", "all"], [math.nan], [1, 1]),
    *(datetime.date(2010, 10, 1), "snap", "embedded", "file", "all", "http://", "https:///"),
    "x\ny",
    *SHELL,
]
KEYS: list[Any] = [1, True, "", "é", "a b", "town\n", "../x", "seed ", "Seed", "$(touch pwned)"]


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every container of a configuration with each of its keys or positions."""
    pairs = node.items() if isinstance(node, dict) else enumerate(node)
    for key, child in pairs:
        yield node, key
        if isinstance(child, dict | list):
            yield from _places(child)


def _pick(options: list[Any], random: Random) -> Any:
    return copy.deepcopy(options[int(random.integers(len(options)))])


def replace(node: Any, key: Any, random: Random) -> None:
    node[key] = _pick(VALUES, random)


def remove(node: Any, key: Any, random: Random) -> None:
    del node[key]


def add(node: Any, key: Any, random: Random) -> None:
    if isinstance(node, dict):
        node[_pick(KEYS, random)] = copy.deepcopy(node[key])
    else:
        node.append(_pick(VALUES, random))


def rename(node: Any, key: Any, random: Random) -> None:
    if isinstance(node, dict):
        node[_pick(KEYS, random)] = node.pop(key)
    else:
        node[key] = _pick(VALUES, random)


def distort(node: Any, key: Any, random: Random) -> None:
    """Scale or negate a number, or insert a character into a word."""
    value = node[key]
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        node[key] = [value]
    elif isinstance(value, str):
        cut = int(random.integers(len(value) + 1))
        node[key] = value[:cut] + _pick([" ", "\n", "'", '"', "{", "é", "\t"], random) + value[cut:]
    else:
        node[key] = _pick([-value, value * 1e6, value * 1e-6, float(value), str(value)], random)


def exchange(node: Any, key: Any, random: Random) -> None:
    keys = list(node) if isinstance(node, dict) else list(range(len(node)))
    other = keys[int(random.integers(len(keys)))]
    node[key], node[other] = node[other], node[key]


KINDS = {
    "value replaced": replace,
    "key missing": remove,
    "key added": add,
    "key renamed": rename,
    "value distorted": distort,
    "values exchanged": exchange,
}


def mutated(config: dict[str, Any], kind: str, random: Random) -> dict[str, Any]:
    """Return a copy of the configuration with one mutation at a random place."""
    config = copy.deepcopy(config)
    places = list(_places(config))
    KINDS[kind](*places[int(random.integers(len(places)))], random)
    return config
