"""Write the sentences of the page, which state the results of a run without formulas.

`row` is a row of `shuffledp.pipeline.selection.at_targets` for an unbiased estimate: one mechanism
in one region, at one n and eps. k is the number of cells.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from shuffledp.figures.style import count_units, format_eps, plural
from shuffledp.mechanisms.catalogue import CATALOGUE, SERVERS, Entry
from shuffledp.mechanisms.recommendation import trust_kind
from shuffledp.pipeline.units import counted, has_bound

_NUMBER_AND_UNIT: Final = re.compile(
    r"(?<=\d) (?=%|(check-in|user|record|cell|visit)s?\b|people\b)"
)
rounded_up: Final = format_eps
# Above this share the complement is stated, because 99.99999 % reads like 100 %.
_MAX_PERCENTAGE: Final = 0.99
# Whom users of a mechanism must trust, for each kind of trust (`trust_kind`), most trust first.
TRUST_GROUPS: Final = {
    "curator": "One curator holds all records",
    "shuffler": "Two servers that do not collude; the shuffler learns the exact map",
    "apart": "Two servers that do not collude; neither alone learns more than the map",
    "local": "Two servers that do not collude; even together they see only noisy reports",
}


def best_guess(eps: float, delta: float) -> float:
    """Return an upper bound on the probability of guessing which of two records was released.

    The records are equally likely, and the release is (eps, delta)-DP for the replacement of one
    record. A test then has ``power <= e^eps level + delta``, and the same holds with its errors
    exchanged. The guess is right with probability ``(1 + power - level)/2``, which is therefore at
    most ``(e^eps + delta)/(e^eps + 1)`` (Kairouz, Oh and Viswanath 2015, Theorem 2.1).
    """
    return float(min(1.0, (1.0 + delta * np.exp(-eps)) / (1.0 + np.exp(-eps))))


def unbroken(value: Any) -> Any:
    """Return sentences in which no line breaks between a number and its unit.

    `value` is a text, or a mapping or sequence of such values; other values are returned as is.
    """
    if isinstance(value, str):
        return _NUMBER_AND_UNIT.sub("\N{NO-BREAK SPACE}", value)
    if isinstance(value, Mapping):
        return {name: unbroken(entry) for name, entry in value.items()}
    return [unbroken(entry) for entry in value] if isinstance(value, list | tuple) else value


def plain(number: float) -> str:
    """Return a number without leading zeros in its exponent: 1e-6."""
    return f"{number:g}".replace("e-0", "e-")


def short(number: float) -> str:
    """Return a number with two significant digits, without an exponent."""
    return f"{float(f'{number:.2g}'):,.10g}"


def percent(share: float) -> str:
    """Return a share as a percentage, rounded up; near 1, as ``all but one in`` a number."""
    if share <= _MAX_PERCENTAGE:
        return f"{rounded_up(100.0 * float(share))} %"
    complement = 1.0 - share
    return f"all but one in {np.ceil(1.0 / complement):,.0f}" if complement > 1e-15 else "all"


def describe_data(people: int | None, recorded: str, n: int, unit: str, title: str) -> str:
    """Return the number of records and people, when they were recorded, and what a record is.

    `people` is the number of people to whom the check-ins belong, None if it is unknown. `recorded`
    says how and when a visit was recorded: ``posted in the app Gowalla in 2009``. `unit` is a
    result of `shuffledp.pipeline.units.unit_in_words`.
    """
    owners = ", one of each person"
    if unit == "one check-in":
        owners = "" if people is None else f" of {people:,} people"
    elif has_bound(unit):
        owners = unit.removeprefix("one user").replace(" check-ins", "") + " of each person"
    return (
        f"The data are {count_units(n, 'one check-in')}{owners} in {title}. "
        f"A check-in, or record, is one visit that a person {recorded}."
    )


def protection(unit: str) -> str:
    """Return what a guarantee protects and what it does not; `unit` is as in `describe_data`."""
    if has_bound(unit):
        return (
            f"The promise is made per user, {unit.removeprefix('one user, ')}, drawn at random. "
            "The map hides where every single person was, with all their check-ins that count, "
            "even from somebody who knows those of all others. It does not hide their number."
        )
    if unit == "one user":
        return (
            "The map hides every single person, who contributes one of their check-ins, drawn at "
            "random. It does so even from somebody who knows the check-ins of all others."
        )
    return (
        "The map hides every single check-in, even from somebody who knows all others. It does not "
        "hide a person: of a hundred check-ins, each one is hidden, but not all of them together."
    )


def strength(eps: float, delta: float, unit: str = "one check-in") -> str:
    """Return what (eps, delta)-DP means for an adversary who guesses between two places.

    `unit` is as in `describe_data`.
    """
    chance = rounded_up(100.0 * best_guess(eps, delta))
    if has_bound(unit):
        return (
            f"The promise is made per user, {unit.removeprefix('one user, ')}. Suppose that "
            "somebody knows the records of all people but one, and that this person's records are "
            "one of two equally long lists, with equal probability. The map lets them guess the "
            f"list correctly with a probability of at most {chance} %; tossing a coin achieves "
            f"50 %. The guarantee has two parameters, eps = {eps:g} and delta = {plain(delta)}. "
            "All records of one person change the probability of any set of maps by at most a "
            f"factor of {rounded_up(np.exp(eps))}, plus delta. This is proven for all data sets."
        )
    return (
        "Suppose that somebody knows all records but one, and that this one is in either of two "
        "places with equal probability. "
        f"The map lets them guess the place correctly with a probability of at most {chance} %; "
        "tossing a coin achieves 50 %. "
        f"The guarantee has two parameters, eps = {eps:g} and delta = {plain(delta)}. One record "
        "changes the probability of any set of maps by at most a factor of "
        f"{rounded_up(np.exp(eps))}, plus delta. This is proven for all data sets."
    )


def trust(entry: Entry) -> str:
    """Return whom users of a mechanism must trust, and with what."""
    kind = trust_kind(entry)
    if kind == "curator":
        return "One curator holds all records and must keep them secret."
    together = {
        "shuffler": "together they see all records. The shuffler alone learns the exact map.",
        "apart": "together they see all records, but neither does alone.",
        "local": "together they see the report of each person.",
    }[kind]
    if entry.servers != SERVERS:
        return (
            "People send a secret share of their record to each of two aggregators, with a proof "
            f"that it is one record. The two must not collude: {together} Each adds noise."
        )
    helpers = re.sub("shuffler|analyst", r"the \g<0>", entry.extra_trust.replace(", ", " "))
    duty = f" The mechanism also asks {helpers}." if helpers else ""
    return (
        "People send encrypted reports to two servers. The shuffler mixes the reports, so that "
        "nobody can link them to people. The analyst decrypts them. The two must not collude: "
        f"{together}{duty}"
    )


def single_report(mechanism: str, local_eps0: float, k: int) -> str:
    """Return what a single report reveals to somebody who knows its sender.

    `local_eps0` is the local budget of a user's messages, infinite if they reveal the record.
    """
    kind = trust_kind(CATALOGUE[mechanism])
    if kind == "curator":
        return "A single record is the truth, and the curator sees it."
    if local_eps0 == np.inf:
        return "A single report is the truth, to whoever decrypts it and knows its sender."
    if mechanism == "krr":
        true = 1.0 / (1.0 + (k - 1) * np.exp(-local_eps0))
        noise = f"{percent(true)} of the reports are the truth"
    else:
        wrong = np.ceil(1.0 + np.exp(local_eps0))
        noise = f"who guesses between two places from a report may be wrong once in {wrong:,.0f}"
    return (
        f"A single report is noisy: {noise}. This is a guarantee of its own, with eps0 = "
        f"{local_eps0:.2f}; it is weak if eps0 is large."
    )


def accuracy(row: "pd.Series[Any]", k: int) -> str:
    """Return the errors of a mechanism, per cell and for the whole map."""
    unit, error, mean = plural(row["unit"]), row["expected_cell_error"], row["n"] / k
    per_cell = (
        f"The typical error per cell (standard deviation) is {short(error)} {unit}. "
        f"This is {short(100.0 * error / mean)} % of the average cell, which has {short(mean)}."
    )
    if row["tv_distance"] > 1.0:
        return per_cell
    return (
        f"{per_cell} To turn the estimated map into the true one, "
        f"{short(100.0 * row['tv_distance'])} % of the {unit} would have to move to another cell."
    )


def occupied_cells(estimate: Any, standard_error: Any, truth: Any, limit: float) -> str:
    """Return how many occupied and how many empty cells a release shows as occupied.

    A release shows a cell as occupied if its estimate exceeds `limit` standard errors. The other
    arguments have shape ``(k,)``; the estimates and their errors are in the same unit.
    """
    shown = np.asarray(estimate) > limit * np.asarray(standard_error)
    occupied = np.asarray(truth) > 0
    wrong = int(np.count_nonzero(shown & ~occupied))
    empty = f" It also shows {wrong} empty cell{'s' * (wrong != 1)} as occupied." if wrong else ""
    return (
        f"Of {occupied.size:,} cells, {np.count_nonzero(occupied):,} are occupied. This map shows "
        f"{np.count_nonzero(shown & occupied):,} of them: their estimates exceed two standard "
        f"errors.{empty} A cell that the map does not show is not necessarily empty."
    )


def is_noise(row: "pd.Series[Any]", k: int) -> bool:
    """Return whether the error per cell exceeds the average number of records in a cell."""
    return bool(row["expected_cell_error"] > row["n"] / k)


def verdict(row: "pd.Series[Any]", k: int) -> str:
    """Return whether the map of one mechanism is usable, with its error per cell."""
    unit, error = plural(row["unit"]), short(row["expected_cell_error"])
    hidden = "person" if has_bound(row["unit"]) else counted(row["unit"])
    if is_noise(row, k):
        return (
            f"No: this map would be mostly noise. The typical error per cell is {error} {unit}, "
            f"and a cell has {short(row['n'] / k)} on average. Use fewer cells, more {unit}, or a "
            "larger eps."
        )
    return (
        f"Yes. The map divides {row['region']} into {k:,} cells. Random noise hides every single "
        f"{hidden}; the typical error per cell is {error} {unit}."
    )
