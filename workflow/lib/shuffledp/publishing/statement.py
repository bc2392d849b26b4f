"""The statement of a publication's guarantee, for machines and for readers.

It has the fields that NIST SP 800-226 (2025) asks of a claim of differential privacy: the unit,
the neighbouring relation, eps and delta, the mechanism, the model of trust, and what else was
derived from the data. It has no number that depends on the records, apart from the noisy counts.
"""

from collections.abc import Mapping
from typing import Any, Final

from shuffledp.publishing.contributions import Histogram
from shuffledp.publishing.noise import Guarantee, Noise
from shuffledp.version import find_version

_NOISE_NAMES: Final = {"laplace": "discrete Laplace", "gaussian": "discrete Gaussian"}


def make_statement(
    histogram: Histogram,
    noise: Noise,
    promised: Guarantee,
    replaced: Guarantee,
    *,
    places: Mapping[str, Any],
    period: Mapping[str, Any] | None,
    budget: Mapping[str, Any],
    published: str,
    widths: Mapping[str, int],
) -> dict[str, Any]:
    """Return the statement as data for JSON.

    Parameters
    ----------
    histogram, noise
        What was counted, and the noise on each count.
    promised, replaced
        Guarantees for adding or removing, and for replacing, one unit.
    places, period
        How cells and windows were defined.
    budget
        Measure, total and spent of the ledger, including this publication.
    published
        Date.
    widths
        Half-widths of the intervals.
    """
    contributions = histogram.contributions
    unit = contributions.unit
    return {
        "title": "Statement of differential privacy",
        "published": published,
        "guarantee": {
            "definition": "differential privacy",
            "flavour": "pure" if promised.rho is None else "zero-concentrated and approximate",
            "eps": promised.eps,
            "delta": promised.delta,
            "rho": promised.rho,
            "neighbours": f"add or remove all records of one {unit}"
            if unit == "user"
            else "add or remove one record",
            "eps_for_replacement": replaced.eps,
            "delta_for_replacement": replaced.delta,
        },
        "unit": {
            "protected": unit,
            "bound": bound_in_words(histogram),
            "records_per_user": contributions.records_per_user if unit == "user" else None,
            "distinct_cells": contributions.distinct,
            "bound_holds_for": "each window" if contributions.windows > 1 else "the whole map",
        },
        "mechanism": {
            "name": _NOISE_NAMES[noise.mechanism],
            "scale": noise.scale,
            "sensitivity_l1": contributions.l1,
            "sensitivity_l2_squared": contributions.l2_squared,
            "standard_deviation": noise.sd,
            "sampler": "OpenDP, exact, with the randomness of the operating system",
            "seed": None,
        },
        "cells": {"number": len(histogram.cells), **places},
        "period": period,
        "intervals": {
            "probability": 0.95,
            "half_width_of_one_cell": widths["one"],
            "half_width_of_all_cells_together": widths["joint"],
            "about": "the counts that remain after the bound on contributions",
        },
        "trust": {
            "model": "central",
            "trusted": "the data holder, who has the records and runs the software",
            "protected_from": "everybody who sees this folder, whatever else they know",
        },
        "post_processing": "Estimates and intervals are computed from the noisy counts alone.",
        "not_protected": [
            "cells, period and parameters, which were chosen without the records",
            "what is known without the records of one " + unit,
            "records before publication, and computers that hold them",
        ],
        "all_publications": dict(budget),
        "software": {"shuffledp": find_version(), "opendp": _opendp_version()},
    }


def bound_in_words(histogram: Histogram) -> str:
    """Return which records of one unit count, as a sentence."""
    contributions = histogram.contributions
    if contributions.unit == "record":
        return "Every record counts once."
    m = contributions.records_per_user
    many = "1 record" if m == 1 else f"{m} records"
    window = " in each window" if contributions.windows > 1 else ""
    once = ", each in a different cell" if contributions.distinct and m > 1 else ""
    return f"At most {many} of each user count{window}{once}; they are drawn at random."


