from pathlib import Path

from shuffledp.data.users import one_per_user, shuffle_checkins
from shuffledp.pipeline.jobs import job

with job(snakemake.log[0]):
    select = one_per_user if snakemake.params.records_per_user == 1 else shuffle_checkins
    select(
        Path(snakemake.input.checkins),
        Path(snakemake.output[0]),
        seed=snakemake.params.seed,
        region=snakemake.wildcards.region,
    )
