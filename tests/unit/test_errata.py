"""Every command on the page of errata prints what the page says it prints."""

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest
from shuffledp import cli

PAGE = Path(__file__).parents[2] / "docs" / "errata.md"
BLOCKS = re.findall(r"^```\n(\$ .*?)\n```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)


def parse(block):
    """Commands of a block and the lines that they print together."""
    python = re.fullmatch(r'\$ python -c "\n(.*)"\n(.*)', block, re.S)
    if python:
        return [("python", python[1])], python[2]
    lines = block.splitlines()
    commands = [("shuffledp", line[2:]) for line in lines if line.startswith("$ ")]
    return commands, "\n".join(lines[len(commands) :])


def test_the_page_has_commands():
    assert len(BLOCKS) >= 9


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.split("\n")[-1][:30])
def test_a_command_prints_what_the_page_says(block):
    commands, expected = parse(block)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for kind, command in commands:
            if kind == "python":
                exec(compile(command, "errata", "exec"), {})  # the page's own code
            else:
                assert cli.main(shlex.split(command)[1:]) == 0
    assert printed.getvalue().strip() == expected.strip()
