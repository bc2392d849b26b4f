import os
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import yaml
from snakemake.logging import logger
from snakemake.utils import validate

from shuffledp.pipeline.configuration import (
    budget_column,
    check_basemaps,
    check_cells,
    check_configuration,
    check_drawable,
    check_names,
    effective_regions,
    leave_out,
)
from shuffledp.geography.grid import cell_count
from shuffledp.geography.regions import grid_spec, region_from_config
from shuffledp.pipeline.files import parts
from shuffledp.pipeline.address import Address, file_name, masked_addresses
from shuffledp.mechanisms.catalogue import CATALOGUE
from shuffledp.pipeline.modules import fingerprint, script_modules, with_mechanisms
from shuffledp.geography.sources import SOURCE_KINDS
from shuffledp.pipeline.schema import check_schema, check_unique_keys

BASEMAPS = ROOT / "resources" / "basemaps"
SCHEMA = ROOT / "workflow" / "schemas" / "config.schema.yaml"

try:
    if workflow.is_main_process:
        for path in workflow.configfiles:
            check_unique_keys(Path(path))
    leave_out(config)
    check_schema(config, yaml.safe_load(SCHEMA.read_text(encoding="utf-8")))
    validate(config, str(SCHEMA))  # sets the defaults
    counts = (ROOT / "resources" / "cell_counts").glob("*.csv")
    check_configuration(config, {path.stem for path in counts})
    REGIONS = effective_regions(config)
    if workflow.is_main_process:
        check_names(REGIONS)
        check_drawable(REGIONS)
        check_cells(REGIONS)
        check_basemaps(REGIONS, BASEMAPS)
except InputError as error:
    raise WorkflowError(f"config: {error}") from None


wildcard_constraints:
    region="|".join(REGIONS),
    grid="|".join({grid for spec in REGIONS.values() for grid in spec["grids"]}),
    source="[a-z0-9][a-z0-9_]*",
    eps0="[0-9.e+-]+",
    calibration="[a-z-]+",
    part="eps0-[0-9.e+-]+|target-[a-z0-9-]+",


# --- Files ------------------------------------------------------------------------------


def result(path):
    """A file of this configuration's run: runs stand beside each other."""
    return os.path.join("results", config["run"], path)


FORMATS = ["png", "pdf", "svg"]


def figure_files(stem):
    return [result(f"figures/{stem}.{kind}") for kind in FORMATS]


def log_of(job):
    return result(f"logs/{job}.log")


def benchmark_of(job):
    return result(f"benchmarks/{job}.tsv")


def mechanisms_of(wildcards):
    """Modules of the mechanisms that a job may look up: of its wildcards, or all."""
    given, names = dict(wildcards.items()), list(CATALOGUE)
    if "region" in given:
        spec = REGIONS[given["region"]]
        kind, _, value = given.get("part", "").partition("-")
        names = [value] if kind == "target" else spec["mechanisms"]
        if not kind and "eps0" not in given:  # of no one sweep
            names = [*names, *spec.get("targets", spec)["mechanisms"]]
    return [CATALOGUE[name].module for name in names]


def library(script, *modules):
    """Params function: fingerprint of the code of a job.

    That is what its script imports of the library, the modules that it is told to import, and the
    mechanisms that it looks up. As a parameter it has Snakemake run the job again when its code
    changes, as forty input files would, without the time that these take to plan.
    """
    names = [*script_modules(SCRIPTS / f"{script}.py"), *modules]
    return lambda wildcards: fingerprint(
        with_mechanisms(names, mechanisms_of(wildcards))
    )


def resource(name):
    """A file that ships with the workflow."""
    return local(os.path.relpath(ROOT / "resources" / name))


def cost(mem_mb, runtime):
    """Return what a job asks for, doubled with every attempt after it ran out.

    Megabytes are a number, or a function of the wildcards.
    """

    def escalating(amount):
        def asked(wildcards, attempt):
            first = amount(wildcards) if callable(amount) else amount
            return round(first) * 2 ** (attempt - 1)

        return asked

    return {"mem_mb": escalating(mem_mb), "runtime": escalating(runtime)}


@cache
def cells_of(region, grid):
    """Number of cells of a grid, k."""
    return cell_count(
        region_from_config(region, REGIONS[region]),
        grid_spec(region, REGIONS[region]["grids"], grid),
    )


