"""Slurm's accounting as most sites have it: slurmdbd with a MariaDB."""

import secrets
import subprocess
from dataclasses import dataclass
from pathlib import Path

from waiting import wait_until

from hpc.daemons import Daemons, free_ports, listens

PROGRAMS = ["mariadbd", "mariadb-install-db", "slurmdbd", "sacctmgr"]
CONFIGURATION = Path("/etc/slurm/slurmdbd.conf")


@dataclass
class AccountingDatabase:
    daemons: Daemons
    munge: Path
    mark: str
    port: int = 0  # slurmctld and sacct connect to slurmdbd here

    def start(self) -> None:
        database_port, self.port = free_ports(2)
        password = secrets.token_hex(16)
        self._start_database(database_port, password)
        CONFIGURATION.touch(mode=0o600)
        CONFIGURATION.chmod(0o600)  # slurmdbd refuses a file that others may read
        CONFIGURATION.write_text(
            f"{self.mark}\n"
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
        CONFIGURATION.unlink(missing_ok=True)


def manage(*arguments: str) -> None:
    """Change the accounts, as an administrator does."""
    subprocess.run(["sacctmgr", "--immediate", *arguments], check=True, timeout=60)
