from pathlib import Path

from shuffledp.papers.paper_d.training import training_table
from shuffledp.pipeline.jobs import job
from shuffledp.pipeline.tables import write_csv

with job(snakemake.log[0]):
    images = snakemake.input.images
    table = training_table(Path(images) if images else None, snakemake.params.seed)
    write_csv(table, Path(snakemake.output[0]))
