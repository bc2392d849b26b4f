import os
import sys
from functools import cache
from pathlib import Path

import yaml
from snakemake.logging import logger
from snakemake.utils import validate

LIBRARY = ROOT / "workflow" / "lib"
SCRIPTS = ROOT / "workflow" / "scripts"

# A clone works without being installed; jobs inherit the path through the environment.
sys.path.insert(0, str(LIBRARY))
os.environ.update(
    PYTHONPATH=os.pathsep.join(
        filter(None, [str(LIBRARY), os.environ.get("PYTHONPATH")])
    )
)

import shuffledp
from shuffledp.configuration import (
    budget_column,
    check_basemaps,
    check_cells,
    check_configuration,
    check_drawable,
    check_names,
    effective_regions,
    leave_out,
)
from shuffledp.errors import InputError
from shuffledp.files import parts
from shuffledp.modules import fingerprint, script_modules
from shuffledp.schema import check_schema, check_unique_keys

if not LIBRARY.samefile(Path(shuffledp.__file__).parents[1]):
    raise WorkflowError(
        f"two versions of shuffledp in one workflow: {shuffledp.__file__} is loaded already, "
        f"{LIBRARY} would be ignored; use one version, or run them one by one"
    )

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
    mechanism="[a-z0-9-]+",


# --- Files ------------------------------------------------------------------------------


def result(path):
    """A file of this configuration's run: runs stand beside each other."""
    return os.path.join("results", config["run"], path)


def log_of(job):
    return result(f"logs/{job}.log")


def benchmark_of(job):
    return result(f"benchmarks/{job}.tsv")


def library(script, *modules):
    """Fingerprint of what a script imports of the library, and of the modules it is told to import.

    As a parameter it has Snakemake run a job again when its code changes, as forty input files
    would, without the time that these take to plan.
    """
    names = script_modules(SCRIPTS / f"{script}.py")
    return fingerprint([*names, *modules])


def study_library(script):
    """Params function: as `library`, with the module that the study's wildcard names."""
    return lambda wildcards: library(
        script, f"shuffledp.studies.reproduction.{wildcards.study}"
    )


def resource(name):
    """A file that ships with the workflow."""
    return local(os.path.relpath(ROOT / "resources" / name))


def cost(mem_mb, runtime):
    """What a job asks for, doubled with every attempt: one that ran out of it gets more."""

    def escalating(amount):
        return lambda wildcards, attempt: amount * 2 ** (attempt - 1)

    return {"mem_mb": escalating(mem_mb), "runtime": escalating(runtime)}


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


def of_targets(key):
    """Params function: a key of the targets that the mechanisms of a region calibrate to."""

    def value(wildcards):
        if "targets" not in config:
            raise WorkflowError(
                "config: targets: mechanisms are compared at targets, and there are none; give "
                "their eps and delta (config/README.md)"
            )
        return REGIONS[wildcards.region]["targets"][key]

    return value


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


def per_mechanism(pattern):
    """Input function: the pattern's files for every mechanism that calibrates to the targets."""
    return lambda wildcards: [
        result(
            pattern.format(
                region=wildcards.region, grid=wildcards.grid, mechanism=mechanism
            )
        )
        for mechanism in of_targets("mechanisms")(wildcards)
    ]


def unit_words(region):
    return {"checkin": "one check-in", "user": "one user"}[REGIONS[region]["unit"]]


def region_unit(wildcards):
    return unit_words(wildcards.region)


def plain_title(region):
    return REGIONS[region].get("title", region)


def region_title(wildcards):
    """A region's name in figures, with the unit that delta protects."""
    return f"{plain_title(wildcards.region)} (unit: {unit_words(wildcards.region)})"


def source_name(wildcards):
    return REGIONS[wildcards.region]["source"]


def source_spec(wildcards):
    return config["sources"][source_name(wildcards)]


def real_rows(wildcards):
    """Embedded sources have counts only: their positions and users are made up."""
    return source_spec(wildcards)["kind"] != "embedded"


def source_file(wildcards):
    """The file with a region's check-ins: local, downloaded, or laid from embedded counts.

    A local one may be a folder.
    """
    name, spec = source_name(wildcards), source_spec(wildcards)
    if spec["kind"] == "embedded":
        return result(f"laid/{wildcards.region}.txt.gz")
    if spec["kind"] == "download":
        return f"resources/automatic/{name}/{Path(spec['url']).name}"
    key, reader = f"sources.{name}.path", f"regions.{wildcards.region}"
    explain_missing(key, reader, spec["path"])
    return spec["path"]


# In a module it puts the prefix before a path.
MODIFIER = workflow.modifier


