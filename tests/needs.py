"""Optional requirements of tests: a skip names the missing one and the reason."""

import os

# Requirements that must be met, separated by blanks: `.ci/run` installs them.
REQUIRED = os.environ.get("SHUFFLEDP_TEST_REQUIRE", "").split()


def needs(thing: str, why: str) -> str:
    """Return the reason of a skip, of which `requirement` finds the thing that is missing."""
    return f"needs {thing}: {why}"


def requirement(reason: str) -> str | None:
    """Return the required thing that a skip lacks; None if it was not required."""
    words = reason.removeprefix("Skipped: ").partition(":")[0].split()
    return words[1] if words[:1] == ["needs"] and words[1] in REQUIRED else None
