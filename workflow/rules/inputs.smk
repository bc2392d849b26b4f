# Input and params functions: functions of a job's wildcards.


def of_region(key):
    """Return a params function: the region's own value of a key, or else the common one."""
    return lambda wildcards: REGIONS[wildcards.region].get(key)


def grid_of_region(wildcards):
    """Return the configuration of the job's grid."""
    try:
        return grid_spec(
            wildcards.region, REGIONS[wildcards.region]["grids"], wildcards.grid
        )
    except InputError as error:
        raise WorkflowError(f"config: {error}") from None


def region_place(wildcards):
    """Return the part of a region's configuration that says which check-ins are in it.

    That is its box or outline, the grids of hexagons and polygons, whose cells extend beyond it,
    and the period.
    """
    spec = REGIONS[wildcards.region]
    keys = ("box", "outline", "period", "every", "time_zone")
    place = {key: spec[key] for key in keys if key in spec}
    grids = {
        name: grid
        for name, grid in spec["grids"].items()
        if {"h3", "cells"} & set(grid)
    }
    return place | ({"grids": grids} if grids else {})


def place_files(wildcards):
    """Return the files that say where a region is: its outline and its polygons."""
    spec = REGIONS[wildcards.region]
    polygons = [
        grid["cells"]["path"] for grid in spec["grids"].values() if "cells" in grid
    ]
    files = [
        str(part) for path in dict.fromkeys(polygons) for part in parts(Path(path))
    ]
    return [*filter(None, [spec.get("outline")]), *files]


def title_of(wildcards):
    return TITLES[wildcards.region]


# What delta protects in a region, in words.
UNITS = {region: unit_in_words(spec) for region, spec in REGIONS.items()}


def unit_of(wildcards):
    return UNITS[wildcards.region]


def replaced_of(wildcards):
    """Return what neighbours differ in, for captions."""
    return replaced(unit_of(wildcards))


def contribution_bound(wildcards):
    """Return the bound on the check-ins of each user, if several may count."""
    spec = REGIONS[wildcards.region]
    if spec["unit"] == "checkin" or spec["records_per_user"] == 1:
        return {}
    return {key: spec[key] for key in ("records_per_user", "distinct")}


def title_with_grid(region, grid):
    """Return the title of a region, with the name of the grid if the region has several."""
    several = grid and len(REGIONS[region]["grids"]) > 1
    return TITLES[region] + (f", grid {grid}" if several else "")


def place_title(wildcards):
    return title_with_grid(wildcards.region, wildcards.get("grid"))


def figure_title(wildcards):
    """Return the title of a region's figures, with the unit if a user may have several check-ins."""
    unit = f" (unit: {unit_of(wildcards)})" if contribution_bound(wildcards) else ""
    return place_title(wildcards) + unit


def individual_memory(wildcards):
    """Megabytes of summarise_individual, which reads its cells of all series of one eps0."""
    fixed = megabytes(wildcards, 1000, per_sample=0.1)
    if "grid" not in dict(wildcards.items()):
        return fixed
    spec = REGIONS[wildcards.region]
    k = cells_of(wildcards.region, wildcards.grid)
    cells = k // (spec.get("individual_every") or max(1, k // 20))
    return fixed + 0.0005 * cells * spec["repetitions"] * (2 * len(spec["eps"]) + 10)


def cell_sizes_memory(wildcards):
    """Megabytes of the job that releases the histograms of all grids of a region."""
    if "region" not in dict(wildcards.items()):
        return 1500
    spec = REGIONS[wildcards.region]
    cells = max(cells_of(wildcards.region, grid) for grid in spec["grids"])
    return 1500 + cells * (1 + 0.05 * spec["repetitions"]) / 1000


# --- Sources ------------------------------------------------------------------------------


def download_path(folder, spec):
    return f"{folder}/{file_name(spec['url'])}"


# The files that are downloaded, by their paths below resources/automatic.
DOWNLOADS = {
    download_path(name, spec): spec
    for name, spec in config["sources"].items()
    if "url" in spec
}


def source_spec(wildcards):
    return config["sources"][REGIONS[wildcards.region]["source"]]


def real_rows(wildcards):
    """Return whether positions were recorded, not made up."""
    return SOURCE_KINDS[source_spec(wildcards)["kind"]].real_rows


