"""A device: it writes the envelope of a record to disk, then sends it until it is counted."""

import os
import re
import secrets
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from time import monotonic, sleep
from typing import Final

from shuffledp.errors import InputError
from shuffledp.pipeline.files import replacing

from shuffledp_collect.campaign import Campaign
from shuffledp_collect.messages import BLANK, TOKEN, minus, plus, seal, token
from shuffledp_collect.tables import RandomBytes, draw_below

_ANSWER_SECONDS: Final = 30.0  # until an answer counts as lost
_MAX_ANSWER_BYTES: Final = 200
# HTTP status codes after which the same envelope may be sent again.
_RETRY_STATUS: Final = (408, 425, 429)
_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.5, 30.0
_WAITING, _COUNTED = "envelope", "counted"
TICKET: Final = re.compile(r"([0-9a-f]{64})\.([0-9a-f]{32})")


def make_envelope(campaign: Campaign, number: int, ticket: bytes, cell: int) -> bytes:
    """Return the envelope of one report; all envelopes of a campaign have the same length.

    Rounds are numbered from 1, and the record `cell` from 0; a ticket has 16 bytes. Raises
    `InputError` if there is no such cell or round.
    """
    sealed = seal(campaign, number, draw_messages(campaign, cell))
    # The place of a message must not tell a mixer which one has the record.
    secrets.SystemRandom().shuffle(sealed)
    nonce = secrets.token_bytes(TOKEN)
    return token(campaign, number, ticket) + nonce + b"".join(sealed)


def draw_messages(campaign: Campaign, cell: int, random: RandomBytes = os.urandom) -> list[bytes]:
    """Draw the messages of a report before they are sealed, blanks included.

    Only tests of the law replace the system's source of random bytes.
    """
    if not 0 <= cell < campaign.cells:
        raise InputError(f"the campaign has cells 0 to {campaign.cells - 1}, got {cell}")
    while len(drawn := [plus(cell), *_dummies(campaign, random)]) > campaign.laws.slots:
        pass
    return drawn + [BLANK] * (campaign.laws.slots - len(drawn))


def _dummies(campaign: Campaign, random: RandomBytes) -> Iterator[bytes]:
    for noise in campaign.laws.device:
        for _ in range(noise.number.draw(random)):
            cell = draw_below(campaign.cells, random)
            for _ in range(noise.size.draw(random)):
                if noise.sign != "minus":
                    yield plus(cell)
                if noise.sign != "plus":
                    yield minus(cell)


def read_ticket(text: str, campaign: Campaign) -> bytes:
    """Return the ticket in a text ``NAME.TICKET``, as the issuer hands it out.

    Raises `InputError` if the text has another form, or names another campaign.
    """
    match = TICKET.fullmatch(text.strip())
    if match is None:
        raise InputError("a ticket is the campaign's name, a point and 32 hexadecimal digits")
    if match[1] != campaign.name:
        raise InputError("the ticket belongs to another campaign, or the campaign was edited")
    return bytes.fromhex(match[2])


def _post(address: str, envelope: bytes) -> tuple[int, str]:
    """Send an envelope without credentials or redirects; return status and text of the answer."""
    import requests

    with requests.post(
        address,
        data=envelope,
        timeout=_ANSWER_SECONDS,
        allow_redirects=False,
        stream=True,
        headers={"User-Agent": "shuffledp"},
        auth=lambda request: request,
    ) as answer:
        words = answer.raw.read(_MAX_ANSWER_BYTES).decode("ascii", "replace")
        return answer.status_code, "".join(c if c.isprintable() else " " for c in words).strip()


class Device:
    """State of one device: an envelope that waits for its answer, and the rounds it took part in.

    The state is kept in a folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def report(self, campaign: Campaign, number: int, ticket: bytes, cell: int) -> None:
        """Write an envelope to disk, to be sent by `send`; see `make_envelope`.

        Raises `InputError` if the device took part in this round: a second report would weaken the
        promise.
        """
        campaign.key(number)
        if any(self._path(campaign, number, state).exists() for state in (_WAITING, _COUNTED)):
            raise InputError(
                f"this device already took part in round {number} of campaign {campaign.name[:8]}"
            )
        envelope = make_envelope(campaign, number, ticket, cell)
        with replacing(self._path(campaign, number, _WAITING)) as path:
            path.touch(0o600)
            path.write_bytes(envelope)

    def took_part(self, campaign: Campaign | None = None) -> int:
        """Return the number of rounds, of one campaign or of all, in which this device reported."""
        name = "*" if campaign is None else campaign.name
        # Names of unfinished files begin with a point.
        paths = (path for path in self._folder.glob(f"{name}.*.*") if path.name[0] != ".")
        return len({path.stem for path in paths})

    def send(self, campaign: Campaign, number: int, patience: float = 60.0) -> None:
        """Send the waiting envelope until it is counted, without changing it.

        It stops after `patience` seconds without an answer. Raises `InputError` if the mixer
        refuses the envelope, with the mixer's reason in the message, and `OSError` if nobody
        answered in time: the envelope is kept.
        """
        import requests

        waiting = self._path(campaign, number, _WAITING)
        if self._path(campaign, number, _COUNTED).exists():
            waiting.unlink(missing_ok=True)
            return
        envelope = waiting.read_bytes()
        address = f"{campaign.address.rstrip('/')}/v1/{campaign.name}/{number}"
        end, pause = monotonic() + patience, _FIRST_PAUSE_SECONDS
        while True:
            try:
                status, words = _post(address, envelope)
            except (requests.RequestException, OSError, HTTPException) as error:
                status, words = 503, f"nobody answers ({type(error).__name__})"
            if status == 204:
                break
            if 400 <= status < 500 and status not in _RETRY_STATUS:
                raise InputError(f"the mixer refuses the envelope: {words} ({status})")
            if monotonic() + pause > end:
                raise OSError(f"not counted yet: {words}; the envelope waits in {self._folder}")
            sleep(pause)
            pause = min(2.0 * pause, _MAX_PAUSE_SECONDS)
        with replacing(self._path(campaign, number, _COUNTED)) as path:
            path.touch(0o600)
        waiting.unlink()

    def _path(self, campaign: Campaign, number: int, state: str) -> Path:
        return self._folder / f"{campaign.name}.{number}.{state}"
