from pathlib import Path

from shuffledp.papers.paper_a import SURFACE_COUNT, surface_table
from shuffledp.pipeline.columns import CONTENTS, PUBLIC
from shuffledp.pipeline.jobs import job
from shuffledp.pipeline.tables import PRIVACY, write_table

with job(snakemake.log[0]):
    metadata = {"count": str(SURFACE_COUNT), CONTENTS: PUBLIC}
    write_table(surface_table(), PRIVACY, Path(snakemake.output[0]), metadata)
