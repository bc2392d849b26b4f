"""Messages that devices and mixer seal for the analyst, and envelopes.

A message is 4 bytes: 0 is blank, ``1 + 2 cell`` a plus and ``2 + 2 cell`` a minus. It is sealed by
HPKE (RFC 9180: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM) in 52 bytes, for one campaign
and one round. An envelope is a token of 16 bytes and one sealed message for every slot.
"""

import hashlib
from functools import cache
from typing import Any, Final

from shuffledp.collection.campaign import Campaign

PLAIN: Final = 4
SEALED: Final = 52
TOKEN: Final = 16
BLANK: Final = bytes(PLAIN)
_PURPOSE: Final = b"shuffledp message 1"


def plus(cell: int) -> bytes:
    """A record, or a dummy that looks like one."""
    return (1 + 2 * cell).to_bytes(PLAIN, "big")


def minus(cell: int) -> bytes:
    """A dummy that is subtracted."""
    return (2 + 2 * cell).to_bytes(PLAIN, "big")


def info(campaign: Campaign, number: int) -> bytes:
    """What sealing is bound to: purpose, campaign and round."""
    return _PURPOSE + bytes.fromhex(campaign.name) + number.to_bytes(4, "big")


@cache
def suite() -> Any:
    """The cipher suite."""
    from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

    return Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)


def seal(campaign: Campaign, number: int, messages: list[bytes]) -> list[bytes]:
    """Seal messages for the analyst of a round, in 52 bytes each.

    Parameters
    ----------
    campaign, number
        Campaign and round, which the messages are bound to.
    messages
        Of 4 bytes.
    """
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    key, bound = X25519PublicKey.from_public_bytes(campaign.key(number)), info(campaign, number)
    return [suite().encrypt(message, key, info=bound) for message in messages]


def token(campaign: Campaign, number: int, ticket: bytes) -> bytes:
    """What lets the holder of a ticket take part in a round, once.

    Tokens of different rounds cannot be told to be of one ticket.

    Parameters
    ----------
    campaign, number
        Campaign and round.
    ticket
        16 bytes.
    """
    return _hash(b"shuffledp token 1", bytes.fromhex(campaign.name), number, ticket)[:TOKEN]


def token_hash(value: bytes) -> bytes:
    """What the mixer has of a token."""
    return hashlib.sha256(value).digest()


def _hash(purpose: bytes, name: bytes, number: int, ticket: bytes) -> bytes:
    return hashlib.sha256(purpose + name + number.to_bytes(4, "big") + ticket).digest()
