"""The version of this package, which only pyproject.toml states."""

from importlib.metadata import version


def find_version() -> str:
    """Return the version of the installed package."""
    return version("shuffledp")
