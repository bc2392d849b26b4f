from pathlib import Path

from shuffledp.data.download import fetch_cached
from shuffledp.pipeline.jobs import job

with job(snakemake.log[0]):
    fetch_cached(
        snakemake.params.url,
        Path(snakemake.output[0]),
        cache=Path(snakemake.params.cache),
        checksum=snakemake.params.checksum,
    )
