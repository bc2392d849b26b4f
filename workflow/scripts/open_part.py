from pathlib import Path

from shuffledp.collection.analyst import check_key, open_part, read_key
from shuffledp.collection.batch import read_batch
from shuffledp.collection.campaign import read_campaign
from shuffledp.pipeline.files import replacing
from shuffledp.pipeline.jobs import job

with job(snakemake.log[0]):
    campaign, part = read_campaign(Path(snakemake.input.campaign)), Path(snakemake.input.part)
    if Path(snakemake.params.counts).exists():  # the round was opened, and its key is destroyed
        found = b""
    else:
        batch, private = read_batch(part.parent, campaign), read_key(Path(snakemake.params.key))
        check_key(campaign, batch, private)
        found = open_part(campaign, batch, private, part.name)
    with replacing(Path(snakemake.output[0])) as path:
        path.write_bytes(found)
