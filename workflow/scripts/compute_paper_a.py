from pathlib import Path

from shuffledp.papers.paper_a import SURFACE_COUNT, distance_table, surface_table
from shuffledp.pipeline.columns import CONTENTS, PUBLIC
from shuffledp.pipeline.jobs import job
from shuffledp.pipeline.tables import DISTANCES, PRIVACY, write_table

with job(snakemake.log[0]):
    destination, seed = Path(snakemake.output[0]), snakemake.params.seed
    if snakemake.wildcards.figure == "figure-1":
        metadata = {"count": str(SURFACE_COUNT), CONTENTS: PUBLIC}
        write_table(surface_table(), PRIVACY, destination, metadata)
    else:
        write_table(distance_table(seed), DISTANCES, destination, {"seed": str(seed)})
