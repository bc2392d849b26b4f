"""Fixtures of the tests of faults: a clone of the workflow, and the tables of a normal run."""

import shutil

import pytest
from workflow.conftest import clone  # noqa: F401 - a fixture

from faults.runs import TARGET, tables


@pytest.fixture
def undisturbed(clone):  # noqa: F811 - the fixture
    """Return every result of a complete run, and remove the results again."""
    clone.run(TARGET)
    results = tables(clone)
    assert set(results) == set(clone.plan(TARGET))
    shutil.rmtree(clone.path / "results")
    return results
