"""Compute the rows that each command prints, mostly by a function of `shuffledp.queries`."""

import re
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from shuffledp import queries
from shuffledp.accounting.accountant import CERTIFIED
from shuffledp.accounting.registry import BOUNDS
from shuffledp.accounting.setting import Setting
from shuffledp.cli.output import Row, print_wrapped
from shuffledp.errors import InputError
from shuffledp.mechanisms.catalogue import CATALOGUE
from shuffledp.numerics.arrays import Floats

# Options on rounds and participation, which are fields of a `Setting`.
_PARTICIPATION: Final = ("rounds", "sampling_rate", "colluding", "response_rate")
_SETTING: Final = ("n", "k", "eps0", *_PARTICIPATION, "count", "dummies")


def _hyphened(match: re.Match[str]) -> str:
    return "--" + match[1].replace("_", "-") + " " * match[0].endswith("=")


# Keys of the configuration in error messages, and the options of `publish` that replace them.
_PUBLISH_OPTIONS: Final = (
    (r"regions\.map\.", ""),
    (r"columns\.(latitude|longitude|time|user|place)\b", r"--\1"),
    (r"`separator: ([^`]*)`", r"--separator \1"),
    (r"(separator|decimal|quoting|crs)(?= must|, got| to)", r"--\1"),
    (r"(decimal|quoting): (\S+)", r"--\1 \2"),
    (r", which YAML writes", ", written"),
    (r"(max_malformed_share|user_type|time_format|time_zone)\b[:=]?", _hyphened),
    (r"period\.(from|to)\b", r"--\1"),
    (r"outline: ", "--outline "),
    (r"box\.(south|north|west|east)\b", r"the \1 of --box"),
)


def _options(arguments: Namespace, names: Iterable[str]) -> dict[str, Any]:
    return {name: value for name, value in vars(arguments).items() if name in names}


def _setting(arguments: Namespace, **overrides: Any) -> Setting:
    """Return the setting that the options describe, with `overrides` in place of some of them."""
    return Setting(**_options(arguments, _SETTING) | overrides)


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
    mechanism = queries.mechanism(name, parameters)
    return _setting(arguments, eps0=float("inf"), mechanism=mechanism)


