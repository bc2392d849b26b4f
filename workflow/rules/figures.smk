def figure(by, inputs, arguments, stem="", caption="words", category="", words=""):
    """How a figure is made: by a function of shuffledp.figures, written MODULE.FUNCTION, or of
    shuffledp.papers, written papers.MODULE.FUNCTION.

    Its arguments are files of the run, by name, and others. `stem` follows the figure's name in
    that of its files. For the report: `words` is its caption, or that has a file of its own,
    named by `caption`.
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


# Figures that are tables of curves: the keys of shuffledp.papers.reproduction.FIGURES.
PAPER_CURVES = {
    "paper_b": [f"figure-{number}" for number in range(2, 6)],
    "paper_c": [f"figure-{number}" for number in range(1, 11)],
    "paper_d": [f"figure-{number}" for number in range(2, 5)],
    "literature": ["all-bounds"],
}

# What shuffledp.papers.paper_d estimates, by figure.
ESTIMATED = {
    "figure-6": "Chen et al., figure 6: means by Algorithm 2, over the share of conservative users",
    "figure-7": "Chen et al., figure 7: means by Algorithm 2, over the conservative users' budget",
    "figure-8": "Chen et al., figure 8: frequencies by Algorithm 3, over the conservative users' share and budget",
    "dependence": "Records that depend on budgets: Chen et al.'s frequencies are biased, means are not",
}

RECOMPUTED = "The papers' figures, recomputed"


def curve_caption(study):
    """Params function: what the study says of a figure, for the report."""

    def caption(wildcards):
        from shuffledp.papers.reproduction import FIGURES

        return FIGURES[study][wildcards.figure].caption

    return caption


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
        arguments={**NAMED, "dots": real_rows},
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
    "sizes": figure(
        by="privacy.draw_sizes",
        inputs={
            "sizes": f"privacy/{PLACE[1:]}.sizes.parquet",
            "cells": f"grids/{PLACE[1:]}.parquet",
        },
        arguments=NAMED,
        stem=PLACE,
        caption="sizes",
        category="Privacy",
    ),
    "units": figure(
        by="privacy.draw_units",
        inputs={
            "privacy": f"privacy/{PLACE[1:]}.units.parquet",
            "users": f"privacy/{PLACE[1:]}.users.csv",
        },
        arguments={"title": lambda wildcards: plain_title(wildcards.region)},
        stem=PLACE,
        caption="units",
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
        by="cell_confidence.draw_errors",
        inputs={**CELLWISE, **SURROUNDINGS},
        arguments=AT_TARGET,
        stem=OF_EPS0,
        caption="error_maps",
        category="Estimates",
    ),
    "trust": figure(
        by="cell_confidence.draw_trust",
        inputs={**CELLWISE, **SURROUNDINGS},
        arguments=AT_TARGET,
        stem=OF_EPS0,
        caption="trust_maps",
        category="Estimates",
    ),
    "ranks": figure(
        by="cell_confidence.draw_ranks",
        inputs={**CELLWISE, **SURROUNDINGS},
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
        by="distances.draw_comparison",
        inputs={"summary": "utility/comparison.csv"},
        arguments={"target_delta": config["target_delta"]},
        caption="matched_comparison",
        category="The main result",
    ),
    "mechanisms": figure(
        by="mechanisms.draw_mechanisms",
        inputs={"summary": f"utility/{PLACE[1:]}.csv"},
        arguments={},
        stem=PLACE,
        caption="mechanisms",
        category="Which mechanism",
    ),
    "slots": figure(
        by="mechanisms.draw_slots",
        inputs={
            "slots": f"utility/{PLACE[1:]}.slots.csv",
            "summary": f"utility/{PLACE[1:]}.csv",
        },
        arguments={},
        stem=PLACE,
        caption="slots",
        category="Which mechanism",
    ),
    "budgets": figure(
        by="papers.paper_d.figures.draw_places",
        inputs={"table": f"utility/{PLACE[1:]}.budgets.csv"},
        arguments=NAMED,
        stem=PLACE,
        caption="budgets",
        category="Personalised budgets",
    ),
    **{
        study: figure(
            by=(
                "papers.figures.draw_all_bounds"
                if study == "literature"
                else "papers.figures.draw_curves"
            ),
            inputs={"curves": f"reproduction/curves/{study}.{{figure}}.parquet"},
            arguments={},
            stem=".{figure}",
            category=RECOMPUTED,
            words=curve_caption(study),
        )
        for study in PAPER_CURVES
    },
    "paper_a.figure-1": figure(
        by="papers.figures.draw_contours",
        inputs={"surface": "reproduction/paper_a.figure-1.parquet"},
        arguments={},
        caption="paper_a_surface",
        category=RECOMPUTED,
    ),
    "paper_a.figure-2": figure(
        by="papers.figures.draw_synthetic_distances",
        inputs={"distances": "reproduction/paper_a.figure-2.parquet"},
        arguments={},
        caption="paper_a_distances",
        category=RECOMPUTED,
    ),
    "personalised.figure-5": figure(
        by="papers.paper_d.figures.draw_training",
        inputs={
            "accuracies": "personalised/training.csv",
            "noise": "personalised/training-noise.csv",
        },
        arguments={},
        caption="personalised_training",
        category=RECOMPUTED,
    ),
    **{
        f"personalised.{one}": figure(
            by=f"papers.paper_d.figures.draw_{'private_' if private else ''}estimates",
            inputs={
                "estimates": f"personalised/estimates.{one}.csv",
                **({"privacy": f"personalised/privacy.{one}.csv"} if private else {}),
            },
            arguments={"title": title},
            caption="personalised_estimates",
            category=RECOMPUTED,
            words=title,
        )
        for one, title in ESTIMATED.items()
        for private in [one != "dependence"]
    },
}


# --- What there is to draw ---------------------------------------------------------------


def calibrations(name, region):
    """Calibrations that a figure is drawn for, one file each, or none if it has but one file.

    At equal privacy, and as some mechanism of the region was published. Distances, the utility
    that it is for, also with the paper's own delta.
    """
    from shuffledp.mechanisms.catalogue import own_calibrations
    from shuffledp.pipeline.selection import DELTA_HAT

    if "{calibration}" not in FIGURES[name].stem:
        return [None]
    literal = [DELTA_HAT] if name == "distances" else []
    return ["matched", *literal, *own_calibrations(REGIONS[region]["mechanisms"])]


def stem_of(name, calibration):
    """Pattern of a figure's files, without their ending."""
    return f"{name}{FIGURES[name].stem}".replace("{calibration}", str(calibration))


