"""Every command on a page prints what the page shows below it."""

import contextlib
import io
import re
import shlex
import subprocess
import textwrap
from pathlib import Path
from typing import NamedTuple

import pytest
from shuffledp import cli

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "config" / "README.md",
    *sorted((ROOT / "docs").glob("**/*.md")),
]
# Commands that take more than a second or so.
SLOW = re.compile(
    r"--rounds 52|--k 2 .*--rounds|descend\(|compare --n 123094 .*user-dummies|moved_by_one"
    r"|rounds weeks|matrix noise|variance\(\[1"
    r"|(?:bold|noisy|city)\.csv|rounds=m|--rounds 12 "
)
# Commands, some of several lines; what is between them and the next command, the end of the fence
# or a line that is not indented as they are.
_COMMAND = r'\$ (?:python -c "\n(?:.*\n)*?.*"|.*)\n'
_BLOCK = re.compile(
    rf"^( *)(?=\$ )((?:(?:^ *)?{_COMMAND})+)((?:(?:\1(?![$`]).*)?\n)*)", re.MULTILINE
)


class Block(NamedTuple):
    """Commands that print together, and what the page says they print."""

    page: str
    commands: list[str]
    shown: str


def blocks(page):
    """The blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        indent, commands, shown = found.groups()
        commands = textwrap.dedent(indent + commands.removeprefix(indent))
        yield Block(
            str(page.relative_to(ROOT)),
            [command[2:].rstrip("\n") for command in re.findall(_COMMAND, commands)],
            textwrap.dedent(shown).strip("\n"),
        )


def run(command):
    """One command, as a user would type it."""
    python = re.fullmatch(r'python -c "\n(.*)"', command, re.DOTALL)
    if python:
        exec(compile(python[1], "page", "exec"), {})  # the page's own code
    elif command.startswith("shuffledp "):
        assert cli.main(shlex.split(command)[1:]) == 0
    else:
        subprocess.run(["bash", "-c", command], check=True)


BLOCKS = [block for page in PAGES for block in blocks(page)]


def test_no_command_of_a_page_is_overlooked():
    found = sum(len(block.commands) for block in BLOCKS)
    typed = sum(
        len(re.findall(r"^ *\$ \w", page.read_text(encoding="utf-8"), re.MULTILINE))
        for page in PAGES
    )
    assert found == typed > 30


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(
            block,
            id=f"{block.page}: {block.shown.splitlines()[-1][:30]}",
            marks=[pytest.mark.slow] if SLOW.search("\n".join(block.commands)) else [],
        )
        for block in BLOCKS
    ],
)
def test_a_command_prints_what_the_page_says(block, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)  # where a certificate is written
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for command in block.commands:
            run(command)
    assert printed.getvalue().strip() == block.shown.strip()
