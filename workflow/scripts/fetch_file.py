from pathlib import Path

from shuffledp.data.download import fetch
from shuffledp.pipeline.jobs import job

with job(snakemake.log[0]):
    fetch(
        snakemake.params.url,
        Path(snakemake.output[0]),
        cache=Path(snakemake.params.cache),
        checksum=snakemake.params.checksum,
    )
