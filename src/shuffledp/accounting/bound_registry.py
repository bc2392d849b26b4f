"""The registry of bounds on shuffled k-RR by name: those of the accountant, and those from papers.

`shuffledp.accounting.bound.Bound` defines what a bound provides. Sources cite papers by their
authors, as CITATION.cff does.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from typing import Final

from shuffledp.accounting import krr
from shuffledp.accounting.bound import Bound, Formulas, Scope
from shuffledp.accounting.one_round import single_bin, two_rr
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError, did_you_mean, shortened


def _single_bin(eps: float, s: Setting) -> float:
    if s.count is None:
        return float(single_bin.worst_count_log_delta(eps, s))
    return float(single_bin.log_delta(eps, s, s.count))


_COMPUTED_HERE = (
    krr.UPPER,
    krr.LOWER,
    Bound(
        name="exact-2rr",
        kind="exact",
        source="docs/accounting.md",
        about="k = 2: the largest delta over all data sets",
        formulas=Formulas(log_delta=lambda eps, s: float(two_rr.two_rr_log_delta(eps, s))),
        scope=Scope(objection=lambda s, _: two_rr.two_rr_objection(s)),
    ),
    Bound(
        name="single-bin",
        kind="lower",
        source="Biswas et al. 2023, eqs. (6) and (10), corrected",
        about="the count of one cell (bin) alone, for the worst data set found unless --count is "
        "given",
        formulas=Formulas(log_delta=_single_bin, over_counts=single_bin.log_delta),
    ),
)

_OWN: Final[Mapping[str, Bound]] = {bound.name: bound for bound in _COMPUTED_HERE}
# Module with the bounds from papers. It is imported by name at the first use of such a bound,
# because `shuffledp.accounting` must not depend on it.
_LITERATURE: Final = "shuffledp.papers.literature.published_bounds"


class _LazyBounds(Mapping[str, Bound]):
    """All bounds by name: those of the accountant, then those from the literature."""

    @cached_property
    def _all(self) -> dict[str, Bound]:
        return {**_OWN, **import_module(_LITERATURE).BOUNDS}

    def __getitem__(self, name: str) -> Bound:
        return _OWN[name] if name in _OWN else self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)


BOUNDS: Final[Mapping[str, Bound]] = _LazyBounds()


def get_bound(name: str) -> Bound:
    """Return the bound with this name; the error suggests a similar name or lists all names."""
    if not isinstance(name, str):
        raise InputError(f"bound must be the name of a bound, got bound={shortened(repr(name))}")
    try:
        return BOUNDS[name]
    except KeyError:
        suggestion = did_you_mean(name, BOUNDS) or f" (bounds: {', '.join(BOUNDS)})"
        raise InputError(f"unknown bound {name!r}{suggestion}") from None
