"""A campaign: the question, the tables of the noise and the promise. Its hash is its name.

Every role reads the same file, derives tables and promise again, and refuses an edited file.
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
from urllib.parse import urlsplit

import numpy as np
from shuffledp.accounting.accountant import certified_curve, distinct_rounds
from shuffledp.accounting.conventions import log_of_delta
from shuffledp.accounting.curve import UpperCurve, add_total_variation, pointwise_minimum
from shuffledp.accounting.participation import with_participation
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.mechanisms.catalogue import VIEWS
from shuffledp.mechanisms.registry import get_mechanisms, with_options
from shuffledp.mechanisms.target_calibration import Released, calibrated, views_of_rounds

from shuffledp_collect.laws import Laws, Noise, check_collected, make_laws
from shuffledp_collect.tables import Table

VERSION: Final = 2
MAX_FILE_BYTES: Final = 2**26
# Share of delta that is reserved for the rounding of the tables, which needs far less.
_ROUNDING_SHARE: Final = 1e-9
# Floats, and the numbers of other languages, are exact up to here.
_MAX_EXACT_INTEGER: Final = 2**53
# Hosts to which envelopes may be sent without TLS.
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Campaign:
    """The public description of a collection, which every role reads.

    Attributes
    ----------
    title, question
        Title of the collection and the question that people are asked.
    cells, cells_sha256
        Number of cells, and the checksum of their file.
    mechanism, parameters
        Name of the mechanism and its parameters, which are the same in every round.
    people
        Number of tickets that were issued.
    at_least, colluding
        Fewest respondents of a round, and how many of these may collude against the others.
    laws
        Tables from which each role draws.
    delta
        The delta of the promise for all rounds together, in every view.
    eps
        The promised eps of each of `catalogue.VIEWS`; None for a view that sees every record.
    rounds
        The analyst's public key of each round, 32 bytes.
    address
        URL of the mixer: https, or http on the loopback interface.
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
        """The content of the file, as canonical JSON."""
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
                "mixer": self.laws.mixer and asdict(self.laws.mixer),
                "analyst": self.laws.analyst and asdict(self.laws.analyst),
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
        """The hexadecimal SHA-256 of the file."""
        return hashlib.sha256(self.text).hexdigest()

    def key(self, number: int) -> bytes:
        """Return the analyst's public key of a round; rounds are numbered from 1.

        Raises `InputError` if there is no such round.
        """
        if not 1 <= number <= len(self.rounds):
            raise InputError(f"the campaign has rounds 1 to {len(self.rounds)}, got {number}")
        return self.rounds[number - 1]

    @cached_property
    def released(self) -> Released[Any]:
        """The mechanism at the parameters of the campaign."""
        (mechanism,) = get_mechanisms([self.mechanism])
        types = {field.name: field.type for field in fields(mechanism.form)}
        required = {field.name for field in fields(mechanism.form) if field.default is MISSING}
        if not required <= set(self.parameters) <= set(types):
            raise InputError(
                f"{self.mechanism} has the parameters {', '.join(types)}, "
                f"got {', '.join(self.parameters)}"
            )
        values = {
            name: int(value) if types[name] is int else value
            for name, value in self.parameters.items()
        }
        return Released(mechanism, mechanism.form(**values))

    def views(self, respondents: Sequence[int]) -> dict[str, UpperCurve]:
        """Return delta as a function of eps for each of `catalogue.VIEWS`.

        The respondents of each round include colluders. The curves contain the rounding of the
        tables. Raises `InputError` if a round has no more respondents than colluders.
        """
        rounds, how = len(respondents), self.released
        settings = [
            Setting(number, self.cells, colluding=self.colluding, mechanism=how)
            for number in sorted(respondents)
        ]
        # A bound for the fewest respondents also holds for a round with more.
        setting = replace(settings[0], rounds=rounds)
        views = how.views(setting, with_participation(how.curve, setting))
        if settings[0] != settings[-1]:
            ledger = [(how, once, count) for once, count in distinct_rounds(settings).items()]
            by_round = views_of_rounds(ledger, certified_curve(settings))
            views = {view: pointwise_minimum(views[view], by_round[view]) for view in VIEWS}
        rounding = rounds * self.laws.rounding(self.people, self.cells)
        log_distance = float(np.log(float(rounding) * 1.01))
        return {view: _with_rounding(curve, log_distance) for view, curve in views.items()}

    def check(self) -> None:
        """Derive tables and promise from mechanism and parameters, and compare.

        Raises `InputError` if the tables differ, or the promise is smaller than what is kept.
        """
        if make_laws(self.mechanism, self.released.parameters, self.cells) != self.laws:
            raise InputError("the campaign's tables are not those of its mechanism and parameters")
        kept = _eps_of_views(self.views([self.at_least] * len(self.rounds)), self.delta)
        for view, promised in self.eps.items():
            actual = kept[view]
            if promised is not None and (actual is None or promised < actual):
                has = "sees every record" if actual is None else f"has eps={actual}"
                raise InputError(
                    f"the campaign promises eps={promised} for the view of {view}, which {has} at "
                    f"delta={self.delta}: the file was edited"
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
    """Plan a campaign: choose the parameters with the least error that keep a promise.

    `keys` are the analyst's public keys of the rounds. `eps` and `delta` are the budget of all
    rounds together, for the analyst's view. The mechanism is one of `laws.COLLECTED`; `slots`, the
    number of messages of an envelope, is for signed dummies only. The other arguments are those of
    `Campaign`. Raises `InputError` if the promise cannot be kept.
    """
    if not 0.0 < delta < 1.0:
        raise InputError(f"delta must lie strictly between 0 and 1, got {delta}")
    if people < at_least:
        raise InputError(f"people must be at least at_least={at_least}, got {people}")
    check_collected(mechanism)
    # The servers' tables are for discrete Laplace noise, but `two-servers` may choose a Gaussian.
    # `shuffler-dummies` has the same promise against the analyst, and always the former shape.
    calibrated_as = "shuffler-dummies" if mechanism == "two-servers" else mechanism
    chosen = with_options(get_mechanisms([calibrated_as])[0], slots=slots, share=1.0)
    setting = Setting(at_least, cells, rounds=len(keys), colluding=colluding)
    target = float(np.log(delta) + np.log1p(-_ROUNDING_SHARE))
    parameters = calibrated(chosen, eps, target, setting)
    made = Campaign(
        title=title,
        question=question,
        cells=cells,
        cells_sha256=cells_sha256,
        mechanism=mechanism,
        parameters={
            each.name: float(getattr(parameters, each.name)) for each in fields(parameters)
        },
        people=people,
        at_least=at_least,
        colluding=colluding,
        laws=make_laws(mechanism, parameters, cells),
        delta=delta,
        eps={},
        rounds=tuple(keys),
        address=address,
    )
    made = replace(made, eps=_eps_of_views(made.views([at_least] * len(keys)), delta))
    if not (made.eps["analyst"] or np.inf) <= eps:
        raise InputError(f"delta is too small for tables of 128 bits, got delta={delta}")
    return parse_campaign(made.text)  # the file must say what was planned


def read_campaign(path: Path) -> Campaign:
    """Read a campaign's file, and derive its tables and its promise again.

    Raises `InputError` if the file cannot be read, is not a campaign, or its promise is not kept.
    """
    try:
        with path.open("rb") as stream:
            text = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise InputError(f"campaign {path} cannot be read ({error.strerror})") from error
    try:
        campaign = parse_campaign(text)
        campaign.check()
    except InputError as error:
        raise InputError(f"campaign {path} is refused: {error}") from error
    return campaign


def parse_campaign(text: bytes) -> Campaign:
    """Return the campaign whose file has this content; its promise is not checked.

    Raises `InputError` if the text is not canonical, is of another version, or has an unknown key
    or value.
    """
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    if len(text) > MAX_FILE_BYTES:
        raise InputError(f"the file has more than {MAX_FILE_BYTES:,} bytes")
    document = _parsed(text)
    if error := best_match(Draft202012Validator(_schema()).iter_errors(document)):
        where = ".".join(str(step) for step in error.absolute_path) or "the file"
        raise InputError(f"{where}: {error.message}")
    campaign = _from_document(document)
    try:
        same = campaign.text == text
    except UnicodeEncodeError:  # half a surrogate pair
        same = False
    if not same:
        raise InputError("the file is not the canonical JSON of this version")
    if not campaign.people >= campaign.at_least > campaign.colluding:
        raise InputError(
            f"expected people >= at_least > colluding, got people={campaign.people}, "
            f"at_least={campaign.at_least}, colluding={campaign.colluding}"
        )
    check_address(campaign.address)
    return campaign


def check_address(address: str) -> None:
    """Refuse an address to which an envelope would travel without encryption.

    Raises `InputError` if the address is not https and its host is not the loopback interface.
    """
    try:
        url = urlsplit(address)
        valid = bool(url.hostname) and url.port != 0 and "@" not in url.netloc
        safe = valid and (url.scheme == "https" or url.hostname in _LOOPBACK)
    except ValueError:
        safe = False
    if not safe:
        raise InputError(
            "the mixer's address must begin with https:// (http:// is accepted on the loopback "
            f"interface only), got {address}"
        )


def _from_document(document: Mapping[str, Any]) -> Campaign:
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
            document["mixer"] and _table(document["mixer"]),
            document["analyst"] and _table(document["analyst"]),
        ),
        delta=float(promise["delta"]),
        eps={view: None if eps is None else float(eps) for view, eps in promise["eps"].items()},
        rounds=tuple(bytes.fromhex(key) for key in document["rounds"]),
        address=document["address"],
    )


