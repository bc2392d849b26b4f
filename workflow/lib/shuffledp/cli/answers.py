"""The answer of each command, as rows of a table."""

import json
from argparse import Namespace
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Final

import numpy as np

from shuffledp import accountant
from shuffledp.accountant import exp_up, log_of
from shuffledp.accounting.planner import Plan, complete
from shuffledp.accounting.registry import BOUNDS
from shuffledp.accounting.setting import Setting
from shuffledp.cli.output import Row
from shuffledp.errors import InputError

PROVEN: Final = "proven"
_LN10: Final = float(np.log(10.0))


def _given(delta: Decimal) -> float | str:
    """The delta as a number, or as it was written where floats end."""
    return float(delta) or str(delta)


def _log10(log_delta: float | None) -> float | None:
    return None if log_delta is None else log_delta / _LN10


def _setting(arguments: Namespace) -> Setting:
    return Setting(arguments.n, arguments.k, arguments.eps0, arguments.rounds, arguments.count)


def _settings_row(arguments: Namespace) -> Row:
    return {name: getattr(arguments, name) for name in ("n", "k", "eps0")}


def _sampling(rate: float) -> Row:
    return {} if rate == 1.0 else {"sampling_rate": rate}


def _delta_rows(arguments: Namespace) -> Iterable[Row]:
    setting = _setting(arguments)
    for name in arguments.bound:
        for eps in arguments.eps:
            logs = accountant.log_delta(
                eps, setting, bound=name, sampling_rate=arguments.sampling_rate
            )
            deltas = logs.exp()
            yield {
                **_settings_row(arguments),
                "eps": eps,
                "rounds": setting.rounds,
                **_sampling(arguments.sampling_rate),
                "bound": name,
                "delta_lower": deltas.lower,
                "delta_upper": deltas.upper,
                "log10_delta_lower": _log10(logs.lower),
                "log10_delta_upper": _log10(logs.upper),
            }


def _epsilon_rows(arguments: Namespace) -> Iterable[Row]:
    setting = _setting(arguments)
    if arguments.sampling_rate != 1.0:
        raise InputError("--sampling-rate is answered by 'shuffledp delta' only")
    for name in arguments.bound:
        for delta in arguments.delta:
            found = accountant.epsilon(delta, setting, bound=name)
            yield {
                **_settings_row(arguments),
                "delta": _given(delta),
                "rounds": setting.rounds,
                "bound": name,
                "eps_lower": found.lower,
                "eps_upper": found.upper,
            }


def _calibrate_rows(arguments: Namespace) -> Iterable[Row]:
    n, k, eps = arguments.n, arguments.k, arguments.eps
    for delta in arguments.delta:
        eps0 = accountant.calibrate(eps, delta, n, k)
        achieved = accountant.log_delta(eps, Setting(n, k, eps0)).upper
        yield {
            "n": n,
            "k": k,
            "eps": eps,
            "delta": _given(delta),
            "eps0": eps0,
            "delta_upper": exp_up(achieved),
            "log10_delta_upper": _log10(achieved),
        }


def _bounds_rows(arguments: Namespace) -> Iterable[Row]:
    for name, eps in accountant.bounds(arguments.delta, _setting(arguments)).items():
        bound = BOUNDS[name]
        yield {
            "bound": name,
            "eps": eps,
            "kind": bound.kind,
            "guarantee": bound.guarantee,
            "source": bound.source,
        }


def _plan_rows(arguments: Namespace) -> Iterable[Row]:
    # No other command needs them.
    from shuffledp.mechanisms.protocol import Budget, expected_distance
    from shuffledp.mechanisms.registry import MECHANISMS

    log_delta = None if arguments.delta is None else log_of(arguments.delta)
    plan = complete(Plan(arguments.n, arguments.k, arguments.eps0, arguments.eps, log_delta))
    n, k, eps0, eps, log_delta = vars(plan).values()
    row: Row = {"n": n, "k": k, "eps0": eps0, "eps": eps}
    if arguments.delta is None:
        row |= {"delta": exp_up(log_delta), "log10_delta": _log10(log_delta)}
    else:  # as it was written, without a rounding
        row |= {"delta": _given(arguments.delta), "log10_delta": float(arguments.delta.log10())}
    setting, budget = Setting(n, k, eps0), Budget(eps, log_delta, "")
    for name, mechanism in MECHANISMS.items():
        try:
            parameters = mechanism.parameters(setting, budget)
        except InputError:  # none keeps this promise: no Gaussian is (eps, 0)-DP
            row |= {f"{name}_cell_sd": None, f"{name}_tv_distance": None}
            continue
        variance = mechanism.variance(np.full(k, 1.0 / k), n, parameters)
        row[f"{name}_cell_sd"] = float(np.sqrt(variance.max()))
        row[f"{name}_tv_distance"] = float(expected_distance(variance))
    yield row


def certify(arguments: Namespace) -> None:
    """Write a certificate to a file, or print it."""
    from shuffledp.certificate import certificate
    from shuffledp.files import replacing

    made = certificate(arguments.eps, Setting(arguments.n, arguments.k, arguments.eps0))
    text = json.dumps(made, indent=None if "blocks" in made["upper"] else 2) + "\n"
    if arguments.output is None:
        print(text, end="")
        return
    with replacing(Path(arguments.output)) as path:
        path.write_text(text, encoding="utf-8")


def _verify_rows(arguments: Namespace) -> Iterable[Row]:
    try:
        from shuffledp.verification.certificate import verify
        from shuffledp.verification.deltas import RefusedError, TooLongError
    except ModuleNotFoundError as missing:
        raise InputError(
            "certificates are checked with python-flint: pip install 'shuffledp[verify]'"
        ) from missing
    for name in arguments.files:
        try:
            verify(json.loads(Path(name).read_text(encoding="utf-8")))
            verdict, reason = PROVEN, None
        except OSError as error:
            raise InputError(f"{name} cannot be read: {error.strerror}") from None
        except ValueError:
            verdict, reason = "refused", "it is not JSON"
        except RefusedError as refused:
            verdict, reason = "refused", str(refused)
        except TooLongError as too_long:
            verdict, reason = "not checked", f"ball arithmetic would take too long: {too_long}"
        yield {"file": name, "verdict": verdict, "reason": reason}


def _list_rows(arguments: Namespace) -> Iterable[Row]:
    del arguments
    for bound in BOUNDS.values():
        yield {
            "bound": bound.name,
            "kind": bound.kind,
            "guarantee": bound.guarantee,
            "source": bound.source,
            "about": bound.about,
        }


_ROWS: Final[dict[str, Callable[[Namespace], Iterable[Row]]]] = {
    "delta": _delta_rows,
    "epsilon": _epsilon_rows,
    "calibrate": _calibrate_rows,
    "bounds": _bounds_rows,
    "plan": _plan_rows,
    "verify": _verify_rows,
    "list": _list_rows,
}


def answer(arguments: Namespace) -> list[Row]:
    """Rows that answer a parsed command, at least one.

    Raises
    ------
    InputError
        If an argument cannot be used, or nothing applies.
    """
    rows = list(_ROWS[arguments.command](arguments))
    if not rows:
        raise InputError("no bound applies to these parameters")
    return rows