def memory(fixed, per_cell=0.0, per_estimate=0.0, per_sample=0.0):
    """Resource function: megabytes of a job on a grid.

    Beside a fixed number: kilobytes for each cell, for each estimate of one series (cells times
    repetitions), and for each cell of each sample.
    """

    def asked(wildcards):
        place = dict(wildcards.items())
        if "grid" not in place:
            return fixed
        spec = REGIONS[place["region"]]
        each = (
            per_cell + per_estimate * spec["repetitions"] + per_sample * len(spec["n"])
        )
        return fixed + each * cells_of(place["region"], place["grid"]) / 1000

    return asked


def individual_memory(wildcards):
    """Megabytes of summarise_individual, which holds its cells of every series of one eps0."""
    fixed = memory(1000, per_sample=0.1)(wildcards)
    place = dict(wildcards.items())
    if "grid" not in place:
        return fixed
    spec = REGIONS[place["region"]]
    k = cells_of(place["region"], place["grid"])
    cells = k // (spec.get("individual_every") or max(1, k // 20))
    return fixed + 0.0005 * cells * spec["repetitions"] * (2 * len(spec["eps"]) + 10)


def page_memory(wildcards):
    """Return the megabytes of the job that writes the page: the grids that it shows, and a base."""
    cells = [cells_of(region, first_grid(region)) for region in REGIONS]
    return 1500 + 1.5 * max(cells) / 1000


def budget(eps0):
    """A budget as it stands in file names, from which jobs read it back: no digit may be lost."""
    return repr(float(eps0)).removesuffix(".0")


def per_eps0(pattern):
    """Input function: the pattern's files for every eps0 of the region's sweep."""
    return lambda wildcards: [
        result(
            pattern.format(
                region=wildcards.region, grid=wildcards.grid, eps0=budget(eps0)
            )
        )
        for eps0 in REGIONS[wildcards.region]["eps0"]
    ]


# --- Regions and their sources ----------------------------------------------------------


def of_region(key):
    """Params function: a region's own value of a key, or else the common one."""
    return lambda wildcards: REGIONS[wildcards.region].get(key)


def grid_of_region(wildcards):
    """Params function: what is given of a region's grid."""
    try:
        return grid_spec(
            wildcards.region, REGIONS[wildcards.region]["grids"], wildcards.grid
        )
    except InputError as error:
        raise WorkflowError(f"config: {error}") from None


def first_grid(region):
    """The grid that figures are drawn for by default."""
    return next(iter(REGIONS[region]["grids"]))


def targets_of(region):
    """What mechanisms of a region calibrate to, beside which of them do; none: an error."""
    if "targets" not in config:
        raise WorkflowError(
            "config: targets: mechanisms are compared at targets, and there are none; give "
            "their eps and delta (config/README.md)"
        )
    return {
        k: v
        for k, v in REGIONS[region]["targets"].items()
        if k not in ("mechanisms", "slots")
    }


def parts_of(region, grid):
    """Parts of a region's sweep of calibrations; targets are for its first grid alone."""
    spec = REGIONS[region]
    parts = [f"eps0-{budget(eps0)}" for eps0 in spec["eps0"]]
    if "targets" in spec and grid == first_grid(region):
        parts += [f"target-{name}" for name in spec["targets"]["mechanisms"]]
    return parts


def own_budgets(wildcards):
    """Params function: the budgets of users who choose their own."""
    if "budgets" not in REGIONS[wildcards.region]:
        raise WorkflowError(
            "config: budgets: there are none to compare; give one, groups with shares, or a "
            "column of the check-ins' file (config/README.md)"
        )
    return REGIONS[wildcards.region]["budgets"]


def chosen_budgets(wildcards):
    """The users of each cell by the budget that they chose, if their file says it."""
    if budget_column(REGIONS[wildcards.region]) is None:
        return []
    return result(f"grids/{wildcards.region}.{wildcards.grid}.budgets.parquet")


def unit_words(region):
    return {"checkin": "one check-in", "user": "one user"}[REGIONS[region]["unit"]]


def region_unit(wildcards):
    return unit_words(wildcards.region)


def plain_title(region):
    return REGIONS[region].get("title", region)


