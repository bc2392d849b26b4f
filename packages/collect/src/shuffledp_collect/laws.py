"""Tables from which each role draws, for each mechanism that can be collected.

A device sends its cell. For each of its noises it adds a number of clumps: each clump has a uniform
cell and a size. The mechanisms describe the sum cell by cell; both laws are equal, since a Poisson
number of clumps splits into independent Poisson numbers, one for each cell.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from shuffledp.errors import InputError
from shuffledp.mechanisms.catalogue import get_entries

from shuffledp_collect.tables import Table, clumps, poisson, two_sided

# An envelope of this many messages has 200 kB.
MAX_SLOTS: Final = 4_000


@dataclass(frozen=True)
class Noise:
    """Dummies of one kind that a device adds.

    ``sign`` is "plus", "minus", or "pair" for a message of each sign with the same cell. ``number``
    is the law of the number of clumps over all cells, and ``size`` that of the number of messages,
    or pairs, in a clump.
    """

    sign: str
    number: Table
    size: Table

    @property
    def rounding(self) -> Fraction:
        """Total variation distance from the exact law."""
        return self.number.rounding + self.number.largest * self.size.rounding


@dataclass(frozen=True)
class Laws:
    """Laws of a device, the mixer and the analyst.

    ``slots`` is the number of messages in every envelope. A device draws all of its noises again if
    they do not fit into the slots. ``mixer`` is the number of dummies that the mixer adds to each
    cell, and ``analyst`` the noise that the analyst adds to each cell; either may be None.
    """

    slots: int
    device: tuple[Noise, ...] = ()
    mixer: Table | None = None
    analyst: Table | None = None

    def rounding(self, people: int, k: int) -> Fraction:
        """Bound the total variation distance between a round's draws and the mechanism's law.

        At most `people` take part, and there are `k` cells. Conditioning on an event of probability
        at least one half doubles a distance at most.
        """
        servers = [table.rounding for table in (self.mixer, self.analyst) if table is not None]
        dummies = 2 * sum((noise.rounding for noise in self.device), Fraction(0))
        return people * dummies + k * sum(servers, Fraction(0))


_ONE: Final = Table(1, ())


def _two_servers(parameters: Any, _: int) -> Laws:
    eps, nu = parameters.eps, parameters.nu
    return Laws(1, mixer=two_sided(eps, nu), analyst=two_sided(eps))


def _signed_dummies(parameters: Any, k: int) -> Laws:
    number, size = clumps(parameters.ratio, parameters.size * k / parameters.smallest)
    pairs = poisson(k * parameters.pairs / parameters.smallest)
    device = (
        Noise("plus", number, size),
        Noise("minus", number, size),
        Noise("pair", pairs, _ONE),
    )
    return Laws(parameters.slots, device)


_LAWS: Final[Mapping[str, Callable[[Any, int], Laws]]] = {
    "two-servers": _two_servers,
    "signed-dummies": _signed_dummies,
}
COLLECTED: Final = tuple(_LAWS)


def make_laws(mechanism: str, parameters: Any, k: int) -> Laws:
    """Return the tables of one of `COLLECTED`, for its parameters and `k` cells.

    Raises `InputError` if the mechanism cannot be collected, or its noise is too large for tables
    or envelopes.
    """
    check_collected(mechanism)
    laws = _LAWS[mechanism](parameters, k)
    if laws.slots > MAX_SLOTS:
        raise InputError(f"an envelope has at most {MAX_SLOTS:,} messages, got {laws.slots:,}")
    return laws


def check_collected(mechanism: str) -> None:
    """Refuse an unknown mechanism, and one that cannot be collected.

    Raises `InputError` if the mechanism is not one of `COLLECTED`.
    """
    get_entries([mechanism])
    if mechanism not in _LAWS:
        raise InputError(
            f"only these mechanisms can be collected: {', '.join(COLLECTED)}; got {mechanism}"
        )
