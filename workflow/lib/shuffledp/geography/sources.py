"""Where check-ins come from: named layouts, and downloads that are kept for the next run."""

import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shuffledp.files import replacing
from shuffledp.geography.download import fetch
from shuffledp.geography.layout import SNAP, Layout, layout_from_config


def source_layout(spec: str | Mapping[str, Any]) -> Layout:
    """Layout of a source: ``snap``, or a block of the configuration.

    Raises
    ------
    InputError
        If the block is not a layout.
    """
    return SNAP if spec == "snap" else layout_from_config(spec)  # type: ignore[arg-type]


def fetch_cached(url: str, destination: Path, *, cache: Path, checksum: str | None) -> None:
    """Download into a cache and give the file its name in the workflow.

    Workflow managers remove outputs before they run a job again; the cache keeps what was
    downloaded, whole or in part, through that. Parameters and errors as for `fetch`.
    """
    key = hashlib.sha256(url.encode()).hexdigest()[:16]
    kept = cache / f"{key}-{destination.name}"
    kept.parent.mkdir(parents=True, exist_ok=True)
    fetch(url, kept, checksum=checksum)
    with replacing(destination) as temporary:
        try:
            os.link(kept, temporary)
        except OSError:  # a file system without hard links
            shutil.copyfile(kept, temporary)
