"""Kinds of sources of check-ins: which keys they have, and what of them is real."""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True)
class Kind:
    """What a source of a kind says in the configuration, and what its check-ins are worth.

    Attributes
    ----------
    needed, allowed
        Keys beside ``kind`` that it must have, and that it may have.
    real_rows
        Whether each row is a check-in that somebody made, at its place; if not, no row is drawn.
    real_users
        Whether it says who checked in; if not, users can neither be counted nor protected.
    """

    needed: frozenset[str]
    allowed: frozenset[str]
    real_rows: bool
    real_users: bool


KINDS: Final = MappingProxyType(
    {
        # Counts of cells: rows are laid out and users are made up.
        "embedded": Kind(frozenset(), frozenset(), real_rows=False, real_users=False),
        "download": Kind(
            frozenset({"url", "layout"}), frozenset({"checksum"}), real_rows=True, real_users=True
        ),
        "file": Kind(
            frozenset({"path", "layout"}), frozenset({"checksum"}), real_rows=True, real_users=True
        ),
    }
)
