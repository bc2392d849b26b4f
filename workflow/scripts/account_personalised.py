from pathlib import Path

from shuffledp.papers.paper_d.estimation import privacy_table
from shuffledp.pipeline.jobs import job
from shuffledp.pipeline.tables import write_csv

with job(snakemake.log[0]):
    write_csv(privacy_table(snakemake.wildcards.figure), Path(snakemake.output[0]))
