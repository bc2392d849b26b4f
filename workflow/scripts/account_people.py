from pathlib import Path

from shuffledp.jobs import job
from shuffledp.studies.people import people_table
from shuffledp.tables import PRIVACY, read_counts, run_metadata, write_table

with job(snakemake.log[0]):
    cells = Path(snakemake.input.cells)
    table = people_table(
        read_counts(cells).size, snakemake.params.eps0, snakemake.params.target_delta
    )
    metadata = run_metadata(cells, snakemake.params.items(), snakemake.wildcards.items())
    write_table(table, PRIVACY, Path(snakemake.output[0]), metadata)
