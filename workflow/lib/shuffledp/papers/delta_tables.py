"""Paper A's Tables II and IV: values of delta.

Of the parameters that the paper leaves out or contradicts, those given here are recovered: the
ones from which the printed digits follow. One rule serves all cells: the formula of Theorem IV.1
with every inner sum over r ended at s - 1 (`log_delta_as_tabulated`).
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from types import MappingProxyType
from typing import Final

import numpy as np
from scipy.special import logsumexp

from shuffledp.accounting.laws.binomial import log_pmf
from shuffledp.papers.literature import clones, closed_forms
from shuffledp.accounting.one_round import certified, single_bin
from shuffledp.accounting.setting import Setting, probabilities
from shuffledp.papers.answer import Answer
from shuffledp.papers.published import Published, from_log

# Of paper A's figure 1, and of the tables where nothing else is said.
CELLS: Final = 10
OWN_SHARE: Final = 0.8  # of the n users, the others in the cell x0

_SECOND_EPS0: Final = 0.5  # where the digits do not follow from Table II's stated 0.49
_LARGE_N: Final = 1000
_LARGE_K: Final = 2
_DEEP_EPS: Final = 0.05

_ALONE = (
    "The other four of the column follow from k=2, n_x0=1, eps0=0.5 with the inner sum of eq. (6) "
    "begun at r=1; this one does not, neither with eps0=0.49, as in its row, nor with 0.5 "
    "(2.956E-58). Of k in 2..40, n_x0 in 0..999 and eps0 0.49 or 0.5, only k=2, n_x0=10, eps0=0.49 "
    "gives its digits (6.665E-58, cut; begun at r=0), and for one number and two free parameters "
    "that may be chance."
)
_LARGE = (
    "Inner sum of eq. (6) begun at r=1, those of the privacy loss at r=0: all four numbers at "
    "eps >= 0.1 then agree, cut; begun at r=0 this one is {:.3E}."
)
_ENDED = "Inner sums ended at r=s-1, as in A's appendix; to r=s, as in Theorem IV.1: {:.3E}."
_MISSED = (
    "No n_x0 in 0..n-1 gives these digits; those of the reproduced cells of the row follow from "
    "this one alone."
)


def proposed(eps: float, eps0: float, n: int, k: int, count: int) -> Answer:
    """Paper A's delta for one setting, by every formula.

    ``correct`` is the certified upper bound of the whole histogram: what a guarantee must be.

    Parameters
    ----------
    eps, eps0, n, k
        Central and local budget, users, cells.
    count
        Other users in the cell x0.
    """
    setting = Setting(n, k, eps0)
    upper = from_log(float(certified.upper_log_delta(eps, setting)))
    return Answer(
        as_printed=from_log(log_delta_as_tabulated(eps, setting, count)),
        single_bin=from_log(float(single_bin.log_delta(eps, setting, count))),
        lower=from_log(float(certified.lower_log_delta(eps, setting))),
        upper=upper,
        correct=upper,
    )


def table_iv(row: Published) -> Answer:
    """Recompute a cell of Table IV: n_x0 is 80, as stated, for n = 100, and 0.8 n elsewhere."""
    n = int(row.n)
    count = round(OWN_SHARE * n)
    answer = proposed(float(row.eps), float(row.eps0), n, int(row.k), count)
    recovered = f"n_x0={count}" + ("" if n == 100 else " (recovered; 80 stated)")
    note = _ended(answer, row, count) if _agrees(answer, row) else _MISSED
    return replace(answer, recovered=recovered, note=note)


def _agrees(answer: Answer, row: Published) -> bool:
    return answer.as_printed is not None and row.agrees(answer.as_printed)


def _ended(answer: Answer, row: Published, count: int) -> str:
    """What the sums to r = s give, if the printed digits tell it from the sums to s - 1."""
    setting = Setting(int(row.n), int(row.k or CELLS), float(row.eps0))
    whole = from_log(float(single_bin.log_delta_as_printed(float(row.eps), setting, count)))
    return "" if row.agrees(whole) else _ENDED.format(whole)


def table_ii_eps0(row: Published) -> float:
    """Eps0 of a row of Table II, one for all its columns: as stated, or 0.5 (recovered).

    The digits of n = 1000 and eps >= 0.1 follow from 0.5, those of all other rows from 0.49.
    """
    second = int(row.n) == _LARGE_N and float(row.eps) > _DEEP_EPS
    return _SECOND_EPS0 if second else float(row.eps0)


def table_ii(row: Published) -> Answer:
    """Recompute a cell of Table II: the paper's own column, or one of those it compares with."""
    if row.bound != "proposed":
        return _cited(row)
    n, eps = int(row.n), float(row.eps)
    if n == _LARGE_N:
        return _large(eps, table_ii_eps0(row), n)
    count = round(OWN_SHARE * n)
    answer = proposed(eps, table_ii_eps0(row), n, CELLS, count)
    return replace(
        answer,
        recovered=f"k={CELLS}, n_x0={count} (recovered)",
        note=_ended(answer, row, count),
    )