def _as_typed(arguments: Namespace, rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows with the parameters of a mechanism as the user typed them."""
    for row in rows:
        yield row | ({"parameters": arguments.parameters} if "parameters" in row else {})


def _delta_rows(arguments: Namespace) -> Iterable[Row]:
    setting = _collection(arguments)
    for bound in arguments.bound:
        deltas = queries.log_delta(arguments.eps, setting, bound=bound)
        yield from _as_typed(arguments, deltas.rows())


def _epsilon_rows(arguments: Namespace) -> Iterable[Row]:
    setting = _collection(arguments)
    for bound in arguments.bound:
        epsilons = queries.epsilon(arguments.delta, setting, bound=bound)
        yield from _as_typed(arguments, epsilons.rows())


def _require_one(arguments: Namespace) -> None:
    if (arguments.eps is None) == (arguments.delta is None):
        raise InputError("give exactly one of --eps and --delta")


def _rounds_rows(arguments: Namespace) -> Iterable[Row]:
    from shuffledp.input_files import read_rounds

    _require_one(arguments)
    settings = read_rounds(arguments.file)
    try:
        if arguments.eps is not None:
            return queries.log_delta(arguments.eps, settings).rows()
        return queries.epsilon(arguments.delta, settings).rows()
    except InputError as error:
        raise InputError(f"{arguments.file}: {error}") from None


def _calibrate_rows(arguments: Namespace) -> Iterable[Row]:
    setting = _setting(arguments)
    for delta in arguments.delta:
        yield from queries.calibrate(arguments.eps, delta, setting).rows()


def _bounds_rows(arguments: Namespace) -> Iterable[Row]:
    for row in queries.bounds(arguments.delta, _setting(arguments)).rows():
        if arguments.format == "table":  # a table has no room for sources
            del row["source"]
        yield row


def _plan_rows(arguments: Namespace) -> Iterable[Row]:
    names = ("n", "k", "eps0", "eps", "delta", *_PARTICIPATION)
    mechanisms = arguments.mechanism or queries.PLANNED
    return queries.plan(mechanisms=mechanisms, **_options(arguments, names)).rows()


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


def _compare_rows(arguments: Namespace) -> Iterable[Row]:
    n, k, shares = _histogram(arguments)
    comparisons = queries.compare_one_by_one(
        arguments.eps,
        arguments.delta,
        _setting(arguments, n=n, k=k),
        arguments.mechanism,
        shares,
        histogram=arguments.histogram,
        max_seconds=arguments.max_seconds,
        **_options(arguments, ("hidden_slot", "slots", "share")),
    )
    for comparison in comparisons:
        yield from comparison.rows()


def _matrix_rows(arguments: Namespace) -> Iterable[Row]:
    from shuffledp.input_files import read_matrix, read_pairs, read_places

    _require_one(arguments)
    rows = read_matrix(arguments.file)
    pairs, places = arguments.pairs, arguments.places
    options = _options(arguments, ("n", "eps", "delta", "distance", "hidden_slot", *_PARTICIPATION))
    try:
        result = queries.matrix(
            rows,
            pairs=None if pairs is None else read_pairs(pairs),
            places=None if places is None else read_places(places),
            **options,
        )
    except InputError as error:
        raise InputError(f"{arguments.file}: {error}") from None
    for row in result.rows():
        neighbours = row["neighbours"].replace("of its pairs", f"of its pairs in {pairs}")
        yield row | {"neighbours": neighbours}


def _personalised_rows(arguments: Namespace) -> Iterable[Row]:
    from shuffledp.input_files import read_budgets

    budgets = read_budgets(arguments.budgets)
    names = ("mechanism", "k", "rounds")
    return queries.personal_budgets(arguments.delta, budgets, **_options(arguments, names)).rows()


def _rdp_rows(arguments: Namespace) -> Iterable[Row]:
    setting = _setting(arguments, k=2)  # the bounds hold for any number of cells
    for bound in arguments.bound:
        yield from queries.rdp(arguments.order, setting, bound=bound).rows()


def _fdp_rows(arguments: Namespace) -> Iterable[Row]:
    for bound in arguments.bound:
        yield from queries.fdp(arguments.alpha, _setting(arguments), bound=bound).rows()


def _list_rows(arguments: Namespace) -> Iterable[Row]:
    del arguments
    for bound in BOUNDS.values():
        names = ("name", "kind", "guarantee", "source", "about")
        yield {name: getattr(bound, name) for name in names}
    for entry in CATALOGUE.values():
        yield {
            "name": entry.name,
            "kind": "mechanism",
            "guarantee": None,
            "source": entry.source,
            "about": entry.trust,
        }


def _ledger_rows(arguments: Namespace) -> Iterable[Row]:
    from shuffledp.publishing.ledger import read_ledger

    return read_ledger(Path(arguments.file)).rows()


_ROWS: Final[dict[str, Callable[[Namespace], Iterable[Row]]]] = {
    "delta": _delta_rows,
    "epsilon": _epsilon_rows,
    "calibrate": _calibrate_rows,
    "bounds": _bounds_rows,
    "plan": _plan_rows,
    "compare": _compare_rows,
    "matrix": _matrix_rows,
    "personalised": _personalised_rows,
    "rounds": _rounds_rows,
    "rdp": _rdp_rows,
    "fdp": _fdp_rows,
    "ledger": _ledger_rows,
    "verify": lambda arguments: queries.verify(arguments.files).rows(),
    "list": _list_rows,
}


def answer(arguments: Namespace) -> Iterator[Row]:
    """Yield the rows of a parsed command, at least one, as they are computed."""
    yield from _ROWS[arguments.command](arguments)


def certify(arguments: Namespace) -> None:
    """Write a certificate to a file, or print it."""
    setting = _setting_to_certify(arguments)
    certificate = queries.certify(arguments.eps, setting, view=arguments.view)
    if arguments.output is None:
        print(certificate.text, end="")
    else:
        certificate.write(Path(arguments.output))


def publish(arguments: Namespace) -> None:
    """Publish a map, and print what it promises and what is left in the ledger."""
    from shuffledp.publishing.publication import publish as publish_map

    first, last = arguments.first_day, arguments.last_day
    if (first is None) != (last is None):
        raise InputError("give both --from and --to, the first and the last day that count")
    passed_otherwise = ("command", "version", "file", "output", "first_day", "last_day")
    options = set(vars(arguments)).difference(passed_otherwise)
    try:
        published = publish_map(
            arguments.file,
            arguments.output,
            period=None if first is None else (first, last),
            **_options(arguments, options),
        )
    except InputError as error:
        message = str(error)
        for key, option in _PUBLISH_OPTIONS:
            # Do not replace a key that is part of a path.
            message = re.sub(rf"(?<![\w./-]){key}", option, message)
        raise InputError(message) from error
    print_wrapped(published.in_words())


def _setting_to_certify(arguments: Namespace) -> Setting:
    dummies, name = arguments.dummies, arguments.mechanism
    if [arguments.eps0, dummies, name].count(None) != 2:
        raise InputError("give exactly one of --eps0, --dummies and --mechanism")
    if (name is None) != (arguments.parameters is None):
        raise InputError("give --parameters with --mechanism, and only with it")
    if dummies is None and arguments.chances is not None:
        raise InputError("--chances is for --dummies only")
    sizes = _options(arguments, ("n", "k", "rounds"))
    if arguments.eps0 is not None:
        return Setting(eps0=arguments.eps0, **sizes)
    if name is not None:
        return Setting(mechanism=queries.mechanism(name, arguments.parameters), **sizes)
    if not 0.0 < dummies < np.inf:
        raise InputError(f"dummies must be positive and finite, got {dummies}")
    chances = int(np.ceil(dummies)) if arguments.chances is None else arguments.chances
    mechanism = queries.mechanism("user-dummies", dummies=dummies, chances=chances)
    return Setting(mechanism=mechanism, **sizes)
