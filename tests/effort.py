"""How much is tried: examples of a property, and values of a parametrised test."""

import pytest
from hypothesis import settings


def examples(whole: int) -> int:
    """`whole` of them under `make test-slow`, a fifth otherwise."""
    light = settings.default.max_examples < settings.get_profile("slow").max_examples
    return max(2, whole // 5) if light else whole


def long(*values: object) -> object:
    """Values of a parametrised test, of which others are quick, under `make test-slow` alone."""
    return pytest.param(*values, marks=pytest.mark.slow)


def nightly(*values: object) -> object:
    """Values of a parametrised test, of which others are quicker, under `make faults` alone."""
    return pytest.param(*values, marks=pytest.mark.faults)
