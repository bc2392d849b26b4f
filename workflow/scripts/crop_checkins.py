from pathlib import Path

from shuffledp.data.cells import cropping_region
from shuffledp.data.checkins import crop_checkins
from shuffledp.data.sources import source_layout
from shuffledp.data.windows import windows_from_config
from shuffledp.pipeline.files import verified_sha256
from shuffledp.pipeline.jobs import job

with job(snakemake.log[0]):
    source = Path(snakemake.input.source)
    crop_checkins(
        source,
        source_layout(snakemake.params.layout),
        cropping_region(snakemake.wildcards.region, snakemake.params.region),
        Path(snakemake.output[0]),
        max_malformed_share=snakemake.params.max_malformed_share,
        metadata={"source_sha256": verified_sha256(source, snakemake.params.checksum)},
        windows=windows_from_config(snakemake.params.region),
    )