def region_title(wildcards):
    """A region's name in figures, with the unit that delta protects."""
    return f"{plain_title(wildcards.region)} (unit: {unit_words(wildcards.region)})"


# In a module it puts the prefix before a path.
MODIFIER = workflow.modifier


@cache
def explain_missing(key, reader, path, product):
    """Name the key of a missing input file; Snakemake's own message names a rule and the file only.

    Where the product of the file is there, Snakemake keeps it and needs no input: a warning.
    """
    path, product = (str(MODIFIER.modify_path(each)) for each in (path, product))
    made = any(rule.is_producer(path) for rule in workflow.rules)
    if not workflow.is_main_process or made or os.path.exists(path):
        return
    absent = f"config: {key}: there is no {os.path.abspath(path)}, which {reader} reads"
    if os.path.exists(product):
        logger.warning(
            f"{absent}; {product}, made from it before, is used as it is, whatever has changed "
            "since. To make it again, put the file back"
        )
    else:
        logger.error(
            f"{absent}; a relative path starts at the folder where snakemake runs, "
            "wherever the configuration is"
        )


def source_name(wildcards):
    return REGIONS[wildcards.region]["source"]


def source_spec(wildcards):
    return config["sources"][source_name(wildcards)]


def source_kind(wildcards):
    return SOURCE_KINDS[source_spec(wildcards)["kind"]]


def real_rows(wildcards):
    """Params function: whether positions were recorded, not made up."""
    return source_kind(wildcards).real_rows


def real_users(wildcards):
    """Params function: whether it is known who checked in."""
    return source_kind(wildcards).real_users


def region_place(wildcards):
    spec = REGIONS[wildcards.region]
    return {key: spec[key] for key in ("box", "outline") if key in spec}


def unit_checkins(wildcards):
    """A region's check-ins as they are counted: all of them, or one per user."""
    stage = {"checkin": "checkins", "user": "users"}[REGIONS[wildcards.region]["unit"]]
    return result(f"{stage}/{wildcards.region}.parquet")


def outline_file(wildcards):
    return REGIONS[wildcards.region].get("outline", [])


def basemap_file(wildcards):
    """A region's base map: of its own, one that ships with the workflow, or none."""
    path = REGIONS[wildcards.region].get("basemap", [])
    if path == "embedded":
        return resource(f"basemaps/{wildcards.region}.geojson")
    return path


# --- Snakemake's report -----------------------------------------------------------------

# Categories of Snakemake's report, which sorts them by name.
ORDER = [
    "The main result",
    "Which mechanism",
    "Estimates",
    "Distances",
    "Individual utility",
    "Privacy",
    "Data",
]


def ordered(name, names):
    """A name that sorts where it stands among names; what is not there comes after them."""
    place = names.index(name) if name in names else len(names)
    return f"{place + 1}. {name}"


def report_labels(name):
    """Params function: what a figure is called in the report, in place of its file's name."""

    def labels(wildcards):
        given = dict(wildcards.items())
        found = {"figure": name.replace("-", " ").replace("_", " ").replace(".", ", ")}
        if "region" in given:
            # Snakemake takes {x} in a label for a wildcard, and knows no escape: a word joiner,
            # which is not seen, parts the brace from the name.
            title = plain_title(given["region"]).replace("{", "{\u2060")
            found["place"] = f"{title}, grid {given['grid']}"
        if "eps0" in given:
            found["local budget eps0"] = given["eps0"]
        if "figure" in given:
            found["figure"] += f", {given['figure'].replace('-', ' ')}"
        return found

    return labels


# --- What there is to make --------------------------------------------------------------


# Patterns of the tables of a region, by whether it has them and whether of its first grid alone.
TABLES = {}


def table(pattern, *, of=lambda spec: True, first=False):
    """An output that every run makes: a table of a region.

    `of` says which regions have it, by their specification; `first`, that it is made of the first
    grid alone. Tables of early stages are made too if nothing is to read them: a killed run may
    have lost any.
    """
    TABLES[pattern] = of, first
    return result(pattern)


def releases_table(pattern):
    """Like `table`, but deleted once every job that reads it is done, if releases are dropped."""
    if config["releases"] == "drop":
        return temp(result(pattern))
    return table(pattern)


