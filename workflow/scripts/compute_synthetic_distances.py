from pathlib import Path

from shuffledp.jobs import job
from shuffledp.studies.reproduction.paper_a import distance_table
from shuffledp.tables import UTILITY, write_table

with job(snakemake.log[0]):
    table = distance_table(snakemake.params.seed)
    write_table(table, UTILITY, Path(snakemake.output[0]), {"seed": str(snakemake.params.seed)})
