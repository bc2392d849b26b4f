"""Every code block of README, config/README.md and docs/ that shows a command is run as it stands.

The info string of a fence says what happens to it:

- ``console``: lines that begin with ``$ `` are run, and what they print is compared with the lines
  below them; ``...`` stands for any text.
- ``pycon``: the same for lines that begin with ``>>> ``.
- ``python``: run; it must not fail.
- ``slow`` after the language: `make test-slow` runs the block.
- ``no-test: REASON`` after the language: nobody runs the block.

Each block runs in a folder of its own, which has the files that ``printf`` commands of earlier
blocks of the page write. ``pytest --update-docs -m "" tests/workflow/test_code_blocks.py`` writes
what the commands print into the pages.
"""

import contextlib
import io
import re
import runpy
import shlex
import subprocess
import sys
from fcntl import LOCK_EX, flock
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import pytest

from shuffledp import cli

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "config" / "README.md",
    *sorted((ROOT / "docs").glob("**/*.md")),
]
FENCE = re.compile(r"^( *)```(\w*) ?(.*)\n((?:.*\n)*?)\1```$", re.MULTILINE)
COMMANDS = {
    "console": re.compile(
        r'^\$ (python -c "\n(?:.*\n)*?.*"$|.*(?<!\\)$|(?:.*\\\n)+.*)', re.MULTILINE
    ),
    "pycon": re.compile(r"^>>> (.*(?:\n\.\.\. .*)*)", re.MULTILINE),
}
# A fence without a language or of a shell, or an indented command: no test would see it.
OVERLOOKED = re.compile(
    r"^ *```.*|^ {4,}(?:\$|>>>|shuffledp|snakemake|make|pip|python3?) .*", re.MULTILINE
)


class Block(NamedTuple):
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    flags: str
    text: str  # without the indentation of the fence
    indent: str
    files: tuple[str, ...]  # commands of earlier blocks that write files


def blocks_of(page):
    """Return the blocks of a page that show commands."""
    content = page.read_text(encoding="utf-8")
    files = []
    for fence in FENCE.finditer(content):
        indent, language, flags, text = fence.groups()
        if language not in {*COMMANDS, "python"} or flags.startswith("no-test: "):
            continue
        text = re.sub(f"^{indent}", "", text, flags=re.MULTILINE)
        line = content.count("\n", 0, fence.start()) + 1
        yield Block(page, line, language, flags, text, indent, tuple(files))
        files += re.findall(r"^\$ (printf .* > .*)$", text, re.MULTILINE)


def transcript(block):
    """Return the block as pairs of consecutive commands and the output that is shown below them."""
    pairs = []
    end = 0
    for command in COMMANDS[block.language].finditer(block.text):
        shown = block.text[end : command.start()]
        if pairs and shown.strip():
            pairs[-1][1] = shown
            pairs.append([[], ""])
        elif not pairs:
            pairs.append([[], ""])
        pairs[-1][0].append(command[0])
        end = command.end() + 1
    pairs[-1][1] = block.text[end:]
    return pairs


def run(command, namespace):
    """Run a command as a reader would type it."""
    if command.startswith(">>> "):
        source = re.sub(r"^(?:>>>|\.\.\.) ?", "", command, flags=re.MULTILINE)
        exec(compile(f"{source}\n", "page", "single"), namespace)
    elif python := re.fullmatch(r'\$ python -c "\n(.*)"', command, re.DOTALL):
        exec(compile(python[1], "page", "exec"), {})
    elif command.startswith("$ shuffledp "):
        assert cli.main(shlex.split(command)[2:]) == 0
    elif module := re.fullmatch(r"\$ python -m (shuffledp\S+) (.*)", command):
        with patch.object(sys, "argv", [module[1], *shlex.split(module[2])]):
            runpy.run_module(module[1], run_name="__main__")
    else:
        done = subprocess.run(
            ["bash", "-c", command[2:]], check=True, capture_output=True, text=True
        )
        print(done.stdout, end="")


def printed_by(commands, namespace):
    """Return what some commands print."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        for command in commands:
            run(command, namespace)
    return output.getvalue()


def agrees(shown, printed):
    """Return whether a page shows what was printed, where ``...`` stands for any text."""
    pattern = ".*".join(map(re.escape, shown.strip().split("...")))
    return re.fullmatch(pattern, printed.strip(), re.DOTALL) is not None


def update(block, text):
    """Write a new text of a block into its page."""
    old, new = (
        re.sub("^(?=.)", block.indent, each, flags=re.MULTILINE) for each in (block.text, text)
    )
    with block.page.open("r+", encoding="utf-8") as file:
        flock(file, LOCK_EX)  # other workers update other blocks of the page
        content = file.read()
        assert content.count(old) == 1
        file.seek(0)
        file.truncate()
        file.write(content.replace(old, new))


BLOCKS = [
    pytest.param(
        block,
        id=f"{block.page.relative_to(ROOT)}:{block.line}",
        marks=[pytest.mark.slow] * (block.flags == "slow"),
    )
    for page in PAGES
    for block in blocks_of(page)
]


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_prints_what_the_page_shows(block, request, monkeypatch, tmp_path):
    assert block.flags in {"", "slow"}
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    for command in block.files:
        subprocess.run(["bash", "-c", command], check=True)
    if block.language == "python":
        exec(compile(block.text, "page", "exec"), {})
        return
    namespace = {}
    pairs = transcript(block)
    printed = [printed_by(commands, namespace) for commands, _ in pairs]
    if request.config.getoption("--update-docs"):
        groups = zip(pairs, printed, strict=True)
        lines = [
            [*commands, (shown if agrees(shown, new) else new).strip("\n")]
            for (commands, shown), new in groups
        ]
        update(block, "".join(f"{line}\n" for group in lines for line in group if line))
        return
    for (_, shown), new in zip(pairs, printed, strict=True):
        assert agrees(shown, new), f"the page shows\n{shown}\nthe command prints\n{new}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_command_of_a_page_is_overlooked(page):
    text = page.read_text(encoding="utf-8")
    rest = FENCE.sub(lambda fence: "" if fence[2] not in {"", "bash", "sh"} else fence[0], text)
    assert OVERLOOKED.findall(rest) == []
