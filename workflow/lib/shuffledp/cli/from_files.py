"""Answers about what a file holds: a randomiser, or the budgets of users."""

from argparse import Namespace
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from shuffledp.accounting.accountant import log_of
from shuffledp.accounting.composition import compose
from shuffledp.accounting.participation import with_participation
from shuffledp.accounting.setting import Setting
from shuffledp.cli.output import Row, as_given, delta_ends, eps_ends
from shuffledp.cli.tables import Budgets, read_budgets
from shuffledp.cli.words import NEIGHBOURS
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Integers
from shuffledp.personalised.groups import BudgetGroups


def _neighbours(arguments: Namespace, records: int) -> tuple[Integers | None, str]:
    """Pairs of records that are, None for all; and what is said of them."""
    from shuffledp.cli.tables import read_pairs, read_places
    from shuffledp.mechanisms.matrix import pairs_within

    pairs, places, distance = arguments.pairs, arguments.places, arguments.distance
    if pairs is not None and places is not None:
        raise InputError("give one of --pairs and --places")
    if (places is None) != (distance is None):
        raise InputError(
            "--places needs a --distance" if distance is None else "--distance needs --places"
        )
    if pairs is not None:
        found = read_pairs(Path(pairs))
        words = f"of its pairs in {pairs}"
    elif places is not None:
        if not 0.0 <= distance < np.inf:
            raise InputError(f"the distance must be finite and at least 0 km (got {distance:g})")
        where = read_places(Path(places))
        if len(where) != records:
            raise InputError(f"{places} has {len(where)} places for {records} records")
        found = pairs_within(where, distance)
        words = f"at most {distance:g} km away"
        if not found.size:
            raise InputError(f"{places}: no two records are {words}: nothing would be promised")
    else:
        return None, NEIGHBOURS
    count = len(np.unique(np.sort(found, axis=1), axis=0))
    return found, f"replacement by a record {words} ({count} pairs), the same n"


def matrix_rows(arguments: Namespace) -> Iterable[Row]:
    """Delta or eps of a randomiser that is given as a matrix."""
    from shuffledp.cli.tables import read_matrix
    from shuffledp.mechanisms.matrix import MatrixRandomiser
    from shuffledp.mechanisms.protocol import expected_distance, participation_variance

    if (arguments.eps is None) == (arguments.delta is None):
        raise InputError("give one of --eps and --delta")
    source = Path(arguments.file)
    rows = read_matrix(source)
    near, neighbours = _neighbours(arguments, len(rows))
    try:
        randomiser = MatrixRandomiser(rows, near)
    except InputError as error:
        raise InputError(f"{source}: {error}") from None
    n, k = arguments.n, randomiser.k
    crowd = {name: getattr(arguments, name) for name in ("colluding", "response_rate")}
    setting = Setting(n, k, rounds=arguments.rounds, mechanism=randomiser, **crowd)
    once = with_participation(
        partial(randomiser.curve, hidden_slot=arguments.hidden_slot), replace(setting, rounds=1)
    )
    curve = compose(once, setting.rounds)
    try:
        shares = np.full(k, 1.0 / k)
        variance = randomiser.variance(shares, n * setting.part)
        variance = variance + participation_variance(shares, n, setting.part)
        errors: Row = {
            "cell_sd_users": n * float(np.sqrt(variance.max())),
            "tv_distance": float(expected_distance(variance)),
        }
    except InputError:  # no estimate tells the records apart
        errors = {"cell_sd_users": None, "tv_distance": None}
    common: Row = {"n": n, "records": k, "reports": rows.shape[1], "local_eps0": randomiser.eps0}
    for name, none in (("rounds", 1), ("colluding", 0), ("response_rate", 1.0)):
        if getattr(arguments, name) != none:
            common[name] = getattr(arguments, name)
    if arguments.hidden_slot:
        common["hidden_slot"] = True
    errors["neighbours"] = neighbours
    for eps in arguments.eps or ():
        yield {**common, "eps": eps, **delta_ends(curve, eps), **errors}
    for delta in arguments.delta or ():
        ends = eps_ends(curve, log_of(delta))
        yield {**common, "delta": as_given(delta), **ends, **errors}


