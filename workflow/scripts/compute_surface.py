from pathlib import Path

from shuffledp.jobs import job
from shuffledp.studies.reproduction.paper_a import SURFACE_COUNT, surface_table
from shuffledp.tables import PRIVACY, write_table

with job(snakemake.log[0]):
    metadata = {"count": str(SURFACE_COUNT)}
    write_table(surface_table(), PRIVACY, Path(snakemake.output[0]), metadata)
