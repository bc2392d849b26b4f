"""The parser of the command line. Imports no third-party library, so that --help is fast."""

import argparse
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

from shuffledp.data.sources import CLOCKS, LENGTHS, PROFILES, QUOTING, USER_TYPES
from shuffledp.errors import InputError, shortened
from shuffledp.mechanisms.catalogue import CATALOGUE, VIEWS
from shuffledp.numerics import number_parsing
from shuffledp.version import find_version

# Options of a command by their names, and the arguments of `add_argument` for each.
Options = dict[str, dict[str, Any]]


def _type(parse: Callable[[str], Any], kind: str) -> Callable[[str], Any]:
    """Return a function that parses an argument; its error is "TEXT is not KIND"."""

    def parsed(text: str) -> Any:
        try:
            return parse(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{shortened(text)} is not {kind}") from None

    return parsed


_WHOLE: Final = _type(number_parsing.whole, "a whole number")
_REAL: Final = _type(number_parsing.number, "a number")
_EXACT: Final = _type(number_parsing.exact, "a number")


def _separator(text: str) -> str:
    r"""Parse a separator; a tab may be written as \t."""
    return "\t" if text == "\\t" else text


def _option(description: str, parse: Callable[[str], Any] | None = None, **more: Any) -> Any:
    return {"help": description} | ({"type": parse} if parse else {}) | more


def _flag(description: str) -> Any:
    return _option(description, action="store_true")


def _column(description: str) -> Any:
    """Return an option whose value is a column: its position from 0 if a number, else its name."""

    def parse(text: str) -> str | int:
        return int(text) if text.isascii() and text.isdigit() else text

    return _option(description, parse, metavar="COLUMN")


def _required(options: Options) -> Options:
    return {name: details | {"required": True} for name, details in options.items()}


# Options of several commands.
_SHARED: Final[Options] = {
    "--n": _option("number of users", _WHOLE),
    "--k": _option("number of cells", _WHOLE),
    "--eps0": _option("local budget of one report", _REAL),
    "--eps": _option("eps of the guarantee", _REAL),
    "--delta": _option("target delta", _EXACT),
    "--rounds": _option(
        "number of rounds in which the same users report; eps and delta are those of all rounds "
        "together (default 1)",
        _WHOLE,
        default=1,
    ),
    "--sampling-rate": _option(
        "probability with which each user takes part in a round, independently of other rounds "
        "(default 1); see docs/rounds.md",
        _REAL,
        default=1.0,
    ),
    "--colluding": _option(
        "number of the n users who reveal their messages to the analyst or send arbitrary ones; "
        "the guarantee counts on the others only (default 0)",
        _WHOLE,
        default=0,
    ),
    "--response-rate": _option(
        "probability with which each user responds, independently of the others and of the data; "
        "delta is for a user who responds (default 1). If responding depends on the data, give the "
        "smallest possible number of respondents as n",
        _REAL,
        default=1.0,
    ),
    "--count": _option("number of other users in the target's cell (single-bin bounds)", _WHOLE),
    "--bound": _option(
        "bounds to evaluate: 'certified' (default) or names of 'shuffledp list'",
        nargs="+",
        default=["certified"],
        metavar="NAME",
    ),
    "--hidden-slot": _flag(
        "also use the hidden-slot bound, usually tighter, for local randomisers; nobody outside "
        "this project has reviewed its proof (docs/hidden-slot.md)"
    ),
    "--mechanism": _option(
        "a mechanism listed by 'shuffledp list', instead of k-RR with --eps0; 'delta' and "
        "'epsilon' then print a column for each view, as 'compare' does",
        metavar="NAME",
    ),
    "--parameters": _option(
        "parameters of the mechanism in each round, as 'compare' prints them",
        metavar="NAME=VALUE,...",
    ),
}
_SEVERAL_EPS: Final[Options] = {"--eps": _option("values of eps", _REAL, nargs="+")}
_SEVERAL_DELTAS: Final[Options] = {"--delta": _option("target deltas", _EXACT, nargs="+")}
_RESPONSE: Final = ("--colluding", "--response-rate")
_ROUNDS: Final = ("--rounds", "--sampling-rate", *_RESPONSE)


def _shared(*names: str, required: bool = False) -> Options:
    return {name: _SHARED[name] | ({"required": True} if required else {}) for name in names}


# Options of `delta` and `epsilon`.
_COLLECTION: Final = (
    _shared("--n", "--k", required=True)
    | _shared("--eps0", "--mechanism", "--parameters", *_ROUNDS)
    | {
        "--dummies": _option(
            "mean number of uniform reports that each user sends besides the k-RR report "
            "(default 0)",
            _REAL,
            default=0.0,
        )
    }
    | _shared("--count", "--bound")
)


def _mechanisms(description: str) -> Options:
    return {"--mechanism": _option(description, nargs="+", action="extend", metavar="NAME")}


def _file(description: str, metavar: str = "FILE", **more: Any) -> Any:
    return _option(description, metavar=metavar, **more)


PUBLISH: Final[Options] = {
    "file": _option(
        "records: text (plain or compressed), JSON lines, Parquet, a folder of such files, or "
        "points in a geographic format (docs/data.md lists all); or counts: columns 'cell' (the "
        "cell's id) and 'count'; left out for --preview",
        nargs="?",
        metavar="FILE",
    ),
    "--latitude": _column("column of latitudes: its name, or its position from 0"),
    "--longitude": _column("column of longitudes"),
    "--place": _column("column with the id of each record's cell, instead of coordinates"),
    "--to-latitude": _column(
        "column of the latitudes where trips end; trips are counted for each pair of cells"
    ),
    "--to-longitude": _column("column of the longitudes where trips end"),
    "--to-place": _column(
        "column with the id of the cell where each trip ends, instead of coordinates"
    ),
    "--user": _column("column of users (for --unit user)"),
    "--time": _column("column of times (for --from)"),
    "--time-format": _option(
        "format of the times: unix, unix-ms, unix-us or unix-ns (seconds or their parts since "
        "1970), or for example '%%d/%%m/%%Y %%H:%%M' (default ISO 8601)",
        metavar="FORMAT",
    ),
    "--separator": _option(
        r"column separator of text files (default a comma; \t for a tab)", _separator, default=","
    ),
    "--decimal": _option(
        "decimal mark of numbers in text files (default a point)", choices=[".", ","], default="."
    ),
    "--quoting": _option(
        "how text files quote fields: strict (default): as RFC 4180 says, but a file in which a "
        "field with line breaks may hide records is refused; rfc4180: without that check; none: "
        "quotation marks are ordinary characters, and a line is a record",
        choices=QUOTING,
        default=QUOTING[0],
    ),
    "--crs": _option(
        "reference system of the coordinates (default degrees in WGS 84); the latitude is then the "
        "northing",
        metavar="EPSG:CODE",
    ),
    "--user-type": _option(
        "number (default): 7, 007 and 7.0 are one user; text: they are three",
        choices=USER_TYPES,
        default=USER_TYPES[0],
    ),
    "--max-malformed-share": _option(
        "largest share of malformed records, which do not count, that is accepted (default 0.01)",
        _REAL,
        default=0.01,
        metavar="SHARE",
    ),
    "--cells": _option(
        "h3:8, metres:250, shape:20x30 or step:0.01x0.02 (degrees), or a file of polygons, or of "
        "points for --place, such as stops.txt of GTFS (--preview: repeatable)",
        action="append",
        required=True,
    ),
    "--cell-name": _option("property that holds the cell's name", metavar="PROPERTY"),
    "--cell-id": _option("property that holds the cell's id", metavar="PROPERTY"),
    "--elsewhere": _flag(
        "add a cell 'elsewhere' for records that lie in no other cell, or whose --place is empty "
        "or not the id of a cell"
    ),
    "--level": _option(
        "also count coarser areas or longer times, with a share of the budget (repeatable): total, "
        "a property of the polygons or points, h3:6, metres:4000, or day, week, month, quarter, "
        "year or period; for example --level total:0.05 or --level h3:6:0.1",
        action="append",
        metavar="NAME:SHARE",
    ),
    "--levels": _option(
        "auto: the shares are chosen, and --level gives the wanted standard deviation of a count "
        "instead, also of cells and of windows: --level total:20 --level cells:5",
        choices=["auto"],
    ),
    "--box": _option(
        "region of the cells in degrees", _REAL, nargs=4, metavar=("SOUTH", "NORTH", "WEST", "EAST")
    ),
    "--outline": _file("region of the cells as GeoJSON"),
    "--from": _option("first day that counts", dest="first_day", metavar="DAY"),
    "--to": _option("last day that counts", dest="last_day", metavar="DAY"),
    "--every": _option(
        "make one map for each hour, day, week, month, quarter or year; weeks are counted from the "
        "day of --from (--preview: repeatable)",
        choices=LENGTHS,
        action="append",
    ),
    "--profile": _option(
        "instead of --every, make one map for each hour of the day, day of the week or hour of "
        "the week, over the whole period",
        choices=PROFILES,
    ),
    "--time-zone": _option(
        "time zone of the days, such as Europe/Paris (default UTC)", default="UTC", metavar="NAME"
    ),
    "--times": _option(
        "how to read times without an offset from UTC, such as 2024-03-01 23:30: local (a day "
        "begins at 00:00 as written) or utc",
        choices=CLOCKS,
    ),
    "--unit": _option(
        "what is protected: one record, or all records of one user",
        choices=["record", "user"],
        required=True,
    ),
    "--records-per-user": _option(
        "largest number of records of a user that count, drawn at random (default 1)",
        _WHOLE,
        metavar="M",
    ),
    "--distinct": _flag("count a user at most once in each cell (of each window)"),
    "--per-window": _flag(
        "let M records of a user count in each window instead of the whole period, at the price "
        "of more noise"
    ),
    "--eps": _option(
        "eps for adding or removing a unit (--preview: repeatable)",
        _EXACT,
        action="append",
        required=True,
    ),
    "--delta": _option(
        "if above 0, Gaussian or Laplace noise is used, whichever is less (default 0: Laplace); "
        "with --sparse, it is spent on the threshold",
        _EXACT,
        default=Decimal(0),
    ),
    "--mechanism": _option("noise (default: see --delta)", choices=["laplace", "gaussian"]),
    "--sparse": _flag(
        "publish only counts that, with noise, reach a threshold, which --delta sets: for millions "
        "of cells or pairs of them, nearly all of which are empty"
    ),
    "--ledger": _file("list of all publications about these people, created by the first"),
    "--total": _option(
        "total eps that a new ledger allows (default: that of this publication)",
        _EXACT,
        metavar="EPS",
    ),
    "--total-delta": _option(
        "total delta of thresholds (--sparse) that a new ledger allows (default: that of this "
        "publication)",
        _EXACT,
        metavar="DELTA",
    ),
    "--output": _file(
        "folder to create (--preview: picture to write, or a table if the name ends in .csv)",
        "FOLDER",
    ),
    "--preview": _flag(
        "read no record, charge nothing, and print the errors that the map would have"
    ),
    "--at-least": _option(
        "for --preview: a count that you know from public sources; say for which choices of cells, "
        "levels and windows its interval would be within 25 %% of it",
        _REAL,
        metavar="COUNT",
    ),
    "--title": _option("title of the map", default="A private map"),
    "--again": _flag(
        "pay once more for a map that was published before, because it is lost or the file has "
        "changed"
    ),
}

# The description and the options of each command. The help of all commands shows the description
# up to the first colon, semicolon or bracket.
_COMMANDS: Final[dict[str, tuple[str, Options]]] = {
    "delta": ("enclose delta at given eps", _COLLECTION | _required(_SEVERAL_EPS)),
    "epsilon": ("enclose eps at given delta", _COLLECTION | _required(_SEVERAL_DELTAS)),
    "calibrate": (
        "find the largest eps0 of k-RR whose certified delta at eps meets the target; for another "
        "mechanism, 'shuffledp compare --mechanism NAME --detail' prints its parameters",
        _required(_shared("--n", "--k", "--eps") | _SEVERAL_DELTAS) | _shared(*_ROUNDS),
    ),
    "plan": (
        "compute the one of n, k, eps0, eps, delta that is left out (smallest certified n, k, eps "
        "or delta, largest certified eps0), and predict the error of one round's histogram for "
        "several mechanisms at the same privacy (uniform histogram, unbiased estimates): "
        "cell_sd_users is the standard deviation of a cell's estimated number of users, "
        "tv_distance the total variation distance of the shares",
        _shared("--n", "--k", "--eps0", "--eps", "--delta", *_ROUNDS)
        | _mechanisms("mechanisms whose errors are predicted (default gaussian krr)"),
    ),
    "compare": (
        "compare mechanisms at the same certified privacy: each is calibrated to (eps, delta). "
        "With --detail, and in json or csv, the most accurate mechanism comes first, and the "
        "columns are: all digits of the parameters; the local budget of a user's messages before "
        "they are mixed (local_eps0; empty: unbounded); the eps of four views (eps_...; empty: "
        "unbounded), namely analyst (opens the reports), shuffler (mixes them and reads the map), "
        "public (reads the map) and both servers together; the messages per user; the bytes that a "
        "user uploads, encrypted (bytes_sent); the number of people by which one dishonest user "
        "can change a cell's estimate (moved_by_one); the predicted error of the unbiased estimate "
        "(standard deviation of a cell's estimated number of users, root mean square over the "
        "cells and largest; total variation distance of the shares); and who must be trusted",
        {
            "--n": _option("number of users (default: those of the histogram)", _WHOLE),
            "--k": _option(
                "number of cells (default: those of the histogram; additional cells are empty)",
                _WHOLE,
            ),
            "--histogram": _file(
                "csv or Parquet file with a column 'count', the users of each cell, such as a grid "
                "file of the pipeline (default: equally many users in each cell)"
            ),
            "--detail": _flag("print all columns, and sources"),
        }
        | _shared("--eps", "--delta", required=True)
        | _mechanisms("mechanisms to compare (default: all)")
        | _shared("--hidden-slot", "--rounds", *_RESPONSE),
    ),
    "compare-sparse": (
        "compare ways to count cells of which nearly all are empty: each is calibrated to (eps, "
        "delta) for one round: dummies in all cells or in buckets of cells, sampling with a "
        "threshold, and a curator's threshold. The columns are: the smallest count that is shown "
        "with probability 0.95; the root mean square errors of a cell that has 0, 10, 100 and "
        "1,000 people, where hidden cells count as 0; the messages and the dummies per user; in "
        "json and csv, parameters and who must be trusted as well",
        _shared("--n", "--k", "--eps", "--delta", required=True),
    ),
    "matrix": (
        "enclose delta at given eps, or eps at given delta, for n users of a randomiser given as a "
        "matrix; also print the local budget of one report (local_eps0) and the error of the "
        "least-squares estimate of a uniform histogram (cell_sd_users: largest standard deviation "
        "of the estimated number of users in a cell; empty if rows are linearly dependent)",
        {"file": _file("csv or Parquet, one row of probabilities of reports for each cell")}
        | _shared("--n", required=True)
        | _SEVERAL_EPS
        | _SEVERAL_DELTAS
        | _shared("--hidden-slot", "--rounds", *_RESPONSE),
    ),
    "rounds": (
        "enclose delta at given eps, or eps at given delta, for all rounds of a schedule together; "
        "the rounds may differ (docs/rounds.md)",
        {
            "file": _file(
                "csv or Parquet file with columns n and k; eps0 for k-RR, or mechanism and "
                "parameters as for 'delta'; optionally rounds, the number of such rounds, and note "
                "(ignored)"
            )
        }
        | _SEVERAL_EPS
        | _SEVERAL_DELTAS,
    ),
    "personalised": (
        "compute the eps of users who choose their own budgets: for each group and for all users, "
        "next to published bounds and the eps if all had the largest or the smallest budget "
        "(docs/personalised.md)",
        {
            "--budgets": _file(
                "csv or Parquet file with a column 'eps', the local budget of a user; optionally "
                "'count', the number of users with it, and 'delta', if reports are only (eps, "
                "delta)-LDP, as Gaussian ones are",
                required=True,
            ),
            "--delta": _option("target delta (default 1e-6)", _EXACT, default=Decimal("1e-6")),
            "--mechanism": _option(
                "how users report: k-RR (default), yes or no by randomised response, or a number "
                "in a known range with Laplace or Gaussian noise (output column sigma: standard "
                "deviation of Gaussian noise on a range of length 1)",
                choices=["krr", "binary", "laplace", "gaussian"],
                default="krr",
            ),
            "--k": _option("number of cells (k-RR)", _WHOLE),
        }
        | _shared("--rounds"),
    ),
    "bounds": (
        "list the eps of every applicable bound: guarantees first, each group smallest first "
        "('shuffledp list' and --format csv have the sources)",
        _shared("--n", "--k", "--eps0", required=True)
        | _shared("--rounds", "--count")
        | _shared("--delta", required=True),
    ),
    "rdp": (
        "bound the Renyi DP at given orders, for any randomiser and number of cells",
        _shared("--n", "--eps0", required=True)
        | _shared("--rounds")
        | {
            "--order": _option(
                "orders above 1, up to 1e6 (default 2 4 8 16 32 64); bound renyi needs integers",
                _REAL,
                nargs="+",
                default=[2.0, 4.0, 8.0, 16.0, 32.0, 64.0],
            ),
            "--bound": _option(
                "renyi (default), renyi-simple, or renyi-special-pair (no guarantee)",
                nargs="+",
                default=["renyi"],
                metavar="NAME",
            ),
        },
    ),
    "fdp": (
        "bound the trade-off function (f-DP): the smallest type II error, at type I error alpha, "
        "of any test that tells two records of one user apart by the mixed reports",
        _shared("--n", "--k", "--eps0", required=True)
        | _shared("--rounds", "--bound")
        | {
            "--alpha": _option(
                "type I errors (default 0.001 0.01 0.05 0.1 0.2 0.5)",
                _REAL,
                nargs="+",
                default=[0.001, 0.01, 0.05, 0.1, 0.2, 0.5],
            )
        },
    ),
    "certify": (
        "write a certificate of delta at eps, which 'shuffledp verify' checks: for k-RR (--eps0), "
        "for true reports among users' dummies (--dummies), or for a view of shuffler-dummies or "
        "two-servers (--mechanism)",
        _shared("--n", "--k", "--eps", required=True)
        | _shared("--eps0", "--rounds", "--mechanism", "--parameters")
        | {
            "--dummies": _option(
                "mean number of uniform reports that each user sends besides the true one", _REAL
            ),
            "--chances": _option(
                "number of times a user may add a dummy, each with the same probability (default: "
                "--dummies, rounded up)",
                _WHOLE,
            ),
            "--view": _option(
                "party whose view is certified (default: analyst, who opens the reports)",
                choices=VIEWS,
                default=VIEWS[0],
            ),
            "--output": _file("file to write (default: print it)"),
        },
    ),
    "verify": (
        "check certificates with ball arithmetic, by code independent of the accountant",
        {"files": _file("certificates to check", nargs="+")},
    ),
    "publish": (
        "publish a private map of records: a folder with the map and a statement of its guarantee, "
        "which may be handed to anybody, and a line in a ledger, which stays with you. Cells, "
        "dates and eps are published too: choose them without looking at the records "
        "(docs/publish.md)",
        PUBLISH,
    ),
    "area": (
        "add up the counts of an area of a published map, with an interval, from the published "
        "folder alone: free of charge",
        {
            "map": _file("folder that 'shuffledp publish' wrote", "FOLDER"),
            "--polygon": _file("area as a file of polygons; cells whose middle lies in it count"),
            "--touching": _flag("with --polygon, all cells that it touches count"),
            "--cell": _option("ids of cells, instead of --polygon", nargs="+", metavar="ID"),
            "--to-polygon": _file("of trips: area where they end (--polygon: where they begin)"),
            "--to-cell": _option(
                "ids of cells where trips end, instead of --to-polygon", nargs="+", metavar="ID"
            ),
            "--window": _option(
                "windows to add up (default: each on its own)", nargs="+", metavar="NAME"
            ),
            "--minus": _option("windows to subtract", nargs="+", metavar="NAME"),
        },
    ),
    "restyle": (
        "write a published map again with another title, other names or further pictures, from the "
        "published folder alone: free of charge",
        {
            "map": _file("folder that 'shuffledp publish' wrote", "FOLDER"),
            "--title": _option("new title"),
            "--names": _file("CSV file with columns id and name: new names of cells"),
            "--pictures": _option(
                "svg, pdf or both, in addition to PNG", nargs="+", metavar="FORMAT"
            ),
            "--output": _file("folder to create", "FOLDER", required=True),
        },
    ),
    "page": (
        "write one page over several published maps of the same cells, such as one for each month, "
        "with differences, from the published folders alone: free of charge",
        {
            "maps": _file("folders that 'shuffledp publish' wrote", "FOLDER", nargs="+"),
            "--title": _option("title of the page (default: that of the first map)"),
            "--output": _file("HTML file to create", required=True),
        },
    ),
    "ledger": (
        "show what was published about a population, what it cost and what is left",
        {
            "action": _option("what to do", choices=["show"]),
            "file": _file("ledger that 'shuffledp publish' wrote"),
        },
    ),
    "list": (
        "list bounds and mechanisms: kind, whether each is a guarantee, and source",
        {
            "words": _option(
                "words that a row must contain, such as mechanism or krr", nargs="*", metavar="WORD"
            ),
        },
    ),
    "completion": (
        "print shell code that completes commands and options; add this line to a start-up file: "
        'eval "$(shuffledp completion bash)"',
        {"shell": _option("the shell", choices=["bash", "zsh"])},
    ),
}
# These commands print JSON, a script or sentences, and so have no --format.
_WITHOUT_FORMAT: Final = ("certify", "completion", "page", "publish", "restyle")


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="shuffledp",
        description="Privacy of shuffled k-randomised response: (eps, delta)-DP of the histogram "
        "for the replacement of one record, enclosed between certified bounds.",
        epilog="Only bounds marked as a guarantee in 'shuffledp list' may be promised to users. "
        "'shuffledp COMMAND --help' shows the options of a command.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {find_version()}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (about, options) in _COMMANDS.items():
        summary = about.partition(" (")[0].partition(":")[0].partition(";")[0]
        command = commands.add_parser(name, help=summary, description=about)
        for option, details in options.items():
            command.add_argument(option, **details)
        if name not in _WITHOUT_FORMAT:
            command.add_argument(
                "--format",
                choices=["table", "json", "csv"],
                default="table",
                help="table: rounded, fitted to the terminal (default); json and csv: all digits",
            )
    return parser


def _complete_names(parser: argparse.ArgumentParser) -> None:
    """Let completion know the names of mechanisms and bounds, otherwise checked after parsing."""
    from shuffledp.accounting.accountant import CERTIFIED
    from shuffledp.accounting.bound_registry import BOUNDS

    names = {"mechanism": list(CATALOGUE), "bound": [CERTIFIED, *BOUNDS]}
    names_of_rdp = {"bound": [name for name, bound in BOUNDS.items() if bound.formulas.rdp]}
    for commands in parser._actions:
        if isinstance(commands, argparse._SubParsersAction):
            for word, command in commands.choices.items():
                choices = names_of_rdp if word == "rdp" else names
                for action in command._actions:
                    if action.dest in choices and action.choices is None:
                        action.choices = choices[action.dest]


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse the words of the command line; the command's name is in ``command``.

    Like argparse, exit after printing help, version or completion, and for words that cannot be
    parsed; without words, print the help. Raise `InputError` for completion if shtab is missing.
    """
    parser = _make_parser()
    parsed = parser.parse_args(words or ["--help"])
    if parsed.command == "completion":
        try:
            import shtab
        except ImportError as error:
            raise InputError(
                "completion needs shtab, which is not installed: pip install shtab"
            ) from error
        _complete_names(parser)
        print(shtab.complete(parser, parsed.shell))
        parser.exit()
    return parsed