# Figures of what a configuration may lack: whether a region has it.
NEEDED = {
    "mechanisms": lambda spec: "targets" in spec,
    "slots": lambda spec: "slots" in spec.get("targets", {}),
    "budgets": lambda spec: "budgets" in spec,
}


def figures_of(region):
    """The figures of a region's first grid, of what the configuration has."""
    values = {
        "region": [region],
        "grid": [first_grid(region)],
        "eps0": list(map(budget, REGIONS[region]["eps0"])),
    }
    made = []
    for name, spec in FIGURES.items():
        possible = name not in NEEDED or NEEDED[name](REGIONS[region])
        if possible and "{region}" in spec.stem:
            for calibration in calibrations(name, region):
                pattern = stem_of(name, calibration)
                used = {k: v for k, v in values.items() if f"{{{k}}}" in pattern}
                for stem in expand(pattern, **used):
                    made += figure_files(stem)
    return made


def everything(wildcards):
    """All tables and figures of the run."""
    made = [result("utility/comparison.csv"), *figure_files("comparison")]
    for region in REGIONS:
        made += [*tables_of(region), *figures_of(region)]
    return made


# --- Drawing ----------------------------------------------------------------------------


def sheets():
    """Names of figures that read the same files of the same place, and are drawn by one job.

    Most of a figure's time is that of the libraries that draw it. A figure with words of its own
    stands alone: these are the job's.
    """
    found = {}
    for name, spec in FIGURES.items():
        place = spec.stem.removesuffix(".{calibration}")
        alone = name if spec.words else ""
        key = tuple(spec.inputs.items()), place, alone
        found.setdefault(key, []).append(name)
    return [(place, names) for (_, place, _), names in found.items()]


def editions(place, names):
    """The figures of a sheet with their calibrations, by the regions that have the same ones."""
    found = {}
    for region in REGIONS:
        drawn = [(name, one) for name in names for one in calibrations(name, region)]
        found.setdefault(tuple(drawn), []).append(region)
    # Others are of no region.
    return found.items() if "{region}" in place else [(next(iter(found)), REGIONS)]


def drawing(name, calibration):
    """The three files of a figure, the PNG with its caption in the report."""
    spec = FIGURES[name]
    png, *others = figure_files(stem_of(name, calibration))
    # From the folder of the rules, as for scripts. One for a calibration, or for all.
    captions = ROOT / "workflow" / "report"
    own = f"{spec.caption}.{calibration}.rst"
    caption = own if (captions / own).exists() else f"{spec.caption}.rst"
    sub = {}
    if calibration is not None:
        equal = calibration == "matched"
        words = calibration.replace("-", " ")
        sub["subcategory"] = (
            "1. equal privacy" if equal else f"2. {words}: not equal privacy"
        )
    shown = report(
        png,
        caption=f"../report/{caption}",
        category=ordered(spec.category, ORDER),
        labels=report_labels(name),
        **sub,
    )
    return [shown, *others]


def drawing_module(by):
    """The module of a drawing function, as workflow/scripts/draw_figure.py imports it."""
    home, _, _ = by.rpartition(".")
    return f"shuffledp.{'' if home.startswith('papers.') else 'figures.'}{home}"


def drawn_by(figures):
    """Params function: by which functions figures are drawn, with which arguments."""

    def calls(wildcards):
        given = dict(wildcards.items())
        return [
            {
                "by": FIGURES[name].by,
                "arguments": FIGURES[name].arguments(
                    SimpleNamespace(**given, calibration=calibration)
                ),
            }
            for name, calibration in figures
        ]

    return calls


for place, names in sheets():
    for number, (figures, regions) in enumerate(editions(place, names)):
        job = f"draw_{names[0].replace('-', '_').replace('.', '_')}"
        # Only where regions are drawn at different calibrations there is a second one.
        job += f"_{number + 1}" * (number > 0)

        rule:
            name:
                job
            input:
                **FIGURES[names[0]].inputs,
            output:
                [file for one in figures for file in drawing(*one)],
            log:
                log_of(f"{job}{place}"),
            benchmark:
                benchmark_of(f"{job}{place}")
            wildcard_constraints:
                region="|".join(regions),
            # Of seconds each: a cluster runs them together.
            group:
                "figures"
            conda:
                "../../environment.yml"
            resources:
                **cost(memory(1500, per_cell=1.5), 2),
            params:
                library=library(
                    "draw_figure",
                    *{drawing_module(FIGURES[name].by) for name in names},
                ),
                figures=drawn_by(figures),
                caption=FIGURES[names[0]].words,
            script:
                "../scripts/draw_figure.py"
