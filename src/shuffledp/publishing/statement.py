"""The statement of a publication's guarantee, for machines and for readers.

It has the fields that NIST SP 800-226 (2025) asks of a claim of differential privacy: the unit,
the neighbouring relation, eps and delta, the mechanism, the model of trust, and what else was
derived from the data. No number in it depends on the records, except through noisy counts.
"""

import re
from collections.abc import Mapping
from importlib.metadata import version
from math import exp
from typing import Any, Final

import numpy as np
import yaml

from shuffledp.data.cells import ELSEWHERE
from shuffledp.publishing.counting import Histogram
from shuffledp.publishing.design import Design
from shuffledp.publishing.estimates import joint_half_width
from shuffledp.publishing.ledger import round_up
from shuffledp.publishing.levels import FlowLevel, Measurements
from shuffledp.publishing.noise import LEVEL, MECHANISMS, zcdp_exception
from shuffledp.version import find_version

_CUT: Final = (
    "No true count is below 0, so the interval of a negative `count` begins and may end at 0."
)
_MAX_EXPONENT: Final = 20.0  # the factor e^eps is written out up to here
COMMIT: Final = "3e9c812a924cf01d228f26f6c462c59c391c3f2a"  # of the schema of the registry
_TO_COMPLETE: Final = "TO BE COMPLETED"


def make_statement(
    design: Design, *, title: str, budget: Mapping[str, Any], published: str
) -> dict[str, Any]:
    """Return the statement as data for JSON.

    `budget` has the measure of the ledger, its total with the eps and delta that this means, and
    what is spent, including this publication.
    """
    histogram, noise, promised = design.histogram, design.noise, design.promised
    contributions, measurements = histogram.contributions, design.measurements
    unit = contributions.unit
    sensitivity = measurements.measured[0, 0].sensitivity
    flavour = "approximate" if promised.delta else "pure"
    if promised.rho is not None:
        flavour = "zero-concentrated and approximate"
    half_widths: dict[str, Any] = {
        "half_width_of_one_cell": _largest_half_width(measurements, 0, 0)
    }
    if not measurements.several and design.threshold is None:
        joint = joint_half_width(noise, histogram.size)
        half_widths["half_width_of_all_cells_together"] = joint
    return {
        "title": title,
        "published": published,
        "guarantee": {
            "definition": "differential privacy",
            "flavour": flavour,
            "eps": promised.eps,
            "delta": promised.delta,
            "rho": promised.rho,
            "neighbours": "one user with all records is added or removed"
            if unit == "user"
            else "one record is added or removed",
            "eps_for_replacement": design.replaced.eps,
            "delta_for_replacement": design.replaced.delta,
        },
        "unit": {
            "protected": unit,
            "bound": bound_in_words(histogram),
            "records_per_user": contributions.records_per_user if unit == "user" else None,
            "distinct_cells": contributions.distinct,
            "bound_holds_for": "each window" if contributions.windows > 1 else "the whole map",
        },
        "mechanism": {
            "name": MECHANISMS[noise.mechanism],
            "scale": noise.scale,
            "sensitivity_l1": sensitivity.l1,
            "sensitivity_l2_squared": sensitivity.l2_squared,
            "standard_deviation": noise.sd,
            "sampler": "OpenDP: exact, with the randomness of the operating system; no seed",
        },
        "levels": levels_in_numbers(design),
        "sparse": None
        if design.threshold is None
        else {
            "threshold": design.threshold.least,
            "delta": design.threshold.delta,
            "hidden_at_most": hidden_at_most(design),
        },
        "cells": {
            "number": histogram.cells.total,
            "elsewhere": histogram.cells.elsewhere,
            "flows": histogram.flows,
            **design.places,
        },
        "period": design.period,
        "intervals": {
            "probability": LEVEL,
            **half_widths,
            "about": "the counts that remain after the bound on contributions",
        },
        "trust": {
            "model": "central",
            "trusted": "the data holder, who has the records and runs the software",
            "protected_from": "everybody who sees this map, whatever else they know",
        },
        "post_processing": "Estimates and intervals are computed from the noisy counts alone.",
        "not_protected": _limits(unit),
        "all_publications": dict(budget),
        "software": {"shuffledp": find_version(), "opendp": version("opendp")},
    }