def source_file(wildcards):
    """Return the file with a region's check-ins, or a folder of such files.

    It is local, downloaded, or made by the rule of its kind.
    """
    name, spec = REGIONS[wildcards.region]["source"], source_spec(wildcards)
    if spec["kind"] == "download":
        return f"resources/automatic/{download_path(name, spec)}"
    if spec["kind"] == "file":
        key, reader = f"sources.{name}.path", f"regions.{wildcards.region}"
        product = result(f"checkins/{wildcards.region}.parquet")
        explain_missing(key, reader, spec["path"], product)
        return spec["path"]
    return result(f"laid/{spec['kind']}/{wildcards.region}.txt.gz")


def source_parts(wildcards):
    """Return the files of a folder or shapefile, whose own time does not change with theirs."""
    if source_spec(wildcards)["kind"] != "file":
        return []
    path = Path(source_file(wildcards))
    return [str(part) for part in parts(path) if part != path]


def image_file(wildcards):
    """Return the file of MNIST, if paper D's experiment does not train on the bundled digits."""
    if "mnist" not in config:
        return []
    product = result("personalised/training.csv")
    explain_missing("mnist", "training", config["mnist"], product)
    return config["mnist"]


# If another workflow uses this one as a module, it adds the module's prefix to a path.
MODIFIER = workflow.modifier


@cache
def explain_missing(key, reader, path, product):
    """Log the key of an input file that is missing; Snakemake's own message does not have it.

    If a product of the file exists, this is only a warning: Snakemake then uses the product.
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


def reading_memory(wildcards):
    """Megabytes of crop_checkins, which reads files of points whole and others in batches."""
    if "region" not in dict(wildcards.items()):
        return 1500
    layout = source_spec(wildcards).get("layout", "snap")
    return 3000 if layout != "snap" and layout["format"] == "geo" else 1500


# --- Files that a region may have -----------------------------------------------------------


def unit_checkins(wildcards):
    """Return the file of a region's check-ins to count: all, or those written by `sample_users`.

    If several of each user may count, `grid_checkins` selects them in the cells of each grid.
    """
    stage = {"checkin": "checkins", "user": "users"}[REGIONS[wildcards.region]["unit"]]
    return result(f"{stage}/{wildcards.region}.parquet")


def outline_file(wildcards):
    return REGIONS[wildcards.region].get("outline", [])


def basemap_file(wildcards):
    """Return a region's base map: its own, one that ships with the workflow, or none."""
    path = REGIONS[wildcards.region].get("basemap", [])
    if path == "embedded":
        return resource(f"basemaps/{wildcards.region}.geojson")
    return path


# --- Mechanisms -----------------------------------------------------------------


def swept(wildcards):
    """Return what one part of a region's sweep of calibrations releases.

    The part `eps0-4` has all mechanisms at the privacy that is certified for k-RR with eps0 = 4.
    `target-krr` has one mechanism calibrated to the targets, so that several slow ones run at once
    and a new one leaves the others as they are.
    """
    kind, _, name = wildcards.part.partition("-")
    spec = REGIONS[wildcards.region]
    if kind == "eps0":
        return {
            "eps0": float(name),
            "eps": spec["eps"],
            "target_delta": config["target_delta"],
            "mechanisms": spec["mechanisms"],
        }
    if "targets" not in spec:
        raise WorkflowError(
            "config: targets: mechanisms are compared at targets, and there are none; give "
            "their eps and delta (config/README.md)"
        )
    targets = {
        key: value for key, value in spec["targets"].items() if key != "mechanisms"
    }
    return {**targets, "mechanisms": [name]}


def target_releases(wildcards):
    """Return the releases of every mechanism at the targets, by the mechanism's name."""
    place = f"{wildcards.region}.{wildcards.grid}"
    mechanisms = REGIONS[wildcards.region].get("targets", {}).get("mechanisms", [])
    return {
        f"releases_{name}": result(f"releases/{place}.target-{name}.parquet")
        for name in mechanisms
    }


def mapped_releases(wildcards):
    """Return the releases at the targets, without which there are no maps."""
    if "targets" not in REGIONS[wildcards.region]:
        raise WorkflowError(
            "config: targets: maps have the estimates at the targets, and there are none"
        )
    return target_releases(wildcards)
