"""docs/choosing.md says what `shuffledp compare` and its own example print."""

import doctest
import json
import re
from pathlib import Path

import numpy as np
import pytest
from shuffledp.cli import main
from shuffledp.mechanisms.hadamard import HadamardResponse
from shuffledp.mechanisms.registry import MECHANISMS

PAGE = Path(__file__).parents[2] / "docs" / "choosing.md"
TEXT = PAGE.read_text(encoding="utf-8")
(COMMAND,) = re.findall(r"^    shuffledp (compare --n .*)$", TEXT, re.MULTILINE)
# Mechanism, error, messages, local eps0.
ROWS = re.findall(
    r"^\| `([a-z-]+)` \| ([\d.]+) \| ([\d.]+)[^|]*\| ([\d.]*) ?\|", TEXT, re.MULTILINE
)


def test_the_page_has_a_row_for_many_mechanisms():
    assert {"gaussian", "krr"} <= {name for name, *_ in ROWS}
    errors = [float(error) for _, error, *_ in ROWS]
    assert errors == sorted(errors)


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row[0] in MECHANISMS], ids=lambda row: row[0]
)
def test_the_table_is_what_the_command_prints(capsys, row):
    name, error, messages, eps0 = row
    assert main([*COMMAND.split(), "--mechanism", name, "--format", "json"]) == 0
    (printed,) = json.loads(capsys.readouterr().out)
    assert float(error) == float(f"{printed['cell_sd_users']:.3g}")
    assert float(messages) == round(printed["messages"], 2)
    assert eps0 == ("" if printed["local_eps0"] is None else f"{printed['local_eps0']:.2f}")


def test_the_example_prints_what_the_page_says():
    failed, tried = doctest.testfile(str(PAGE), module_relative=False)
    assert (failed, tried) == (0, 6)


def test_hadamard_with_one_block_errs_by_the_root_of_the_users():
    """Half of the reports speak for a cell nobody holds, whatever the budget."""
    for eps0 in (4.0, 8.0, 16.0):
        variance = HadamardResponse(408, eps0).variance(np.full(408, 1.0 / 408), 100_000)
        # Those who hold another cell, each with the variance of a fair coin, twice.
        assert 100_000 * variance.mean() >= 1.0 - 1.0 / 408
