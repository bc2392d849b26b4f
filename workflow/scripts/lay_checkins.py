from pathlib import Path

from shuffledp.data.embedded import lay_checkins
from shuffledp.pipeline.jobs import job

with job(snakemake.log[0]):
    lay_checkins(
        Path(snakemake.input.counts), Path(snakemake.output[0]), seed=snakemake.params.seed
    )
