from pathlib import Path

from shuffledp.jobs import job
from shuffledp.studies.releases import release_parts
from shuffledp.tables import RELEASES, read_counts, run_metadata, write_parts

with job(snakemake.log[0]):
    grid = Path(snakemake.input.counts)
    parts = release_parts(
        read_counts(grid),
        snakemake.params.sizes,
        float(snakemake.wildcards.eps0),
        snakemake.params.eps,
        [snakemake.params.target_delta],
        snakemake.params.repetitions,
        seed=snakemake.params.seed,
        region=snakemake.wildcards.region,
        grid=snakemake.wildcards.grid,
    )
    metadata = run_metadata(grid, snakemake.params.items(), snakemake.wildcards.items())
    write_parts(parts, RELEASES, Path(snakemake.output[0]), metadata)
