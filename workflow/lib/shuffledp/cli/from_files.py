"""Answers about what a file holds: a randomiser, or the budgets of users."""

from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from shuffledp.accountant import exp_down, exp_up, log_of
from shuffledp.accounting.setting import Setting
from shuffledp.cli.output import Row, as_given, log10
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


def personalised_rows(arguments: Namespace) -> Iterable[Row]:
    """What users with budgets of their own have, and what else is said of them."""
    from tqdm import tqdm

    from shuffledp.accounting import personal
    from shuffledp.accounting.one_round.personalised import BudgetGroups
    from shuffledp.cli.tables import read_budgets

    given = read_budgets(Path(arguments.budgets))
    groups = BudgetGroups.of_counts(given.eps, given.counts)
    log_delta, n = log_of(arguments.delta), int(groups.counts.sum())
    deltas = given.deltas_of(groups.values)
    approximate = bool(deltas.any())
    kind = "any randomisers" if approximate else arguments.mechanism

    def row(what: str, users: int, low: float, high: float, eps: float | None, sure: bool) -> Row:
        return {
            "mechanism": kind,
            "delta": as_given(arguments.delta),
            "what": what,
            "users": users,
            "budget_low": low,
            "budget_high": high,
            "eps": eps,
            "guarantee": sure,
        }

    least, most = float(groups.values[0]), float(groups.values[-1])
    if approximate:
        # What is certified for k-RR or Laplace reports is not for reports of approximate LDP.
        found = personal.approximate_epsilon(log_delta, groups, float(deltas @ groups.counts))
        yield row("everybody", n, least, most, found, found is not None)
    else:
        how = personal.reports(kind, arguments.k)
        own = personal.own_epsilons(log_delta, groups, how)
        size, worst = personal.number_of_parts(groups, how), 0.0
        for each in tqdm(own, total=size, desc="budgets", leave=False, disable=None):
            worst = max(worst, each.eps)
            yield row("own eps", each.users, each.low, each.high, each.eps, True)
        yield row("everybody", n, least, most, worst, True)
        for what, budget, sure in (
            ("all at the largest", most, True),
            ("all at the smallest", least, False),
        ):
            alike = BudgetGroups.of_counts([budget], [n])
            yield row(what, n, budget, budget, personal.epsilon(log_delta, alike, 0, how), sure)
        if kind == "laplace":
            echoes = personal.echoes_epsilon(log_delta, groups)
            yield row("echoes (Liu et al.)", n, least, most, echoes, False)
    yield row(
        "mu-GDP (Chen et al.)", n, least, most,
        personal.mu_gdp_epsilon(log_delta, groups, deltas, float(given.delta.max())), False,
    )  # fmt: skip
