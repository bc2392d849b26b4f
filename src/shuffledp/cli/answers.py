"""Compute the rows that each command prints, mostly by a function of `shuffledp.queries`."""

from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from decimal import Decimal
from itertools import repeat
from math import ceil, inf, isfinite, log
from pathlib import Path
from typing import Any, Final

import numpy as np

from shuffledp import queries
from shuffledp.accounting.accountant import CERTIFIED, SettingOrSchedule, distinct_rounds
from shuffledp.accounting.bound_registry import BOUNDS
from shuffledp.accounting.conventions import NEIGHBOURS, log_of_delta
from shuffledp.accounting.curve import Curve, Interval, UpperCurve, exp_down, exp_up
from shuffledp.accounting.setting import Setting
from shuffledp.cli.output import SPARSE_RECORDS, Row, print_wrapped
from shuffledp.errors import InputError
from shuffledp.mechanisms.catalogue import CATALOGUE, VIEWS
from shuffledp.numerics.arrays import Floats
from shuffledp.results import ComparedMechanism, EpsilonResult, LogDeltaResult, PredictedError

# Options on rounds and participation, which are fields of a `Setting`.
_PARTICIPATION: Final = queries.PARTICIPATION
# Columns of a certificate's claim, apart from the ends of delta.
_CLAIM: Final = (
    *("n", "k", "eps0", "rounds", "dummies", "chances", "mechanism", "parameters", "view", "eps"),
)


def _options(arguments: Namespace, *names: str) -> dict[str, Any]:
    return {name: value for name, value in vars(arguments).items() if name in names}


def _setting(arguments: Namespace, **overrides: Any) -> Setting:
    """Return the setting that the options describe, with `overrides` in place of some of them."""
    names = ("n", "k", "eps0", *_PARTICIPATION, "count", "dummies")
    values = _options(arguments, *names) | overrides
    return Setting(**{name: value for name, value in values.items() if value is not None})


def _collection(arguments: Namespace) -> Setting:
    """Return the setting of k-RR (--eps0), or of a mechanism with its parameters."""
    name, parameters = arguments.mechanism, arguments.parameters
    if (name is None) != (parameters is None) or (name is None) == (arguments.eps0 is None):
        raise InputError("give either --eps0, for k-RR, or --mechanism with --parameters")
    if name is None:
        return _setting(arguments)
    for option, default in (("bound", [CERTIFIED]), ("dummies", 0.0), ("count", None)):
        if getattr(arguments, option) != default:
            raise InputError(f"--{option} applies to k-RR (--eps0) only, not to --mechanism")
    return _setting(arguments, mechanism=queries.mechanism(name, parameters))


def _asked(arguments: Namespace) -> list[Any]:
    """Return the values of the one of --eps and --delta that is given."""
    if (arguments.eps is None) == (arguments.delta is None):
        raise InputError("give exactly one of --eps and --delta")
    values: list[Any] = arguments.delta if arguments.eps is None else arguments.eps
    return values


def _guaranteed(rows: Iterable[Row], rounds: int = 1) -> list[Row]:
    """Add to each row what the guarantee protects, unless it says so itself."""
    unit = "one record of one user" if rounds == 1 else f"all {rounds} records of one user"
    return [row | {"neighbours": NEIGHBOURS, "unit": unit} | row for row in rows]


def _log10(log_delta: float | None) -> float | None:
    """Convert a natural logarithm to a decimal one; None stays None."""
    return None if log_delta is None else log_delta / log(10.0)


def _delta_cell(delta: float | Decimal) -> float | str:
    """Return delta as a float, or as text if it is below the smallest positive float."""
    return float(delta) or str(delta)


def _fields(setting: Setting, *names: str) -> Row:
    return {name: getattr(setting, name) for name in names}


def _changed(setting: Setting, *names: str) -> Row:
    """Return those of some fields of a setting that differ from their defaults."""
    row = _fields(setting, *names)
    return {name: value for name, value in row.items() if value != getattr(Setting, name)}


def _rounds(setting: Setting) -> Row:
    return {"rounds": setting.rounds} | _changed(setting, *_PARTICIPATION[1:])


