"""The ``shuffledp-collect`` command: the roles of a collection. It prints CSV."""

import argparse
import csv
import math
import os
import secrets
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import numpy as np
import shapely
from shuffledp.accounting.conventions import log_of_delta
from shuffledp.errors import InputError
from shuffledp.geography.regions import read_shapes
from shuffledp.mechanisms.catalogue import CATALOGUE, VIEWS
from shuffledp.pipeline.files import file_sha256, replacing
from tqdm import tqdm

from shuffledp_collect.analyst import Opened, open_batch, read_opened
from shuffledp_collect.batch import close_round
from shuffledp_collect.campaign import Campaign, make_campaign, read_campaign
from shuffledp_collect.device import Device, read_ticket
from shuffledp_collect.estimate import estimate_cells, estimate_regions, projected
from shuffledp_collect.laws import COLLECTED
from shuffledp_collect.messages import token, token_hash
from shuffledp_collect.mixer import Store, make_store
from shuffledp_collect.participant import write_participant_folder

Row = Mapping[str, Any]
Run = Callable[[Namespace], Iterator[Row]]

# Names in the folder of a campaign.
CAMPAIGN: Final = "campaign.json"
CELLS: Final = "cells.geojson"
BASEMAP: Final = "basemap.geojson"
TICKETS: Final = "issuer/tickets.txt"
TOKENS: Final = "mixer/tokens-{}.txt"
KEY: Final = "analyst/round-{}.key"
# Tickets and tokens are made in memory.
_MAX_PEOPLE, _MAX_ROUNDS = 10_000_000, 1_000
_MAX_TICKET_BYTES: Final = 1000


def _plan(options: Namespace) -> Iterator[Row]:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    folder, cells = options.output, options.cells
    if folder.exists():
        raise InputError(f"{folder} already exists")
    people = options.people or 2 * options.at_least
    if not 1 <= people <= _MAX_PEOPLE or not 1 <= options.rounds <= _MAX_ROUNDS:
        raise InputError(
            f"a campaign has 1 to {_MAX_PEOPLE:,} people and 1 to {_MAX_ROUNDS:,} rounds, got "
            f"people={people:,} and rounds={options.rounds:,}"
        )
    polygons = _polygons(cells)
    around = None
    if options.basemap is not None:
        from shuffledp.figures.basemap import backdrop
        from shuffledp.page.maps import surroundings

        around = surroundings(backdrop(options.basemap), shapely.total_bounds(polygons))
    keys = [X25519PrivateKey.generate() for _ in range(options.rounds)]
    campaign = make_campaign(
        options.title,
        options.question,
        len(polygons),
        file_sha256(cells),
        [key.public_key().public_bytes_raw() for key in keys],
        options.address,
        eps=options.eps,
        delta=options.delta,
        at_least=options.at_least,
        people=people,
        mechanism=options.mechanism,
        colluding=options.colluding,
        slots=options.slots,
    )
    tickets = [secrets.token_bytes(16) for _ in range(people)]
    with replacing(folder) as made:
        made.mkdir()
        (made / CAMPAIGN).write_bytes(campaign.text)
        (made / CELLS).write_bytes(cells.read_bytes())
        write_participant_folder(made / "participant", campaign, made / CELLS, around)
        if options.basemap is not None:
            (made / BASEMAP).write_bytes(options.basemap.read_bytes())
        _write_secret(made / TICKETS, (f"{campaign.name}.{each.hex()}" for each in tickets))
        bar = tqdm(keys, "tokens of rounds", delay=2.0, leave=False, disable=None)
        for number, key in enumerate(bar, start=1):
            # Sorted by hash, so that the order does not link tokens to tickets.
            hashes = sorted(token_hash(token(campaign, number, each)).hex() for each in tickets)
            _write_secret(made / TOKENS.format(number), hashes)
            _write_secret(made / KEY.format(number), [key.private_bytes_raw().hex()])
    yield from _promise_rows(campaign, [campaign.at_least] * len(keys))


