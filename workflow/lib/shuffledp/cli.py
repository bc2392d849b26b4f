"""The ``shuffledp`` command: what (eps, delta) a collection has, and what it costs."""

import argparse
import csv
import json
import sys
from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from typing import Any, NoReturn

import numpy as np
from tqdm import tqdm

from shuffledp.accounting.bound import Bound, NotApplicableError
from shuffledp.accounting.planner import Plan, complete
from shuffledp.accounting.registry import BOUNDS, get_bound
from shuffledp.accounting.rounds.subsampling import subsampled_log_delta
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.mechanisms.protocol import Budget, expected_distance
from shuffledp.mechanisms.registry import MECHANISMS

Row = dict[str, Any]
CERTIFIED = "certified"
_LN10 = float(np.log(10.0))
_SMALLEST = 5e-324


def _log(delta: Decimal) -> float:
    """Natural log of a delta that may be far below the smallest float."""
    if not (delta.is_finite() and 0 < delta <= 1):
        raise InputError(f"delta must lie in (0, 1] (got delta={delta})")
    return float(delta.ln())


def _given(delta: Decimal) -> float | str:
    """The delta as a number, or as it was written where floats end."""
    return float(delta) or str(delta)


def _exp(log_delta: float | None) -> float | None:
    return None if log_delta is None else float(np.exp(log_delta))


def _exp_up(log_delta: float | None) -> float | None:
    """As `_exp`; a delta below the smallest float is shown as that, not as 0, which is pure DP."""
    if log_delta is None or log_delta == -np.inf:
        return _exp(log_delta)
    return max(float(np.exp(log_delta)), _SMALLEST)


def _log10(log_delta: float | None) -> float | None:
    return None if log_delta is None else log_delta / _LN10


def _sides(name: str, arguments: argparse.Namespace) -> tuple[Bound | None, Bound | None]:
    """The bounds that give the lower and the upper end for a name."""
    if arguments.count is not None and not name.startswith("single-bin"):
        raise InputError(f"--count has no meaning for {name}: it belongs to the single-bin bounds")
    lower, upper = _ends(name)
    if arguments.sampling_rate != 1.0:
        if upper is None:
            raise InputError(
                f"{name} is no guarantee: with sampling only an upper end is certified"
            )
        return None, upper
    return lower, upper


def _ends(name: str) -> tuple[Bound | None, Bound | None]:
    if name == CERTIFIED:
        return BOUNDS["lower"], BOUNDS["upper"]
    bound = get_bound(name)
    if bound.kind == "approximate":
        raise InputError(
            f"{name} is neither an upper nor a lower bound; 'shuffledp bounds' shows its eps"
        )
    return (bound, None) if bound.kind == "lower" else (None, bound)


def _setting(arguments: argparse.Namespace) -> Setting:
    return Setting(arguments.n, arguments.k, arguments.eps0, arguments.rounds, arguments.count)


def _settings_row(arguments: argparse.Namespace) -> Row:
    return {name: getattr(arguments, name) for name in ("n", "k", "eps0")}


def _delta_rows(arguments: argparse.Namespace) -> Iterable[Row]:
    setting = _setting(arguments)
    for name in arguments.bound:
        for eps in arguments.eps:
            lower, upper = (
                None if side is None else _log_delta(side, eps, setting, arguments)
                for side in _sides(name, arguments)
            )
            yield {
                **_settings_row(arguments),
                "eps": eps,
                "rounds": setting.rounds,
                "bound": name,
                "delta_lower": _exp(lower),
                "delta_upper": _exp_up(upper),
                "log10_delta_lower": _log10(lower),
                "log10_delta_upper": _log10(upper),
            }


def _log_delta(bound: Bound, eps: float, setting: Setting, arguments: argparse.Namespace) -> float:
    if arguments.sampling_rate == 1.0:
        return float(bound.log_delta(eps, setting))
    return subsampled_log_delta(bound, eps, setting, arguments.sampling_rate)


def _epsilon_rows(arguments: argparse.Namespace) -> Iterable[Row]:
    setting = _setting(arguments)
    if arguments.sampling_rate != 1.0:
        raise InputError("--sampling-rate is answered by 'shuffledp delta' only")
    for name in arguments.bound:
        for delta in arguments.delta:
            lower, upper = (
                None if side is None else side.epsilon(_log(delta), setting)
                for side in _sides(name, arguments)
            )
            yield {
                **_settings_row(arguments),
                "delta": _given(delta),
                "rounds": setting.rounds,
                "bound": name,
                "eps_lower": lower,
                "eps_upper": upper,
            }


