# Files of the targets `all` and `reproduce`, and of the target of each region.


def parts_of(region):
    """Return the parts of a region's two sweeps, the same for each of its grids."""
    spec = REGIONS[region]
    parts = [f"eps0-{budget(eps0)}" for eps0 in spec["eps0"]]
    if "targets" in spec:
        parts += [f"target-{name}" for name in spec["targets"]["mechanisms"]]
    return parts


def tables_of(region):
    """Return every table of a region.

    Tables of early stages are among them even if nothing reads them any more: a killed run may
    have lost any.
    """
    spec = REGIONS[region]
    eps0 = list(map(budget, spec["eps0"]))
    tables = [f"checkins/{region}.parquet"]
    if spec["unit"] == "user":
        tables.append(f"users/{region}.parquet")
    for grid in spec["grids"]:
        each = {
            "place": f"{region}.{grid}",
            "eps0": eps0,
            "part": parts_of(region),
        }
        tables += expand(
            "{stage}/{place}.parquet",
            stage=["grids", "samples", "privacy", "utility"],
            **each,
        )
        tables += expand("privacy/{place}.eps0-{eps0}.parquet", **each)
        if config["releases"] == "keep":
            tables += expand("releases/{place}.{part}.parquet", **each)
        tables += expand("utility/{place}.{part}.parquet", **each)
        tables += expand("utility/{place}.individual.eps0-{eps0}.csv", **each)
        tables += expand("utility/{place}.csv", **each)
        tables += expand("utility/{place}.certainty.eps0-{eps0}.parquet", **each)
        tables += expand("tables/individual.{place}.eps0-{eps0}.html", **each)
    return list(map(result, tables))


def figures_of(region, grid):
    """Return every figure of a grid."""
    spec, place = REGIONS[region], f"{region}.{grid}"
    names = ["checkins", "privacy", "distances-over-eps"]
    if "targets" in spec:
        names += ["mechanisms", "recommended"]
        names += ["series"] if "every" in spec else []
    stems = expand("{name}.{place}", name=names, place=place)
    stems += expand(
        "distances.{place}.{calibration}",
        place=place,
        calibration=["matched", "delta-hat"],
    )
    for eps0 in map(budget, spec["eps0"]):
        at = f"{place}.eps0-{eps0}"
        stems += expand("{name}.{at}", name=["errors"], at=at)
        stems.append(f"estimates.{at}.matched")
    return [path for stem in stems for path in figure_files(stem)]


def everything():
    """Return all tables and figures of the run."""
    made = [result("utility/comparison.csv"), *figure_files("comparison")]
    for region in REGIONS:
        made += [*tables_of(region)]
        for grid in REGIONS[region]["grids"]:
            made += figures_of(region, grid)
    return made


def personalised_figures():
    """Return the stems of the figures of paper D's mechanisms, by figure."""
    return {
        f"D, figure {number}": [f"personalised.figure-{number}"]
        for number in (5, 6, 7, 8)
    }


def reproduced_figures():
    """Return the stems of the files of every recomputed figure, by paper and figure."""
    maps = [f"step.eps0-{budget(eps0)}.as-published" for eps0 in config["eps0"]]
    distances = ["step.as-published", "step.matched"]
    city, other = CITIES
    found = {
        "A, figure 1": ["paper_a.figure-1"],
        "A, figure 2": ["paper_a.figure-2"],
        # On the grid that paper A used (docs/run-data.md).
        "A, figure 3": [f"checkins.{city}.step", f"checkins.{other}.step"],
        "A, figure 4": [f"estimates.{city}.{name}" for name in maps],
        "A, figure 5": [f"estimates.{other}.{name}" for name in maps],
        "A, figure 6": [f"distances.{city}.{name}" for name in distances],
        "A, figure 7": [f"distances.{other}.{name}" for name in distances],
    }
    for paper, numbers in [("b", range(2, 6)), ("c", range(1, 11)), ("d", range(2, 5))]:
        for number in numbers:
            stem = f"paper_{paper}.figure-{number}"
            found[f"{paper.upper()}, figure {number}"] = [stem]
    return {**found, **personalised_figures()}


def all_files(figures):
    """Return the files of figures given by lists of their stems."""
    return [
        path
        for stems in figures.values()
        for stem in stems
        for path in figure_files(stem)
    ]


def print_run_summary():
    """Print a summary of what this run was asked to make.

    `onsuccess` calls it, which in a module is left to the workflow that uses it (docs/hpc.md).
    """
    from shuffledp.studies.utility import run_summary

    requested = {str(path) for job in workflow.dag.jobs for path in job.output}
    places = {
        f"{region}.{first_grid(region)}": title_with_grid(region, first_grid(region))
        for region in REGIONS
    }
    folder = str(MODIFIER.modify_path(result("")))
    units = {f"{region}.{first_grid(region)}": unit for region, unit in UNITS.items()}
    summary = run_summary(requested, folder, places, config["target_delta"], units)
    print(summary, end="")
