"""The commands of README.md as one script."""

import re
import subprocess
from pathlib import Path

from collection_parts import free_port

PACKAGE = Path(__file__).parents[1]


def follow(folder, environment):
    """Run them in an empty folder; return what they printed."""
    page = (PACKAGE / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```bash\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) > 5
    port, script = free_port(), "\n".join(blocks)
    changes = {
        "--port 8000": f"--port {port}",
        "--rounds 2 ": f"--rounds 2 --address http://127.0.0.1:{port} ",
    }
    for old, new in changes.items():
        assert old in script
        script = script.replace(old, new)
    # `wait` for the server that was told to stop: nothing is left behind.
    done = subprocess.run(
        ["bash", "-c", f"set -eum\n{script}\nwait || true"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