def _calibrate_rows(arguments: argparse.Namespace) -> Iterable[Row]:
    for delta in arguments.delta:
        plan = complete(Plan(arguments.n, arguments.k, None, arguments.eps, _log(delta)))
        assert plan.eps0 is not None
        achieved = BOUNDS["upper"].log_delta(
            arguments.eps, Setting(arguments.n, arguments.k, plan.eps0)
        )
        yield {
            "n": arguments.n,
            "k": arguments.k,
            "eps": arguments.eps,
            "delta": _given(delta),
            "eps0": plan.eps0,
            "delta_upper": _exp_up(achieved),
            "log10_delta_upper": _log10(achieved),
        }


def _bounds_rows(arguments: argparse.Namespace) -> Iterable[Row]:
    setting, log_delta = _setting(arguments), _log(arguments.delta)
    rows = []
    for bound in tqdm(BOUNDS.values(), desc="bounds", leave=False, disable=None):
        try:
            eps = bound.epsilon(log_delta, setting)
        except NotApplicableError:
            continue
        rows.append(
            {
                "bound": bound.name,
                "eps": eps,
                "kind": bound.kind,
                "guarantee": bound.guarantee,
                "source": bound.source,
            }
        )
    return sorted(rows, key=lambda row: row["eps"])


def _plan_rows(arguments: argparse.Namespace) -> Iterable[Row]:
    log_delta = None if arguments.delta is None else _log(arguments.delta)
    plan = complete(Plan(arguments.n, arguments.k, arguments.eps0, arguments.eps, log_delta))
    n, k, eps0, eps, log_delta = vars(plan).values()
    row: Row = {"n": n, "k": k, "eps0": eps0, "eps": eps}
    if arguments.delta is None:
        row |= {"delta": _exp_up(log_delta), "log10_delta": _log10(log_delta)}
    else:  # as it was written, without a rounding
        row |= {"delta": _given(arguments.delta), "log10_delta": float(arguments.delta.log10())}
    possible = 0.0 < eps < eps0 and log_delta < 0.0
    calibrations = {
        # What follows from eps0 is predicted at the plan's own; what is matched, at equal privacy.
        mechanism: mechanism.calibrations(
            Setting(n, k, eps0), [Budget(eps, log_delta, "")] if possible else []
        )
        for mechanism in MECHANISMS.values()
    }
    for mechanism, found in calibrations.items():
        kept = [c for c in found if c.name in ("none", "matched")]
        variance = mechanism.variance(np.full(k, 1.0 / k), n, kept[0].parameters) if kept else None
        row[f"{mechanism.name}_cell_sd"] = (
            None if variance is None else float(np.sqrt(variance.max()))
        )
        row[f"{mechanism.name}_tv_distance"] = (
            None if variance is None else float(expected_distance(variance))
        )
    return [row]


def _list_rows(arguments: argparse.Namespace) -> Iterable[Row]:
    del arguments
    for bound in BOUNDS.values():
        yield {
            "bound": bound.name,
            "kind": bound.kind,
            "guarantee": bound.guarantee,
            "source": bound.source,
            "about": bound.about,
        }


# What a print must not round the wrong way: ends of intervals, and answers that keep a promise.
_UP = {"delta_upper", "log10_delta_upper", "eps_upper", "eps", "delta", "log10_delta"}
_DOWN = {"delta_lower", "log10_delta_lower", "eps_lower", "eps0"}


