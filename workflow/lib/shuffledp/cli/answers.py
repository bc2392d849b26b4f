"""The answer of each command, as rows of a table."""

from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np

from shuffledp.accounting import accountant
from shuffledp.accounting.accountant import log_of
from shuffledp.accounting.curve import Curve, exp_up
from shuffledp.accounting.planner import Plan, complete
from shuffledp.accounting.registry import BOUNDS, get_bound, upper_curve
from shuffledp.accounting.setting import Setting
from shuffledp.cli.certificates import verify_rows
from shuffledp.cli.from_files import matrix_rows, personalised_rows
from shuffledp.cli.ledger import released, rounds_rows
from shuffledp.cli.options import PLANNED
from shuffledp.cli.output import Row, as_given, delta_ends, eps_ends, finite, log10
from shuffledp.cli.time_limit import TimeIsUpError, time_limit
from shuffledp.cli.words import NEIGHBOURS, unit
from shuffledp.errors import InputError
from shuffledp.mechanisms.catalogue import CATALOGUE, VIEWS

# What a `Setting` says beside n, k and eps0, as the options are called.
_OTHERS: Final = (*("rounds", "count", "sampling_rate", "colluding", "response_rate", "dummies"),)


def _others(arguments: Namespace) -> dict[str, Any]:
    return {name: value for name, value in vars(arguments).items() if name in _OTHERS}


def _setting(arguments: Namespace, **known: float) -> Setting:
    """What is collected; options that a command lacks are as if not given."""
    sizes = {name: value for name, value in vars(arguments).items() if name in ("n", "k", "eps0")}
    return Setting(**{**sizes, **known}, **_others(arguments))


def _settings_row(arguments: Namespace) -> Row:
    how = ("eps0",) if arguments.eps0 is not None else ("mechanism", "parameters")
    return {name: getattr(arguments, name) for name in ("n", "k", *how)}


def _collection(arguments: Namespace) -> Setting:
    """What is collected, by k-RR or by a mechanism at its parameters."""
    name, words = arguments.mechanism, arguments.parameters
    if (name is None) != (words is None) or (name is None) == (arguments.eps0 is None):
        raise InputError("give --eps0, for k-RR, or --mechanism and its --parameters")
    if name is None:
        return _setting(arguments)
    for option, none in (("bound", [accountant.CERTIFIED]), ("dummies", 0.0), ("count", None)):
        if getattr(arguments, option) != none:
            raise InputError(f"--{option} is for k-RR by --eps0, not for --mechanism")
    return Setting(arguments.n, arguments.k, mechanism=released(name, words), **_others(arguments))


def _views(setting: Setting, curve: Curve) -> dict[str, Curve]:
    """Of each view, where a mechanism tells them apart."""
    of = getattr(setting.mechanism, "views", None)
    return of(setting, curve) if of else {}


def _given_of(arguments: Namespace, **neutral: float) -> Row:
    """Of these options, by what they are if nobody gives them, those that were given."""
    values = {name: getattr(arguments, name) for name in neutral}
    return {name: value for name, value in values.items() if value != neutral[name]}


def _crowd_row(arguments: Namespace) -> Row:
    return _given_of(arguments, colluding=0, response_rate=1.0)


def _rounds_row(arguments: Namespace) -> Row:
    drawn = _given_of(arguments, sampling_rate=1.0)
    return {"rounds": arguments.rounds, **drawn, **_crowd_row(arguments)}


def _delta_rows(arguments: Namespace) -> Iterable[Row]:
    setting = _collection(arguments)
    for name in arguments.bound:
        curve = accountant.curve(setting, name)
        for eps in arguments.eps:
            ends = delta_ends(curve, eps)
            yield {
                **_settings_row(arguments),
                "eps": eps,
                **_rounds_row(arguments),
                **_given_of(arguments, dummies=0.0),
                "bound": name,
                **ends,
                **{
                    f"delta_{view}": ends["delta_upper"]
                    if each is curve
                    else exp_up(each.log_delta(eps).promised)
                    for view, each in _views(setting, curve).items()
                },
            }


def _epsilon_rows(arguments: Namespace) -> Iterable[Row]:
    setting = _collection(arguments)
    for name in arguments.bound:
        curve = accountant.curve(setting, name)
        for delta in arguments.delta:
            ends = eps_ends(curve, log_of(delta))
            yield {
                **_settings_row(arguments),
                "delta": as_given(delta),
                **_rounds_row(arguments),
                **_given_of(arguments, dummies=0.0),
                "bound": name,
                **ends,
                **{
                    f"eps_{view}": ends["eps_upper"]
                    if each is curve
                    else each.epsilon(log_of(delta)).promised
                    for view, each in _views(setting, curve).items()
                },
            }


