"""Messages that devices and mixer seal for the analyst, and envelopes.

A message has 4 bytes: 0 is blank, ``1 + 2 cell`` a plus and ``2 + 2 cell`` a minus. It is sealed by
HPKE (RFC 9180: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM) in 52 bytes, for one campaign
and one round. An envelope is a token of 16 bytes, a random nonce of 16 bytes, by which the mixer
recognises the same envelope when it comes again, and one sealed message for every slot.
"""

import hashlib
from functools import cache
from typing import Any, Final

from shuffledp_collect.campaign import Campaign

PLAIN: Final = 4
SEALED: Final = 52
TOKEN: Final = 16
HEAD: Final = 2 * TOKEN  # token and nonce
BLANK: Final = bytes(PLAIN)
_PURPOSE: Final = b"shuffledp message 1"


def plus(cell: int) -> bytes:
    """Return the message of a record, or of a dummy that looks like one."""
    return (1 + 2 * cell).to_bytes(PLAIN, "big")


def minus(cell: int) -> bytes:
    """Return the message of a dummy that is subtracted."""
    return (2 + 2 * cell).to_bytes(PLAIN, "big")


def info(campaign: Campaign, number: int) -> bytes:
    """Return the context that sealing is bound to: purpose, campaign and round."""
    return _PURPOSE + bytes.fromhex(campaign.name) + number.to_bytes(4, "big")


@cache
def suite() -> Any:
    """Return the cipher suite."""
    from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

    return Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)


def seal(campaign: Campaign, number: int, messages: list[bytes]) -> list[bytes]:
    """Seal messages of 4 bytes for the analyst of a round, in 52 bytes each."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    key, bound = X25519PublicKey.from_public_bytes(campaign.key(number)), info(campaign, number)
    return [suite().encrypt(message, key, info=bound) for message in messages]


def token(campaign: Campaign, number: int, ticket: bytes) -> bytes:
    """Return the token with which the holder of a ticket takes part in a round, once.

    Tokens of different rounds cannot be linked without the ticket, which has 16 bytes.
    """
    purpose, name = b"shuffledp token 1", bytes.fromhex(campaign.name)
    secret = purpose + name + number.to_bytes(4, "big") + ticket
    return hashlib.sha256(secret).digest()[:TOKEN]


def token_hash(value: bytes) -> bytes:
    """Return the hash by which the mixer knows a token."""
    return hashlib.sha256(value).digest()
