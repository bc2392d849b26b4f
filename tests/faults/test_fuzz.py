"""A short run of `make fuzz` with a fixed seed."""

import pytest

from faults.fuzz import fuzz


@pytest.mark.slow
def test_odd_calls_end_with_an_answer_or_one_line():
    begun, wrong = fuzz(60, 1, 600.0)
    assert begun.total() == 60
    assert wrong == []