def _views(collected: SettingOrSchedule, curve: Curve) -> Mapping[str, Curve]:
    """Return the curve against each view in `VIEWS`; empty for k-RR, which has one view."""
    from shuffledp.mechanisms.randomised_response import KRRParameters
    from shuffledp.mechanisms.registry import MECHANISMS
    from shuffledp.mechanisms.target_calibration import Released, views_of_rounds

    released: Any
    if isinstance(collected, Setting):
        released = collected.mechanism
        return released.views(collected, curve) if released else {}
    if all(each.mechanism is None for each in collected):
        return {}
    assert isinstance(curve, UpperCurve)
    rounds = []
    for once, count in distinct_rounds(collected).items():
        released = once.mechanism or Released(MECHANISMS["krr"], KRRParameters(once.eps0))
        rounds.append((released, once, count))
    return views_of_rounds(rounds, curve)


def _ends(
    result: LogDeltaResult | EpsilonResult,
    asked: Sequence[Any],
    collected: SettingOrSchedule | None = None,
) -> list[tuple[Row, Row]]:
    """Return two rows for each eps or delta that was asked for: it, and the bounds at it.

    If the collection has several views, the second row also has the upper end of each view.
    """
    views = {} if collected is None else _views(collected, result.curve)
    lower, upper = (
        repeat(None) if end is None else end.tolist() for end in (result.lower, result.upper)
    )
    columns = []
    for value, low, high in zip(asked, lower, upper, strict=False):
        if isinstance(result, EpsilonResult):
            ends: Row = {"eps_lower": low, "eps_upper": high}
            log_delta = float(log_of_delta(value))
            for view, curve in views.items():
                same = curve is result.curve
                ends[f"eps_{view}"] = high if same else curve.epsilon(log_delta).promised
            columns.append(({"delta": _delta_cell(value)}, ends))
            continue
        delta = Interval(low, high).exp()
        ends = {"delta_lower": delta.lower, "delta_upper": delta.upper}
        ends |= {"log10_delta_lower": _log10(low), "log10_delta_upper": _log10(high)}
        for view, curve in views.items():
            same = curve is result.curve
            ends[f"delta_{view}"] = delta.upper if same else exp_up(curve.log_delta(value).promised)
        columns.append(({"eps": value}, ends))
    return columns


def _enclosed(
    arguments: Namespace, collected: SettingOrSchedule, bound: str = CERTIFIED
) -> list[tuple[Row, Row]]:
    """Return the `_ends` of delta at each --eps, or of eps at each --delta."""
    if getattr(arguments, "eps", None) is None:
        result = queries.epsilon(arguments.delta, collected, bound=bound)
        return _ends(result, arguments.delta, collected)
    logs = queries.log_delta(arguments.eps, collected, bound=bound)
    return _ends(logs, arguments.eps, collected)


def _curve_rows(arguments: Namespace) -> list[Row]:
    """Return the rows of the commands `delta` and `epsilon`."""
    setting = _collection(arguments)
    who = _fields(setting, "n", "k", "eps0")
    if setting.mechanism is not None:
        del who["eps0"]
        who |= _options(arguments, "mechanism", "parameters")  # as the user typed them
    about = _rounds(setting) | _changed(setting, "dummies")
    rows = list[Row]()
    for bound in arguments.bound:
        rows += (
            who | argument | about | {"bound": bound} | ends
            for argument, ends in _enclosed(arguments, setting, bound)
        )
    return _guaranteed(rows, setting.rounds)


def _schedule_rows(arguments: Namespace) -> list[Row]:
    from shuffledp.input_files import read_rounds

    _asked(arguments)
    settings = read_rounds(arguments.file)
    count = sum(each.rounds for each in settings)
    try:
        ends = _enclosed(arguments, settings)
    except InputError as error:
        raise InputError(f"{arguments.file}: {error}") from None
    about = {"rows": len(settings), "rounds": count}
    return _guaranteed((about | argument | row for argument, row in ends), count)


def _calibrate_rows(arguments: Namespace) -> list[Row]:
    rows = list[Row]()
    for delta in arguments.delta:
        result = queries.calibrate(arguments.eps, delta, _setting(arguments))
        target = {"eps": arguments.eps, "delta": _delta_cell(delta)}
        ends = {"delta_upper": exp_up(result.log_delta)}
        ends["log10_delta_upper"] = _log10(result.log_delta)
        setting = result.setting
        sizes, eps0 = _fields(setting, "n", "k"), _fields(setting, "eps0")
        rows.append(sizes | target | _rounds(setting) | eps0 | ends)
    return _guaranteed(rows, arguments.rounds)