def tables_of(region):
    """Every table of a region."""
    spec, names = REGIONS[region], []
    for pattern, (of, first) in TABLES.items():
        grids = [first_grid(region)] if first else spec["grids"]
        for grid in grids if of(spec) else []:
            values = {
                "region": [region],
                "grid": [grid],
                "eps0": list(map(budget, spec["eps0"])),
                "part": parts_of(region, grid),
            }
            used = {k: v for k, v in values.items() if f"{{{k}}}" in pattern}
            names += expand(pattern, **used)
    return list(dict.fromkeys(map(result, names)))


# --- Files of sources --------------------------------------------------------------------


def source_file(wildcards):
    """The file with a region's check-ins: local, downloaded, or what a rule of its kind makes.

    A local one may be a folder.
    """
    name, spec = source_name(wildcards), source_spec(wildcards)
    if spec["kind"] == "download":
        return f"resources/automatic/{name}/{file_name(spec['url'])}"
    if spec["kind"] == "file":
        key, reader = f"sources.{name}.path", f"regions.{wildcards.region}"
        product = result(f"checkins/{wildcards.region}.parquet")
        explain_missing(key, reader, spec["path"], product)
        return spec["path"]
    return result(f"laid/{spec['kind']}/{wildcards.region}.txt.gz")


def source_parts(wildcards):
    """Files of a source that is a folder: the folder's own time does not show a change in them."""
    if source_spec(wildcards)["kind"] != "file":
        return []
    path = Path(source_file(wildcards))
    return list(map(str, parts(path))) if path.is_dir() else []


def downloads():
    """Names of the sources that are downloaded, as a regular expression for a wildcard."""
    sources = config["sources"].items()
    names = [name for name, spec in sources if spec["kind"] == "download"]
    return "|".join(names) or "(?!)"


# --- Releases ----------------------------------------------------------------------------


def swept(wildcards):
    """Params function: what one part of a region's sweep of calibrations releases.

    `eps0-4` are all mechanisms at the privacy that is certified for k-RR with that budget.
    `target-krr` is one mechanism that calibrates itself to the targets: of slow ones several run at
    once, and a new one leaves the others be.
    """
    kind, _, value = wildcards.part.partition("-")
    spec = REGIONS[wildcards.region]
    if kind == "target":
        return {**targets_of(wildcards.region), "mechanisms": [value]}
    return {
        "eps0": float(value),
        "eps": spec["eps"],
        "target_delta": config["target_delta"],
        "mechanisms": spec["mechanisms"],
    }


# --- Images ------------------------------------------------------------------------------


# Paper D trains on them; none for scikit-learn's digits.
MNIST = config.get("personalised", {}).get("mnist", {})


def image_file(name):
    """One of MNIST's files: local or downloaded."""
    spec = MNIST[name]
    if "url" in spec:
        return f"resources/automatic/mnist/{name}/{file_name(spec['url'])}"
    product = result("personalised/training.csv")
    explain_missing(
        f"personalised.mnist.{name}.path", "training", spec["path"], product
    )
    return spec["path"]


def image_files(wildcards):
    return {name: image_file(name) for name in MNIST}


def personalised_figures():
    """Stems of the files for each figure of paper D that its mechanisms draw."""
    found = {"D, figure 5": ["personalised.figure-5"]}
    found |= {
        f"D, {name.replace('-', ' ')}": [f"personalised.{name}"]
        for name in ESTIMATED
        if name.startswith("figure")
    }
    found["D, its estimators where records depend on budgets"] = [
        "personalised.dependence"
    ]
    return found


# --- Papers ------------------------------------------------------------------------------


def paper_a_figures():
    """Stems of the files for each figure of paper A, on the grid that it used (docs/data.md)."""

    def stems(kind, cities, *suffixes):
        return [f"{kind}.{city}.step{suffix}" for city in cities for suffix in suffixes]

    budgets = [f".eps0-{budget(eps0)}.as-published" for eps0 in config["eps0"]]
    return {
        "A, figure 1": ["paper_a.figure-1"],
        "A, figure 2": ["paper_a.figure-2"],
        "A, figure 3": stems("checkins", CITIES, ""),
        "A, figure 4": stems("estimates", CITIES[:1], *budgets),
        "A, figure 5": stems("estimates", CITIES[1:], *budgets),
        "A, figure 6": stems("distances", CITIES[:1], ".as-published", ".matched"),
        "A, figure 7": stems("distances", CITIES[1:], ".as-published", ".matched"),
    }


