import os
import re
from functools import cache
from pathlib import Path

import yaml
from snakemake.logging import logger

from shuffledp.data.cells import cell_count
from shuffledp.data.download import file_name
from shuffledp.data.regions import grid_spec, region_from_config
from shuffledp.data.sources import SOURCE_KINDS
from shuffledp.pipeline.configuration import (
    check_configuration,
    effective_regions,
    leave_out,
)
from shuffledp.pipeline.files import parts
from shuffledp.pipeline.fingerprints import computing_fingerprint, drawing_fingerprint
from shuffledp.pipeline.schema import check_schema, check_unique_keys, set_defaults
from shuffledp.pipeline.units import replaced, unit_in_words

# Base maps of the cities whose check-in counts ship with the workflow, too.
BASEMAPS = {
    name: Path(shipped(f"resources/basemaps/{name}.geojson"))
    for name in ("paris", "san_francisco")
}

try:
    schema = yaml.safe_load(
        Path(shipped("workflow/schemas/config.schema.yaml")).read_text()
    )
    leave_out(config)
    # The processes of jobs read a configuration that the main process has checked.
    if workflow.is_main_process:
        for path in workflow.configfiles:
            check_unique_keys(Path(path))
        check_schema(config, schema)
    set_defaults(config, schema)
    if workflow.is_main_process:
        check_configuration(config, BASEMAPS)
except InputError as error:
    raise WorkflowError(f"config: {error}") from None

REGIONS = effective_regions(config)
TITLES = {name: spec.get("title", name) for name, spec in REGIONS.items()}


wildcard_constraints:
    region="|".join(REGIONS),
    grid="|".join({grid for spec in REGIONS.values() for grid in spec["grids"]}),
    eps0="[0-9.e+-]+",
    part="eps0-[0-9.e+-]+|target-[a-z0-9-]+",


# Parameter `code` of the jobs: they run again after a change of the library's code, but not after
# a change of a comment or docstring. Only the main process compares parameters.
COMPUTING = computing_fingerprint() if workflow.is_main_process else ""
DRAWING = drawing_fingerprint() if workflow.is_main_process else ""


def result(path):
    """Return the path of a file in the folder of this run, which the key `run` names."""
    return os.path.join("results", config["run"], path)


def log_of(job):
    return result(f"logs/{job}.log")


def resource(name):
    """Return the path of a file that ships with the workflow."""
    return local(shipped(f"resources/{name}"))


@cache
def cells_of(region, grid):
    """Return the number of cells of a grid, k."""
    return cell_count(
        region_from_config(region, REGIONS[region]),
        grid_spec(region, REGIONS[region]["grids"], grid),
    )


def megabytes(wildcards, fixed, *, per_cell=0, per_estimate=0, per_sample=0):
    """Return the megabytes of a job on a grid.

    They are `fixed`, and the kilobytes for each cell, for each estimate of one series (cells times
    repetitions), and for each cell of each sample.
    """
    if "grid" not in dict(wildcards.items()):
        return fixed
    spec = REGIONS[wildcards.region]
    kilobytes = (
        per_cell + per_estimate * spec["repetitions"] + per_sample * len(spec["n"])
    )
    return fixed + kilobytes * cells_of(wildcards.region, wildcards.grid) / 1000


def cost(mem_mb, runtime, **kilobytes):
    """Return the resources of a job, doubled with every attempt after a failure.

    `mem_mb` is a function of the wildcards, or the fixed part of `megabytes`, whose other arguments
    are `kilobytes`; `runtime` is in minutes. They are not in a profile, because options such as
    --set-resources replace all resources of a profile.
    """

    def memory(wildcards, attempt):
        if callable(mem_mb):
            return round(mem_mb(wildcards)) * 2 ** (attempt - 1)
        return round(megabytes(wildcards, mem_mb, **kilobytes)) * 2 ** (attempt - 1)

    return {
        "mem_mb": memory,
        "runtime": lambda wildcards, attempt: runtime * 2 ** (attempt - 1),
    }


def budget(eps0):
    """Return a budget as file names have it; jobs read it back, so no digit may be lost."""
    return repr(float(eps0)).removesuffix(".0")


def first_grid(region):
    """Return the grid that figures are drawn for by default."""
    return next(iter(REGIONS[region]["grids"]))
