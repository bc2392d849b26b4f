from types import SimpleNamespace

FORMATS = ["png", "pdf", "svg"]


def figure_files(stem):
    return [result(f"figures/{stem}.{kind}") for kind in FORMATS]


def report_subcategory(wildcards):
    """Params function: equal privacy stands above what is not."""
    calibration = getattr(wildcards, "calibration", "matched")
    return (
        "1. equal privacy"
        if calibration == "matched"
        else f"2. {calibration.replace('-', ' ')}: not equal privacy"
    )


def drawing(name, spec):
    """The three files of a figure as named outputs, the PNG with its caption in the report."""
    files = dict(zip(FORMATS, figure_files(f"{name}{spec.stem}"), strict=True))
    # From the folder of the rules, as for scripts.
    caption = f"../report/{spec.caption}.rst"
    sub = {"subcategory": report_subcategory} if "{calibration}" in spec.stem else {}
    files["png"] = report(
        files["png"],
        caption=caption,
        category=ordered(spec.category, ORDER),
        labels=report_labels(name),
        **sub,
    )
    return files


def figure(by, inputs, arguments, stem="", caption="", category="", words=""):
    """How a figure is made: by a function of shuffledp.figures, written MODULE.FUNCTION.

    Its arguments are files of the run, by name, and others. `stem` follows the figure's name in
    that of its files; caption, category and words (of a figure that brings its caption) are for
    the report.
    """
    inputs = {
        name: source if callable(source) else result(source)
        for name, source in inputs.items()
    }

    def evaluated(wildcards):
        return {
            name: value(wildcards) if callable(value) else value
            for name, value in arguments.items()
        }

    return SimpleNamespace(
        by=by,
        inputs=inputs,
        arguments=evaluated,
        stem=stem,
        caption=caption,
        category=category,
        words=words,
    )


PLACE = ".{region}.{grid}"
OF_EPS0 = f"{PLACE}.eps0-{{eps0}}"
NAMED = {"title": region_title, "unit": region_unit}
CALIBRATED = {
    "calibration": lambda wildcards: wildcards.calibration,
    "target_delta": config["target_delta"],
}

AT_TARGET = {**NAMED, "target_delta": config["target_delta"]}
CELLWISE = {
    "certainty": f"utility/{PLACE[1:]}.certainty.eps0-{{eps0}}.parquet",
    "cells": f"grids/{PLACE[1:]}.parquet",
}

SURROUNDINGS = {"basemap": basemap_file, "outline": outline_file}

# By the name that their files begin with.
FIGURES = {
    "checkins": figure(
        by="maps.draw_checkins",
        inputs={
            "checkins": unit_checkins,
            "cells": f"grids/{PLACE[1:]}.parquet",
            **SURROUNDINGS,
        },
        arguments={"title": region_title, "dots": real_rows},
        stem=PLACE,
        caption="checkins_map",
        category="Data",
    ),
    "privacy": figure(
        by="privacy.draw_privacy",
        inputs={"curves": f"privacy/{PLACE[1:]}.curves.parquet"},
        arguments=AT_TARGET,
        stem=PLACE,
        caption="delta_curves",
        category="Privacy",
    ),
    "people": figure(
        by="people.draw_people",
        inputs={
            "people": f"privacy/{PLACE[1:]}.people.parquet",
            "cells": f"grids/{PLACE[1:]}.parquet",
        },
        arguments=NAMED,
        stem=PLACE,
        caption="people",
        category="Privacy",
    ),
    "persons": figure(
        by="persons.draw_persons",
        inputs={
            "privacy": f"privacy/{PLACE[1:]}.persons.parquet",
            "users": f"privacy/{PLACE[1:]}.users.csv",
        },
        arguments={"title": lambda wildcards: plain_title(wildcards.region)},
        stem=PLACE,
        caption="persons",
        category="Privacy",
    ),
    "estimates": figure(
        by="maps.draw_estimates",
        inputs={
            "releases": f"releases/{OF_EPS0[1:]}.parquet",
            "samples": f"samples/{PLACE[1:]}.parquet",
            "cells": f"grids/{PLACE[1:]}.parquet",
            **SURROUNDINGS,
        },
        arguments={**NAMED, **CALIBRATED},
        stem=f"{OF_EPS0}.{{calibration}}",
        caption="estimate_maps",
        category="Estimates",
    ),
    "errors": figure(
        by="certainty.draw_errors",
        inputs={**CELLWISE, **SURROUNDINGS},
        arguments=AT_TARGET,
        stem=OF_EPS0,
        caption="error_maps",
        category="Estimates",
    ),
    "trust": figure(
        by="certainty.draw_trust",
        inputs={**CELLWISE, **SURROUNDINGS},
        arguments=AT_TARGET,
        stem=OF_EPS0,
        caption="trust_maps",
        category="Estimates",
    ),
    "ranks": figure(
        by="ranks.draw_ranks",
        inputs={**CELLWISE, "basemap": basemap_file},
        arguments=AT_TARGET,
        stem=OF_EPS0,
        caption="ranked_cells",
        category="Estimates",
    ),
    "distances": figure(
        by="distances.draw_distances",
        inputs={"utility": f"utility/{PLACE[1:]}.parquet"},
        arguments={**NAMED, **CALIBRATED},
        stem=f"{PLACE}.{{calibration}}",
        caption="distances",
        category="Distances",
    ),
    "distances-over-eps": figure(
        by="distances.draw_distances_over_eps",
        inputs={"utility": f"utility/{PLACE[1:]}.parquet"},
        arguments=NAMED,
        stem=PLACE,
        caption="distance_over_eps",
        category="Distances",
    ),
    "comparison": figure(
        by="comparison.draw_comparison",
        inputs={"summary": "utility/comparison.csv"},
        arguments={"target_delta": config["target_delta"]},
        caption="matched_comparison",
        category="The main result",
    ),
    "mechanisms": figure(
        by="mechanisms.draw_mechanisms",
        inputs={"summary": f"utility/{PLACE[1:]}.targets.csv"},
        arguments={},
        stem=PLACE,
        caption="mechanisms",
        category="Which mechanism",
    ),
}


# --- What there is to draw ---------------------------------------------------------------


def calibrations(figure, region):
    """At equal privacy, and as some mechanism of the region was published.

    Distances, the utility that it is for, also with the paper's own delta.
    """
    from shuffledp.mechanisms.registry import own_calibrations
    from shuffledp.selection import DELTA_HAT

    literal = [DELTA_HAT] if figure == "distances" else []
    return ["matched", *literal, *own_calibrations(REGIONS[region]["mechanisms"])]


# Figures of what a configuration may lack, with the key that it needs.
NEEDED = {"mechanisms": "targets", "budgets": "budgets"}


def figures_of(region):
    """The figures of a region's first grid, of what the configuration has."""
    values = {
        "region": [region],
        "grid": [first_grid(region)],
        "eps0": list(map(budget, REGIONS[region]["eps0"])),
    }
    made = []
    for name, spec in FIGURES.items():
        possible = name not in NEEDED or NEEDED[name] in REGIONS[region]
        if possible and "{region}" in spec.stem:
            every = {**values, "calibration": calibrations(name, region)}
            used = {k: v for k, v in every.items() if f"{{{k}}}" in spec.stem}
            for stem in expand(f"{name}{spec.stem}", **used):
                made += figure_files(stem)
    return made


def everything(wildcards):
    """All tables and figures of the run."""
    made = [result("utility/comparison.csv"), *figure_files("comparison")]
    for region in REGIONS:
        made += [*tables_of(region), *figures_of(region)]
    return made