def _bounds_rows(arguments: Namespace) -> list[Row]:
    found = queries.bounds(arguments.delta, _setting(arguments))
    # A smaller eps that is no guarantee must not head the list.
    bounds = sorted((BOUNDS[name] for name in found), key=lambda bound: not bound.guarantee)
    # A table has no room for sources.
    names = ("kind", "guarantee", *(() if arguments.format == "table" else ("source",)))
    rows = (
        {"bound": bound.name, "eps": found[bound.name]}
        | {name: getattr(bound, name) for name in names}
        for bound in bounds
    )
    return _guaranteed(rows, arguments.rounds)


def _error(error: PredictedError | None) -> Row:
    if error is None:
        return dict.fromkeys(("cell_sd_users", "tv_distance"))
    return {name: value for name, value in asdict(error).items() if value is not None}


def _plan_rows(arguments: Namespace) -> list[Row]:
    asked = _options(arguments, "n", "k", "eps0", "eps", "delta", *_PARTICIPATION)
    result = queries.plan(mechanisms=arguments.mechanism or queries.PLANNED, **asked)
    row = _fields(result.setting, "n", "k") | _rounds(result.setting)
    row |= {"eps0": result.setting.eps0, "eps": result.eps}
    if arguments.delta is None:
        row |= {"delta": exp_up(result.log_delta), "log10_delta": _log10(result.log_delta)}
    else:  # without rounding
        row |= {"delta": _delta_cell(arguments.delta)}
        row |= {"log10_delta": float(arguments.delta.log10())}
    for name, error in result.errors.items():
        row |= {f"{name}_{column}": value for column, value in _error(error).items()}
    return _guaranteed([row], result.setting.rounds)


def _histogram(arguments: Namespace) -> tuple[int, int, Floats | None]:
    """Return n, k and the shares of the cells, which are None for a uniform histogram."""
    from shuffledp.input_files import read_histogram

    n, k = arguments.n, arguments.k
    if arguments.histogram is None:
        if n is None or k is None:
            raise InputError("give --n and --k, or a --histogram from which they follow")
        return n, k, None
    counts = read_histogram(arguments.histogram)
    n, k = int(counts.sum()) if n is None else n, counts.size if k is None else k
    if k < counts.size:
        raise InputError(
            f"k must be at least {counts.size}, the number of cells of {arguments.histogram}, got "
            f"k={k}"
        )
    Setting(n, k, 1.0)  # checks k before an array of that size is made
    return n, k, np.pad(counts, (0, k - counts.size)) / counts.sum()


def _compare_rows(arguments: Namespace) -> list[Row]:
    n, k, shares = _histogram(arguments)
    setting, eps, delta = _setting(arguments, n=n, k=k), arguments.eps, arguments.delta
    result = queries.compare(
        *(eps, delta, setting),
        mechanisms=arguments.mechanism,
        shares=shares,
        hidden_slot=arguments.hidden_slot,
    )
    about = {"n": n, "k": k, "eps": eps, "delta": _delta_cell(delta)}
    about |= _changed(setting, "rounds", *_PARTICIPATION[1:])
    about |= {"histogram": arguments.histogram or "uniform"}
    about |= {"hidden_slot": True} if arguments.hidden_slot else {}
    return _guaranteed((about | _compared(each) for each in result.mechanisms), setting.rounds)


def _compare_sparse_rows(arguments: Namespace) -> list[Row]:
    n, k = arguments.n, arguments.k
    about = {"n": n, "k": k, "eps": arguments.eps, "delta": _delta_cell(arguments.delta)}
    return [
        about
        | {"way": way.name, "parameters": way.parameters, "shown_from": way.shown_from}
        | {f"error_of_{records}": way.error(records) for records in SPARSE_RECORDS}
        | {"messages": way.messages(n) / n, "dummies": way.dummies(n, k) / n, "trust": way.trust}
        for way in queries.compare_sparse(arguments.eps, arguments.delta, n, k)
    ]


def _compared(mechanism: ComparedMechanism) -> Row:
    """Return the columns of one mechanism; None where nothing is bounded or calibrated."""
    from shuffledp.mechanisms.target_calibration import format_parameters

    entry, calibration = CATALOGUE[mechanism.name], mechanism.calibration
    about = {"trust": entry.trust, "source": entry.source, "reason": mechanism.reason}
    names = (
        *("parameters", "noise", "local_eps0", *(f"eps_{view}" for view in VIEWS)),
        *("messages", "bytes_sent", "moved_by_one"),
        *("cell_sd_users", "largest_cell_sd_users", "tv_distance"),
    )
    if calibration is None:
        return {"mechanism": entry.name, **dict.fromkeys(names), **about}
    user = calibration.per_user
    budgets = (user.local_eps0, *(calibration.views[view] for view in VIEWS))
    values = (
        *(format_parameters(calibration.parameters), calibration.shape),
        *(eps if isfinite(eps) else None for eps in budgets),
        *(user.messages, user.bytes_sent, user.moved_by_one),
        *(calibration.cell_sd, calibration.largest_cell_sd, calibration.tv_distance),
    )
    return {"mechanism": entry.name, **dict(zip(names, values, strict=True)), **about}


