"""Effort of a test: the examples of a property, the values of a parametrised test."""

import os

import pytest
from hypothesis import settings


def examples(whole: int) -> int:
    """Return `whole` under `make test-slow`, a quarter of it under CI, a fifth otherwise.

    CI repeats the same examples in every run.
    """
    if settings.default.max_examples < settings.get_profile("slow").max_examples:
        return max(2, whole // 5)
    return max(2, whole // 4) if "CI" in os.environ else whole


def long(*values: object) -> object:
    """Mark values of a parametrised test that take long: `make test-slow` alone runs them."""
    return pytest.param(*values, marks=pytest.mark.slow)


def nightly(*values: object) -> object:
    """Mark values of a parametrised test for `make faults` alone."""
    return pytest.param(*values, marks=pytest.mark.faults)
