"""What the page of a collected round shows: estimates, their errors, and what is protected."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import geopandas as gpd
import numpy as np
import pandas as pd
import shapely

from shuffledp.collection.analyst import Opened, read_opened
from shuffledp.collection.campaign import Campaign, read_campaign
from shuffledp.collection.estimate import (
    COVERAGE,
    Estimates,
    estimate_cells,
    estimate_regions,
    projected,
)
from shuffledp.figures.basemap import backdrop
from shuffledp.figures.collected import campaign_cells
from shuffledp.mechanisms.catalogue import CATALOGUE, VIEWS
from shuffledp.page.data import columns
from shuffledp.page.maps import COORDINATE_DECIMALS, districts_of, surroundings
from shuffledp.page.sentences import best_guess, percent, plain, rounded_up, short
from shuffledp.version import find_version

# Cells beyond which the page has no map, and rows of its table.
_MOST: Final = 20_000
_MOST_ROWS: Final = 1_000
_COVERAGE: Final = f"{100.0 * COVERAGE:g} %"
_WHO: Final = {
    "analyst": "The analyst, who opens the reports",
    "shuffler": "The mixer, who also reads this page",
    "public": "Everybody who reads this page",
    "both": "Mixer and analyst, if they join hands",
}
_VIEW_HEADS: Final = [
    *("Who looks", "Promised", "This round, with those who came", "The promise in plain words")
]
_HEADS: Final = {
    "estimate": "Estimate",
    "standard_error": "Standard error",
    "low": "From",
    "high": "To",
    "low_all": "All: from",
    "high_all": "All: to",
}
_NEAREST: Final = {"projected": "Nearest possible"}


def round_data(
    campaign: Path,
    counts: Path,
    cells: Path | None = None,
    basemap: Path | None = None,
    regions: Mapping[str, Sequence[int]] | None = None,
) -> dict[str, Any]:
    """What the page shows of one round; nothing that is not in the counts.

    Parameters
    ----------
    campaign, counts
        Files of the campaign and of the opened round.
    cells
        GeoJSON of the campaign's cells; without it there is no map.
    basemap
        What lies round them, if there is anything.
    regions
        Cells of each region, by its name.

    Returns
    -------
    What JSON can hold.

    Raises
    ------
    InputError
        If a file cannot be read, or is not of the campaign, or a region has other cells.
    """
    known = read_campaign(campaign)
    opened = read_opened(counts, known)
    found = estimate_cells(known, opened)
    few = known.cells <= _MOST
    drawn = _map(known, cells, basemap) if cells is not None and few else None
    places = drawn.pop("places") if drawn else [""] * known.cells
    sure = found.low_all > 0
    noise = bool(np.median(found.standard_error) > opened.respondents / known.cells)
    order = np.lexsort((np.arange(known.cells), -found.estimate))[:_MOST_ROWS]
    nearest = projected(found, opened.respondents)
    numbers = columns(pd.DataFrame({**vars(found), "projected": nearest}))
    return {
        "title": known.title,
        "question": known.question,
        "round": opened.number,
        "rounds": len(known.rounds),
        "respondents": opened.respondents,
        "k": known.cells,
        "noise": noise,
        "verdict": _verdict(opened, sure, noise),
        "answers": _answers(known, opened, found, sure),
        "map": drawn,
        "columns": numbers if few else {},
        "places": places if few else [],
        "sure": sure.tolist() if few else [],
        "heads": ["Cell", *_HEADS.values(), *_NEAREST.values(), "Surely somebody"],
        "rows": [
            [
                ", ".join(filter(None, [f"{cell}", places[cell]])),
                *(_written(numbers[name][cell]) for name in (*_HEADS, *_NEAREST)),
                "yes" if sure[cell] else "",
            ]
            for cell in order.tolist()
        ],
        "regions": _regions(known, opened, regions or {}),
        "region_heads": ["Region", "Cells", *_HEADS.values()],
        "views": list(_views(known, opened)),
        "view_heads": [
            "Who looks",
            "Promised",
            "This round, with those who came",
            "The promise in plain words",
        ],
        "coverage": _COVERAGE,
        "delta": plain(known.delta),
        "provenance": _provenance(known, opened),
    }


def _map(campaign: Campaign, cells: Path, basemap: Path | None) -> dict[str, Any]:
    """Rings of each cell, what lies round them, and the name of each place."""
    shapes = campaign_cells(cells, campaign)
    geometry = gpd.GeoSeries([shape.geometry for shape in shapes], crs=4326)
    layers = backdrop(basemap)
    districts = districts_of(geometry, layers)
    names = [shape.properties.get("name") for shape in shapes]
    return {
        "cells": [_rings(shape) for shape in geometry],
        "places": [
            name.strip() if isinstance(name, str) and name.strip() else district
            for name, district in zip(names, districts, strict=True)
        ],
        **surroundings(layers, geometry.total_bounds),
    }


def _rings(shape: Any) -> list[list[float]]:
    return [
        np.round(shapely.get_coordinates(ring), COORDINATE_DECIMALS).ravel().tolist()
        for ring in shapely.get_rings(shapely.get_parts(shape))
    ]


def _written(value: float) -> str:
    words = f"{value:,.1f}".removesuffix(".0")
    return words.replace("-", "\N{MINUS SIGN}") if words.strip("-0.") else "0"


def _people(number: float) -> str:
    return f"{short(number)} {'person' if short(number) == '1' else 'people'}"


def _cells(number: int) -> str:
    return f"{number:,} {'cell' if number == 1 else 'cells'}"


def _verdict(opened: Opened, sure: Any, noise: bool) -> str:
    who = f"{opened.respondents:,} people reported."
    if not sure.any():
        return f"{who} The noise hides them all: of no cell is it sure that somebody is there."
    most = " Most numbers are noise." if noise else ""
    return (
        f"{who} With {_COVERAGE} certainty somebody is in {sure.sum():,} of {_cells(sure.size)}; "
        f"of the others this map does not know.{most}"
    )


def _answers(
    campaign: Campaign, opened: Opened, found: Estimates, sure: Any
) -> list[tuple[str, str]]:
    """Questions of a reader, and a sentence or two for each."""
    error = float(np.median(found.standard_error))
    mean = opened.respondents / campaign.cells
    apart = float(np.median(found.high_all - found.estimate))
    rounds = len(campaign.rounds)
    kept = "this page hides it" if rounds == 1 else f"the pages of {rounds} rounds together hide it"
    guess = _guess(_budget(campaign.eps["public"]), campaign.delta)
    return [
        (
            "How far a number may be off",
            f"The standard error of a cell is {_people(error)}; {_people(mean)} are in a cell on "
            f"average. The interval of one cell holds its true number with {_COVERAGE} certainty. "
            f"Those of all cells hold all of theirs with {_COVERAGE}: they reach some "
            f"{_people(apart)} beyond an estimate.",
        ),
        (
            "Where somebody surely is",
            f"In {_cells(int(sure.sum()))}: their intervals begin above 0, and all of this holds "
            f"together with {_COVERAGE} certainty. An estimate of 0 does not say that a cell is "
            "empty.",
        ),
        (
            "What is protected",
            f"What a person reported: {kept}, even from somebody who knows what all others "
            f"reported.{guess} A coin does 50 %.",
        ),
        (
            "What is not protected",
            "That a person took part: the mixer knows. And if mixer and analyst join hands, "
            f"they see {_seen(campaign, 'both')}.",
        ),
    ]


def _seen(campaign: Campaign, view: str) -> str:
    """What a view sees that sees more than the promise of all."""
    if campaign.eps[view] is not None:
        return "each person's noisy reports"
    return CATALOGUE[campaign.mechanism].seen[view]


def _budget(eps: float | None) -> float:
    """Of a view that sees every record, infinity."""
    return np.inf if eps is None else eps


def _guess(eps: float, delta: float) -> str:
    if eps == np.inf:
        return ""
    chance = percent(best_guess(eps, delta))
    return (
        f" Of two answers, each as likely, they guess the right one at most {chance} of the time."
    )


def _views(campaign: Campaign, opened: Opened) -> Iterator[list[str]]:
    """What each view was promised, and what it has of this round."""
    came = campaign.views([opened.respondents])
    seen = CATALOGUE[campaign.mechanism].seen
    for view in VIEWS:
        promised = _budget(campaign.eps[view])
        eps = came[view].epsilon(float(np.log(campaign.delta))).promised
        sees = f"They see {_seen(campaign, view)}." if view in seen else ""
        yield [
            _WHO[view],
            *("nothing" if x == np.inf else f"eps = {rounded_up(x)}" for x in (promised, eps)),
            f"{sees}{_guess(promised, campaign.delta)}".strip(),
        ]


def _regions(
    campaign: Campaign, opened: Opened, regions: Mapping[str, Sequence[int]]
) -> list[list[str]]:
    if not regions:
        return []
    found = estimate_regions(campaign, opened, regions)
    return [
        [name, f"{len(regions[name]):,}", *(_written(values[i]) for values in vars(found).values())]
        for i, name in enumerate(regions)
    ]


def _provenance(campaign: Campaign, opened: Opened) -> dict[str, str]:
    parameters = ", ".join(f"{name} = {value:g}" for name, value in campaign.parameters.items())
    return {
        "Campaign": campaign.name,
        "Round": f"{opened.number} of {len(campaign.rounds)}",
        "People": f"{opened.respondents:,}; the promise counts on at least {campaign.at_least:,}, "
        f"of whom {campaign.colluding:,} may work against the others",
        "Mechanism": f"{CATALOGUE[campaign.mechanism].label} ({parameters})",
        "Neighbours": "replacement of the record of one person, in each round",
        "Not counted": f"messages not sealed for this round: {opened.foreign:,}; a second time: "
        f"{opened.repeated:,}; of no cell: {opened.out_of_range:,}",
        "Cells, SHA-256 of their file": campaign.cells_sha256,
        "shuffledp": find_version(),
    }
