"""Version of this package: pyproject.toml says it, and nothing else."""

from importlib.metadata import version
from pathlib import Path
from tomllib import loads

_PROJECT = Path(__file__).parents[3] / "pyproject.toml"


def find_version() -> str:
    """Version from the pyproject.toml of this clone, or from the metadata of an installed wheel.

    The clone comes first: another version may be installed beside it.
    """
    if _PROJECT.is_file():
        project = loads(_PROJECT.read_text(encoding="utf-8"))["project"]
        if project["name"] == "shuffledp":
            return str(project["version"])
    return version("shuffledp")
