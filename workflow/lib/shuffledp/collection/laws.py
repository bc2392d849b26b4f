"""What each role draws, for each mechanism that can be collected: integer tables.

A device sends the true cell, or by k-RR at times a uniform one in its place (the privacy blanket).
For each of its noises it adds a number of clumps: each clump has a cell that is uniform and a size
of its own. A sum of so many clumps over all cells is what the mechanisms describe cell by cell:
Poisson numbers split into independent ones.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

from shuffledp.collection.tables import Table, binomial, blanket, clumps, poisson, two_sided
from shuffledp.errors import InputError
from shuffledp.mechanisms.catalogue import get_entries

SIGNS: Final = ("plus", "minus", "pair")
# A device's envelope has at most so many messages: 200 kB.
MOST_SLOTS: Final = 4_000
# What a role draws once for each cell, or each report.
TABLES: Final = ("mixer", "analyst", "blanket")


@dataclass(frozen=True)
class Noise:
    """Dummies of a device.

    Attributes
    ----------
    sign
        Of `SIGNS`: a pair is a message of each sign, of one cell.
    number
        Of clumps, over all cells.
    size
        Messages, or pairs, of a clump.
    """

    sign: str
    number: Table
    size: Table

    @property
    def rounding(self) -> Fraction:
        """Total variation distance from the law it was made of."""
        return self.number.rounding + self.number.largest * self.size.rounding


@dataclass(frozen=True)
class Laws:
    """What a device, the mixer and the analyst draw.

    Attributes
    ----------
    slots
        Messages of every envelope.
    device
        Noises of a device. If all that does not fit into the slots it is drawn anew.
    mixer
        Dummies that the mixer adds to each cell; or none.
    analyst
        Noise that the analyst adds to each cell; or none.
    blanket
        Of a device: 1 if it sends a uniform cell in place of the record, 0 if the record; or none.
    """

    slots: int
    device: tuple[Noise, ...] = ()
    mixer: Table | None = None
    analyst: Table | None = None
    blanket: Table | None = None

    @property
    def tables(self) -> dict[str, Table | None]:
        """Those of `TABLES`, by their names."""
        return {name: getattr(self, name) for name in TABLES}

    def rounding(self, people: int, k: int) -> Fraction:
        """How far all that is drawn in a round is at most from the mechanism's law.

        In total variation. A condition that has at least half of the mass at most doubles it.

        Parameters
        ----------
        people
            How many may take part.
        k
            Number of cells.
        """
        servers = [table.rounding for table in (self.mixer, self.analyst) if table is not None]
        dummies = 2 * sum((noise.rounding for noise in self.device), Fraction(0))
        record = Fraction(0) if self.blanket is None else self.blanket.rounding
        return people * (dummies + record) + k * sum(servers, Fraction(0))


_ONE: Final = Table(1, ())


def _two_servers(parameters: Any, k: int) -> Laws:
    del k
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


def _user_dummies(parameters: Any, k: int) -> Laws:
    del k
    number = binomial(parameters.chances, parameters.rate)
    return Laws(1 + parameters.chances, (Noise("plus", number, _ONE),))


def _krr(parameters: Any, k: int) -> Laws:
    return Laws(1, blanket=blanket(parameters.eps0, k))


def _mixdump(parameters: Any, k: int) -> Laws:
    return replace(_user_dummies(parameters, k), blanket=blanket(parameters.eps0, k))


_LAWS: Final[Mapping[str, Callable[[Any, int], Laws]]] = {
    "two-servers": _two_servers,
    "signed-dummies": _signed_dummies,
    "user-dummies": _user_dummies,
    "krr": _krr,
    "mixdump": _mixdump,
}
COLLECTED: Final = tuple(_LAWS)


def make_laws(mechanism: str, parameters: Any, k: int) -> Laws:
    """Tables of a mechanism at its parameters.

    Parameters
    ----------
    mechanism
        One of `COLLECTED`.
    parameters
        Of the mechanism.
    k
        Number of cells.

    Raises
    ------
    InputError
        If it cannot be collected: of another name, or too much noise for tables or an envelope.
    """
    check_collected(mechanism)
    made = _LAWS[mechanism](parameters, k)
    if made.slots > MOST_SLOTS:
        raise InputError(f"an envelope would have {made.slots:,} messages, above {MOST_SLOTS:,}")
    return made


def check_collected(mechanism: str) -> None:
    """Refuse what is no mechanism, or none that can be collected.

    Raises
    ------
    InputError
        If so.
    """
    get_entries([mechanism])
    if mechanism not in _LAWS:
        raise InputError(f"{mechanism} cannot be collected (mechanisms: {', '.join(COLLECTED)})")