def hidden_at_most(design: Design) -> int:
    """Return the upper end of the 95 % interval of a count that a sparse map hides.

    A larger count is hidden only if its noise is below minus the half-width of an interval, so that
    all intervals, of shown and of hidden counts, contain the true one with probability 95 %.
    """
    assert design.threshold is not None
    return design.threshold.least - 1 + design.noise.half_width(1.0 - LEVEL)


def _largest_half_width(measurements: Measurements, time: int, area: int) -> float:
    """Return the largest half-width of the intervals of a level, rounded up."""
    if measurements.separate or not measurements.several:
        return measurements.measured[time, area].noise.half_width(1.0 - LEVEL)
    return float(round_up(float(measurements.half_widths[time, area].max()), 4))


def levels_in_numbers(design: Design) -> list[dict[str, Any]]:
    """Return noise and errors of each level.

    The keys are areas and times, which are the names of the two levels; number, of counts; share,
    of the budget; unless that is 0, scale, of the noise, sensitivity_l1 and sensitivity_l2_squared;
    error, the root mean square of the standard deviations of the estimates, without that of the
    area elsewhere; half_width, the largest of the 95 % intervals; for trips, origins and
    destinations, which are the levels of where they begin and end; and, for levels of time, the
    time of each window.
    """
    measurements = design.measurements
    rows = []
    for t, s in measurements.combinations:
        time, area = measurements.times.levels[t], measurements.areas.levels[s]
        deviations = measurements.standard_deviations(t, s)
        row: dict[str, Any] = {
            "areas": area.name,
            "times": None if design.histogram.windows is None else time.name,
            "number": deviations.size,
            "share": "0",
        }
        if (t, s) in measurements.measured:
            each = measurements.measured[t, s]
            row |= {
                "share": str(each.share),
                "scale": each.noise.scale,
                "sensitivity_l1": each.sensitivity.l1,
                "sensitivity_l2_squared": each.sensitivity.l2_squared,
            }
        listed = [each != ELSEWHERE for each in area.ids]
        if measurements.separate:
            deviations = deviations[:1, :1]  # all are the same, and too many to list
        elif any(listed):  # levels of trips list no ids
            deviations = deviations[:, listed]
        row |= {
            "error": float(np.sqrt((deviations**2).mean())),
            "half_width": _largest_half_width(measurements, t, s),
        }
        if isinstance(area, FlowLevel):
            row |= {"origins": area.start.name, "destinations": area.end.name}
        rows.append(row | ({"time_of_window": [time.ids[i] for i in time.group]} if t else {}))
    return rows


def _limits(unit: str) -> list[str]:
    whom = "person" if unit == "user" else "record"
    return [
        "Cells, period, eps and all other settings are public. They were chosen without looking "
        "at the records.",
        f"What can be learned without the records of one {whom} is not hidden: the map is meant to "
        "show what is true of many people together.",
        "The promise is about this map and the publications of the same ledger. It does not cover "
        "other data about the same people, or computers that hold the records.",
        "The promise is about the records in a file that was accepted. Whether it was, whether the "
        "map was published at all, and how long that took, may depend on the records.",
    ] + (
        ["A person with several identifiers counts as several users."]
        if unit == "user"
        else ["A person with many records is protected less than one record is."]
    )


def bound_in_words(histogram: Histogram) -> str:
    """Return which records of one unit count, as a sentence."""
    contributions = histogram.contributions
    if contributions.unit == "record":
        return "Every record counts once."
    m = contributions.records_per_user
    many = "1 record" if m == 1 else f"{m} records"
    window = " in each window" if contributions.windows > 1 else ""
    once = ", each in a different cell" if contributions.distinct and m > 1 else ""
    if once and contributions.windows == 1 and len(histogram.windows or ()) > 1:
        once = ", no two in the same cell and window"
    verb = "counts" if m == 1 else "count"
    drawn = "it is" if m == 1 else "they are"
    return f"At most {many} of each user {verb}{window}{once}; {drawn} drawn at random."


