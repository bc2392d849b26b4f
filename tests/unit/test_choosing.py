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

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "choosing.md"
TEXT = PAGE.read_text(encoding="utf-8")
(COMMAND,) = re.findall(r"^    shuffledp (compare --n .*)$", TEXT, re.MULTILINE)
# Mechanism, error at two deltas, messages, local eps0.
ROWS = re.findall(
    r"^\| `([a-z-]+)` \| ([\d.]+) \| ([\d.]+) \| ([\d.]+)[^|]*\| ([\d.]*) ?\|",
    TEXT,
    re.MULTILINE,
)


def test_the_page_has_a_row_for_many_mechanisms():
    assert {"gaussian", "krr"} <= {name for name, *_ in ROWS}
    errors = [float(error) for _, error, *_ in ROWS]
    assert errors == sorted(errors)


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row[0] in MECHANISMS], ids=lambda row: row[0]
)
def test_the_table_is_what_the_command_prints(capsys, row):
    name, error, smaller_delta, messages, eps0 = row
    command = [*COMMAND.split(), "--mechanism", name, "--format", "json"]
    assert main(command) == main([*command, "--delta", "1e-8"]) == 0
    printed, other = (json.loads(part + "]")[0] for part in capsys.readouterr().out.split("]")[:2])
    assert float(smaller_delta) == float(f"{other['cell_sd_users']:.3g}")
    assert float(error) == float(f"{printed['cell_sd_users']:.3g}")
    assert float(messages) == round(printed["messages"], 2)
    assert eps0 == ("" if printed["local_eps0"] is None else f"{printed['local_eps0']:.2f}")


@pytest.mark.parametrize("n", [1_000, 10_000])
def test_dummies_by_users_have_less_error_where_cells_are_few(capsys, n):
    """ "Equal near k = n/8" at eps = 1 and delta = 1e-6."""
    for k, best in ((n // 10, "user-dummies"), (n // 7, "krr")):
        words = ["--n", str(n), "--k", str(k), "--eps", "1", "--delta", "1e-6"]
        main(["compare", *words, "--format", "json", "--mechanism", "krr", "user-dummies"])
        assert json.loads(capsys.readouterr().out)[0]["mechanism"] == best


def test_the_example_prints_what_the_page_says():
    failed, tried = doctest.testfile(str(PAGE), module_relative=False)
    assert (failed, tried) == (0, 6)


def test_hadamard_with_one_block_errs_by_the_root_of_the_users():
    """Half of the reports speak for a cell nobody holds, whatever the budget."""
    for eps0 in (4.0, 8.0, 16.0):
        variance = HadamardResponse(408, eps0).variance(np.full(408, 1.0 / 408), 100_000)
        # Those who hold another cell, each with the variance of a fair coin, twice.
        assert 100_000 * variance.mean() >= 1.0 - 1.0 / 408


def test_what_the_page_says_of_its_table_follows_from_it():
    page, (eps0,) = PAGE.read_text(encoding="utf-8"), [row[-1] for row in ROWS if row[0] == "krr"]
    told = np.exp(float(eps0)) / (np.exp(float(eps0)) + 407)
    assert f"reports the true cell {100 * told:.0f} % of the time" in page.replace("\n", " ")
    assert f"(e^{eps0} + 407), {100 * 408 * (1 - told) / 407:.0f} %" in page
    assert f"{123_094 * 1e-6:.2f} at 1e-6, and {123_094 * 1e-8:.4f} at 1e-8" in page
    assert f"{100_000**0.25:.1f} and {408**0.5:.1f}; k-RR" in page.replace("\n", " ")