def _calibrate_rows(arguments: Namespace) -> Iterable[Row]:
    eps, setting = arguments.eps, _setting(arguments)
    for delta in arguments.delta:
        eps0 = accountant.calibrate(eps, delta, setting)
        achieved = upper_curve(replace(setting, eps0=eps0)).log_delta(eps).promised
        yield {
            "n": setting.n,
            "k": setting.k,
            "eps": eps,
            "delta": as_given(delta),
            **_rounds_row(arguments),
            "eps0": eps0,
            "delta_upper": exp_up(achieved),
            "log10_delta_upper": log10(achieved),
        }


def _bounds_rows(arguments: Namespace) -> Iterable[Row]:
    found = accountant.bounds(arguments.delta, _setting(arguments))
    # What may be promised comes first; else the smallest eps, which may not, would head the list.
    for name, eps in sorted(found.items(), key=lambda item: not BOUNDS[item[0]].guarantee):
        bound = BOUNDS[name]
        yield {
            "bound": name,
            "eps": eps,
            "kind": bound.kind,
            "guarantee": bound.guarantee,
            # A table has no room for it.
            **({} if arguments.format == "table" else {"source": bound.source}),
        }


def _plan_rows(arguments: Namespace) -> Iterable[Row]:
    # No other command needs them.
    from shuffledp.mechanisms.registry import get_mechanisms
    from shuffledp.mechanisms.target_calibration import calibrated, local_parameters, predicted

    chosen = get_mechanisms(dict.fromkeys(arguments.mechanism or PLANNED))
    log_delta = None if arguments.delta is None else log_of(arguments.delta)
    sizes = (arguments.n, arguments.k, arguments.eps0, arguments.eps)
    plan = complete(Plan(*sizes, log_delta, _others(arguments)))
    setting = plan.setting()
    n, k, eps0, eps, log_delta = setting.n, setting.k, setting.eps0, plan.eps, plan.log_delta
    assert eps is not None
    assert log_delta is not None
    row: Row = {"n": n, "k": k, **_rounds_row(arguments), "eps0": eps0, "eps": eps}
    if arguments.delta is None:
        row |= {"delta": exp_up(log_delta), "log10_delta": log10(log_delta)}
    else:  # as it was written, without a rounding
        row |= {"delta": as_given(arguments.delta), "log10_delta": float(arguments.delta.log10())}
    shares = np.full(k, 1.0 / k)
    # Over several rounds the privacy that sampling adds is not counted.
    target = setting if setting.rounds == 1 else replace(setting, sampling_rate=1.0)
    for mechanism in chosen:
        name = mechanism.name
        try:
            parameters = (
                calibrated(mechanism, eps, log_delta, target)
                if mechanism.entry.matched
                else local_parameters(mechanism, eps0)
            )
        except InputError:  # none keeps this promise: no Gaussian is (eps, 0)-DP
            row |= {f"{name}_cell_sd_users": None, f"{name}_tv_distance": None}
            continue
        # A curator, who is calibrated to the budget, counts everybody in every round.
        part = setting.response_rate if mechanism.entry.matched else setting.part
        variance, distance = predicted(mechanism, shares, n, parameters, part)
        row[f"{name}_cell_sd_users"] = n * float(np.sqrt(variance.max()))
        row[f"{name}_tv_distance"] = distance
    yield row


# Seconds that `setitimer` can surely wait.
_LONGEST_LIMIT: Final = 1e6
# Columns of the eps of each view; none: it sees every record.
_VIEWED: Final = {f"eps_{view}": view for view in VIEWS}


