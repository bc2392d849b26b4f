"""Commands of a collection from people: campaign, device, mixer, analyst."""

import csv
import secrets
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from shuffledp.cli.output import Row
from shuffledp.cli.words import unit
from shuffledp.errors import InputError
from shuffledp.pipeline.files import file_sha256, replacing

if TYPE_CHECKING:
    from shuffledp.collection.campaign import Campaign

# Names in the folder of a campaign.
CAMPAIGN: Final = "campaign.json"
CELLS: Final = "cells.geojson"
BASEMAP: Final = "basemap.geojson"
TICKETS: Final = "issuer/tickets.txt"
TOKENS: Final = "mixer/tokens-{}.txt"
KEY: Final = "analyst/round-{}.key"
# Tickets and tokens are made in memory.
_MOST_PEOPLE, _MOST_ROUNDS = 10_000_000, 1_000


def _new(arguments: Namespace) -> Iterator[Row]:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from tqdm import tqdm

    from shuffledp.collection.campaign import make_campaign
    from shuffledp.collection.messages import token, token_hash
    from shuffledp.collection.participant import write_participant_folder

    folder, cells = Path(arguments.output), Path(arguments.cells)
    if folder.exists():
        raise InputError(f"{folder} is there already")
    people = arguments.people or 2 * arguments.at_least
    if not 1 <= people <= _MOST_PEOPLE or not 1 <= arguments.rounds <= _MOST_ROUNDS:
        raise InputError(
            f"a campaign has up to {_MOST_PEOPLE:,} people and {_MOST_ROUNDS:,} rounds (got "
            f"{people:,} and {arguments.rounds:,})"
        )
    polygons = _polygons(cells)
    around = {}
    if arguments.basemap is not None:
        from shuffledp.page.maps import read_surroundings

        around = {"around": read_surroundings(Path(arguments.basemap), polygons)}
    keys = [X25519PrivateKey.generate() for _ in range(arguments.rounds)]
    campaign = make_campaign(
        arguments.title,
        arguments.question,
        len(polygons),
        file_sha256(cells),
        [key.public_key().public_bytes_raw() for key in keys],
        arguments.address,
        eps=arguments.eps,
        delta=float(arguments.delta),
        at_least=arguments.at_least,
        people=people,
        mechanism=arguments.mechanism,
        colluding=arguments.colluding,
        slots=arguments.slots,
    )
    tickets = [secrets.token_bytes(16) for _ in range(people)]
    with replacing(folder) as made:
        made.mkdir()
        (made / CAMPAIGN).write_bytes(campaign.text)
        (made / CELLS).write_bytes(cells.read_bytes())
        write_participant_folder(made / "participant", campaign, made / CELLS, **around)
        if arguments.basemap is not None:
            (made / BASEMAP).write_bytes(Path(arguments.basemap).read_bytes())
        _write_secret(made / TICKETS, (f"{campaign.name}.{each.hex()}" for each in tickets))
        bar = tqdm(keys, "tokens of rounds", delay=2.0, leave=False, disable=None)
        for number, key in enumerate(bar, start=1):
            # In the order of the hashes: it says nothing of the tickets.
            hashes = sorted(token_hash(token(campaign, number, each)).hex() for each in tickets)
            _write_secret(made / TOKENS.format(number), hashes)
            _write_secret(made / KEY.format(number), [key.private_bytes_raw().hex()])
    yield from _promise_rows(campaign, [campaign.at_least] * len(keys))


def _write_secret(path: Path, lines: Any) -> None:
    path.parent.mkdir(exist_ok=True, mode=0o700)
    path.touch(0o600)
    with path.open("w", encoding="ascii") as stream:
        stream.writelines(f"{line}\n" for line in lines)


def _polygons(path: Path) -> list[Any]:
    from shuffledp.geography.geojson import read_shapes

    shapes = [shape.geometry for shape in read_shapes(path, "cells")]
    for number, each in enumerate(shapes):
        if each.geom_type not in ("Polygon", "MultiPolygon") or not each.is_valid:
            raise InputError(f"cells: {path}: shape {number} is no valid polygon")
    return shapes


def _promise_rows(campaign: "Campaign", respondents: Sequence[int]) -> Iterator[Row]:
    """What each view has; the eps that is promised where it is what the campaign says."""
    import numpy as np

    from shuffledp.mechanisms.catalogue import CATALOGUE, VIEWS

    views, rounds = campaign.views(respondents), len(respondents)
    seen = CATALOGUE[campaign.mechanism].seen
    for view in VIEWS:
        eps = views[view].epsilon(float(np.log(campaign.delta))).promised
        yield {
            "view": view,
            "eps": None if eps == np.inf else eps,
            "delta": campaign.delta,
            "sees": seen.get(view, "what eps and delta allow"),
            "respondents": min(respondents),
            "rounds": rounds,
            "mechanism": campaign.mechanism,
            "campaign": campaign.name,
            "neighbours": "replacement",
            "unit": unit(rounds),
        }