def _matrix_rows(arguments: Namespace) -> list[Row]:
    from shuffledp.input_files import read_matrix

    asked = _asked(arguments)
    probabilities = read_matrix(arguments.file)
    records, reports = probabilities.shape
    names = ("n", "eps", "delta", "hidden_slot", "rounds", "colluding", "response_rate")
    try:
        result = queries.matrix(probabilities, **_options(arguments, *names))
    except InputError as error:
        raise InputError(f"{arguments.file}: {error}") from None
    about = {"n": arguments.n, "records": records, "reports": reports}
    about |= {"local_eps0": result.local_eps0}
    about |= _changed(_setting(arguments, k=2), "rounds", "colluding", "response_rate")
    about |= {"hidden_slot": True} if arguments.hidden_slot else {}
    after, ends = _error(result.error), _ends(result.ends, asked)
    return _guaranteed((about | argument | row | after for argument, row in ends), arguments.rounds)


def _personalised_rows(arguments: Namespace) -> list[Row]:
    from shuffledp.input_files import read_budgets

    budgets, gaussian = read_budgets(arguments.budgets), arguments.mechanism == "gaussian"
    names = ("mechanism", "k", "rounds")
    entries = queries.personal_budgets(arguments.delta, budgets, **_options(arguments, *names))
    of_any_randomiser = budgets.delta.any() and not gaussian
    about = {
        "mechanism": "any randomisers" if of_any_randomiser else arguments.mechanism,
        "delta": _delta_cell(arguments.delta),
        **({"rounds": arguments.rounds} if arguments.rounds > 1 else {}),
    }
    # With Gaussian noise only the largest budget is shown, to which sigma belongs.
    left_out = "budget_low" if gaussian else "sigma"
    columns = ("users", "budget_low", "budget_high", "sigma", "eps", "guarantee")
    rows = (
        about
        | {"what": entry.about}
        | {name: getattr(entry, name) for name in columns if name != left_out}
        for entry in entries
    )
    return _guaranteed(rows, arguments.rounds)


def _rdp_rows(arguments: Namespace) -> list[Row]:
    setting = _setting(arguments, k=2)  # the bounds hold for any number of cells
    about = _fields(setting, "n", "eps0", "rounds")
    rows = (
        about | {"bound": bound, "guarantee": BOUNDS[bound].guarantee, "order": order, "rdp": value}
        for bound in arguments.bound
        for order, value in zip(
            arguments.order,
            queries.rdp(arguments.order, setting, bound=bound).tolist(),
            strict=True,
        )
    )
    return _guaranteed(rows, setting.rounds)


def _fdp_rows(arguments: Namespace) -> list[Row]:
    setting = _setting(arguments)
    about = _fields(setting, "n", "k", "eps0", "rounds")
    rows = (
        about | {"bound": bound, "alpha": alpha, "type_2_error_at_least": error}
        for bound in arguments.bound
        for alpha, error in zip(
            arguments.alpha,
            queries.fdp(arguments.alpha, setting, bound=bound).tolist(),
            strict=True,
        )
    )
    return _guaranteed(rows, setting.rounds)


def _verify_rows(arguments: Namespace) -> list[Row]:
    rows = list[Row]()
    for each in queries.verify(arguments.files):
        row: Row = dict.fromkeys((*_CLAIM, "delta_lower", "delta_upper", "log10_delta_upper"))
        if each.claim:
            # None stands for the log of a delta of 0.
            low, high = (-inf if end is None else end for end in (each.claim.low, each.claim.high))
            row |= {name: getattr(each.claim, name) for name in _CLAIM}
            row |= {"delta_lower": exp_down(low), "delta_upper": exp_up(high)}
            row["log10_delta_upper"] = _log10(high)
        rows.append({"file": each.file, "verdict": each.verdict, **row, "reason": each.reason})
    return rows