@cache
def explain_missing(key, reader, path):
    """Say which key's file is missing: Snakemake, which then stops, names a rule and the file only."""
    path = str(MODIFIER.modify_path(path))
    made = any(rule.is_producer(path) for rule in workflow.rules)
    if workflow.is_main_process and not made and not os.path.exists(path):
        logger.error(
            f"config: {key}: there is no {os.path.abspath(path)}, which "
            f"{reader} reads; a relative path starts at the folder where snakemake runs, "
            "wherever the configuration is"
        )


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


# Paper D trains on them; none for scikit-learn's digits.
MNIST = config.get("personalised", {}).get("mnist", {})


def image_file(name):
    """One of MNIST's files: local or downloaded."""
    spec = MNIST[name]
    if "url" in spec:
        return f"resources/automatic/mnist/{name}/{Path(spec['url']).name}"
    explain_missing(f"personalised.mnist.{name}.path", "training", spec["path"])
    return spec["path"]


def image_files(wildcards):
    return {name: image_file(name) for name in MNIST}


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
            found["place"] = f"{plain_title(given['region'])}, grid {given['grid']}"
        if "eps0" in given:
            found["local budget eps0"] = given["eps0"]
        if "figure" in given:
            found["figure"] += f", {given['figure'].replace('-', ' ')}"
        return found

    return labels


# --- What there is to make --------------------------------------------------------------


def first_grid(region):
    """The grid that figures are drawn for by default."""
    return next(iter(REGIONS[region]["grids"]))


def tables_of(region):
    """Every table of a region, those of early stages too: a killed run may have lost any."""
    stages = ["checkins"] + ["users"] * (REGIONS[region]["unit"] == "user")
    names = [f"{stage}/{region}.parquet" for stage in stages]
    for grid in REGIONS[region]["grids"]:
        place = f"{region}.{grid}"
        names += [
            f"{s}/{place}.parquet" for s in ("grids", "samples", "privacy", "utility")
        ]
        names.append(f"utility/{place}.individual.parquet")
        for eps0 in map(budget, REGIONS[region]["eps0"]):
            names += [
                f"{s}/{place}.eps0-{eps0}.parquet" for s in ("privacy", "releases")
            ]
            names.append(f"utility/{place}.individual.eps0-{eps0}.csv")
    for eps0 in map(budget, REGIONS[region]["eps0"]):
        place = f"{region}.{first_grid(region)}"
        names.append(f"tables/individual.{place}.eps0-{eps0}.html")
        names.append(f"utility/{place}.certainty.eps0-{eps0}.parquet")
    if "targets" in config:
        place = f"{region}.{first_grid(region)}.targets"
        names += [f"utility/{place}.{kind}" for kind in ("parquet", "csv")]
        for mechanism in REGIONS[region]["targets"]["mechanisms"]:
            names += [
                f"{s}/{place}.{mechanism}.parquet" for s in ("utility", "releases")
            ]
    if "budgets" in REGIONS[region]:
        names.append(f"utility/{region}.{first_grid(region)}.budgets.csv")
    if budget_column(REGIONS[region]) is not None:
        names.append(f"grids/{region}.{first_grid(region)}.budgets.parquet")
    return list(map(result, names))


# --- The page ---------------------------------------------------------------------------


def page_files(wildcards):
    """What a page shows of every region, by names that start with that of the region."""
    files = {}
    for region in REGIONS:
        place = f"{region}.{first_grid(region)}"
        found = {
            "cells": result(f"grids/{place}.parquet"),
            "samples": result(f"samples/{place}.parquet"),
            "curves": result(f"privacy/{place}.curves.parquet"),
            "privacy": result(f"privacy/{place}.parquet"),
            "people": result(f"privacy/{place}.people.parquet"),
            "utility": result(f"utility/{place}.parquet"),
        }
        for eps0 in map(budget, REGIONS[region]["eps0"]):
            found[f"certainty_{eps0}"] = result(
                f"utility/{place}.certainty.eps0-{eps0}.parquet"
            )
        if "targets" in config:
            found["targets"] = result(f"utility/{place}.targets.csv")
            for mechanism in REGIONS[region]["targets"]["mechanisms"]:
                found[f"estimates_{mechanism}"] = result(
                    f"releases/{place}.targets.{mechanism}.parquet"
                )
        around = SimpleNamespace(region=region)
        for name, source in SURROUNDINGS.items():
            if path := source(around):
                found[name] = path
        files |= {f"{region}__{name}": path for name, path in found.items()}
    return files


# Text and scripts of the page: a change in them makes the page again.
PAGE_PARTS = sorted(
    local(os.path.relpath(path))
    for kind in ("html", "css", "js")
    for path in (LIBRARY / "shuffledp" / "page").rglob(f"*.{kind}")
)
