"""Things that a test may do without: its skip names one, and says why it is not there."""

import os
import re
from collections.abc import Iterable

# `.ci/run` installs those; these nobody can install.
INSTALLED = ("accounting", "browser", "index", "node", "site", "slurm", "snakedeploy")
GIVEN = ("data", "machine")
# Names the things that must be there, with blanks between them.
REQUIRED = "SHUFFLEDP_TEST_REQUIRE"

_REASON = re.compile(rf"needs ({'|'.join(INSTALLED + GIVEN)}): ")


def needs(thing: str, why: str) -> str:
    """Reason of a skip, from which `refused` knows whether the thing should have been there."""
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
    """Reasons that are no excuse where `required` must be there: those without a need, too."""
    if not required:
        return []
    matched = {reason: _REASON.match(reason) for reason in reasons}
    return [reason for reason, found in matched.items() if not found or found[1] in required]
