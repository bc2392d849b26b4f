"""A real Slurm of one node on this machine, with or without accounting, during a test."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path

from waiting import wait_until

# The place is fixed for a nested srun: the executor plugin drops SLURM_CONF from the environment.
CONFIGURATION = Path("/etc/slurm/slurm.conf")
DATABASE_CONFIGURATION = Path("/etc/slurm/slurmdbd.conf")
CONFIGLESS = Path("/run/slurm/conf/slurm.conf")
LOCK = Path("/var/lock/shuffledp-slurm.lock")
# Without accounting sacct never answers, but the executor plugin (2.8.0) calls it for the rest of
# the run after one `scontrol show config` took more than 10 s. This script then answers instead.
SACCT = """#!/bin/sh
for name do :; done
exec squeue --noheader --states=all --format='%i|%T' --name "$name"
"""
MARK = "# Written by the tests of shuffledp; removed when they end."
DATABASE_PROGRAMS = ["mariadbd", "mariadb-install-db", "slurmdbd", "sacctmgr"]
PROGRAMS = ["munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel", "setpriv"]


def obstacle(*, accounting: bool) -> str | None:
    """Return why no Slurm can be started here, or None if it can."""
    if os.environ.get("SHUFFLEDP_TEST_SLURM") != "1":
        return "writes to /etc/slurm and starts services: needs SHUFFLEDP_TEST_SLURM=1 and root"
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return "starting a Slurm of one's own takes root on Linux"
    programs = PROGRAMS + (DATABASE_PROGRAMS if accounting else [])
    if missing := [name for name in programs if shutil.which(name) is None]:
        packages = "slurm-wlm, munge" + (", slurmdbd, mariadb-server" if accounting else "")
        return f"{', '.join(missing)} not found (in Debian's packages {packages})"
    for path in (CONFIGURATION, CONFIGLESS, DATABASE_CONFIGURATION):
        if path.exists() and MARK not in path.read_text(errors="replace"):
            return f"{path} belongs to another Slurm, which stays as it is"
    if CONFIGURATION.parent.exists() and not os.access(CONFIGURATION.parent, os.W_OK):
        return f"{CONFIGURATION.parent} cannot be written"
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


@dataclass
class AccountingDatabase:
    """Accounting as most sites have it: slurmdbd with a MariaDB."""

    daemons: Daemons
    munge: Path
    port: int = 0  # slurmctld and sacct connect to slurmdbd here

    def start(self) -> None:
        database_port, self.port = free_ports(2)
        password = secrets.token_hex(16)
        self._start_database(database_port, password)
        DATABASE_CONFIGURATION.touch(mode=0o600)
        DATABASE_CONFIGURATION.chmod(0o600)  # slurmdbd refuses a file that others may read
        DATABASE_CONFIGURATION.write_text(
            f"{MARK}\n"
            "DbdHost=localhost\n"
            f"DbdPort={self.port}\n"
            "SlurmUser=root\n"
            "AuthType=auth/munge\n"
            f"AuthInfo=socket={self.munge}\n"
            f"PidFile={self.daemons.folder / 'slurmdbd.pid'}\n"
            "StorageType=accounting_storage/mysql\n"
            "StorageHost=127.0.0.1\n"
            f"StoragePort={database_port}\n"
            "StorageLoc=slurm\n"
            "StorageUser=slurm\n"
            f"StoragePass={password}\n"
        )
        self.start_daemon()

    def start_daemon(self) -> None:
        self.daemons.start("slurmdbd", "-D")
        wait_until(lambda: listens(self.port), "answer of slurmdbd")

    def stop_daemon(self) -> None:
        self.daemons.end("slurmdbd")

    def _start_database(self, port: int, password: str) -> None:
        folder = self.daemons.folder / "database"
        subprocess.run(
            ["mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={folder}"],
            check=True,
            capture_output=True,
            timeout=120,
        )
        users = self.daemons.folder / "users.sql"
        users.write_text(
            "CREATE DATABASE slurm;\n"
            f"CREATE USER slurm@127.0.0.1 IDENTIFIED BY '{password}';\n"
            "GRANT ALL ON slurm.* TO slurm@127.0.0.1;\n"
        )
        self.daemons.start(
            "mariadbd",
            "--no-defaults",
            "--user=root",
            f"--datadir={folder}",
            f"--socket={self.daemons.folder / 'database.socket'}",
            "--bind-address=127.0.0.1",
            "--skip-name-resolve",
            f"--port={port}",
            f"--init-file={users}",
        )
        wait_until(lambda: listens(port), "answer of MariaDB")

    def stop(self) -> None:
        self.stop_daemon()
        self.daemons.end("mariadbd")
        DATABASE_CONFIGURATION.unlink(missing_ok=True)


def manage(*arguments: str) -> None:
    """Change the accounts, as an administrator does."""
    subprocess.run(["sacctmgr", "--immediate", *arguments], check=True, timeout=60)


class SlurmSite:
    """Run one node of two CPUs with the partitions `test` (the default) and `short`."""

    def __init__(self, folder: Path, *, accounting: bool) -> None:
        self.folder = folder
        self.daemons = Daemons(folder)
        self.munge = folder / "munge.socket"
        self.database = AccountingDatabase(self.daemons, self.munge) if accounting else None

    def start(self) -> None:
        CONFIGURATION.parent.mkdir(parents=True, exist_ok=True)
        self._start_munge()
        if self.database is None:
            accounting = [
                "JobAcctGatherType=jobacct_gather/none",
                "AccountingStorageType=accounting_storage/none",
            ]
        else:
            self.database.start()
            accounting = [
                "JobAcctGatherType=jobacct_gather/linux",
                "AccountingStorageType=accounting_storage/slurmdbd",
                "AccountingStorageHost=localhost",
                f"AccountingStoragePort={self.database.port}",
                f"AccountingStoragePass={self.munge}",
                "AccountingStorageEnforce=associations",
                "AccountingStoreFlags=job_comment",  # which names the rule
            ]
        self._configure(accounting)
        self.start_controller()
        self.daemons.start("slurmd", "-D")
        self.wait_until_idle()

    def _start_munge(self) -> None:
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        files = {
            "key-file": key,
            "socket": self.munge,
            "pid-file": self.folder / "munged.pid",
            "log-file": self.folder / "munged.log",
            "seed-file": self.folder / "munged.seed",
        }
        options = [f"--{name}={path}" for name, path in files.items()]
        self.daemons.start("munged", "--foreground", "--force", *options)
        wait_until(self.munge.exists, "munge socket")

    def _configure(self, accounting: list[str]) -> None:
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
            f"AuthInfo=socket={self.munge}",
            f"StateSaveLocation={self.folder / 'state'}",
            f"SlurmdSpoolDir={self.folder / 'spool'}",
            f"SlurmctldPidFile={self.folder / 'slurmctld.pid'}",
            f"SlurmdPidFile={self.folder / 'slurmd.pid'}",
            "ProctrackType=proctrack/linuxproc",
            "TaskPlugin=task/none",
            *accounting,
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
            f"PartitionName=short Nodes={host} MaxTime=240 State=UP",
        ]
        CONFIGURATION.write_text("\n".join(lines) + "\n")

    def start_controller(self) -> None:
        self.daemons.start("slurmctld", "-D")
        wait_until(lambda: bool(self.lines("sinfo", "%T")), "answer of slurmctld")

    def environment_without_accounting(self) -> dict[str, str]:
        """Return an environment for Snakemake with a sacct that answers from squeue."""
        programs = self.folder / "bin"
        programs.mkdir(exist_ok=True)
        (programs / "sacct").write_text(SACCT)
        (programs / "sacct").chmod(0o755)
        return {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}

    def wait_until_idle(self) -> None:
        """Wait until the controller knows the node and has no job left."""
        wait_until(lambda: not self.jobs(), "end of the jobs that were left")
        wait_until(lambda: set(self.lines("sinfo", "%T")) == {"idle"}, "idle node")

    def wait_until_saved(self, job: str) -> None:
        """Wait until the controller, which saves its state every few seconds, has saved the job."""
        (comment,) = self.lines("squeue", "%k", f"--jobs={job}")
        state = self.folder / "state" / "job_state"
        wait_until(
            lambda: state.exists() and comment.encode() in state.read_bytes(),
            f"job {job} in the controller's state",
        )

    def stop_controller(self) -> None:
        """Stop the controller as for maintenance, so that it saves its state first."""
        self.daemons.end("slurmctld")

    def kill_controller(self) -> None:
        """Kill the controller as a loss of power would, so that it saves nothing."""
        self.daemons.end("slurmctld", signal.SIGKILL)

    def lines(self, command: str, what: str, *options: str) -> list[str]:
        """Return the lines of squeue, sinfo or sacct; none if the daemon is away."""
        result = subprocess.run(
            [command, "--noheader", f"--format={what}", *options],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return result.stdout.splitlines() if result.returncode == 0 else []

    def jobs(self) -> list[str]:
        """Return the numbers of the jobs that have not ended."""
        return self.lines("squeue", "%i")

    def cancel(self, *jobs: str) -> None:
        subprocess.run(["scancel", *jobs], check=True, timeout=60)

    def stop(self) -> None:
        try:
            if "slurmctld" in self.daemons.running and (jobs := self.jobs()):
                self.cancel(*jobs)
                wait_until(lambda: not self.jobs(), "end of the cancelled jobs")
        finally:
            for name in ("slurmctld", "slurmd"):
                self.daemons.end(name)
            if self.database is not None:
                self.database.stop()
            self.daemons.end("munged")
            # Otherwise every Slurm command would wait for a controller that no longer exists.
            CONFIGURATION.unlink(missing_ok=True)
