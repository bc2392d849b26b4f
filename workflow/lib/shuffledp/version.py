"""The version of this package, which only pyproject.toml states."""

from importlib.metadata import version
from pathlib import Path
from tomllib import loads

_PROJECT = Path(__file__).parents[3] / "pyproject.toml"


def find_version() -> str:
    """Return the version from the pyproject.toml of this clone, or from an installed wheel.

    The clone takes precedence, because another version may be installed too.
    """
    if _PROJECT.is_file():
        project = loads(_PROJECT.read_text(encoding="utf-8"))["project"]
        if project["name"] == "shuffledp":
            return str(project["version"])
    return version("shuffledp")
