from pathlib import Path

import geopandas as gpd
from shuffledp.figures.maps import estimate_maps, release_panels, release_title
from shuffledp.figures.style import save
from shuffledp.jobs import job
from shuffledp.studies.sampling import sample_counts
from shuffledp.tables import read_tables

with job(snakemake.log[0]):
    cells = gpd.read_parquet(snakemake.input.cells)
    releases = read_tables([Path(snakemake.input.releases)], repetition=0)
    n = int(releases["n"].max())
    names = (snakemake.wildcards.region, snakemake.wildcards.grid)
    original = sample_counts(cells["count"].to_numpy(), n, snakemake.params.seed, *names)
    choice = {
        "eps0": float(snakemake.wildcards.eps0),
        "calibration": snakemake.wildcards.calibration,
        "target_delta": snakemake.params.target_delta,
    }
    panels = release_panels(original, releases, **choice)
    title = release_title(snakemake.params.title, releases, **choice)
    save(
        estimate_maps(cells, panels, n, title),
        Path(snakemake.output.png).with_suffix(""),
        snakemake.params.title,
    )