def _check(arguments: Namespace) -> Iterator[Row]:
    from shuffledp.collection.analyst import read_opened
    from shuffledp.collection.campaign import read_campaign

    campaign = read_campaign(Path(arguments.campaign))
    campaign.check()
    opened = [read_opened(Path(path), campaign) for path in arguments.counts or ()]
    if len({each.number for each in opened}) < len(opened):
        raise InputError("two of the counts are of one round")
    came = [each.respondents for each in opened] or [campaign.at_least] * len(campaign.rounds)
    yield from _promise_rows(campaign, came)


def _report(arguments: Namespace) -> Iterator[Row]:
    from shuffledp.collection.campaign import read_campaign
    from shuffledp.collection.device import Device, read_ticket

    path = Path(arguments.campaign)
    campaign, device = read_campaign(path), Device(Path(arguments.folder))
    ticket = read_ticket(_text(Path(arguments.ticket)), campaign)
    cell = arguments.cell
    if arguments.point is not None:
        if cell is not None:
            raise InputError("give one of --cell and --point")
        cell = _cell_of(path.with_name(CELLS), campaign, arguments.point)
    if cell is not None:
        device.report(campaign, arguments.round, ticket, cell)
    device.send(campaign, arguments.round)
    yield {
        "round": arguments.round,
        "rounds_of_campaign": device.took_part(campaign),
        "of": len(campaign.rounds),
        "rounds_of_all_campaigns": device.took_part(),
        "answer": "counted",
    }


def _cell_of(cells: Path, campaign: "Campaign", point: tuple[float, float]) -> int:
    from shuffledp.geography.geojson import find_shape

    if file_sha256(cells) != campaign.cells_sha256:
        raise InputError(f"{cells} has not the cells of the campaign")
    found = find_shape(_polygons(cells), *point)
    if found is None:
        raise InputError(f"no cell holds the point {point[0]:g}, {point[1]:g}")
    return found


def _text(path: Path) -> str:
    try:
        with path.open(encoding="ascii") as stream:
            return stream.read(1000)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as a line of text") from error


def _new_store(arguments: Namespace) -> Iterator[Row]:
    from shuffledp.collection.campaign import read_campaign
    from shuffledp.collection.mixer import make_store

    campaign, tokens = read_campaign(Path(arguments.campaign)), Path(arguments.tokens)
    try:
        with tokens.open(encoding="ascii") as stream:
            hashes = [bytes.fromhex(line) for line in stream]
    except (OSError, ValueError) as error:
        raise InputError(f"{tokens} cannot be read: a hash of a token in each line") from error
    if any(len(each) != 32 for each in hashes) or len(set(hashes)) < len(hashes):
        raise InputError(f"{tokens} must have different hashes of 64 hexadecimal digits")
    make_store(Path(arguments.store), campaign, arguments.round, hashes)
    yield {
        "store": arguments.store,
        "campaign": campaign.name,
        "round": arguments.round,
        "tokens": len(hashes),
    }


def _serve(arguments: Namespace) -> Iterator[Row]:
    from shuffledp.collection.server import serve

    def say(address: str) -> None:
        print(f"{address} takes envelopes; stop with Ctrl-C", flush=True)

    serve([Path(store) for store in arguments.store], arguments.host, arguments.port, say)
    yield from ()


def _close(arguments: Namespace) -> Iterator[Row]:
    from shuffledp.collection.batch import close_round
    from shuffledp.collection.mixer import Store
    from shuffledp.collection.shards import Shard, Shards

    paths, folder = [Path(store) for store in arguments.store], Path(arguments.output)
    with ExitStack() as opened:
        if len(paths) == 1:
            batch = close_round(opened.enter_context(closing(Store(paths[0]))), folder)
        else:
            shards = [opened.enter_context(closing(Shard(path))) for path in paths]
            batch = close_round(Shards(shards), folder)
    yield {
        "batch": arguments.output,
        "round": batch.number,
        "respondents": batch.respondents,
        "messages": batch.messages,
        "parts": len(batch.parts),
    }