def _table(document: Mapping[str, Any]) -> Table:
    thresholds = document["thresholds"]
    if any(first > second for first, second in pairwise(thresholds)):
        raise InputError("the thresholds of a table must not decrease")
    return Table(document["first"], tuple(thresholds))


def canonical(document: Mapping[str, Any]) -> bytes:
    """Return a document of integers, texts and ASCII keys as canonical JSON (RFC 8785)."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _parsed(text: bytes) -> Any:
    def refuse(number: str) -> Any:
        raise InputError(f"numbers must be integers of at most 2^53, got {number[:40]}")

    def integer(digits: str) -> int:
        exact = len(digits) < 17 and abs(int(digits)) <= _MAX_EXACT_INTEGER
        return int(digits) if exact else int(refuse(digits))

    try:
        return json.loads(
            text.decode(), parse_float=refuse, parse_int=integer, parse_constant=refuse
        )
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"the file is not JSON ({error})") from None
    except RecursionError:
        raise InputError("the file is nested too deeply") from None


@cache
def _schema() -> Any:
    return json.loads(files(__package__).joinpath("campaign.schema.json").read_bytes())


def _written(value: float) -> str:
    """Return all digits of a number; an integer has no decimal point."""
    return str(int(value)) if value == int(min(value, _MAX_EXACT_INTEGER)) else repr(value)


def _unit(rounds: int) -> str:
    if rounds == 1:
        return "one record of one respondent"
    return f"all {rounds} records of one respondent"


def _eps_of_views(views: Mapping[str, UpperCurve], delta: float) -> dict[str, float | None]:
    log_delta = log_of_delta(delta)
    kept = {view: views[view].epsilon(log_delta).promised for view in VIEWS}
    return {view: None if eps == np.inf else eps for view, eps in kept.items()}


def _with_rounding(curve: UpperCurve, log_distance: float) -> UpperCurve:
    """Return a curve for laws that differ from the exact ones by a total variation distance."""
    if log_distance == -np.inf:
        return curve
    return UpperCurve(np.inf, upper=add_total_variation(curve.upper, log_distance))
