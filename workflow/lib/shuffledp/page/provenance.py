"""Where a run's numbers come from: versions, seed, sources, the revision of the code."""

import os
import platform
import re
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import yaml

from shuffledp.version import find_version

_LIBRARIES: Final = ("snakemake", "numpy", "scipy", "pandas", "geopandas", "pyarrow", "diffprivlib")


def revision(root: Path) -> str:
    """Git revision of a folder's code, with a word if files differ from it.

    A copy without git may be named by its commit. The program git is needed only to compare files:
    where it is not installed, or refuses a clone of another owner, that is said.
    """
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")  # its import wants the program else
    from git import Repo
    from git.exc import GitError, InvalidGitRepositoryError, NoSuchPathError
    from git.refs import SymbolicReference

    try:
        repository = Repo(root)
        commit = SymbolicReference.dereference_recursive(repository, "HEAD")
    except (InvalidGitRepositoryError, NoSuchPathError, ValueError):
        return root.name if re.fullmatch("[0-9a-f]{40}", root.name) else "not under git"
    try:
        return f"{commit}{' with changes that are not committed' * repository.is_dirty()}"
    except GitError:
        return f"{commit}, perhaps with changes: git is missing or refuses to look"


def provenance(
    root: Path, config: Mapping[str, Any], checksums: Mapping[str, str]
) -> dict[str, str]:
    """Say what made a run, a line each.

    Parameters
    ----------
    root
        Folder of the workflow.
    config
        Of the run, whole.
    checksums
        Title of each region to the SHA-256 of the file its check-ins are from.
    """
    sources = {
        f"Check-ins of {title}, SHA-256 of their source": s for title, s in checksums.items()
    }
    return {
        "Run": config["run"] or "default",
        "Seed of the simulated noise": str(config["seed"]),
        **sources,
        "shuffledp": find_version(),
        "Revision": revision(root),
        "Python": platform.python_version(),
        "Libraries": ", ".join(f"{name} {version(name)}" for name in _LIBRARIES),
    }


def configuration_text(config: Mapping[str, Any]) -> str:
    """The configuration as YAML."""
    return yaml.safe_dump(_plain(config), sort_keys=False, allow_unicode=True)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value
