from pathlib import Path

from shuffledp.jobs import job
from shuffledp.studies.reproduction.paper_a import surface_table
from shuffledp.tables import PRIVACY, write_table

with job(snakemake.log[0]):
    write_table(surface_table(), PRIVACY, Path(snakemake.output[0]), {})