def uncounted(unit: str) -> str:
    """Return what the counts leave out, as a sentence; empty if every record counts."""
    if unit == "record":
        return ""
    return (
        "Other records are left out, so a cell may have far more records than its count and its "
        "intervals say."
    )


def promise(statement: Mapping[str, Any]) -> tuple[str, str]:
    """Return a sentence that explains the guarantee, and one that defines it."""
    guarantee, unit = statement["guarantee"], statement["unit"]["protected"]
    eps, delta = guarantee["eps"], guarantee["delta"]
    whom = "person" if unit == "user" else "record"
    factor = round_up(exp(eps), 3) if eps < _MAX_EXPONENT else f"e to the {round_up(eps)}"
    odds = (
        f"Whatever else somebody knows, this map changes the odds that a particular {whom} is in "
        f"the data by a factor of at most {factor}"
    )
    private = f"It is differentially private with {_budget(eps, delta)} for one {unit}: "
    if not delta:
        return (
            f"{odds}.",
            f"{private}no possible map is more than {factor} times as likely with a {whom} in the "
            "data as without, or the other way round.",
        )
    rho = guarantee["rho"]
    exception = round_up(delta if rho is None else zcdp_exception(rho, eps), 2)
    return (
        f"{odds}, except with a probability of at most {exception}.",
        f"{private}the probability that the map is one of any set of maps is with a {whom} in the "
        f"data at most {factor} times that without, plus {round_up(delta)}, and the other way "
        "round.",
    )


def _budget(eps: float, delta: float) -> str:
    return f"eps = {round_up(eps)}" + (f" and delta = {round_up(delta)}" if delta else "")