def _large(eps: float, eps0: float, n: int) -> Answer:
    answer = proposed(eps, eps0, n, _LARGE_K, 1)
    begun = from_log(log_delta_as_tabulated(eps, Setting(n, _LARGE_K, eps0), 1, first=1))
    if eps < _DEEP_EPS:
        recovered, note = "k, n_x0 unknown; k=2, n_x0=1 (assumed)", _ALONE
    else:
        recovered, note = "k=2, n_x0=1, eps0=0.5 (recovered)", _LARGE.format(answer.as_printed)
    return replace(answer, as_printed=begun, recovered=recovered, note=note)


def log_delta_as_tabulated(eps: float, setting: Setting, count: int, first: int = 0) -> float:
    """Log of paper A's eq. (6) with every inner sum over r ended at s - 1, not at s.

    So A's appendix writes the sums that (11) and (15) begin with, and so a program ends them
    that writes ``range(s)``; in Definition IV.2 and Theorem IV.1 they end at s. What is left out
    is the case that every report of x0 is the truth of another user: it matters where eps is small
    or n is. Never a guarantee, by the loss of the theorem, and as a probability is left out.

    Parameters
    ----------
    eps
        Privacy parameter, at least 0.
    setting
        One round of it; ``(n + 1) (count + 1)`` numbers are held.
    count
        Other users in the cell x0, at most ``n - 1``.
    first
        Where the inner sum of eq. (6) itself begins: 1 for the column of n = 1000 in Table II, 0
        else.
    """
    n, k, E = setting.n, setting.k, float(np.exp(setting.eps0))
    p, q = probabilities(setting.eps0, k)
    kappa2 = (k - 1.0) / (E + k - 2.0)
    s, r = np.arange(1.0, n + 1.0)[:, np.newaxis], np.arange(count + 1.0)
    # kappa3 mu(s, r): r of the holders of x0 and s - r of n - count others report x0.
    law = log_pmf(r, float(count), p) + log_pmf(s - r, float(n - count), q)
    law = np.where(r < s, law, -np.inf)
    share = np.maximum(s - r, 0.0) / (n - count)
    mean = logsumexp(law, axis=1, b=share**2) - logsumexp(law, axis=1)
    with np.errstate(invalid="ignore"):  # nothing is left of the sum where count < first
        loss = np.log(kappa2 + (E - kappa2) * np.exp(mean))
    begun = np.where(r >= first, law, -np.inf)
    mass = logsumexp(begun, axis=1, b=kappa2 + (E - kappa2) * share)
    counted = np.isfinite(mass) & (loss > eps)
    if eps >= setting.eps0 or not counted.any():
        return -np.inf
    return float(logsumexp(mass[counted] + np.log(-np.expm1(eps - loss[counted]))))


# --- The columns of the bounds that Table II compares with --------------------------------------

_TABULATED: Final[Mapping[str, tuple[Callable[..., np.ndarray], str]]] = MappingProxyType(
    {
        "erlingsson": (
            closed_forms.as_tabulated_erlingsson_log_delta,
            "exp(-n (eps/(12 eps0))^2)",
        ),
        "balle": (
            closed_forms.as_tabulated_balle_log_delta,
            "exp(-n eps^2/exp(2 eps0)), a big-O without its constant",
        ),
        "feldman": (
            closed_forms.as_tabulated_clones_log_delta,
            "exp(-n eps^2/(exp(eps0)-1)), a big-O without its constant, squared wrongly",
        ),
    }
)


def _cited(row: Published) -> Answer:
    formula, words = _TABULATED[row.bound]
    eps, eps0, stated = float(row.eps), table_ii_eps0(row), float(row.eps0)
    setting = Setting(int(row.n), CELLS, eps0)
    correct, theorem = _THEOREMS[row.bound](eps, setting)
    return Answer(
        as_printed=from_log(float(formula(eps, setting))),
        correct=correct,
        recovered="" if eps0 == stated else f"eps0={eps0:g} (recovered; {stated:g} stated)",
        note=f"As printed: {words} (recovered); correct: {theorem}.",
    )


def _erlingsson(eps: float, setting: Setting) -> tuple[Decimal | None, str]:
    name = "Erlingsson et al. 2019, Corollary 9"
    formula = float(closed_forms.as_tabulated_erlingsson_log_delta(eps, setting))
    outside = closed_forms.erlingsson_domain(setting, formula)
    if outside:
        return None, f"none, outside the range of {name}: {outside.partition(' (')[0]}"
    return from_log(formula), name


def _balle(eps: float, setting: Setting) -> tuple[Decimal | None, str]:
    name = f"Balle et al. 2019, Theorem 3.1 with k={CELLS} (assumed)"
    value = float(closed_forms.balle_krr_log_delta(eps, setting))
    if value < 0:
        return from_log(value), name
    return None, f"none, {name} covers no delta below 1 there"


def _feldman(eps: float, setting: Setting) -> tuple[Decimal | None, str]:
    value = float(clones.clones_log_delta(eps, setting))
    return from_log(value), "Feldman et al. 2021, the clones bound computed numerically"


_THEOREMS: Final[Mapping[str, Callable[[float, Setting], tuple[Decimal | None, str]]]] = (
    MappingProxyType({"erlingsson": _erlingsson, "balle": _balle, "feldman": _feldman})
)
