"""The participants' JavaScript client, run by Node."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from needs import needs

_SCRIPT = Path(__file__).with_name("client.mjs")
_OLDEST = 20


def client(*jobs):
    """Answers of `client.mjs` to jobs, of one process: `{"found": ...}` or `{"refused": words}`."""
    node = shutil.which("node")
    if node is None:
        pytest.skip(needs("node", "node is not installed"))
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.removeprefix("v").partition(".")[0]) < _OLDEST:
        pytest.skip(needs("node", f"node is {version.strip()}, and the client needs {_OLDEST}"))
    done = subprocess.run(
        [node, _SCRIPT],
        input=json.dumps(jobs),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)