def _list_rows(arguments: Namespace) -> list[Row]:
    names = ("name", "kind", "guarantee", "source", "about")
    bounds = [{name: getattr(bound, name) for name in names} for bound in BOUNDS.values()]
    mechanisms = [
        dict(zip(names, (each.name, "mechanism", None, each.source, each.trust), strict=True))
        for each in CATALOGUE.values()
    ]
    rows = bounds + mechanisms
    for word in arguments.words:
        rows = [row for row in rows if word.lower() in " ".join(map(str, row.values())).lower()]
        if not rows:
            raise InputError(f"no bound or mechanism has the word {word!r} with the others")
    return rows


def _ledger_rows(arguments: Namespace) -> list[Row]:
    from shuffledp.publishing.ledger import read_ledger

    return read_ledger(Path(arguments.file)).rows()


def _area_rows(arguments: Namespace) -> list[Row]:
    from shuffledp.publishing.area import area

    table = area(
        arguments.map,
        cells=arguments.cell,
        to_cells=arguments.to_cell,
        windows=arguments.window,
        **_options(arguments, "polygon", "to_polygon", "touching", "minus"),
    )
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]


_ROWS: Final[dict[str, Callable[[Namespace], list[Row]]]] = {
    "delta": _curve_rows,
    "epsilon": _curve_rows,
    "calibrate": _calibrate_rows,
    "bounds": _bounds_rows,
    "plan": _plan_rows,
    "compare": _compare_rows,
    "compare-sparse": _compare_sparse_rows,
    "matrix": _matrix_rows,
    "personalised": _personalised_rows,
    "rounds": _schedule_rows,
    "rdp": _rdp_rows,
    "fdp": _fdp_rows,
    "area": _area_rows,
    "ledger": _ledger_rows,
    "verify": _verify_rows,
    "list": _list_rows,
}


def answer(arguments: Namespace) -> list[Row]:
    """Return the rows of a parsed command, at least one."""
    return _ROWS[arguments.command](arguments)


def certify(arguments: Namespace) -> None:
    """Write a certificate to a file, or print it."""
    setting = _setting_to_certify(arguments)
    certificate = queries.certify(arguments.eps, setting, view=arguments.view)
    if arguments.output is None:
        print(certificate.text, end="")
    else:
        certificate.write(Path(arguments.output))


def _setting_to_certify(arguments: Namespace) -> Setting:
    dummies, name = arguments.dummies, arguments.mechanism
    if [arguments.eps0, dummies, name].count(None) != 2:
        raise InputError("give exactly one of --eps0, --dummies and --mechanism")
    if (name is None) != (arguments.parameters is None):
        raise InputError("give --parameters with --mechanism, and only with it")
    if dummies is None and arguments.chances is not None:
        raise InputError("--chances is for --dummies only")
    sizes = _options(arguments, "n", "k", "rounds")
    if arguments.eps0 is not None:
        return Setting(eps0=arguments.eps0, **sizes)
    if name is not None:
        return Setting(mechanism=queries.mechanism(name, arguments.parameters), **sizes)
    if not 0.0 < dummies < inf:
        raise InputError(f"dummies must be positive and finite, got {dummies}")
    chances = ceil(dummies) if arguments.chances is None else arguments.chances
    mechanism = queries.mechanism("user-dummies", dummies=dummies, chances=chances)
    return Setting(mechanism=mechanism, **sizes)


def restyle(arguments: Namespace) -> None:
    """Write a published map again, and say where."""
    from shuffledp.publishing.restyle import renamed
    from shuffledp.publishing.restyle import restyle as restyle_map

    folder = restyle_map(
        *(arguments.map, arguments.output),
        title=arguments.title,
        names=arguments.names,
        pictures=arguments.pictures or (),
    )
    changed = renamed(arguments.map, folder) if arguments.names else []
    names = "; ".join(f"{each}: {old} is now {new}" for each, old, new in changed[:3])
    more = f" (and {len(changed) - 3} more)" if len(changed) > 3 else ""
    print_wrapped(
        f"{folder} has the same numbers as {arguments.map}. This cost nothing."
        + (f" New names by id, {names}{more}." if changed else "")
    )


def page(arguments: Namespace) -> None:
    """Write one page over several maps, and say what they promise together."""
    from shuffledp.publishing.restyle import write_page

    written = write_page(arguments.maps, arguments.output, title=arguments.title)
    print_wrapped(f"{written} shows {len(arguments.maps)} maps. This cost nothing.")


