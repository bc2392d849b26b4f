"""Fixtures of the tests of faults: a clone of the workflow, and the tables of a calm run."""

import shutil

import pytest
from workflow.conftest import clone  # noqa: F401 - a fixture

from faults.runs import TARGET, tables


@pytest.fixture
def undisturbed(clone):  # noqa: F811 - the fixture
    """Results of a run, which are removed again: every one that the workflow says it makes."""
    clone.run(TARGET)
    made = tables(clone)
    assert set(made) == set(clone.plan(TARGET))
    shutil.rmtree(clone.path / "results")
    return made
