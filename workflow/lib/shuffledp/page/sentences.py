"""What a run came to, in sentences for people who do not read formulas."""

from decimal import ROUND_CEILING, Context
from typing import Any, Final

import numpy as np
import pandas as pd

from shuffledp.figures.style import counted, plural
from shuffledp.mechanisms.catalogue import CATALOGUE, RECORDS, Entry

_UP = Context(prec=3, rounding=ROUND_CEILING)
# Above it a share is said by what is left of it: 99.99999 % reads like 100 %.
_NEARLY: Final = 0.99
# Who learns more than the map says: what each kind of trust is for, the least of it last.
_KINDS: Final = {
    "curator": "If one office, a curator, may hold every record",
    "mixer": "If the mixer may learn the exact map",
    "apart": "If two offices, mixer and analyst, do not join hands",
    "local": "If even both together may see noisy reports only",
}


def best_guess(eps: float, delta: float) -> float:
    """Largest probability of a right guess between two records, both as likely beforehand.

    A test of an (eps, delta)-DP release has ``power <= e^eps level + delta``, and the same with its
    errors exchanged. Half of ``1 + power - level`` is then at most ``(e^eps + delta)/(e^eps + 1)``
    (Kairouz, Oh and Viswanath 2015, Theorem 2.1).

    Parameters
    ----------
    eps, delta
        Of the release, for the replacement of one record; eps at least 0, delta in ``[0, 1]``.
    """
    return float(min(1.0, (1.0 + delta * np.exp(-eps)) / (1.0 + np.exp(-eps))))


def plain(number: float) -> str:
    """Write a number as people type it: 1e-6, not 1e-06."""
    return f"{number:g}".replace("e-0", "e-")


def short(number: float) -> str:
    """Write a number in two digits, without an exponent."""
    return f"{float(f'{number:.2g}'):,.10g}"


def rounded_up(number: float) -> str:
    """Write a number in three digits, rounded up."""
    return f"{float(_UP.create_decimal(repr(float(number)))):g}"


def percent(share: float) -> str:
    """Write a share of at most 1 in per cent, rounded up; near 1 by what is left of it."""
    if share <= _NEARLY:
        return f"{rounded_up(100.0 * float(share))} %"
    left = 1.0 - share
    return f"all but one in {np.ceil(1.0 / left):,.0f}" if left > 1e-15 else "all"


def about(people: int | None, told: str, n: int, unit: str, title: str) -> str:
    """Say what the data are: how many, of whom, from when; and what a record is.

    Parameters
    ----------
    people
        Number of those whose check-ins they are, if it is known.
    told
        How and when somebody told of a visit.
    n
        How many there are.
    unit
        What delta protects: ``one check-in`` or ``one user``.
    title
        Of the region.
    """
    of_all = "" if people is None else f" of {people:,} people"
    whose = of_all if unit == "one check-in" else ", one of each person"
    return (
        f"The data: {counted(n, 'one check-in')}{whose} in {title}. "
        f"A check-in, or record, is one visit that somebody {told}."
    )


def protection(unit: str) -> str:
    """Say what the guarantee hides, and what not.

    Parameters
    ----------
    unit
        What delta protects: ``one check-in`` or ``one user``.
    """
    if unit == "one user":
        return (
            "The map hides one person, who gives one check-in drawn at random from their own. "
            "It does so even from somebody who knows every other."
        )
    return (
        "The map hides one check-in, even from somebody who knows every other. It does not hide a "
        "person: whoever has a hundred has each hidden, not all together."
    )


def strength(eps: float, delta: float) -> str:
    """Say what (eps, delta) is for one who guesses between two places."""
    chance = rounded_up(100.0 * best_guess(eps, delta))
    return (
        "Somebody knows all but one record, and that it is in one of two places, each as likely. "
        f"The map lets them guess right at most {chance} % of the time; a coin does 50 %. "
        f"That is promised by two numbers. With eps = {eps:g}, no map becomes more than "
        f"{rounded_up(np.exp(eps))} times as likely by one record. "
        f"Delta = {plain(delta)} may come on top. Both are proven, whatever the data are."
    )


def trust_kind(entry: Entry) -> str:
    """Who of a mechanism's offices learns more than the map says: a key of the advice."""
    if entry.central:
        return "curator"
    if "mixer" in entry.seen:
        return "mixer"
    return "apart" if entry.seen["both"] == RECORDS else "local"


def trust(entry: Entry) -> str:
    """Say who must be trusted with what."""
    kind = trust_kind(entry)
    if kind == "curator":
        return "One curator holds every record, and must keep it."
    apart = (
        "People send sealed reports to two servers. A mixer shuffles them, so that nobody knows "
        "whose is whose. An analyst opens them. The two must not join hands: "
    )
    together = {
        "mixer": "together they see every record. The mixer alone learns the exact map.",
        "apart": "together they see every record, but neither does alone.",
        "local": "together they see each person's report.",
    }[kind]
    return (
        apart + together + (f" It also asks {entry.duty.replace(', ', ' ')}." if entry.duty else "")
    )