def _write_secret(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(exist_ok=True, mode=0o700)
    path.touch(0o600)
    with path.open("w", encoding="ascii") as stream:
        stream.writelines(f"{line}\n" for line in lines)


def _polygons(path: Path) -> list[Any]:
    shapes = [shape.geometry for shape in read_shapes(path, "cells")]
    for number, each in enumerate(shapes):
        if each.geom_type not in ("Polygon", "MultiPolygon") or not each.is_valid:
            raise InputError(f"cells: {path}: shape {number} is not a valid polygon")
    return shapes


def _promise_rows(campaign: Campaign, respondents: Sequence[int]) -> Iterator[Row]:
    """Yield the certified eps of each view with these respondents in the rounds."""
    views, rounds = campaign.views(respondents), len(respondents)
    for view in VIEWS:
        eps = views[view].epsilon(log_of_delta(campaign.delta)).promised
        yield {
            "view": view,
            "eps": None if eps == np.inf else eps,
            "delta": campaign.delta,
            "sees": CATALOGUE[campaign.mechanism].disclosed.get(view, "what eps and delta allow"),
            "respondents": min(respondents),
            "rounds": rounds,
            "mechanism": campaign.mechanism,
            "campaign": campaign.name,
            "neighbours": "replacement",
            "unit": "one record" if rounds == 1 else f"all {rounds} records of one respondent",
        }


def _check(options: Namespace) -> Iterator[Row]:
    campaign = read_campaign(options.campaign)
    opened = [read_opened(path, campaign) for path in options.counts]
    if len({each.number for each in opened}) < len(opened):
        raise InputError("two of the counts belong to the same round")
    came = [each.respondents for each in opened] or [campaign.at_least] * len(campaign.rounds)
    yield from _promise_rows(campaign, came)


def _report(options: Namespace) -> Iterator[Row]:
    campaign, device = read_campaign(options.campaign), Device(options.folder)
    try:
        with options.ticket.open(encoding="ascii") as stream:
            ticket = read_ticket(stream.read(_MAX_TICKET_BYTES), campaign)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"ticket {options.ticket} cannot be read ({error})") from error
    cell = options.cell
    if options.point is not None:
        cell = _cell_of(options.campaign.with_name(CELLS), campaign, options.point)
    if cell is not None:
        device.report(campaign, options.round, ticket, cell)
    device.send(campaign, options.round)
    yield {
        "round": options.round,
        "rounds_of_campaign": device.took_part(campaign),
        "of": len(campaign.rounds),
        "rounds_of_all_campaigns": device.took_part(),
        "answer": "counted",
    }


def _cell_of(cells: Path, campaign: Campaign, point: tuple[float, float]) -> int:
    if file_sha256(cells) != campaign.cells_sha256:
        raise InputError(f"{cells} does not have the cells of the campaign")
    containing = np.flatnonzero(shapely.intersects_xy(_polygons(cells), *point))
    if not containing.size:
        raise InputError(f"no cell contains the point {point[0]:g}, {point[1]:g}")
    return int(containing[0])


def _new_store(options: Namespace) -> Iterator[Row]:
    campaign = read_campaign(options.campaign)
    try:
        with options.tokens.open(encoding="ascii") as stream:
            hashes = [bytes.fromhex(line) for line in stream]
    except (OSError, ValueError) as error:
        raise InputError(
            f"{options.tokens} cannot be read: expected the hash of a token in each line"
        ) from error
    if any(len(each) != 32 for each in hashes) or len(set(hashes)) < len(hashes):
        raise InputError(f"{options.tokens} must have different hashes of 64 hexadecimal digits")
    make_store(options.store, campaign, options.round, hashes)
    yield {
        "store": options.store,
        "campaign": campaign.name,
        "round": options.round,
        "tokens": len(hashes),
    }


def _serve(options: Namespace) -> Iterator[Row]:
    from shuffledp_collect.server import serve

    def say(address: str) -> None:
        print(f"{address} takes envelopes; stop with Ctrl-C", flush=True)

    serve(options.store, options.port, say)
    yield from ()


def _close(options: Namespace) -> Iterator[Row]:
    with closing(Store(options.store)) as store:
        batch = close_round(store, options.output)
    yield {
        "batch": options.output,
        "round": batch.number,
        "respondents": batch.respondents,
        "messages": batch.messages,
        "sha256": file_sha256(options.output),
    }


def _open(options: Namespace) -> Iterator[Row]:
    opened = open_batch(
        read_campaign(options.campaign),
        options.batch,
        options.key,
        options.output,
        options.workers,
        options.sha256,
    )
    yield {
        "counts": options.output,
        "round": opened.number,
        "respondents": opened.respondents,
        "foreign": opened.foreign,
        "repeated": opened.repeated,
        "out_of_range": opened.out_of_range,
    }


