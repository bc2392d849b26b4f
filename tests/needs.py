"""Optional requirements of tests: a skip names the missing one and the reason."""

import os
import re
from collections.abc import Iterable

# `.ci/run` installs the first; the second cannot be installed.
INSTALLED = ("accounting", "browser", "index", "node", "site", "slurm", "snakedeploy")
GIVEN = ("data", "machine")
# Environment variable with the names of requirements that must be met, separated by blanks.
REQUIRED = "SHUFFLEDP_TEST_REQUIRE"

_REASON = re.compile(rf"needs ({'|'.join(INSTALLED + GIVEN)}): ")


def needs(thing: str, why: str) -> str:
    """Return the reason of a skip, in the form that `refused` reads."""
    reason = f"needs {thing}: {why}"
    assert _REASON.match(reason), f"{thing} is none of {', '.join(INSTALLED + GIVEN)}"
    return reason


def required() -> set[str]:
    """Return the names that the environment requires; raise ValueError for unknown ones."""
    names = set(os.environ.get(REQUIRED, "").split())
    if unknown := names - set(INSTALLED):
        known = ", ".join(INSTALLED)
        raise ValueError(f"{REQUIRED}: {', '.join(sorted(unknown))} is none of {known}")
    return names


def refused(reasons: Iterable[str], required: set[str]) -> list[str]:
    """Return the reasons that do not excuse a skip, including those that name no requirement."""
    if not required:
        return []
    matched = {reason: _REASON.match(reason) for reason in reasons}
    return [reason for reason, match in matched.items() if not match or match[1] in required]
