from pathlib import Path

from shuffledp.jobs import job
from shuffledp.studies.privacy import privacy_table
from shuffledp.tables import PRIVACY, read_counts, run_metadata, write_table

with job(snakemake.log[0]):
    grid = Path(snakemake.input.counts)
    table = privacy_table(
        read_counts(grid),
        snakemake.params.sizes,
        float(snakemake.wildcards.eps0),
        snakemake.params.eps,
        seed=snakemake.params.seed,
        region=snakemake.wildcards.region,
        grid=snakemake.wildcards.grid,
    )
    metadata = run_metadata(grid, snakemake.params.items(), snakemake.wildcards.items())
    write_table(table, PRIVACY, Path(snakemake.output[0]), metadata)
