"""Studies handle histograms larger than the paper's."""

import numpy as np
import pytest

from shuffledp.accounting.one_round import single_bin
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.papers.literature.as_printed import log_delta_as_printed
from shuffledp.studies.privacy import MAX_COUNTS, privacy_table
from shuffledp.studies.samples import sample_counts

BOUNDS = ["upper", "single-bin", "single-bin-as-printed"]


@pytest.mark.parametrize(
    ("k", "eps"), [(3 * MAX_COUNTS, 0.1), pytest.param(3 * MAX_COUNTS, 2.0, marks=pytest.mark.slow)]
)
def test_the_worst_of_many_cells_is_found_among_fewer(k, eps):
    counts = np.arange(k)  # every cell has a different count
    n = int(counts.sum())
    table = privacy_table({n: counts}, 4.0, [eps], BOUNDS).set_index("bound")["log10_delta"]
    bounds = {"single-bin": single_bin.log_delta, "single-bin-as-printed": log_delta_as_printed}
    for name, bound in bounds.items():
        every = bound(eps, Setting(n, k, 4.0), counts[1:] - 1).max() / np.log(10.0)
        # The threshold is a whole number of reports, so neighbours differ by about a power of ten.
        assert every - 1.5 <= table[name] <= every * (1.0 - 1e-12)
    assert table["single-bin"] <= table["upper"]


def test_a_billion_check_ins_are_taken_whole_or_refused():
    counts = np.array([999_999_000, 1000])
    assert sample_counts(counts, 10**9, 1, "town", "fine") is counts
    with pytest.raises(InputError, match=r"'all'.*1,000,000,000"):
        sample_counts(counts, 10**8, 1, "town", "fine")
    below = counts - [1, 0]
    sample = sample_counts(below, 10**8, 1, "town", "fine")
    assert sample.sum() == 10**8
    assert (sample <= below).all()
