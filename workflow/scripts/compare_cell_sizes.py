from pathlib import Path

from shuffledp.pipeline.jobs import job
from shuffledp.pipeline.tables import read_counts, write_csv
from shuffledp.studies.utility import cell_sizes_table

with job(snakemake.log[0]):
    grids = zip(snakemake.params.grids, snakemake.input, strict=True)
    table = cell_sizes_table(
        {grid: read_counts(Path(path)) for grid, path in grids},
        snakemake.params.delta,
        snakemake.params.repetitions,
        seed=snakemake.params.seed,
        region=snakemake.wildcards.region,
    )
    write_csv(table, Path(snakemake.output[0]))