def publish(arguments: Namespace) -> None:
    """Publish a map, and print what it promises and what is left in the ledger; or preview it."""
    from shuffledp.publishing import options
    from shuffledp.publishing.publication import publish as publish_map

    cells = [
        options.MapCells(
            kind,
            name=arguments.cell_name,
            identifier=arguments.cell_id,
            **_options(arguments, "box", "outline", "elsewhere"),
            flows=arguments.to_place is not None or arguments.to_latitude is not None,
        )
        for kind in arguments.cells
    ]
    names = ("unit", "delta", "mechanism", "records_per_user", "distinct", "per_window", "sparse")
    kept = _options(arguments, *names)
    protections = [options.Protection(eps=eps, **kept) for eps in arguments.eps]
    levels = _levels(arguments.level or (), automatic=arguments.levels == "auto")
    periods = _periods(arguments)
    if arguments.preview:
        _preview(arguments, cells, protections, levels, periods)
        return
    for name, values in (("cells", cells), ("eps", protections), ("every", periods)):
        if len(values) > 1:
            raise InputError(
                f"--{name} may be given only once without --preview, got {len(values)} values: "
                "give one, or add --preview"
            )
    for name in ("file", "ledger", "output"):
        if getattr(arguments, name) is None:
            raise InputError(f"give {'a file' if name == 'file' else f'--{name}'}, or --preview")
    columns = _options(arguments, *options.Source.__dataclass_fields__)
    source = options.Source(arguments.file, **columns)
    published = publish_map(
        source,
        arguments.output,
        cells=cells[0],
        protection=protections[0],
        ledger=options.Ledger(
            arguments.ledger, arguments.total, arguments.total_delta, arguments.again
        ),
        levels=levels,
        windows=periods[0],
        title=arguments.title,
    )
    print_wrapped(str(published))


def _levels(words: Sequence[str], *, automatic: bool) -> Any:
    from shuffledp.publishing.options import Levels

    values = {}
    for word in words:
        name, colon, value = word.replace("meters:", "metres:").rpartition(":")
        if not colon or name in values:
            raise InputError(
                f"--level must be NAME:SHARE, such as total:0.05, each name once, got {word!r}"
            )
        values[name] = value
    if automatic and not values:
        raise InputError("--levels auto needs the wanted error of each level: --level total:20")
    return Levels(errors=values) if automatic else Levels(values)


def _periods(arguments: Namespace) -> list[Any]:
    from shuffledp.publishing.options import Period

    first, last = arguments.first_day, arguments.last_day
    if (first is None) != (last is None):
        raise InputError("give both --from and --to, the first and the last day that count")
    if first is None:
        if arguments.every or arguments.profile:
            raise InputError("--every and --profile need a period, --from and --to")
        return [None]
    return [
        Period(first, last, every, arguments.profile, arguments.time_zone, arguments.times)
        for every in arguments.every or [None]
    ]


_HEADS: Final = {
    "without_levels": "no levels",
    "half_width": "±",
    "threshold": "shown from",
    "hidden_at_most": "hidden to",
    "within_10": "10 %",
    "within_25": "25 %",
    "nonzero_from": "not 0",
}


def _preview(arguments: Namespace, cells: Any, protections: Any, levels: Any, periods: Any) -> None:
    from shuffledp.publishing.preview import advice, draw, preview, times_in_words

    table = preview(
        cells=cells,
        protection=protections,
        levels=levels,
        windows=periods,
        at_least=arguments.at_least,
    )
    shown = table.assign(times=times_in_words(table)).drop(columns=["every", "share", "number"])
    shown = shown.dropna(axis="columns", how="all").rename(columns=_HEADS)
    print(shown.to_string(index=False, na_rep="", float_format=lambda value: f"{value:.4g}"))
    legend = ["error: standard deviation of a count (root mean square over all of the level)."]
    if "no levels" in shown:
        legend.append(
            "no levels: the error of sums of cells if the cells had all of eps. Where error is not "
            "less than this, give the level share 0."
        )
    print_wrapped(
        f"{' '.join(legend)} ±: largest half-width of its 95 % interval. 10 %, 25 %: counts from "
        "which the interval is within that. not 0: smallest count whose interval excludes 0. No "
        "record was read and nothing was charged: errors follow from the noise alone."
    )
    if arguments.at_least is not None:
        print_wrapped(advice(table, arguments.at_least))
    if arguments.output is not None:
        draw(table, Path(arguments.output), arguments.at_least)
