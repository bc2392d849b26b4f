from pathlib import Path

from shuffledp.geography.checkins_per_user import one_per_user
from shuffledp.pipeline.jobs import job

with job(snakemake.log[0]):
    one_per_user(
        Path(snakemake.input.checkins),
        Path(snakemake.output[0]),
        seed=snakemake.params.seed,
        region=snakemake.wildcards.region,
    )
