"""The commands of docs/collect.md as one script."""

import re
import socket
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
MAPS = " --map map.png --page map.html"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return str(server.getsockname()[1])


def follow(folder, environment, maps=True):
    """Run them in an empty folder; what they printed."""
    page = (ROOT / "docs" / "collect.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```bash\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) > 5
    port, script = free_port(), "\n".join(blocks)
    changes = {
        "--port 8000": f"--port {port}",
        "--rounds 2 ": f"--rounds 2 --address http://127.0.0.1:{port} ",
        MAPS: MAPS if maps else "",
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
