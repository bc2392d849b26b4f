"""A device: an envelope of a record, written down, then sent until it is answered."""

import os
import re
import secrets
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from time import monotonic, sleep
from typing import Final

from shuffledp.collection.campaign import Campaign
from shuffledp.collection.messages import BLANK, minus, plus, seal, token
from shuffledp.collection.tables import Random, draw_below
from shuffledp.errors import InputError
from shuffledp.pipeline.files import replacing

_ANSWER_LIMIT: Final = 30.0  # seconds until an answer counts as lost
_LONGEST_ANSWER: Final = 200  # bytes
# It did not come in time, or there are too many.
_LATER: Final = (408, 425, 429)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
_WAITING, _COUNTED = "envelope", "counted"
TICKET: Final = re.compile(r"([0-9a-f]{64})\.([0-9a-f]{32})")


def make_envelope(campaign: Campaign, number: int, ticket: bytes, cell: int) -> bytes:
    """Token and sealed messages of one report, always of one length.

    Parameters
    ----------
    campaign
        What is asked.
    number
        Of the round, from 1 on.
    ticket
        16 bytes, as issued.
    cell
        The record, from 0 on.

    Raises
    ------
    InputError
        If there is no such cell or round.
    """
    sealed = seal(campaign, number, draw_messages(campaign, cell))
    # Nor can a mixer tell by its place which message has the record, and keep that alone.
    secrets.SystemRandom().shuffle(sealed)
    return token(campaign, number, ticket) + b"".join(sealed)


def draw_messages(campaign: Campaign, cell: int, random: Random = os.urandom) -> list[bytes]:
    """Messages of a report before they are sealed, blanks included.

    Parameters
    ----------
    campaign, cell
        As of `make_envelope`.
    random
        Gives so many random bytes. Only tests of the law give another than the system's.
    """
    if not 0 <= cell < campaign.cells:
        raise InputError(f"there are cells 0 to {campaign.cells - 1} (got {cell})")
    blanket = campaign.laws.blanket
    sent = draw_below(campaign.cells, random) if blanket and blanket.draw(random) else cell
    while len(drawn := [plus(sent), *_dummies(campaign, random)]) > campaign.laws.slots:
        pass
    return drawn + [BLANK] * (campaign.laws.slots - len(drawn))


def _dummies(campaign: Campaign, random: Random) -> Iterator[bytes]:
    for noise in campaign.laws.device:
        for _ in range(noise.number.draw(random)):
            cell = draw_below(campaign.cells, random)
            for _ in range(noise.size.draw(random)):
                if noise.sign != "minus":
                    yield plus(cell)
                if noise.sign != "plus":
                    yield minus(cell)


def read_ticket(text: str, campaign: Campaign) -> bytes:
    """The ticket of a text ``NAME.TICKET``, as the issuer hands it out.

    Raises
    ------
    InputError
        If it is none, or of another campaign: one that was altered has another name.
    """
    found = TICKET.fullmatch(text.strip())
    if found is None:
        raise InputError("a ticket is the campaign's name, a point and 32 hexadecimal digits")
    if found[1] != campaign.name:
        raise InputError("the ticket is of another campaign, or the campaign was altered")
    return bytes.fromhex(found[2])


def _post(address: str, envelope: bytes) -> tuple[int, str]:
    """Status and words of an answer, whatever the mixer sends; no password, and nowhere else."""
    import requests

    with requests.post(
        address,
        data=envelope,
        timeout=_ANSWER_LIMIT,
        allow_redirects=False,
        stream=True,
        headers={"User-Agent": "shuffledp"},
        auth=lambda request: request,
    ) as answer:
        words = answer.raw.read(_LONGEST_ANSWER).decode("ascii", "replace")
        return answer.status_code, "".join(c if c.isprintable() else " " for c in words).strip()


class Device:
    """What a device keeps: an envelope until it is answered, and which rounds it took part in.

    Parameters
    ----------
    folder
        Of the device alone.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def report(self, campaign: Campaign, number: int, ticket: bytes, cell: int) -> None:
        """Write an envelope down, to be sent by `send`.

        Parameters
        ----------
        campaign, number
            Campaign and round.
        ticket, cell
            As of `make_envelope`.

        Raises
        ------
        InputError
            If the device took part in this round: another report would have less than the promise.
        """
        campaign.key(number)
        if any(self._path(campaign, number, state).exists() for state in (_WAITING, _COUNTED)):
            raise InputError(f"this device took part in round {number} of {campaign.name[:8]}")
        made = make_envelope(campaign, number, ticket, cell)
        with replacing(self._path(campaign, number, _WAITING)) as path:
            path.touch(0o600)
            path.write_bytes(made)

    def took_part(self, campaign: Campaign | None = None) -> int:
        """Rounds of a campaign, or of all, in which this device reported."""
        name = "*" if campaign is None else campaign.name
        # What is being written begins with a point.
        found = (path for path in self._folder.glob(f"{name}.*.*") if path.name[0] != ".")
        return len({path.stem for path in found})

    def send(self, campaign: Campaign, number: int, patience: float = 60.0) -> None:
        """Send the waiting envelope until it is counted, the same each time.

        Parameters
        ----------
        campaign, number
            As of `report`.
        patience
            Seconds to go on where nobody answers.

        Raises
        ------
        InputError
            If the mixer refuses it; the message is the mixer's.
        OSError
            If nobody answered in this time: the envelope waits.
        """
        import requests

        waiting = self._path(campaign, number, _WAITING)
        if self._path(campaign, number, _COUNTED).exists():
            waiting.unlink(missing_ok=True)
            return
        envelope = waiting.read_bytes()
        address = f"{campaign.address.rstrip('/')}/v1/{campaign.name}/{number}"
        end, pause = monotonic() + patience, _FIRST_PAUSE
        while True:
            try:
                status, words = _post(address, envelope)
            except (requests.RequestException, OSError, HTTPException) as error:
                status, words = 503, f"nobody answers ({type(error).__name__})"
            if status == 204:
                break
            if 400 <= status < 500 and status not in _LATER:
                raise InputError(f"the mixer refuses the envelope: {words} ({status})")
            if monotonic() + pause > end:
                raise OSError(f"not counted yet: {words}; the envelope waits in {self._folder}")
            sleep(pause)
            pause = min(2.0 * pause, _LONGEST_PAUSE)
        with replacing(self._path(campaign, number, _COUNTED)) as path:
            path.touch(0o600)
        waiting.unlink()

    def _path(self, campaign: Campaign, number: int, state: str) -> Path:
        return self._folder / f"{campaign.name}.{number}.{state}"
