"""A real Slurm of one node on this machine: munged, slurmctld and slurmd, for as long as a test."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path

# A nested srun finds no other place: the executor plugin drops SLURM_CONF from a job's environment.
CONFIGURATION = Path("/etc/slurm/slurm.conf")
CONFIGLESS = Path("/run/slurm/conf/slurm.conf")
LOCK = Path("/var/lock/shuffledp-slurm.lock")
MARK = "# Written by the tests of shuffledp; removed when they end."
PROGRAMS = ["munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel", "setpriv"]


def obstacle() -> str | None:
    """Why no Slurm can be started here; None if it can."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return "starting a Slurm of one's own takes root on Linux"
    if missing := [name for name in PROGRAMS if shutil.which(name) is None]:
        return f"{', '.join(missing)} not found (Debian's packages slurm-wlm and munge have them)"
    for path in (CONFIGURATION, CONFIGLESS):
        if path.exists() and MARK not in path.read_text(errors="replace"):
            return f"{path} belongs to another Slurm, which stays as it is"
    if CONFIGURATION.parent.exists() and not os.access(CONFIGURATION.parent, os.W_OK):
        return f"{CONFIGURATION.parent} cannot be written"
    return None


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"no {what} within {seconds:g} s"
        time.sleep(0.1)


@contextmanager
def machine_to_ourselves(seconds: float = 600.0) -> Iterator[None]:
    """Two test runs at once would share one configuration file: the second waits."""
    with LOCK.open("w") as lock:
        deadline = time.monotonic() + seconds
        while True:
            try:
                flock(lock, LOCK_EX | LOCK_NB)
                break
            except BlockingIOError:
                assert time.monotonic() < deadline, f"{LOCK} is still held by another test run"
                time.sleep(1)
        yield


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@dataclass
class SlurmSite:
    """Daemons in the foreground, so that they are our children and end with us."""

    folder: Path
    daemons: dict[str, subprocess.Popen] = field(default_factory=dict)

    def start(self) -> None:
        self._configure()
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        files = {
            "key-file": key,
            "socket": self.folder / "munge.socket",
            "pid-file": self.folder / "munged.pid",
            "log-file": self.folder / "munged.log",
            "seed-file": self.folder / "munged.seed",
        }
        options = [f"--{name}={path}" for name, path in files.items()]
        self._run("munged", "--foreground", "--force", *options)
        wait_until((self.folder / "munge.socket").exists, "munge socket")
        self.start_controller()
        self._run("slurmd", "-D")
        wait_until(lambda: self.lines("sinfo", "%T") == ["idle"], "idle node")

    def _configure(self) -> None:
        host = socket.gethostname().partition(".")[0]
        controller_port, node_port = _free_ports(2)
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        lines = [
            MARK,
            "ClusterName=shuffledp",
            f"SlurmctldHost={host}(127.0.0.1)",
            f"SlurmctldPort={controller_port}",
            f"SlurmdPort={node_port}",
            "SlurmUser=root",
            "SlurmdUser=root",
            "AuthType=auth/munge",
            f"AuthInfo=socket={self.folder / 'munge.socket'}",
            f"StateSaveLocation={self.folder / 'state'}",
            f"SlurmdSpoolDir={self.folder / 'spool'}",
            f"SlurmctldPidFile={self.folder / 'slurmctld.pid'}",
            f"SlurmdPidFile={self.folder / 'slurmd.pid'}",
            "ProctrackType=proctrack/linuxproc",
            "TaskPlugin=task/none",
            "JobAcctGatherType=jobacct_gather/none",
            "AccountingStorageType=accounting_storage/none",
            "MpiDefault=none",
            "SelectType=select/cons_tres",
            "SelectTypeParameters=CR_CPU",
            # The node claims two CPUs and enough memory whatever the machine has.
            "SlurmdParameters=config_overrides",
            "ReturnToService=2",
            "KillWait=2",
            "MinJobAge=600",
            f"NodeName={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=64000 State=UNKNOWN",
            f"PartitionName=test Nodes={host} Default=YES MaxTime=INFINITE State=UP",
        ]
        CONFIGURATION.parent.mkdir(parents=True, exist_ok=True)
        CONFIGURATION.write_text("\n".join(lines) + "\n")

    def _run(self, name: str, *options: str) -> None:
        # The kernel ends the daemon with us, however we end.
        command = ["setpriv", "--pdeathsig", "KILL", name, *options]
        log = (self.folder / f"{name}.out").open("a")
        with log:
            self.daemons[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def start_controller(self) -> None:
        self._run("slurmctld", "-D")
        wait_until(lambda: bool(self.lines("sinfo", "%T")), "answer of slurmctld")

    def kill_controller(self) -> None:
        """As when the machine of the controller loses power: no time to say goodbye."""
        self._end("slurmctld", signal.SIGKILL)

    def _end(self, name: str, sign: signal.Signals = signal.SIGTERM) -> None:
        process = self.daemons.pop(name, None)
        if process is None:
            return
        process.send_signal(sign)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def lines(self, command: str, what: str, *options: str) -> list[str]:
        """What squeue or sinfo lists; nothing when the controller is away."""
        result = subprocess.run(
            [command, "--noheader", f"--format={what}", *options],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return result.stdout.splitlines() if result.returncode == 0 else []

    def jobs(self) -> list[str]:
        """Numbers of the jobs that are not over."""
        return self.lines("squeue", "%i")

    def cancel(self, *jobs: str) -> None:
        subprocess.run(["scancel", *jobs], check=True, timeout=60)

    def stop(self) -> None:
        try:
            if "slurmctld" in self.daemons and (jobs := self.jobs()):
                self.cancel(*jobs)
                wait_until(lambda: not self.jobs(), "end of the cancelled jobs")
        finally:
            for name in ("slurmctld", "slurmd", "munged"):
                self._end(name)
            # Left behind it would make every Slurm command wait for a controller that is gone.
            CONFIGURATION.unlink(missing_ok=True)
