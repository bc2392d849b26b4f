"""Answers about what a file holds: a randomiser, or the budgets of users."""

from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from shuffledp.accountant import exp_down, exp_up, log_of
from shuffledp.accounting.one_round.personalised import BudgetGroups
from shuffledp.accounting.setting import Setting
from shuffledp.cli.output import Row, as_given, log10
from shuffledp.cli.tables import Budgets, read_budgets
from shuffledp.errors import InputError


def matrix_rows(arguments: Namespace) -> Iterable[Row]:
    """Delta or eps of a randomiser that is given as a matrix."""
    from shuffledp.cli.tables import read_matrix
    from shuffledp.mechanisms.protocol import expected_distance
    from shuffledp.randomisers import protocol
    from shuffledp.randomisers.matrix import MatrixRandomiser

    if (arguments.eps is None) == (arguments.delta is None):
        raise InputError("give one of --eps and --delta")
    source = Path(arguments.file)
    rows = read_matrix(source)
    try:
        randomiser = MatrixRandomiser(rows)
    except InputError as error:
        raise InputError(f"{source}: {error}") from None
    n, k = arguments.n, randomiser.k
    Setting(n, k, randomiser.eps0)  # checks n
    try:
        variance = randomiser.variance(np.full(k, 1.0 / k), n)
        errors: Row = {
            "cell_sd_users": n * float(np.sqrt(variance.max())),
            "tv_distance": float(expected_distance(variance)),
        }
    except InputError:  # no estimate tells the records apart
        errors = {"cell_sd_users": None, "tv_distance": None}
    common: Row = {"n": n, "records": k, "reports": rows.shape[1], "local_eps0": randomiser.eps0}
    for eps in arguments.eps or ():
        logs = protocol.log_delta(eps, n, randomiser)
        yield {
            **common,
            "eps": eps,
            "delta_lower": exp_down(logs.low),
            "delta_upper": exp_up(logs.high),
            "log10_delta_lower": log10(logs.low),
            "log10_delta_upper": log10(logs.high),
            **errors,
        }
    for delta in arguments.delta or ():
        low, high = protocol.epsilon(log_of(delta), n, randomiser)
        yield {
            **common,
            "delta": as_given(delta),
            "eps_lower": low,
            "eps_upper": high,
            **errors,
        }


def _noisy(source: Path, given: Budgets) -> tuple[BudgetGroups, dict[float, float]]:
    """Users by the mu of their Gaussian noise, and the eps of each mu.

    A report alone is just (eps, delta)-LDP. A user with eps = 0 reports nothing, and has mu = 0.
    """
    from shuffledp.accounting import personal
    from shuffledp.mechanisms.gaussian import gaussian_sigma

    wrong = np.flatnonzero((given.eps > 0.0) & (given.delta == 0.0))
    if wrong.size:
        raise InputError(
            f"{source}: Gaussian reports need a column delta that is above 0 wherever eps is: none "
            f"of them is (eps, 0)-LDP (a user has eps {given.eps[wrong[0]]:g} and delta 0)"
        )
    pairs = np.stack([given.eps, np.where(given.eps > 0.0, given.delta, 0.0)], axis=1)
    distinct, place = np.unique(pairs, axis=0, return_inverse=True)
    personal.check_number(len(distinct), personal.reports("gaussian"))
    of = [1.0 / gaussian_sigma(e, float(np.log(d)), 1.0) if e > 0.0 else 0.0 for e, d in distinct]
    groups = BudgetGroups.of_counts(np.array(of)[place.ravel()], given.counts)
    return groups, dict(zip(of, distinct[:, 0].tolist(), strict=True))


def personalised_rows(arguments: Namespace) -> Iterable[Row]:
    """What users with budgets of their own have, and what else is said of them."""
    from tqdm import tqdm

    from shuffledp.accounting import personal

    given = read_budgets(Path(arguments.budgets))
    groups = BudgetGroups.of_counts(given.eps, given.counts)
    log_delta, n = log_of(arguments.delta), int(groups.counts.sum())
    deltas = given.deltas_of(groups.values)
    normal = arguments.mechanism == "gaussian"
    approximate = bool(deltas.any()) and not normal
    kind = "any randomisers" if approximate else arguments.mechanism

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
        found = personal.approximate_epsilon(log_delta, groups, float(deltas @ groups.counts))
        clones = row("any randomisers", n, least, most, found, found is not None)
    if approximate:
        yield clones | {"what": "everybody"}
    else:
        how = personal.reports(kind, arguments.k)
        reporting, eps_of = groups, dict[float, float]()
        if normal:
            reporting, eps_of = _noisy(Path(arguments.budgets), given)
        own = personal.own_epsilons(log_delta, reporting, how)
        size, worst = personal.number_of_parts(reporting, how), 0.0
        for each in tqdm(own, total=size, desc="budgets", leave=False, disable=None):
            worst = max(worst, each.eps)
            low, high = (eps_of.get(used, used) for used in (each.low, each.high))
            yield row("own eps", each.users, low, high, each.eps, True, each.high)
        yield row("everybody", n, least, most, worst, True)
        smallest, largest = float(reporting.values[0]), float(reporting.values[-1])
        for what, used, sure in (
            ("all at the largest", largest, True),
            ("all at the smallest", smallest, False),
        ):
            alike, budget = BudgetGroups.of_counts([used], [n]), eps_of.get(used, used)
            eps = personal.epsilon(log_delta, alike, 0, how)
            yield row(what, n, budget, budget, eps, sure, used)
        if normal:
            yield row("not shuffled", n, least, most, how.alone(largest, log_delta), True)
            yield clones
        if kind == "laplace":
            echoes = personal.echoes_epsilon(log_delta, groups)
            yield row("echoes (Liu et al.)", n, least, most, echoes, False)
    yield row(
        "mu-GDP (Chen et al.)", n, least, most,
        personal.mu_gdp_epsilon(log_delta, groups, deltas, float(given.delta.max())), False,
    )  # fmt: skip