def _noisy(source: Path, given: Budgets) -> tuple[BudgetGroups, dict[float, float]]:
    """Users by the mu of their Gaussian noise, and the eps of each mu.

    A report alone is just (eps, delta)-LDP. A user with eps = 0 reports nothing, and has mu = 0.
    """
    from shuffledp.mechanisms.gaussian import gaussian_sigma

    wrong = np.flatnonzero((given.eps > 0.0) & (given.delta == 0.0))
    if wrong.size:
        raise InputError(
            f"{source}: Gaussian reports need a column delta that is above 0 wherever eps is: none "
            f"of them is (eps, 0)-LDP (a user has eps {given.eps[wrong[0]]:g} and delta 0)"
        )
    pairs = np.stack([given.eps, np.where(given.eps > 0.0, given.delta, 0.0)], axis=1)
    distinct, place = np.unique(pairs, axis=0, return_inverse=True)
    of = [1.0 / gaussian_sigma(e, float(np.log(d)), 1.0) if e > 0.0 else 0.0 for e, d in distinct]
    groups = BudgetGroups.of_counts(np.array(of)[place.ravel()], given.counts)
    return groups, dict(zip(of, distinct[:, 0].tolist(), strict=True))


def personalised_rows(arguments: Namespace) -> Iterable[Row]:
    """What users with budgets of their own have, and what else is said of them."""
    from tqdm import tqdm

    from shuffledp.accounting.rounds.tradeoff import gdp_epsilon
    from shuffledp.papers.paper_d import published
    from shuffledp.personalised import budgets

    given = read_budgets(Path(arguments.budgets))
    groups = BudgetGroups.of_counts(given.eps, given.counts)
    log_delta, n = log_of(arguments.delta), int(groups.counts.sum())
    rounds = arguments.rounds
    deltas = given.deltas_of(groups.values)
    normal = arguments.mechanism == "gaussian"
    approximate = bool(deltas.any()) and not normal
    kind = "any randomisers" if approximate else arguments.mechanism
    if approximate and rounds > 1:
        raise InputError(
            "over rounds a column delta belongs to --mechanism gaussian only (got --rounds "
            f"{rounds})"
        )

    def row(
        what: str,
        users: int,
        low: float,
        high: float,
        eps: float | None,
        sure: bool,
        mu: float = 0.0,
    ) -> Row:
        return {
            "mechanism": kind,
            "delta": as_given(arguments.delta),
            **({"rounds": rounds} if rounds > 1 else {}),
            "what": what,
            "users": users,
            # With Gaussian noise a row is of one budget, or of all up to one.
            **({} if normal else {"budget_low": low}),
            "budget_high": high,
            **({"sigma": 1.0 / mu if mu else None} if normal else {}),
            "eps": eps,
            "guarantee": sure,
        }

    least, most = float(groups.values[0]), float(groups.values[-1])
    if approximate or normal:
        # What is certified for pure reports is not for reports of approximate LDP.
        found = published.approximate_epsilon(log_delta, groups, float(deltas @ groups.counts))
        clones = row("any randomisers", n, least, most, found, found is not None)
    if approximate:
        yield clones | {"what": "everybody"}
    else:
        how = budgets.reports(kind, arguments.k)
        reporting, eps_of = groups, dict[float, float]()
        if normal:
            reporting, eps_of = _noisy(Path(arguments.budgets), given)
        own = budgets.own_epsilons(log_delta, reporting, how, rounds)
        size, worst = budgets.number_of_parts(reporting, how), 0.0
        for each in tqdm(own, total=size, desc="budgets", leave=False, disable=None):
            worst = max(worst, each.eps)
            low, high = (eps_of.get(used, used) for used in (each.low, each.high))
            yield row("own eps", each.users, low, high, each.eps, True, each.high)
        yield row("everybody", n, least, most, worst, True)
        smallest, largest = float(reporting.values[0]), float(reporting.values[-1])
        # Of another collection than the file's: no promise to these users.
        for what, used in (
            ("if all had the largest", largest),
            ("if all had the smallest", smallest),
        ):
            alike, budget = BudgetGroups.of_counts([used], [n]), eps_of.get(used, used)
            (only,) = budgets.own_epsilons(log_delta, alike, how, rounds)
            yield row(what, n, budget, budget, only.eps, False, used)
        if normal:
            alone = gdp_epsilon(largest * rounds**0.5, log_delta)
            yield row("not shuffled", n, least, most, alone, True)
        if rounds > 1:
            return
        if normal:
            yield clones
        if kind == "laplace":
            echoes = published.echoes_epsilon(log_delta, groups)
            yield row("echoes (Liu et al.)", n, least, most, echoes, False)
    yield row(
        "mu-GDP (Chen et al.)", n, least, most,
        published.mu_gdp_epsilon(log_delta, groups, deltas, float(given.delta.max())), False,
    )  # fmt: skip
