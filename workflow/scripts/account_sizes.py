from pathlib import Path

from shuffledp.pipeline.columns import CONTENTS, PUBLIC
from shuffledp.pipeline.jobs import job
from shuffledp.pipeline.tables import PRIVACY, read_counts, run_metadata, write_table
from shuffledp.studies.privacy import sizes_table
from shuffledp.studies.samples import read_contributions

with job(snakemake.log[0]):
    cells = Path(snakemake.input.cells)
    table = sizes_table(
        read_counts(cells).size,
        snakemake.params.eps0,
        snakemake.params.target_delta,
        records_per_user=read_contributions(cells).records_per_user,
    )
    metadata = run_metadata(cells, snakemake.params.items(), snakemake.wildcards.items())
    write_table(table, PRIVACY, Path(snakemake.output[0]), metadata | {CONTENTS: PUBLIC})
