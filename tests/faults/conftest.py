"""What the tests of faults share: their tally, and a clone of the workflow, and what it makes."""

import shutil

import pytest
from workflow.conftest import clone  # noqa: F401 - a fixture

from faults.runs import FOLDERS, TARGET
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
    """Results of a run, which are removed again."""
    clone.run(TARGET)
    made = clone.outputs(*FOLDERS)
    for folder in FOLDERS:
        shutil.rmtree(clone.path / "results" / folder)
    return made
