"""A real Slurm of one node on this machine, without accounting, during a test."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path

from waiting import wait_until

# The place is fixed for a nested srun: the executor plugin drops SLURM_CONF from the environment.
CONFIGURATION = Path("/etc/slurm/slurm.conf")
LOCK = Path("/var/lock/shuffledp-slurm.lock")
# Without accounting sacct never answers, but the executor plugin (2.8.0) calls it for the rest of
# the run after one `scontrol show config` took more than 10 s. This script then answers instead.
SACCT = """#!/bin/sh
for name do :; done
exec squeue --noheader --states=all --format='%i|%T' --name "$name"
"""
MARK = "# Written by the tests of shuffledp; removed when they end."
PROGRAMS = ["munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel", "setpriv"]


def obstacle() -> str | None:
    """Return why no Slurm can be started here, or None if it can."""
    if os.environ.get("SHUFFLEDP_TEST_SLURM") != "1":
        return "writes to /etc/slurm and starts services: needs SHUFFLEDP_TEST_SLURM=1 and root"
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return "starting a Slurm of one's own takes root on Linux"
    if missing := [name for name in PROGRAMS if shutil.which(name) is None]:
        return f"{', '.join(missing)} not found (in Debian's packages slurm-wlm, munge)"
    if CONFIGURATION.exists() and MARK not in CONFIGURATION.read_text(errors="replace"):
        return f"{CONFIGURATION} belongs to another Slurm, which stays as it is"
    return None


@contextmanager
def machine_to_ourselves(seconds: float = 600.0) -> Iterator[None]:
    """Let a second test run wait, because two would share one configuration file."""

    def held() -> bool:
        try:
            flock(lock, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            return False
        return True

    with LOCK.open("w") as lock:
        wait_until(held, f"end of the other test run that holds {LOCK}", seconds)
        yield


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class SlurmSite:
    """Run one node of two CPUs with one partition."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: dict[str, subprocess.Popen] = {}

    def start(self) -> None:
        CONFIGURATION.parent.mkdir(parents=True, exist_ok=True)
        key, munge = self.folder / "munge.key", self.folder / "munge.socket"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        files = {"key-file": key, "socket": munge}
        files |= {f"{n}-file": self.folder / f"munged.{n}" for n in ("pid", "log", "seed")}
        self._start("munged", "--foreground", "--force", *(f"--{n}={p}" for n, p in files.items()))
        wait_until(munge.exists, "munge socket")
        self._configure(munge)
        self._start("slurmctld", "-D")
        wait_until(lambda: bool(self.lines("sinfo", "%T")), "answer of slurmctld")
        self._start("slurmd", "-D")
        wait_until(lambda: set(self.lines("sinfo", "%T")) == {"idle"}, "idle node")

    def _start(self, name: str, *options: str) -> None:
        # The kernel ends the daemon with this process, however that ends.
        command = ["setpriv", "--pdeathsig", "KILL", name, *options]
        with (self.folder / f"{name}.out").open("a") as log:
            self.running[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def _configure(self, munge: Path) -> None:
        host = socket.gethostname().partition(".")[0]
        controller_port, node_port = free_ports(2)
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
            f"AuthInfo=socket={munge}",
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
            # The node claims two CPUs and enough memory, whatever the machine has.
            "SlurmdParameters=config_overrides",
            "ReturnToService=2",
            "KillWait=2",
            "MinJobAge=600",
            f"NodeName={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=64000 State=UNKNOWN",
            f"PartitionName=test Nodes={host} Default=YES MaxTime=INFINITE State=UP",
        ]
        CONFIGURATION.write_text("\n".join(lines) + "\n")

    def environment(self) -> dict[str, str]:
        """Return an environment for Snakemake with a sacct that answers from squeue."""
        programs = self.folder / "bin"
        programs.mkdir(exist_ok=True)
        (programs / "sacct").write_text(SACCT)
        (programs / "sacct").chmod(0o755)
        return {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}

    def lines(self, command: str, what: str) -> list[str]:
        """Return the lines of squeue or sinfo; none if the daemon is away."""
        result = subprocess.run(
            [command, "--noheader", f"--format={what}"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return result.stdout.splitlines() if result.returncode == 0 else []

    def stop(self) -> None:
        for name in ("slurmctld", "slurmd", "munged"):
            if process := self.running.pop(name, None):
                process.terminate()
                try:
                    process.wait(timeout=20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait(timeout=20)
        # Otherwise every Slurm command would wait for a controller that no longer exists.
        CONFIGURATION.unlink(missing_ok=True)
