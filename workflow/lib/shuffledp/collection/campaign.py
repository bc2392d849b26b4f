"""A campaign: what is asked, how it is drawn, what is promised. Its hash is its name.

Every role reads the same file, refuses one that is altered, and checks what it needs of it.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields, replace
from functools import cache, cached_property
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np

from shuffledp.accounting.accountant import certified_curve, distinct
from shuffledp.accounting.curve import UpperCurve, add_total_variation, pointwise_minimum
from shuffledp.accounting.participation import with_participation
from shuffledp.accounting.setting import Setting
from shuffledp.collection.laws import TABLES, Laws, Noise, check_collected, make_laws
from shuffledp.collection.tables import Table
from shuffledp.errors import InputError
from shuffledp.mechanisms.catalogue import VIEWS
from shuffledp.mechanisms.registry import get_mechanisms, with_options
from shuffledp.mechanisms.target_calibration import Released, calibrated, views_of_rounds

VERSION: Final = 1
LARGEST_FILE: Final = 2**26
# Of delta, what is left for the rounding of tables, which needs far less.
_ROUNDING: Final = 1e-9
# Beyond, a float or another language's number loses digits.
_LARGEST_INTEGER: Final = 2**53


@dataclass(frozen=True)
class Campaign:
    """What every role knows.

    Attributes
    ----------
    title, question
        What people are told and asked.
    cells, cells_sha256
        Number of cells, and the checksum of their file.
    mechanism, parameters
        Name and parameters, the same in every round, as numbers.
    people
        Tickets that were issued.
    at_least, colluding
        Fewest respondents of a round, and how many of these the promise does not count on.
    laws
        What each role draws.
    delta
        Of the promise for all rounds together, in all views.
    eps
        Of each of `catalogue.VIEWS`; None where it sees every record.
    rounds
        The analyst's public key of each round, 32 bytes.
    address
        Of the mixer.
    """

    title: str
    question: str
    cells: int
    cells_sha256: str
    mechanism: str
    parameters: Mapping[str, float]
    people: int
    at_least: int
    colluding: int
    laws: Laws
    delta: float
    eps: Mapping[str, float | None]
    rounds: tuple[bytes, ...]
    address: str

    @cached_property
    def text(self) -> bytes:
        """The file: canonical JSON."""
        return canonical(
            {
                "version": VERSION,
                "title": self.title,
                "question": self.question,
                "cells": {"count": self.cells, "sha256": self.cells_sha256},
                "mechanism": self.mechanism,
                "parameters": {name: _written(value) for name, value in self.parameters.items()},
                "people": self.people,
                "at_least": self.at_least,
                "colluding": self.colluding,
                "slots": self.laws.slots,
                "device": [asdict(noise) for noise in self.laws.device],
                **{role: each and asdict(each) for role, each in self.laws.tables.items()},
                "promise": {
                    "neighbours": "replacement",
                    "unit": _unit(len(self.rounds)),
                    "delta": _written(self.delta),
                    "eps": {
                        view: None if eps is None else _written(eps)
                        for view, eps in self.eps.items()
                    },
                },
                "rounds": [key.hex() for key in self.rounds],
                "address": self.address,
            }
        )

    @cached_property
    def name(self) -> str:
        """SHA-256 of the file, hexadecimal."""
        return hashlib.sha256(self.text).hexdigest()

    def key(self, number: int) -> bytes:
        """The analyst's public key of a round, from 1 on.

        Raises
        ------
        InputError
            If there is no such round.
        """
        if not 1 <= number <= len(self.rounds):
            raise InputError(f"the campaign has rounds 1 to {len(self.rounds)} (got {number})")
        return self.rounds[number - 1]

    @cached_property
    def released(self) -> Released[Any]:
        """The mechanism at its parameters."""
        (mechanism,) = get_mechanisms([self.mechanism])
        kinds = {field.name: field.type for field in fields(mechanism.form)}
        values = {
            name: int(value) if kinds.get(name) is int else value
            for name, value in self.parameters.items()
        }
        needed = {field.name for field in fields(mechanism.form) if field.default is MISSING}
        if not needed <= set(values) <= set(kinds):
            raise InputError(
                f"parameters of {self.mechanism} are {', '.join(kinds)} (got {', '.join(values)})"
            )
        return Released(mechanism, mechanism.form(**values))

    def views(self, respondents: Sequence[int]) -> dict[str, UpperCurve]:
        """Delta over eps of each of `catalogue.VIEWS`, with the rounding of the tables.

        Parameters
        ----------
        respondents
            Of each round, those who collude among them.

        Raises
        ------
        InputError
            If there are fewer respondents than collude.
        """
        rounds, how = len(respondents), self.released
        settings = [
            Setting(number, self.cells, colluding=self.colluding, mechanism=how)
            for number in sorted(respondents)
        ]
        # What holds with the fewest holds in a round with more.
        setting = replace(settings[0], rounds=rounds)
        views = how.views(setting, with_participation(how.curve, setting))
        if settings[0] != settings[-1]:
            each = [(how, once, count) for once, count in distinct(settings).items()]
            found = views_of_rounds(each, certified_curve(settings))
            views = {view: pointwise_minimum(views[view], found[view]) for view in VIEWS}
        missed = float(np.log(float(rounds * self.laws.rounding(self.people, self.cells)) * 1.01))
        return {view: _blurred(curve, missed) for view, curve in views.items()}

    def check(self) -> None:
        """Find tables and promise anew from mechanism and parameters.

        Raises
        ------
        InputError
            If they are others, or the promise is not kept.
        """
        made = make_laws(self.mechanism, self.released.parameters, self.cells)
        if made != self.laws:
            raise InputError("the campaign's tables are not those of its mechanism and parameters")
        kept = _promised(self.views([self.at_least] * len(self.rounds)), self.delta)
        for view, eps in self.eps.items():
            truth = kept[view]
            if eps is not None and (truth is None or truth > eps):
                words = "everything" if truth is None else f"eps={truth}"
                raise InputError(
                    f"the campaign promises eps={eps} for the view of {view}, which has {words} "
                    f"at delta={self.delta}"
                )


def make_campaign(
    title: str,
    question: str,
    cells: int,
    cells_sha256: str,
    keys: Sequence[bytes],
    address: str,
    *,
    eps: float,
    delta: float,
    at_least: int,
    people: int,
    mechanism: str = "two-servers",
    colluding: int = 0,
    slots: int | None = None,
) -> Campaign:
    """Parameters with the least error that keep a promise, their tables, and what each view has.

    Parameters
    ----------
    title, question, address
        As of `Campaign`.
    cells, cells_sha256
        As of `Campaign`.
    keys
        The analyst's public key of each round.
    eps, delta
        Of all rounds together, for the analyst.
    at_least, colluding, people
        As of `Campaign`.
    mechanism
        One of `laws.COLLECTED`.
    slots
        An envelope's messages, for signed dummies.

    Raises
    ------
    InputError
        If it cannot be kept.
    """
    if not 0.0 < delta < 1.0:
        raise InputError(f"delta must lie strictly between 0 and 1 (got {delta})")
    if people < at_least:
        raise InputError(f"there are fewer tickets than respondents needed: {people}, {at_least}")
    check_collected(mechanism)
    way = with_options(get_mechanisms([mechanism])[0], slots=slots, share=1.0)
    setting = Setting(at_least, cells, rounds=len(keys), colluding=colluding)
    found = calibrated(way, eps, float(np.log(delta) + np.log1p(-_ROUNDING)), setting)
    made = Campaign(
        title=title,
        question=question,
        cells=cells,
        cells_sha256=cells_sha256,
        mechanism=mechanism,
        parameters={each.name: float(getattr(found, each.name)) for each in fields(found)},
        people=people,
        at_least=at_least,
        colluding=colluding,
        laws=make_laws(mechanism, found, cells),
        delta=delta,
        eps={},
        rounds=tuple(keys),
        address=address,
    )
    made = replace(made, eps=_promised(made.views([at_least] * len(keys)), delta))
    if not (made.eps["analyst"] or np.inf) <= eps:
        raise InputError(f"delta is too small for tables of 128 bits (got delta={delta})")
    return parse_campaign(made.text)  # what others read is what was meant


def read_campaign(path: Path) -> Campaign:
    """Read a campaign's file.

    Raises
    ------
    InputError
        If it cannot be read, or as `parse_campaign`.
    """
    try:
        with path.open("rb") as stream:
            text = stream.read(LARGEST_FILE + 1)
    except OSError as error:
        raise InputError(f"campaign {path} cannot be read ({error.strerror})") from error
    try:
        return parse_campaign(text)
    except InputError as error:
        raise InputError(f"{path} is no campaign: {error}") from error


def parse_campaign(text: bytes) -> Campaign:
    """The campaign whose file has this content.

    Raises
    ------
    InputError
        If it is not canonical, is of another version, or has a key or a value that is unknown.
    """
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    if len(text) > LARGEST_FILE:
        raise InputError(f"it has more than {LARGEST_FILE:,} bytes")
    document = _parsed(text)
    if error := best_match(Draft202012Validator(_schema()).iter_errors(document)):
        where = ".".join(str(step) for step in error.absolute_path) or "it"
        raise InputError(f"{where}: {error.message}")
    made = _made(document)
    try:
        same = made.text == text
    except UnicodeEncodeError:  # half a pair of UTF-16
        same = False
    if not same:
        raise InputError("it is not as this version writes it: another one, or altered")
    if made.at_least > made.people or made.colluding >= made.at_least:
        raise InputError("people, at_least and colluding must become smaller, in this order")
    return made


def _made(document: Mapping[str, Any]) -> Campaign:
    promise = document["promise"]
    return Campaign(
        title=document["title"],
        question=document["question"],
        cells=document["cells"]["count"],
        cells_sha256=document["cells"]["sha256"],
        mechanism=document["mechanism"],
        parameters={name: float(value) for name, value in document["parameters"].items()},
        people=document["people"],
        at_least=document["at_least"],
        colluding=document["colluding"],
        laws=Laws(
            document["slots"],
            tuple(
                Noise(noise["sign"], _table(noise["number"]), _table(noise["size"]))
                for noise in document["device"]
            ),
            **{role: document[role] and _table(document[role]) for role in TABLES},
        ),
        delta=float(promise["delta"]),
        eps={view: None if eps is None else float(eps) for view, eps in promise["eps"].items()},
        rounds=tuple(bytes.fromhex(key) for key in document["rounds"]),
        address=document["address"],
    )


def _table(document: Mapping[str, Any]) -> Table:
    thresholds = document["thresholds"]
    if any(first > second for first, second in pairwise(thresholds)):
        raise InputError("thresholds of a table must not fall")
    return Table(document["first"], tuple(thresholds))


def canonical(document: Mapping[str, Any]) -> bytes:
    """Canonical JSON (RFC 8785) of integers, ASCII keys and texts."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _parsed(text: bytes) -> Any:
    def refused(word: str) -> Any:
        raise InputError(f"there is the number {word[:40]}: it must be whole, and below 2^53")

    def whole(word: str) -> int:
        return int(word) if len(word) < 17 and abs(int(word)) <= _LARGEST_INTEGER else refused(word)

    try:
        return json.loads(
            text.decode(), parse_float=refused, parse_int=whole, parse_constant=refused
        )
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"it is not JSON ({error})") from None
    except RecursionError:
        raise InputError("it has too many brackets within each other") from None


@cache
def _schema() -> Any:
    return json.loads(files(__package__).joinpath("campaign.schema.json").read_bytes())


def _written(value: float) -> str:
    """All digits; a whole number without its point."""
    return str(int(value)) if value == int(min(value, _LARGEST_INTEGER)) else repr(value)


def _unit(rounds: int) -> str:
    if rounds == 1:
        return "one record of one respondent"
    return f"all {rounds} records of one respondent"


def _promised(views: Mapping[str, UpperCurve], delta: float) -> dict[str, float | None]:
    aim = float(np.log(delta))
    kept = {view: views[view].epsilon(aim).promised for view in VIEWS}
    return {view: None if eps == np.inf else eps for view, eps in kept.items()}


def _blurred(curve: UpperCurve, missed: float) -> UpperCurve:
    """Of what is so far from the law of a curve, in total variation: both data sets may be."""
    return (
        curve
        if missed == -np.inf
        else UpperCurve(np.inf, upper=add_total_variation(curve.upper, missed))
    )
