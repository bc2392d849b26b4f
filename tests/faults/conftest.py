"""What the tests of faults share: their tally, and a clone of the workflow to run."""

import pytest
from workflow.conftest import clone  # noqa: F401 - a fixture

from faults.summary import Tally


@pytest.fixture
def fault(record_property):
    """`with fault(kind):` counts a fault as tried, and as survived if nothing is raised."""
    tally = Tally()
    yield tally
    for kind, tried in tally.tried.items():
        record_property("fault", [kind, tried, tally.survived[kind]])