def _compare_rows(arguments: Namespace) -> Iterable[Row]:
    from tqdm import tqdm

    from shuffledp.cli.tables import histogram
    from shuffledp.mechanisms.registry import MECHANISMS, get_mechanisms, with_options
    from shuffledp.mechanisms.target_calibration import calibrate_to_target, format_parameters

    chosen = get_mechanisms(dict.fromkeys(arguments.mechanism or MECHANISMS))
    eps, log_delta = arguments.eps, log_of(arguments.delta)
    limit = arguments.max_seconds
    if not 0.0 < eps < np.inf:
        raise InputError(f"eps must be positive and finite (got eps={eps})")
    if not 0.0 < limit <= _LONGEST_LIMIT:
        raise InputError(
            f"--max-seconds must be above 0 and at most {_LONGEST_LIMIT:,.0f} (got {limit:g})"
        )
    n, shares = histogram(arguments.histogram, arguments.n, arguments.k)
    setting = _setting(arguments, n=n, k=shares.size)
    asked: Row = {
        "n": n,
        "k": shares.size,
        "eps": eps,
        "delta": as_given(arguments.delta),
        **_given_of(arguments, rounds=1),
        **_crowd_row(arguments),
        "histogram": arguments.histogram or "uniform",
    }
    if arguments.hidden_slot:
        asked["hidden_slot"] = True
    options = {name: getattr(arguments, name) for name in ("hidden_slot", "slots", "share")}
    chosen = [with_options(mechanism, **options) for mechanism in chosen]
    unknown: Row = dict.fromkeys(
        ["parameters", "local_eps0", *_VIEWED, "messages", "moved_by_one", "cell_sd_users",
         "largest_cell_sd_users", "tv_distance"]
    )  # fmt: skip
    bar = tqdm(chosen, leave=False, disable=None)
    for mechanism in bar:
        bar.set_description(mechanism.name)
        row = asked | {"mechanism": mechanism.name} | unknown
        row |= {"trust": mechanism.entry.trust, "source": mechanism.entry.source, "reason": None}
        try:
            with time_limit(limit):
                found = calibrate_to_target(mechanism, eps, log_delta, setting, shares)
        except InputError as error:
            row["reason"] = str(error)
        except TimeIsUpError:
            row["reason"] = f"not computed within {limit:g} s (--max-seconds)"
        else:
            row |= {
                "parameters": format_parameters(found.parameters),
                "local_eps0": finite(found.per_user.local_eps0),
                **{name: finite(found.views[view]) for name, view in _VIEWED.items()},
                "messages": found.per_user.messages,
                "moved_by_one": found.per_user.moved_by_one,
                "cell_sd_users": found.cell_sd,
                "largest_cell_sd_users": found.largest_cell_sd,
                "tv_distance": found.tv_distance,
            }
        bar.clear()  # the row may be printed to the same terminal
        yield row


def _rdp_rows(arguments: Namespace) -> Iterable[Row]:
    # The bounds on Renyi DP hold for any number of cells.
    setting = Setting(arguments.n, 2, arguments.eps0, arguments.rounds)
    for name in arguments.bound:
        for order in arguments.order:
            yield {
                "n": arguments.n,
                "eps0": arguments.eps0,
                "rounds": arguments.rounds,
                "bound": name,
                "guarantee": get_bound(name).guarantee,
                "order": order,
                "rdp": float(get_bound(name).rdp(order, setting)),
            }


def _fdp_rows(arguments: Namespace) -> Iterable[Row]:
    setting = Setting(arguments.n, arguments.k, arguments.eps0, arguments.rounds)
    for name in arguments.bound:
        errors = accountant.tradeoff(arguments.alpha, setting, bound=name)
        for alpha, error in zip(arguments.alpha, errors.tolist(), strict=True):
            yield {
                **_settings_row(arguments),
                "rounds": setting.rounds,
                "bound": name,
                "alpha": alpha,
                "type_2_error_at_least": error,
            }


def _list_rows(arguments: Namespace) -> Iterable[Row]:
    del arguments
    for bound in BOUNDS.values():
        yield {
            "name": bound.name,
            "kind": bound.kind,
            "guarantee": bound.guarantee,
            "source": bound.source,
            "about": bound.about,
        }
    for entry in CATALOGUE.values():
        yield {
            "name": entry.name,
            "kind": "mechanism",
            "guarantee": None,
            "source": entry.source,
            "about": entry.trust,
        }


_ROWS: Final[dict[str, Callable[[Namespace], Iterable[Row]]]] = {
    "delta": _delta_rows,
    "epsilon": _epsilon_rows,
    "calibrate": _calibrate_rows,
    "bounds": _bounds_rows,
    "plan": _plan_rows,
    "compare": _compare_rows,
    "matrix": matrix_rows,
    "personalised": personalised_rows,
    "rounds": rounds_rows,
    "rdp": _rdp_rows,
    "fdp": _fdp_rows,
    "verify": verify_rows,
    "list": _list_rows,
}


def answer(arguments: Namespace) -> Iterator[Row]:
    """Yield the rows that answer a parsed command, at least one, as they are computed.

    Rows that state a privacy guarantee also name its neighbours and its unit.

    Raises
    ------
    InputError
        If an argument cannot be used, or nothing applies.
    """
    empty = True
    for row in _ROWS[arguments.command](arguments):
        empty = False
        if arguments.command in ("verify", "list"):  # certificates, and names
            yield row
        else:
            rounds = row.get("rounds", getattr(arguments, "rounds", 1))
            # What a row says itself stands.
            extra = {"neighbours": NEIGHBOURS, "unit": unit(rounds)}
            yield row | {name: words for name, words in extra.items() if name not in row}
    if empty:
        raise InputError("no bound applies to these parameters")
