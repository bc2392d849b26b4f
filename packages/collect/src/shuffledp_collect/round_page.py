"""Write the page of a collected round: estimates, their errors, and who can learn what."""

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import geopandas as gpd
import numpy as np
import pandas as pd
from shuffledp.accounting.conventions import log_of_delta
from shuffledp.figures.basemap import backdrop
from shuffledp.mechanisms.catalogue import CATALOGUE, VIEWS
from shuffledp.page.data import columns
from shuffledp.page.maps import districts_of, rings_of, surroundings
from shuffledp.page.render import page_part, render_template
from shuffledp.page.sentences import best_guess, percent, plain, rounded_up, short
from shuffledp.version import find_version

from shuffledp_collect.analyst import Opened
from shuffledp_collect.campaign import Campaign
from shuffledp_collect.estimate import (
    COVERAGE,
    Estimates,
    estimate_cells,
    estimate_regions,
    projected,
)
from shuffledp_collect.map_figure import read_cells

_MAX_CELLS: Final = 20_000  # with more cells, the page has no map
_MAX_ROWS: Final = 1_000
_COVERAGE: Final = f"{100.0 * COVERAGE:g} %"
_READERS: Final = {
    "analyst": "The analyst, who opens the reports",
    "shuffler": "The mixer, who also reads this page",
    "public": "Everybody who reads this page",
    "both": "Mixer and analyst, if they join hands",
}
_HEADS: Final = {
    "estimate": "Estimate",
    "standard_error": "Standard error",
    "low": "From",
    "high": "To",
    "low_all": "All: from",
    "high_all": "All: to",
}
_NEAREST: Final = {"projected": "Nearest possible"}


def render_round(data: Mapping[str, Any]) -> str:
    """Return the page of a round, with data from `round_data`, as HTML."""
    parts = files(__package__).joinpath("round_page")
    template, script = (
        parts.joinpath(name).read_text(encoding="utf-8") for name in ("page.html", "page.js")
    )
    shared = ("vendor/d3.min.js", "scripts/common.js", "scripts/drawing.js")
    return render_template(template, [*map(page_part, shared), script], data)


def round_data(
    campaign: Campaign,
    opened: Opened,
    cells: Path | None = None,
    basemap: Path | None = None,
    regions: Mapping[str, Sequence[int]] | None = None,
) -> dict[str, Any]:
    """Return what the page shows of one round, serialisable as JSON.

    The cells and the base map around them are GeoJSON files; without cells there is no map.
    `regions` has the cells of each region by its name. Raises `InputError` if a file cannot be
    read, the cells are not those of the campaign, or a region has other cells.
    """
    estimates = estimate_cells(campaign, opened)
    few = campaign.cells <= _MAX_CELLS
    drawn = _map(campaign, cells, basemap) if cells is not None and few else None
    places = drawn.pop("places") if drawn else [""] * campaign.cells
    sure = estimates.low_all > 0
    noise = bool(np.median(estimates.standard_error) > opened.respondents / campaign.cells)
    order = np.lexsort((np.arange(campaign.cells), -estimates.estimate))[:_MAX_ROWS]
    nearest = projected(estimates, opened.respondents)
    numbers = columns(pd.DataFrame({**vars(estimates), "projected": nearest}))
    return {
        "title": campaign.title,
        "question": campaign.question,
        "round": opened.number,
        "rounds": len(campaign.rounds),
        "respondents": opened.respondents,
        "k": campaign.cells,
        "noise": noise,
        "verdict": _verdict(opened, sure, noise),
        "answers": _answers(campaign, opened, estimates, sure),
        "map": drawn,
        "columns": numbers if few else {},
        "places": places if few else [],
        "sure": sure.tolist() if few else [],
        "heads": ["Cell", *_HEADS.values(), *_NEAREST.values(), "Surely somebody"],
        "rows": [
            [
                ", ".join(filter(None, [f"{cell}", places[cell]])),
                *(_formatted(numbers[name][cell]) for name in (*_HEADS, *_NEAREST)),
                "yes" if sure[cell] else "",
            ]
            for cell in order.tolist()
        ],
        "regions": _regions(campaign, opened, regions or {}),
        "region_heads": ["Region", "Cells", *_HEADS.values()],
        "views": list(_views(campaign, opened)),
        "view_heads": [
            "Who looks",
            "Promised",
            "This round, with those who came",
            "The promise in plain words",
        ],
        "coverage": _COVERAGE,
        "delta": plain(campaign.delta),
        "provenance": _provenance(campaign, opened),
    }


def _map(campaign: Campaign, cells: Path, basemap: Path | None) -> dict[str, Any]:
    """Return the rings of each cell, their surroundings, and the name of each cell."""
    shapes = read_cells(cells, campaign)
    geometry = gpd.GeoSeries([shape.geometry for shape in shapes], crs=4326)
    layers = backdrop(basemap)
    districts = districts_of(geometry, layers)
    names = [shape.properties.get("name") for shape in shapes]
    return {
        "cells": rings_of(geometry),
        "places": [
            name.strip() if isinstance(name, str) and name.strip() else district
            for name, district in zip(names, districts, strict=True)
        ],
        **surroundings(layers, geometry.total_bounds),
    }


def _formatted(value: float) -> str:
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
    """Return the questions of a reader, and their answers."""
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
    """Return what a view sees that is not bounded by the common promise."""
    return CATALOGUE[campaign.mechanism].disclosed[view]


def _budget(eps: float | None) -> float:
    """Return infinity for a view that sees every record."""
    return np.inf if eps is None else eps


def _guess(eps: float, delta: float) -> str:
    if eps == np.inf:
        return ""
    chance = percent(best_guess(eps, delta))
    return (
        f" Of two answers, each as likely, they guess the right one at most {chance} of the time."
    )


def _views(campaign: Campaign, opened: Opened) -> Iterator[list[str]]:
    """Yield what each view was promised, and what it has in this round."""
    came = campaign.views([opened.respondents])
    seen = CATALOGUE[campaign.mechanism].disclosed
    for view in VIEWS:
        promised = _budget(campaign.eps[view])
        eps = came[view].epsilon(log_of_delta(campaign.delta)).promised
        sees = f"They see {_seen(campaign, view)}." if view in seen else ""
        yield [
            _READERS[view],
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
        [
            name,
            f"{len(regions[name]):,}",
            *(_formatted(values[i]) for values in vars(found).values()),
        ]
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