def _estimate(options: Namespace) -> Iterator[Row]:
    campaign = read_campaign(options.campaign)
    opened = read_opened(options.counts, campaign)
    regions = None if options.regions is None else _read_regions(options.regions)
    if options.map is not None:
        _draw(options, campaign, opened)
    if options.page is not None:
        _write_page(options, campaign, opened, regions)
    if regions is None:
        cells = estimate_cells(campaign, opened)
        names: Sequence[Any] = range(campaign.cells)
        columns = vars(cells) | {"projected": projected(cells, opened.respondents)}
    else:
        names, columns = [*regions], vars(estimate_regions(campaign, opened, regions))
    for i, name in enumerate(names):
        row = {"cell" if regions is None else "region": name}
        yield row | {column: float(values[i]) for column, values in columns.items()}


def _read_regions(path: Path) -> dict[str, list[int]]:
    regions = dict[str, list[int]]()
    try:
        with path.open(newline="", encoding="utf-8") as stream:
            for row in csv.DictReader(stream):
                regions.setdefault(str(row["region"]), []).append(int(row["cell"]))
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        raise InputError(f"{path} must be a CSV file with columns region and cell") from error
    if not regions:
        raise InputError(f"{path} names no region")
    return regions


def _draw(options: Namespace, campaign: Campaign, opened: Opened) -> None:
    from shuffledp_collect.map_figure import draw_collected

    if options.map.suffix not in (".png", ".svg", ".pdf"):
        raise InputError(f"a map is a png, svg or pdf file, got {options.map}")
    cells, basemap = options.campaign.with_name(CELLS), _beside(options.campaign, BASEMAP)
    figure = draw_collected(campaign, opened, cells, basemap=basemap)
    with replacing(options.map) as path:
        figure.savefig(path)


def _write_page(
    options: Namespace, campaign: Campaign, opened: Opened, regions: dict[str, list[int]] | None
) -> None:
    from shuffledp_collect.round_page import render_round, round_data

    if options.page.suffix != ".html":
        raise InputError(f"a page is an html file, got {options.page}")
    cells, basemap = _beside(options.campaign, CELLS), _beside(options.campaign, BASEMAP)
    text = render_round(round_data(campaign, opened, cells, basemap, regions))
    with replacing(options.page) as path:
        path.write_text(text, encoding="utf-8", newline="\n")


def _beside(campaign: Path, name: str) -> Path | None:
    path = campaign.with_name(name)
    return path if path.is_file() else None


def _input_file(text: str) -> Path:
    path = Path(text)
    if path.exists() and not path.is_file():  # a pipe may have no end
        raise argparse.ArgumentTypeError(f"{path} is not a regular file")
    return path


def _positive(text: str) -> float:
    number = float(text)
    if not 0.0 < number < math.inf:
        raise ValueError
    return number


_INPUT: Final[Mapping[str, Any]] = {"type": _input_file, "metavar": "FILE"}
_OUTPUT: Final[Mapping[str, Any]] = {"type": Path, "metavar": "FILE"}
_NUMBER: Final[Mapping[str, Any]] = {"type": int, "metavar": "NUMBER"}

_ROUND: Final[Mapping[str, Any]] = {
    "type": int,
    "default": 1,
    "help": "number of the round, from 1 (default 1)",
}


