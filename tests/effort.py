"""How many examples a property whose examples are expensive is tried on."""

from hypothesis import settings


def examples(whole: int) -> int:
    """`whole` of them under `make test-slow`, a fifth otherwise."""
    light = settings.default.max_examples < settings.get_profile("slow").max_examples
    return max(2, whole // 5) if light else whole