def facts(statement: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the statement as pairs of a name and its value in words."""
    guarantee, unit, mechanism, budget, software = (
        statement[key] for key in ("guarantee", "unit", "mechanism", "all_publications", "software")
    )
    eps, delta = guarantee["eps"], guarantee["delta"]
    rho = f" (rho = {round_up(guarantee['rho'])} of zCDP)" if guarantee["rho"] else ""
    replaced = _budget(guarantee["eps_for_replacement"], guarantee["delta_for_replacement"])
    total = "" if budget["measure"] == "eps" else f" (rho = {round_up(float(budget['total']))})"
    joint_guarantee = (
        f"at most {_budget(float(budget['eps']), budget['delta'])}{total}, of which "
        f"{budget['measure']} = {round_up(float(budget['spent']))} was spent when this map was made"
    )
    region = statement["cells"]
    where = "from each to each of " if region["flows"] else ""
    where += f"{region['number'] - region['elsewhere']:,} {kind_in_words(region['kind'])}"
    if region["box"]:
        south, north, west, east = (f"{degrees:g}" for degrees in region["box"])
        where += f", latitude {south} to {north}, longitude {west} to {east}"
    where += f", within {region['outline']}" if region["outline"] else ""
    if region["elsewhere"]:
        where += ", and one cell for the records in none of them, which the total includes"
    return [
        *([("Maps", "; ".join(statement["maps"]))] if "maps" in statement else []),
        ("Protected", f"one {unit['protected']}"),
        ("Neighbouring data sets", guarantee["neighbours"]),
        ("Guarantee", _budget(eps, delta) + rho),
        (f"If one {unit['protected']} is replaced", replaced),
        ("Records that count", unit["bound"]),
        (
            "Noise on each count"
            if len(statement["levels"]) == 1
            else f"Noise on counts of {statement['levels'][0]['areas']}",
            f"{mechanism['name']}, scale {mechanism['scale']:.6g}, standard deviation "
            f"{mechanism['standard_deviation']:.4g}",
        ),
        *_levels_in_words(statement),
        *_sparse_in_words(statement),
        ("Sampler", mechanism["sampler"]),
        ("Cells", where),
        ("Period", _period(statement["period"])),
        ("Trusted", statement["trust"]["trusted"]),
        ("Protected from", statement["trust"]["protected_from"]),
        ("Post-processing", statement["post_processing"]),
        ("All publications about the same people", joint_guarantee),
        ("Software", f"shuffledp {software['shuffledp']}, OpenDP {software['opendp']}"),
        ("Published", statement["published"]),
    ]


def _levels_in_words(statement: Mapping[str, Any]) -> list[tuple[str, str]]:
    levels = statement["levels"]
    if len(levels) == 1:
        return []
    words = []
    for row in levels:
        times = "" if row["times"] in (None, "windows") else f" by {row['times']}"
        noise = "sums of counts, no noise of its own"
        if "scale" in row:
            share = 100 * float(row["share"])
            noise = f"{share:.3g} % of the budget, noise of scale {row['scale']:.6g}"
        words.append(f"{row['areas']}{times}: {noise}, error {row['error']:.3g}")
    both = all(len({row[axis] for row in levels}) > 1 for axis in ("areas", "times"))
    shares = ". Shares of areas and of times are multiplied" if both else ""
    return [("Levels", "; ".join(words) + shares)]


def _sparse_in_words(statement: Mapping[str, Any]) -> list[tuple[str, str]]:
    sparse = statement["sparse"]
    if sparse is None:
        return []
    words = (
        f"counts of at least {sparse['threshold']} after noise; what only one "
        f"{statement['unit']['protected']} has is shown with a probability of at most delta = "
        f"{round_up(sparse['delta'])}"
    )
    return [("Shown", words)]


def kind_in_words(kind: str) -> str:
    """Return cells or a level of areas in words; a property of polygons stays as it is."""
    name, _, value = kind.replace("meters:", "metres:").partition(":")
    rows, _, columns = value.partition("x")
    words = {
        "h3": f"H3 hexagons of resolution {value}",
        "metres": f"squares of {value} m",
        "shape": f"rectangles in {rows} rows and {columns} columns",
        "step": f"rectangles of {rows} by {columns} degrees",
    }
    return words.get(name, kind)


def in_words(statement: Mapping[str, Any]) -> str:
    """Return the statement as Markdown."""
    unit = statement["unit"]
    warning = statement.get("warning")
    lines = [
        f"# {statement['title']}: what is promised",
        "",
        *([f"**{warning}**", ""] if warning else []),
        " ".join(promise(statement)),
        "",
        "| | |",
        "|---|---|",
        *(f"| {name} | {value} |" for name, value in facts(statement)),
        "",
        "## How to read the numbers",
        "",
        *([f"- {statement['accuracy']}"] if "accuracy" in statement else []),
        *_columns_in_words(statement),
        f"- All numbers are about the records that count: {unit['bound']} "
        f"{uncounted(unit['protected'])}".rstrip(),
        "",
        "## What is not promised",
        "",
        *(f"- {limit}" for limit in statement["not_protected"]),
        "",
    ]
    return "\n".join(lines)


def _columns_in_words(statement: Mapping[str, Any]) -> list[str]:
    """Return what the columns of a map say."""
    intervals = statement["intervals"]
    one = intervals["half_width_of_one_cell"]
    if statement["sparse"] is not None:
        return [
            "- `raw`, `count` and `estimate` are the count plus noise. In map.csv they are too "
            "large on average, because only large ones are shown; counts of other levels, each "
            "with noise of its own, are right on average.",
            f"- `low` to `high` (count ± {one}), and 0 to {statement['sparse']['hidden_at_most']} "
            "for each row that is not shown, contain the true count with probability 95 %, over "
            "all rows, shown or not. Rows are in the order of the cells.",
        ]
    if len(statement["levels"]) == 1:
        return [
            "- `raw` and `count` are the count plus noise. They may be negative, and are right on "
            "average.",
            "- `low` to `high` contains the count of one cell with probability 95 % (count ± "
            f"{one}), `joint_low` to `joint_high` all counts at once "
            f"(± {intervals['half_width_of_all_cells_together']}). {_CUT}",
            "- `estimate` uses what all noisy counts together say about typical counts. It is "
            "closer to the truth on average, but not right on average in each cell.",
        ]
    if sum("scale" in row for row in statement["levels"]) > 1:
        counts = [
            "- `raw` is the count plus noise, drawn for each level on its own. Raw counts of "
            "different levels do not add up. A level without noise of its own has none.",
            "- `count` combines the raw counts of all levels. It may be negative and has "
            "fractions; it is right on average, and counts add up: those of cells to those of "
            "areas, those of windows to those of longer times.",
        ]
    else:
        counts = [
            "- `raw` and `count` are the count plus noise, and their sums for larger areas and "
            "longer times, for which `raw` is empty. Counts may be negative, are right on "
            "average, and add up.",
        ]
    return [
        *counts,
        "- `low` to `high` contains the true count with probability 95 % (for a cell, at most "
        f"count ± {one}). {_CUT}",
        "- `estimate` is a whole number, at least 0, close to `count`; estimates add up, too. They "
        "are not right on average, because no estimate is below 0, and may lie outside of the "
        "interval. Compare times, and add up areas, by `count`: a small difference of two "
        "estimates may have the wrong sign.",
    ]


def _period(period: Mapping[str, Any] | None) -> str:
    if period is None:
        return "all records of the file"
    every = f", every {period['every']}" if period["every"] else ""
    every += f", by {period['profile'].replace('-', ' and ')}" if "profile" in period else ""
    zone = period["time_zone"]
    if period.get("times") == "local":
        zone = "local time" + (f" of {zone}" if zone != "UTC" else "")
    elif zone == "UTC" and "times" not in period:
        zone += "; a time without an offset as written"
    return f"{period['from']} to {period['to']}{every} ({zone})"


# --- Draft for the OpenDP Deployments Registry ------------------------------------------------


def registry_record(statement: Mapping[str, Any]) -> str:
    """Return the statement as a draft for the OpenDP Deployments Registry, in YAML.

    The registry (github.com/opendp/deployments-registry-data) has a schema, that of `COMMIT`. What
    the software cannot know, such as the publisher's name, is marked for completion.
    """
    guarantee, unit, cells = statement["guarantee"], statement["unit"], statement["cells"]
    parameters = {
        name: guarantee[key]
        for name, key in (("epsilon", "eps"), ("delta", "delta"), ("rho", "rho"))
        if guarantee[key]
    }
    variant = "Approximate DP" if guarantee["delta"] else "Pure DP"
    budget = statement["all_publications"]
    period = statement["period"]
    windows = "" if period is None else f" from {period['from']} to {period['to']}"
    record = {
        "url_slug": re.sub(r"[^a-z0-9]+", "-", statement["title"].lower()).strip("-") or "map",
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": {
                "name": statement["title"],
                "data_curators": [_TO_COMPLETE],
                "description": f"Counts of records in {cells['number']:,} cells{windows}.",
                "intended_use": _TO_COMPLETE,
                "data_product_type": "Summary statistics",
                "data_product_region": _TO_COMPLETE,
                "publication_date": statement["published"],
            },
            "dp_variant": {
                "variant_name": "Zero-concentrated DP" if guarantee["rho"] else variant,
                "data_domain": "Any number of records, each with at most one cell and window.",
                "unprotected_quantities": " ".join(statement["not_protected"]),
            },
            "privacy_loss": {
                "privacy_unit": unit["protected"],
                "privacy_unit_details": f"{guarantee['neighbours'].capitalize()}. {unit['bound']}",
                "privacy_parameters": parameters,
                "privacy_parameters_details": "If one unit is replaced: eps = "
                f"{guarantee['eps_for_replacement']}, delta = "
                f"{guarantee['delta_for_replacement']}.",
            },
            "deployment_model": {
                "model_name": "Central",
                "actors": f"Trusted: {statement['trust']['trusted']}. Protected from: "
                f"{statement['trust']['protected_from']}.",
                "release_type": "One release",
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": statement["post_processing"],
                "composition": f"A ledger limits all publications about the same people to eps = "
                f"{budget['eps']}, delta = {budget['delta']}; {budget['measure']} = "
                f"{budget['spent']} of {budget['total']} was spent with this one.",
            },
            "implementation": {
                "mechanisms": f"{statement['mechanism']['name']} noise. "
                f"{statement['mechanism']['sampler']}. Software: shuffledp "
                f"{statement['software']['shuffledp']}, OpenDP {statement['software']['opendp']}.",
            },
            "administrative": {"registry_authors": [_TO_COMPLETE]},
        },
    }
    return yaml.safe_dump(record, sort_keys=False, allow_unicode=True, width=100)
