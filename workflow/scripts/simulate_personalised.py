from pathlib import Path

from shuffledp.papers.paper_d.estimation import estimate_table
from shuffledp.pipeline.jobs import job
from shuffledp.pipeline.tables import write_csv

with job(snakemake.log[0]):
    table = estimate_table(snakemake.wildcards.figure, snakemake.params.seed)
    write_csv(table, Path(snakemake.output[0]))
