from pathlib import Path

from shuffledp.papers.paper_a import distance_table
from shuffledp.pipeline.jobs import job
from shuffledp.pipeline.tables import DISTANCES, write_table

with job(snakemake.log[0]):
    table = distance_table(snakemake.params.seed)
    write_table(table, DISTANCES, Path(snakemake.output[0]), {"seed": str(snakemake.params.seed)})