def _parse(words: Sequence[str] | None) -> Namespace:
    parser = argparse.ArgumentParser(prog="shuffledp-collect", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for add_commands in (_add_campaign, _add_report, _add_mixer, _add_analyst):
        add_commands(commands)
    options = parser.parse_args(words)
    if getattr(options, "point", None) is not None and options.cell is not None:
        parser.error("give one of --cell and --point")
    return options


def _group(commands: Any, name: str) -> Any:
    group = commands.add_parser(name, help=f"{name} ...")
    return group.add_subparsers(required=True, metavar="COMMAND")


def _command(commands: Any, name: str, run: Run, about: str) -> Callable[..., Any]:
    """Add a command; return the function that adds its arguments."""
    command = commands.add_parser(name, help=about, description=about)
    command.set_defaults(run=run)
    add: Callable[..., Any] = command.add_argument
    return add


def _add_campaign(commands: Any) -> None:
    campaigns = _group(commands, "campaign")
    about = (
        "plan a collection: write the public campaign, the participants' folder, tickets for the "
        "issuer, tokens for the mixer and a key per round for the analyst; print the eps of each "
        "view"
    )
    add = _command(campaigns, "new", _plan, about)
    add("--cells", **_INPUT, required=True, help="GeoJSON, one polygon per cell")
    add("--eps", type=_positive, required=True, help="budget of all rounds together")
    add("--delta", type=_positive, required=True, help="delta of all rounds")
    fewest = "fewest respondents of a round, colluders included"
    add("--at-least", **_NUMBER, required=True, help=fewest)
    add("--colluding", **_NUMBER, default=0, help="colluding respondents (default 0)")
    add("--people", **_NUMBER, help="tickets (default: twice --at-least)")
    add("--rounds", **_NUMBER, default=1, help="number of rounds (default 1)")
    add("--mechanism", choices=COLLECTED, default=COLLECTED[0])
    add("--slots", **_NUMBER, help="messages of an envelope, for signed dummies")
    add("--basemap", **_INPUT, help="GeoJSON of districts, water and rivers")
    add("--title", default="Where people are", help="title shown to people")
    add("--question", default="Where are you now?", help="question to people")
    mixer = "the mixer's address (default http://127.0.0.1:8000)"
    add("--address", default="http://127.0.0.1:8000", metavar="URL", help=mixer)
    add("--output", type=Path, required=True, metavar="FOLDER", help="new folder")

    about = "derive tables and promise of a campaign again; print the eps of each view"
    add = _command(campaigns, "check", _check, about)
    add("campaign", **_INPUT)
    opened = "opened rounds: print the eps with their respondents"
    add("--counts", **_INPUT, nargs="+", default=[], help=opened)


def _add_report(commands: Any) -> None:
    about = "take part in a round; without --cell and --point, send a waiting report again"
    add = _command(commands, "report", _report, about)
    add("--campaign", **_INPUT, required=True)
    add("--ticket", **_INPUT, required=True, help="a line NAME.TICKET")
    add("--round", **_ROUND)
    add("--cell", **_NUMBER, help="the record, from 0")
    add(
        "--point",
        nargs=2,
        type=float,
        metavar=("LONGITUDE", "LATITUDE"),
        help="instead of --cell, a point; cells.geojson must be beside the campaign",
    )
    device = "state of this device (default: device)"
    add("--folder", type=Path, default=Path("device"), help=device)


def _add_mixer(commands: Any) -> None:
    mixer = _group(commands, "mixer")
    add = _command(mixer, "new", _new_store, "make the mixer's store of a round")
    add("store", **_OUTPUT)
    add("--campaign", **_INPUT, required=True)
    add("--round", **_ROUND)
    add("--tokens", **_INPUT, required=True)

    about = "take envelopes on the loopback interface, behind a proxy that terminates TLS"
    add = _command(mixer, "serve", _serve, about)
    add("store", **_INPUT, nargs="+")
    add("--port", type=int, default=8000, help="port (default 8000; 0: a free one)")

    about = "close a round: add dummies, write the sorted messages, then delete them"
    add = _command(mixer, "close", _close, about)
    add("store", **_INPUT)
    add("--output", **_OUTPUT, required=True, help="the batch")


def _add_analyst(commands: Any) -> None:
    about = "open a batch, add the analyst's noise, write the counts and destroy the round's key"
    add = _command(commands, "open", _open, about)
    add("batch", **_INPUT)
    add("--campaign", **_INPUT, required=True)
    add("--key", **_INPUT, required=True, help="private key of the round")
    add("--output", **_OUTPUT, required=True, help="the counts")
    add("--sha256", metavar="HEX", help="checksum that the mixer told by telephone")
    add("--workers", **_NUMBER, help="processes (default: one per core)")

    about = (
        "estimate the respondents in each cell or region, with 95 %% intervals of each alone (low, "
        "high) and of all together (low_all, high_all)"
    )
    add = _command(commands, "estimate", _estimate, about)
    add("counts", **_INPUT)
    add("--campaign", **_INPUT, required=True)
    add("--regions", **_INPUT, help="CSV with columns region and cell")
    add("--map", **_OUTPUT, help="draw a map (png, svg or pdf)")
    add("--page", **_OUTPUT, help="write a self-contained page (html)")


def main(words: Sequence[str] | None = None) -> int:
    """Run the command; the exit status is 0, or 2 if an argument or a file cannot be used."""
    options = _parse(words)
    try:
        rows = list(options.run(options))
    except ModuleNotFoundError as error:
        extra = "pip install 'shuffledp-collect[maps]'"
        print(f"shuffledp-collect: maps and pages need {error.name}: {extra}", file=sys.stderr)
        return 2
    except (InputError, OSError) as error:
        message = " ".join(str(error).split())
        print(f"shuffledp-collect: {message[:1000]}", file=sys.stderr)
        return 2
    try:
        if rows:  # the server has none
            writer = csv.DictWriter(sys.stdout, [*rows[0]], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
