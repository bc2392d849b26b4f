import os
import sys
from pathlib import Path

import yaml
from snakemake.utils import validate

CALIBRATIONS = ["matched", "as-published"]
LIBRARY = ROOT / "workflow" / "lib"

# A clone works without being installed; jobs inherit the path through the environment.
sys.path.insert(0, str(LIBRARY))
os.environ.update(
    PYTHONPATH=os.pathsep.join(
        filter(None, [str(LIBRARY), os.environ.get("PYTHONPATH")])
    )
)

import shuffledp
from shuffledp.configuration import check_configuration
from shuffledp.errors import InputError
from shuffledp.files import parts
from shuffledp.modules import module_files
from shuffledp.schema import check_schema

if not LIBRARY.samefile(Path(shuffledp.__file__).parents[1]):
    raise WorkflowError(
        f"two versions of shuffledp in one workflow: {shuffledp.__file__} is loaded already, "
        f"{LIBRARY} would be ignored; use one version, or run them one by one"
    )

SCHEMA = ROOT / "workflow" / "schemas" / "config.schema.yaml"

try:
    check_schema(config, yaml.safe_load(SCHEMA.read_text(encoding="utf-8")))
    validate(config, str(SCHEMA))  # sets the defaults
    counts = (ROOT / "resources" / "cell_counts").glob("*.csv")
    check_configuration(config, {path.stem for path in counts})
except InputError as error:
    raise WorkflowError(f"config: {error}") from None


wildcard_constraints:
    region="|".join(config["regions"]),
    grid="|".join(
        {grid for spec in config["regions"].values() for grid in spec["grids"]}
    ),
    source="[a-z0-9][a-z0-9_]*",
    eps0="[0-9.e+-]+",
    calibration="|".join(CALIBRATIONS),


def library(*names):
    """Files of the named library modules and of all that they import, as rule inputs."""
    return [local(os.path.relpath(path)) for path in module_files(names)]


def resource(name):
    """A file that ships with the workflow."""
    return local(os.path.relpath(ROOT / "resources" / name))


def budget(eps0):
    """A budget as it stands in file names, from which jobs read it back: no digit may be lost."""
    return repr(float(eps0)).removesuffix(".0")


def escalating(amount):
    """A resource that doubles with every attempt: a job that ran out of it gets more."""
    return lambda wildcards, attempt: amount * 2 ** (attempt - 1)


def grids():
    return [
        (region, grid)
        for region, spec in config["regions"].items()
        for grid in spec["grids"]
    ]


def region_spec(wildcards):
    return config["regions"][wildcards.region]


UNIT = {"checkin": "one check-in", "user": "one user"}[config["unit"]]


def region_title(wildcards):
    """A region's name in figures, with the unit that delta protects."""
    title = region_spec(wildcards).get("title", wildcards.region)
    return f"{title} (unit: {UNIT})"


def source_name(wildcards):
    return region_spec(wildcards).get("source", config["source"])


def source_spec(wildcards):
    return config["sources"][source_name(wildcards)]


def source_file(wildcards):
    """The file with a region's check-ins: local, downloaded, or laid from embedded counts.

    A local one may be a folder.
    """
    name, spec = source_name(wildcards), source_spec(wildcards)
    if spec["kind"] == "embedded":
        return f"resources/automatic/{name}/{wildcards.region}.txt.gz"
    if spec["kind"] == "download":
        return f"resources/automatic/{name}/{Path(spec['url']).name}"
    return spec["path"]


def source_parts(wildcards):
    """Files of a source that is a folder: the folder's own time does not show a change in them."""
    if source_spec(wildcards)["kind"] != "file":
        return []
    path = Path(source_file(wildcards))
    return list(map(str, parts(path))) if path.is_dir() else []


def source_layout(wildcards):
    return source_spec(wildcards).get("layout", "snap")


def sources_of_kind(kind):
    """Names of the sources of a kind, as a regular expression for a wildcard."""
    names = [name for name, spec in config["sources"].items() if spec["kind"] == kind]
    return "|".join(names) or "(?!)"


def region_place(wildcards):
    spec = region_spec(wildcards)
    return {key: spec[key] for key in ("box", "outline") if key in spec}


def unit_checkins(wildcards):
    """A region's check-ins as they are counted: all of them, or one per user."""
    stage = {"checkin": "checkins", "user": "users"}[config["unit"]]
    return f"results/{stage}/{wildcards.region}.parquet"


def outline_file(wildcards):
    return region_spec(wildcards).get("outline", [])


def per_eps0(pattern):
    """Input function: the pattern's files for every eps0 of the sweep."""
    return lambda wildcards: [
        pattern.format(region=wildcards.region, grid=wildcards.grid, eps0=budget(eps0))
        for eps0 in config["eps0"]
    ]


def privacy_tables():
    return [f"results/privacy/{region}.{grid}.parquet" for region, grid in grids()]


def utility_tables():
    return [
        f"results/utility/{region}.{grid}.{table}"
        for region, grid in grids()
        for table in ("parquet", "individual.parquet")
    ]


def first_grids():
    """Each region with its first grid: the one that figures are drawn for by default."""
    return [
        (region, next(iter(spec["grids"])))
        for region, spec in config["regions"].items()
    ]


def fixed_sizes(wildcards):
    """The sample sizes that the configuration gives as numbers, or all if it gives none."""
    return [n for n in region_spec(wildcards)["n"] if n != "all"]


def dots_title(wildcards):
    """Embedded sources have no real positions, and the figure must say so."""
    title = region_title(wildcards)
    if source_spec(wildcards)["kind"] == "embedded":
        title = f"{title[:-1]}; real counts, positions within cells drawn at random)"
    return title


def drawing(stem, caption, category):
    """The three files of a figure as named outputs, the PNG with its caption in the report."""
    files = {kind: f"results/figures/{stem}.{kind}" for kind in ("png", "pdf", "svg")}
    caption = f"../report/{caption}.rst"  # from the folder of the rules, as for scripts
    files["png"] = report(files["png"], caption=caption, category=category)
    return files


def all_figures():
    stems = ["comparison"]
    for region, grid in first_grids():
        place = f"{region}.{grid}"
        stems += [
            f"{kind}.{place}" for kind in ("checkins", "privacy", "distances-over-eps")
        ]
        stems += [f"distances.{place}.{calibration}" for calibration in CALIBRATIONS]
        for eps0 in map(budget, config["eps0"]):
            stems.append(f"individual.{place}.eps0-{eps0}")
            stems += [
                f"estimates.{place}.eps0-{eps0}.{calibration}"
                for calibration in CALIBRATIONS
            ]
    return [
        f"results/figures/{stem}.{kind}"
        for stem in stems
        for kind in ("png", "pdf", "svg")
    ]