def _open(arguments: Namespace) -> Iterator[Row]:
    from shuffledp.collection.analyst import open_batch
    from shuffledp.collection.campaign import read_campaign

    opened = open_batch(
        read_campaign(Path(arguments.campaign)),
        Path(arguments.batch),
        Path(arguments.key),
        Path(arguments.output),
        arguments.workers,
    )
    yield {
        "counts": arguments.output,
        "round": opened.number,
        "respondents": opened.respondents,
        "foreign": opened.foreign,
        "repeated": opened.repeated,
        "out_of_range": opened.out_of_range,
    }


def _estimate(arguments: Namespace) -> Iterator[Row]:
    from shuffledp.collection.analyst import read_opened
    from shuffledp.collection.campaign import read_campaign
    from shuffledp.collection.estimate import estimate_cells, estimate_regions, projected

    path, counts = Path(arguments.campaign), Path(arguments.counts)
    campaign = read_campaign(path)
    opened = read_opened(counts, campaign)
    cells = estimate_cells(campaign, opened)
    nearest = projected(cells, opened.respondents)
    regions = None if arguments.regions is None else _read_regions(Path(arguments.regions))
    if arguments.map is not None:
        _draw(Path(arguments.map), path, counts)
    if arguments.page is not None:
        _write_page(Path(arguments.page), path, counts, regions)
    if regions is None:
        names: list[Any] = list(range(campaign.cells))
        found, more = cells, {"projected": nearest}
    else:
        found, more = estimate_regions(campaign, opened, regions), {}
        names = [*regions]
    for i, name in enumerate(names):
        row = {"cell" if regions is None else "region": name}
        columns = {**vars(found), **more}
        yield row | {column: float(values[i]) for column, values in columns.items()}


def _read_regions(path: Path) -> dict[str, list[int]]:
    regions = dict[str, list[int]]()
    try:
        with path.open(newline="", encoding="utf-8") as stream:
            for row in csv.DictReader(stream):
                regions.setdefault(str(row["region"]), []).append(int(row["cell"]))
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        raise InputError(f"{path} cannot be read: csv with columns region and cell") from error
    if not regions:
        raise InputError(f"{path} names no region")
    return regions


def _draw(output: Path, campaign: Path, counts: Path) -> None:
    from shuffledp.figures.collected import draw_collected

    if output.suffix not in (".png", ".svg", ".pdf"):
        raise InputError(f"a map is a png, svg or pdf file (got {output})")
    cells, basemap = campaign.with_name(CELLS), _beside(campaign, BASEMAP)
    figure = draw_collected(campaign, counts, cells, basemap=basemap)
    with replacing(output) as path:
        figure.savefig(path)


def _write_page(
    output: Path, campaign: Path, counts: Path, regions: dict[str, list[int]] | None
) -> None:
    from shuffledp.page.collected import round_data
    from shuffledp.page.render import render_round

    if output.suffix != ".html":
        raise InputError(f"a page is an html file (got {output})")
    cells, basemap = _beside(campaign, CELLS), _beside(campaign, BASEMAP)
    text = render_round(round_data(campaign, counts, cells, basemap, regions))
    with replacing(output) as path:
        path.write_text(text, encoding="utf-8", newline="\n")


def _beside(campaign: Path, name: str) -> Path | None:
    path = campaign.with_name(name)
    return path if path.is_file() else None


# Arguments that are files to read.
_FILES: Final = (
    *("campaign", "cells", "ticket", "tokens", "key", "counts", "regions", "store", "basemap"),
)
ROLES: Final[dict[str, Callable[[Namespace], Iterator[Row]]]] = {
    "campaign new": _new,
    "campaign check": _check,
    "report": _report,
    "mixer new": _new_store,
    "mixer serve": _serve,
    "mixer close": _close,
    "open": _open,
    "estimate": _estimate,
}


def role_rows(arguments: Namespace) -> list[Row]:
    """Rows that answer a command of a role.

    Raises
    ------
    InputError
        If an argument or a file cannot be used, or a disk or another role does not answer.
    """
    for name in _FILES:
        given = getattr(arguments, name, None) or []
        for path in map(Path, [given] if isinstance(given, str) else given):
            if path.exists() and not path.is_file():  # a pipe may have no end
                raise InputError(f"{path} is no regular file")
    try:
        return list(ROLES[arguments.command](arguments))
    except ModuleNotFoundError as error:
        raise InputError(
            f"a collection needs {error.name}, which is in an extra: pip install "
            "'shuffledp[collect]' (and 'shuffledp[pipeline]' for maps)"
        ) from error
    except OSError as error:
        raise InputError(str(error)) from error
