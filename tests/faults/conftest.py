"""What the tests of faults share: their tally, and a clone of the workflow, and what it makes."""

import shutil

import pytest
from workflow.conftest import clone  # noqa: F401 - a fixture

from faults.runs import TARGET, tables
from faults.summary import Tally


@pytest.fixture
def fault(record_property):
    """`with fault(kind):` counts a fault as tried, and as survived if nothing is raised."""
    tally = Tally()
    yield tally
    for kind, tried in tally.tried.items():
        record_property("fault", [kind, tried, tally.survived[kind]])


@pytest.fixture
def undisturbed(clone):  # noqa: F811 - the fixture
    """Results of a run, which are removed again: every one that the workflow says it makes."""
    clone.run(TARGET)
    made = tables(clone)
    assert set(made) == set(clone.plan(TARGET))
    shutil.rmtree(clone.path / "results")
    return made