def in_words(statement: Mapping[str, Any]) -> str:
    """Return the statement as Markdown."""
    guarantee, unit, mechanism = (statement[key] for key in ("guarantee", "unit", "mechanism"))
    noisy, intervals, budget = (
        statement[key] for key in ("mechanism", "intervals", "all_publications")
    )
    protected = unit["protected"]
    whose = "one person's records" if protected == "user" else "one record"
    pure = guarantee["rho"] is None
    eps, delta = guarantee["eps"], guarantee["delta"]
    promise = f"eps = {eps:g}" if pure else f"eps = {eps:g} and delta = {delta:g}"
    in_rho = "" if pure else f" (rho = {guarantee['rho']:.6g} of zCDP)"
    same_delta = "" if pure else ", at the same delta"
    warning = statement.get("warning")
    lines = [
        "# What this map promises",
        "",
        *([f"**{warning}**", ""] if warning else []),
        f"This map is differentially private with {promise}: whether or not {whose} had been in "
        f"the data, every possible map would have been about equally likely, within a factor of "
        f"{_factor(eps)}"
        + ("." if pure else f", except with a probability of about {delta:g}.")
        + " Nobody can learn much more about one "
        + ("person" if protected == "user" else "record")
        + " from it than without it, whatever else they know.",
        "",
        "| | |",
        "|---|---|",
        f"| Protected | {'all records of one user' if protected == 'user' else 'one record'} |",
        f"| Which records count | {unit['bound']} |",
        f"| Neighbouring data sets | {guarantee['neighbours']} |",
        f"| Guarantee | {promise}{in_rho} |",
        f"| For replacing one {protected} instead | eps = {guarantee['eps_for_replacement']:.6g}"
        f"{same_delta} |",
        f"| Noise | {noisy['name']}, scale {noisy['scale']:.6g}, standard deviation "
        f"{noisy['standard_deviation']:.4g} records, on each of the counts |",
        f"| Sampler | {mechanism['sampler']}; no seed |",
        f"| Cells | {statement['cells']['number']:,}, chosen without the records |",
        f"| Period | {_period(statement['period'])} |",
        f"| Trust | {statement['trust']['trusted']} |",
        f"| Post-processing | {statement['post_processing']} |",
        f"| All publications about the same people | {budget['measure']} {budget['spent']} of "
        f"{budget['total']} is spent |",
        f"| Software | shuffledp {statement['software']['shuffledp']}, OpenDP "
        f"{statement['software']['opendp']} |",
        f"| Published | {statement['published']} |",
        "",
        "## How to read the numbers",
        "",
        "- `noisy_count` is the count plus noise. It may be negative, and is right on average.",
        f"- `low` to `high` contains the count of a cell with probability 95 % (noisy count ± "
        f"{intervals['half_width_of_one_cell']}); `joint_low` to `joint_high` contains all counts "
        f"at once with that probability (± {intervals['half_width_of_all_cells_together']}).",
        "- `estimate` uses what all noisy counts together say about typical counts. It is closer "
        "to the truth on average, but not right on average in each cell.",
        f"- All numbers are about {intervals['about']}.",
        "",
        "## What is not promised",
        "",
        *(f"- The promise does not cover {each}." for each in statement["not_protected"]),
        "- What is true of many people together can be learned: that is the purpose of the map.",
        "",
    ]
    return "\n".join(lines)


def _factor(eps: float) -> str:
    from math import exp

    return f"{exp(eps):.3g}" if eps < 20 else f"exp({eps:g})"


def _period(period: Mapping[str, Any] | None) -> str:
    if period is None:
        return "all records of the file"
    every = f", every {period['every']}" if period.get("every") else ""
    return f"{period['from']} to {period['to']} ({period['time_zone']}){every}"


def _opendp_version() -> str:
    from importlib.metadata import version

    return version("opendp")