def figure_map():
    """Stems of the files for every recomputed figure, by paper and figure."""
    found = paper_a_figures()
    for study, figures in PAPER_CURVES.items():
        paper = study.removeprefix("paper_").replace("_", " ")
        name = paper.upper() if len(paper) == 1 else paper
        for one in figures:
            found[f"{name}, {one.replace('-', ' ')}"] = [f"{study}.{one}"]
        if study == "paper_d":
            found |= personalised_figures()
    return found


def reproduced_figures():
    return [
        path
        for stems in figure_map().values()
        for stem in stems
        for path in figure_files(stem)
    ]


# --- The page, and what is said at the end -----------------------------------------------


def page_files(wildcards):
    """What a page shows of every region, by names that start with that of the region."""
    files = {}
    for region in REGIONS:
        place = f"{region}.{first_grid(region)}"
        found = {
            "checkins": result(f"checkins/{region}.parquet"),
            "cells": result(f"grids/{place}.parquet"),
            "samples": result(f"samples/{place}.parquet"),
            "curves": result(f"privacy/{place}.curves.parquet"),
            "privacy": result(f"privacy/{place}.parquet"),
            "sizes": result(f"privacy/{place}.sizes.parquet"),
            "promises": result(f"privacy/{place}.promises.parquet"),
            "utility": result(f"utility/{place}.parquet"),
            "summary": result(f"utility/{place}.csv"),
        }
        for part in parts_of(region, first_grid(region)):
            found[f"releases_{part}"] = result(f"releases/{place}.{part}.parquet")
        around = SimpleNamespace(region=region)
        for name, source in SURROUNDINGS.items():
            if path := source(around):
                found[name] = path
        files |= {f"{region}__{name}": path for name, path in found.items()}
    return files


def say_what_came_out():
    """Print the main tables of a run and where its figures are, of what was asked for.

    `onsuccess` calls it, which in a module is left to the workflow that uses it (docs/module.md).
    """
    import pandas as pd
    from shuffledp.studies.comparison import findings
    from shuffledp.pipeline.selection import at_targets
    from shuffledp.studies.units import units_findings
    from shuffledp.studies.utility import target_findings

    def of_run(path):
        return str(MODIFIER.modify_path(result(path)))

    asked = {str(path) for job in workflow.dag.jobs for path in job.output}
    units = [
        (region, path, of_run(f"privacy/{region}.{first_grid(region)}.users.csv"))
        for region in REGIONS
        if (path := of_run(f"privacy/{region}.{first_grid(region)}.units.parquet"))
        in asked
    ]
    if units:
        print(
            "\nThe numbers of a run hide one check-in, not a person, unless unit is user:\n"
        )
        for region, path, users in units:
            table = pd.read_parquet(path)
            print(units_findings(table, pd.read_csv(users), plain_title(region)))
    comparison, folder = of_run("utility/comparison.csv"), of_run("figures/")
    table = findings(pd.read_csv(comparison)) if comparison in asked else ""
    if table:
        print(
            "\nDistance to the true histogram at equal privacy (delta = "
            f"{config['target_delta']:g}), as a multiple of the\nreference's: at the largest n (at "
            f"the smallest). From {comparison}.\n\n{table}\n"
        )
    summaries = [
        path
        for region in REGIONS
        if (path := of_run(f"utility/{region}.{first_grid(region)}.csv")) in asked
    ]
    if summaries and "targets" in config:
        print("\nEvery mechanism calibrated to the same certified (eps, delta):\n")
        for path in summaries:
            print(f"{target_findings(at_targets(pd.read_csv(path)), brief=True)}\n")
    drawn = sorted(p for p in asked if p.startswith(folder) and p.endswith(".png"))
    if drawn:
        main = of_run("figures/comparison.png")
        first = f"; the main one is {main}" if main in drawn else ""
        print(f"Figures: {len(drawn)} in {folder}, as PNG, PDF and SVG{first}.")
    reproduction = of_run("reproduction/summary.md")
    if reproduction in asked:
        page = of_run("reproduction/report.html")
        print(f"The papers' numbers: {reproduction}, and to explore {page}")
    page = of_run("report.html")
    if page in asked:
        print(f"To explore in a browser: {page}")
