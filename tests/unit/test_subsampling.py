"""How many of the others are counted on to take part in a sampled round."""

import numpy as np
import pytest
from scipy.stats import binom
from shuffledp.accounting.rounds.subsampling import _FEWER, _fewest


@pytest.mark.parametrize("others", [0, 1, 12, 999, 10**6, 10**9])
@pytest.mark.parametrize("rate", [1e-5, 0.01, 0.5, 0.999])
def test_fewer_take_part_with_chance_1e_20_and_no_more_can_be_counted_on(others, rate):
    # SciPy's tail is right to about 1e-9 here; the answer is an integer far coarser than that.
    fewest = _fewest(others, rate)
    assert 0 <= fewest <= others
    assert binom.cdf(fewest - 1, others, rate) <= _FEWER * (1 + 1e-6)
    if fewest < others:
        assert binom.cdf(fewest, others, rate) > _FEWER * (1 - 1e-6)


def test_one_may_be_missing_at_the_largest_rate_below_one():
    assert _fewest(7, np.nextafter(1.0, 0.0)) == 6