def _cell(name: str, value: object) -> str:
    """Seven digits, rounded to the safe side."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, float) or not np.isfinite(value):
        return str(value)
    rounding = ROUND_CEILING if name in _UP else ROUND_FLOOR if name in _DOWN else ROUND_HALF_EVEN
    shortest = Decimal(repr(float(value)))  # what the user wrote, where it is an echo
    rounded = Context(prec=7, rounding=rounding).create_decimal(shortest)
    return f"{float(rounded):.7g}" if rounded else "0"


def _print(rows: Sequence[Row], style: str) -> None:
    if style == "json":
        # Infinity is no JSON: it becomes null, like a side that a bound does not have.
        finite = [
            {k: None if isinstance(v, float) and not np.isfinite(v) else v for k, v in row.items()}
            for row in rows
        ]
        print(json.dumps(finite, indent=2, allow_nan=False))
    elif style == "csv":
        writer = csv.DictWriter(sys.stdout, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    else:
        lines = [list(rows[0]), *([_cell(*item) for item in row.items()] for row in rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        for line in lines:
            cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
            print("  ".join(cells).rstrip())


def _number(text: str) -> int:
    """Integer that may be written 1e6."""
    try:
        value = Decimal(text)
        if value.is_finite() and value == value.to_integral_value() and abs(value) < 10**18:
            return int(value)
    except InvalidOperation:
        pass
    raise argparse.ArgumentTypeError(f"{text} is not a whole number")


def _delta(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise argparse.ArgumentTypeError(f"{text} is not a number") from None


class _Parser(argparse.ArgumentParser):
    """Errors in one line: the usage is what --help is for."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} ('{self.prog} --help' shows the usage)\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="shuffledp",
        description="Privacy of shuffled k-randomised response: (eps, delta)-DP of the histogram "
        "for the replacement of one report, enclosed between certified bounds.",
        epilog="Only bounds marked as a guarantee in 'shuffledp list' may be promised to users.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, rows: object, about: str, *options: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=about, description=about)
        sub.set_defaults(rows=rows)
        if "n" in options:
            sub.add_argument("--n", type=_number, required=True, help="number of users")
        if "k" in options:
            sub.add_argument("--k", type=_number, required=True, help="number of cells")
        if "eps0" in options:
            sub.add_argument("--eps0", type=float, required=True, help="local budget of k-RR")
        if "repeat" in options:
            help_ = "times the same users report (default 1)"
            sub.add_argument("--rounds", type=_number, default=1, help=help_)
            help_ = "how many other users hold the target's cell (single-bin bounds)"
            sub.add_argument("--count", type=_number, help=help_)
        if "bound" in options:
            help_ = "bounds to evaluate: 'certified' (default) or names of 'shuffledp list'"
            sub.add_argument("--bound", nargs="+", default=[CERTIFIED], metavar="NAME", help=help_)
            help_ = "probability with which each user takes part (default 1)"
            sub.add_argument("--sampling-rate", type=float, default=1.0, help=help_)
        help_ = "how to print (default table)"
        sub.add_argument("--format", choices=["table", "json", "csv"], default="table", help=help_)
        return sub

    setting = ("n", "k", "eps0", "repeat")
    sub = command("delta", _delta_rows, "delta of given eps", *setting, "bound")
    sub.add_argument("--eps", type=float, nargs="+", required=True, help="central budgets")
    sub = command("epsilon", _epsilon_rows, "eps of given delta", *setting, "bound")
    sub.add_argument("--delta", type=_delta, nargs="+", required=True, help="target deltas")
    about = "largest eps0 whose certified delta at eps meets the target"
    sub = command("calibrate", _calibrate_rows, about, "n", "k")
    sub.add_argument("--eps", type=float, required=True, help="central budget")
    sub.add_argument("--delta", type=_delta, nargs="+", required=True, help="target deltas")
    about = "eps of every applicable bound, smallest first"
    sub = command("bounds", _bounds_rows, about, *setting)
    sub.add_argument("--delta", type=_delta, required=True, help="target delta")
    about = (
        "find the one of n, k, eps0, eps, delta that is left out (the smallest n, k, eps or delta, "
        "the largest eps0 that is certified), and predict the error of "
        "every mechanism at the same privacy (uniform histogram, unbiased estimates)"
    )
    sub = command("plan", _plan_rows, about)
    for name in ("n", "k"):
        sub.add_argument(f"--{name}", type=_number, help="leave out exactly one of the five")
    for name in ("eps0", "eps"):
        sub.add_argument(f"--{name}", type=float, help="leave out exactly one of the five")
    sub.add_argument("--delta", type=_delta, help="leave out exactly one of the five")
    command("list", _list_rows, "every bound with its kind, worth and source")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status: 0, or 2 for bad input."""
    parsed = _parser().parse_args(arguments)
    try:
        rows = list(parsed.rows(parsed))
        if not rows:
            raise InputError("no bound applies to these parameters")
        _print(rows, parsed.format)
    except ValueError as error:
        print(f"shuffledp: {error}", file=sys.stderr)
        return 2
    return 0
