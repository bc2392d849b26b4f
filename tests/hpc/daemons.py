"""Daemons run in the foreground, as children of the test that end with it."""

import signal
import socket
import subprocess
from dataclasses import dataclass, field
from pathlib import Path


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True


@dataclass
class Daemons:
    """Hold running daemons by name; their output is in `folder`."""

    folder: Path
    running: dict[str, subprocess.Popen] = field(default_factory=dict)

    def start(self, name: str, *options: str) -> None:
        # The kernel ends the daemon with this process, however that ends.
        command = ["setpriv", "--pdeathsig", "KILL", name, *options]
        log = (self.folder / f"{name}.out").open("a")
        with log:
            self.running[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def end(self, name: str, sign: signal.Signals = signal.SIGTERM) -> None:
        process = self.running.pop(name, None)
        if process is None:
            return
        process.send_signal(sign)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=20)
