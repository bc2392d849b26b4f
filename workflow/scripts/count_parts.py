from pathlib import Path

from shuffledp.collection.analyst import count_parts, read_opened
from shuffledp.collection.batch import read_batch
from shuffledp.collection.campaign import read_campaign
from shuffledp.pipeline.files import replacing
from shuffledp.pipeline.jobs import job

with job(snakemake.log[0]):
    campaign, counts = read_campaign(Path(snakemake.input.campaign)), Path(snakemake.params.counts)
    if not counts.exists():
        batch = read_batch(Path(snakemake.params.batch), campaign)
        parts = {
            f"{Path(part).stem}.parquet": Path(part).read_bytes() for part in snakemake.input.parts
        }
        count_parts(campaign, batch, parts, Path(snakemake.params.key), counts)
    with replacing(Path(snakemake.output[0])) as path:
        path.write_bytes(read_opened(counts, campaign).text)
