"""The ledger: rounds that differ, as a file has them, and what all of them reveal together."""

import csv
from argparse import ArgumentTypeError, Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from shuffledp.accounting import accountant
from shuffledp.accounting.accountant import log_of
from shuffledp.accounting.curve import UpperCurve, exp_up
from shuffledp.accounting.setting import Setting
from shuffledp.cli import words
from shuffledp.cli.output import Row, as_given, delta_ends, eps_ends
from shuffledp.cli.tables import csv_reading
from shuffledp.errors import InputError, did_you_mean
from shuffledp.mechanisms.krr import KRRParameters
from shuffledp.mechanisms.registry import MECHANISMS, get_mechanisms
from shuffledp.mechanisms.target_calibration import Released, read_parameters, views_of_rounds

LARGEST_ROWS: Final = 100_000
_COLUMNS: Final = ("n", "k", "eps0", "mechanism", "parameters", "rounds", "note")


def released(name: str, parameters: str) -> Released[Any]:
    """A mechanism with its parameters as `compare` prints them: ``eps=1.0, nu=25``.

    Raises
    ------
    InputError
        If there is no such mechanism, or a parameter is missing, unknown or out of range.
    """
    (mechanism,) = get_mechanisms([name])
    return Released(mechanism, read_parameters(mechanism, parameters))


def read_rounds(source: str | Path) -> list[Setting]:
    """A ledger: the settings of rounds that the same users took part in, one a row of a csv file.

    Columns ``n`` and ``k``; ``eps0``, of k-RR, or ``mechanism`` and ``parameters``, as
    ``shuffledp delta`` takes them; where there is ``rounds``, how often there was such a round; and
    ``note``, which is not read.

    Returns
    -------
    What `delta` and `epsilon` take.

    Raises
    ------
    InputError
        If the file cannot be read, has other columns, or too many rows, or a row is no setting.

    Examples
    --------
    >>> epsilon(1e-6, read_rounds("ledger.csv"))  # doctest: +SKIP
    """
    source = Path(source)
    try:
        with csv_reading(source) as file:
            reader = csv.DictReader(file)
            names = list(reader.fieldnames or [])
            for name in names:
                if name not in _COLUMNS:
                    meant = did_you_mean(name, _COLUMNS) or f" (columns: {', '.join(_COLUMNS)})"
                    raise InputError(f"{source}: a ledger has no column {name}{meant}")
            if len(set(names)) < len(names):
                raise InputError(f"{source} has a column twice (columns: {', '.join(names)})")
            if missing := [name for name in ("n", "k") if name not in names]:
                raise InputError(f"{source} has no column {' and no column '.join(missing)}")
            return _settings(source, reader)
    except OSError as error:
        raise InputError(f"{source} cannot be read: {error.strerror or error}") from None


def _settings(source: Path, rows: Iterable[dict[str | None, Any]]) -> list[Setting]:
    found = []
    for number, row in enumerate(rows, 1):
        if number > LARGEST_ROWS:
            raise InputError(
                f"{source} has more than {LARGEST_ROWS:,} rows: rounds that are alike go into "
                "one, with their number in the column rounds"
            )
        try:
            found.append(_of_row(row))
        except (InputError, ArgumentTypeError) as error:
            raise InputError(f"{source}: row {number}: {error}") from None
    if not found:
        raise InputError(f"{source} has no rounds in it")
    return found


def _of_row(row: dict[str | None, Any]) -> Setting:
    if None in row:
        raise InputError('it has more values than columns: parameters stand in quotes, "a=1, b=2"')
    given = {name: value.strip() for name, value in row.items() if name and (value or "").strip()}
    if missing := [name for name in ("n", "k") if name not in given]:
        raise InputError(f"it has no {' and no '.join(missing)}")
    sizes = words.whole(given["n"]), words.whole(given["k"])
    rounds = words.whole(given.get("rounds", "1"))
    by_name = [name for name in ("mechanism", "parameters") if name in given]
    if len(by_name) == 1 or bool(by_name) == ("eps0" in given):
        raise InputError("give eps0, for k-RR, or a mechanism and its parameters")
    if not by_name:
        return Setting(*sizes, words.real(given["eps0"]), rounds)
    mechanism = released(given["mechanism"], given["parameters"])
    return Setting(*sizes, rounds=rounds, mechanism=mechanism)


def _ledger_views(settings: list[Setting], curve: UpperCurve) -> dict[str, UpperCurve]:
    """Of each view, where a mechanism of a ledger tells them apart; the given curve is of all."""
    if all(each.mechanism is None for each in settings):
        return {}

    def how(once: Setting) -> Released[Any]:
        if isinstance(once.mechanism, Released):
            return once.mechanism
        return Released(MECHANISMS["krr"], KRRParameters(once.eps0))

    distinct = accountant.distinct(settings).items()
    return views_of_rounds([(how(once), once, count) for once, count in distinct], curve)


def rounds_rows(arguments: Namespace) -> Iterable[Row]:
    """Delta or eps of all rounds of a ledger together."""
    if (arguments.eps is None) == (arguments.delta is None):
        raise InputError("give one of --eps and --delta")
    settings = read_rounds(arguments.file)
    try:
        curve = accountant.certified_curve(settings)
    except InputError as error:
        raise InputError(f"{arguments.file}: {error}") from None
    views = _ledger_views(settings, curve).items()
    common: Row = {"rows": len(settings), "rounds": sum(each.rounds for each in settings)}
    for eps in arguments.eps or ():
        yield {
            **common,
            "eps": eps,
            **delta_ends(curve, eps),
            **{f"delta_{view}": exp_up(each.log_delta(eps).promised) for view, each in views},
        }
    for delta in arguments.delta or ():
        yield {
            **common,
            "delta": as_given(delta),
            **eps_ends(curve, log_of(delta)),
            **{f"eps_{view}": each.epsilon(log_of(delta)).promised for view, each in views},
        }
