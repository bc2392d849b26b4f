"""Downloads that are kept for the next run."""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from shuffledp.geography.download import fetch
from shuffledp.pipeline.files import replacing


def fetch_cached(url: str, destination: Path, *, cache: Path, checksum: str | None) -> None:
    """Download into a cache and give the file its name in the workflow.

    Workflow managers remove outputs before they run a job again; the cache keeps what was
    downloaded, whole or in part, through that. Of several jobs that want the same address at once
    one fetches it and the others wait.

    Parameters
    ----------
    url, checksum
        As for `fetch`; errors, too.
    destination
        Where the workflow wants the file.
    cache
        Folder of what was downloaded; made if it is not there.
    """
    key = hashlib.sha256(url.encode()).hexdigest()[:16]
    kept = cache / f"{key}-{destination.name}"
    kept.parent.mkdir(parents=True, exist_ok=True)
    with _alone(kept.with_name(kept.name + ".lock")):
        fetch(url, kept, checksum=checksum)
    with replacing(destination) as temporary:
        try:
            os.link(kept, temporary)
        except OSError:  # a file system without hard links
            shutil.copyfile(kept, temporary)


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Wait until no other process holds the lock; the system releases it when its holder dies."""
    with lock.open("w") as stream:
        # On a file system without locks two downloads may collide; their checksums would tell.
        with suppress(OSError):
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield
