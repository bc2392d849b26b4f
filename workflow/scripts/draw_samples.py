from pathlib import Path

from shuffledp.pipeline.jobs import job
from shuffledp.pipeline.tables import SAMPLES, read_counts, run_metadata, write_table
from shuffledp.studies.samples import sample_table

with job(snakemake.log[0]):
    grid = Path(snakemake.input.counts)
    table = sample_table(
        read_counts(grid),
        snakemake.params.sizes,
        seed=snakemake.params.seed,
        region=snakemake.wildcards.region,
        grid=snakemake.wildcards.grid,
    )
    metadata = run_metadata(grid, snakemake.params.items(), snakemake.wildcards.items())
    write_table(table, SAMPLES, Path(snakemake.output[0]), metadata)
