"""Several reports of one person are bounded by as many rounds."""

from fractions import Fraction
from itertools import combinations_with_replacement
from math import log

import pytest
from shuffledp import Setting, log_delta
from shuffledp.accounting.setting import group_privacy
from shuffledp.errors import InputError

from oracle import exact


def worst_delta(n, k, reports, E, e):
    """Return the largest delta over the others' records and both records of the person."""
    worst = Fraction(0)
    for others in combinations_with_replacement(range(k), n - reports):
        own = list(combinations_with_replacement(range(k), reports))
        laws = [exact.histogram_law([*records, *others], k, E) for records in own]
        worst = max(worst, *(exact.hockey_stick(P, Q, e) for P in laws for Q in laws if P is not Q))
    return worst


@pytest.mark.parametrize(
    ("n", "k", "reports"), [(4, 2, 2), (5, 2, 2), (6, 2, 3), (4, 3, 2), (5, 3, 2), (3, 3, 3)]
)
@pytest.mark.parametrize("E", [Fraction(2), Fraction(7)])
def test_rounds_bound_what_several_reports_leak(n, k, reports, E):
    setting = Setting(n, k, log(E))
    rounds = group_privacy(setting, reports)
    assert (rounds.n, rounds.rounds) == (n // reports, reports)
    for e in (Fraction(11, 10), Fraction(3, 2), E):
        true = worst_delta(n, k, reports, E, e)
        bound = log_delta(log(e), rounds).upper
        assert log(true) <= bound < 0.0
        # A bound that counted one report only would be too small.
        assert log_delta(log(e), setting).upper < log(true)


@pytest.mark.parametrize("reports", [0, 5, 1.5])
def test_the_number_of_reports_must_be_an_integer_up_to_n(reports):
    with pytest.raises(InputError, match="from 1 to n"):
        group_privacy(Setting(4, 3, 1.0), reports)


def test_several_reports_belong_to_one_round():
    with pytest.raises(InputError, match="one round"):
        group_privacy(Setting(4, 3, 1.0, rounds=2), 2)
