"""The participants' JavaScript client, run by Node."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from needs import needs
from shuffledp_collect import participant

_SCRIPT = Path(__file__).with_name("client.mjs")
CLIENT = Path(participant.__file__).parent / "participant"
_OLDEST = 20


def client(*jobs, folder=CLIENT):
    """Answers of `client.mjs` to jobs, of one process: `{"found": ...}` or `{"refused": words}`."""
    node = shutil.which("node")
    if node is None:
        pytest.skip(needs("node", "node is not installed"))
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.removeprefix("v").partition(".")[0]) < _OLDEST:
        pytest.skip(needs("node", f"node is {version.strip()}, and the client needs {_OLDEST}"))
    done = subprocess.run(
        [node, _SCRIPT, folder],
        input=json.dumps(jobs),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


def found(answers):
    """Return the findings; fail if anything was refused."""
    assert [answer for answer in answers if "refused" in answer] == []
    return [answer["found"] for answer in answers]


def changed(folder, changes, **files):
    """A copy of the client in a folder, with texts changed that each stand there once.

    Parameters
    ----------
    folder
        Is made.
    changes
        Pairs of what is there and what comes in its place.
    files
        Content of whole modules, by their names.
    """
    folder.mkdir()
    texts = {path.stem: path.read_text(encoding="utf-8") for path in CLIENT.glob("*.js")} | files
    for old, new in changes:
        (name,) = (name for name, text in texts.items() if old in text)
        assert texts[name].count(old) == 1, old
        texts[name] = texts[name].replace(old, new)
    for name, text in texts.items():
        (folder / f"{name}.js").write_text(text, encoding="utf-8")
    return folder