def single_report(mechanism: str, local_eps0: float, k: int) -> str:
    """Say what a report reveals by itself, with its sender's name.

    Parameters
    ----------
    mechanism
        Its name in the catalogue.
    local_eps0
        Budget of a user's own messages; inf where they reveal all.
    k
        Number of cells.
    """
    kind = trust_kind(CATALOGUE[mechanism])
    if kind == "curator":
        return "A single record is the truth, and the curator sees it."
    if local_eps0 == np.inf:
        return "A single report is the truth, for whoever opens it and knows who sent it."
    if mechanism == "krr":
        true = 1.0 / (1.0 + (k - 1) * np.exp(-local_eps0))
        said = f"{percent(true)} of the reports are the truth"
    else:
        wrong = np.ceil(1.0 + np.exp(local_eps0))
        said = f"whoever guesses between two places from one may be wrong once in {wrong:,.0f}"
    return (
        f"A single report is noisy: {said}. That is a promise of its own, eps0 = {local_eps0:.2f}, "
        "and a weak one where eps0 is large."
    )


def met(rows: pd.DataFrame) -> dict[str, "pd.Series[Any]"]:
    """The rows of those that meet the target by mechanism, the smallest expected error first."""
    found = rows[rows["reason"].isna()].sort_values("expected_cell_error", kind="stable")
    return {str(row["mechanism"]): row for _, row in found.iterrows()}


def recommended(rows: pd.DataFrame) -> str | None:
    """Name the mechanism with the least error of those that ask for the least trust and work.

    First those where no office alone learns more than the map says and users send the truth alone;
    then users add dummies; then what is less.

    Parameters
    ----------
    rows
        As for `choices`.
    """
    for kind in ("apart", "local", "mixer", "curator"):
        if chosen := _best(rows, kind):
            return chosen
    return None


def _best(rows: pd.DataFrame, kind: str) -> str | None:
    """Name the one of a kind of trust with the least error, of those that ask users for less."""
    alike = [name for name in met(rows) if trust_kind(CATALOGUE[name]) == kind]
    alike.sort(key=lambda name: CATALOGUE[name].duty.startswith("all users"))
    return alike[0] if alike else None


def choices(rows: pd.DataFrame, k: int) -> list[str]:
    """Say which mechanism is expected to err least for each kind of trust, and what that reveals.

    Parameters
    ----------
    rows
        Unbiased rows of `shuffledp.pipeline.selection.at_targets`, of one region, n and eps.
    k
        Number of cells.

    Returns
    -------
    A sentence or two for each kind of trust. Empty if no mechanism meets the target.
    """
    best = {kind: name for kind in _KINDS if (name := _best(rows, kind))}
    found = met(rows)
    return [
        f"{_KINDS[kind]}, take {CATALOGUE[name].label}: a cell's number is typically "
        f"{short(found[name]['expected_cell_error'])} {plural(found[name]['unit'])} off. "
        + single_report(name, float(found[name]["local_eps0"]), k)
        for kind, name in best.items()
    ]


def accuracy(row: "pd.Series[Any]", k: int) -> str:
    """Say what a mechanism costs in numbers of records.

    Parameters
    ----------
    row
        Of `shuffledp.pipeline.selection.at_targets`.
    k
        Number of cells.
    """
    unit, error, mean = plural(row["unit"]), row["expected_cell_error"], row["n"] / k
    said = (
        f"A cell's number is typically {short(error)} {unit} off (standard deviation). "
        f"That is {short(100.0 * error / mean)} % of the mean cell, which has {short(mean)}."
    )
    if row["tv_distance"] > 1.0:
        return said
    return (
        f"{said} As a whole, {short(100.0 * row['tv_distance'])} % of the {unit} would have to "
        "move for it to become the true map."
    )


def shown(estimate: Any, standard_error: Any, truth: Any, limit: float) -> str:
    """Say of how many cells one release shows that somebody is there, and of how many falsely.

    Parameters
    ----------
    estimate, standard_error, truth
        Of each cell, shape ``(k,)`` each, in the same unit.
    limit
        How many standard errors show it.
    """
    known = np.asarray(estimate) > limit * np.asarray(standard_error)
    used = np.asarray(truth) > 0
    false = int(np.count_nonzero(known & ~used))
    wrongly = f" {false} of those it marks {'is' if false == 1 else 'are'} empty." if false else ""
    return (
        f"Of {used.size:,} cells {np.count_nonzero(used):,} are in use. One such map shows "
        f"{np.count_nonzero(known & used):,} of these, by a number above twice its error.{wrongly} "
        "A cell that it does not show need not be empty."
    )


def is_noise(row: "pd.Series[Any]", k: int) -> bool:
    """Whether a cell's number is farther off than what a cell holds on average."""
    return bool(row["expected_cell_error"] > row["n"] / k)


def verdict(row: "pd.Series[Any]", k: int) -> str:
    """Answer the question of the page, for one mechanism.

    Parameters
    ----------
    row
        Of `shuffledp.pipeline.selection.at_targets`.
    k
        Number of cells.
    """
    unit, error = plural(row["unit"]), short(row["expected_cell_error"])
    if is_noise(row, k):
        return (
            f"No: this map would be mostly noise. A cell's number is {error} {unit} off, and a "
            f"cell has {short(row['n'] / k)} on average. Take fewer cells, more {unit}, or a "
            "larger eps."
        )
    return (
        f"Yes. The map divides {row['region']} into {k:,} cells. Small random errors, the noise, "
        f"hide every single {row['unit'].removeprefix('one ')}: a cell's number is typically "
        f"{error} {unit} off."
    )
