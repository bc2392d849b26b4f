from pathlib import Path

from shuffledp.pipeline.jobs import job
from shuffledp.pipeline.selection import read_calibrated
from shuffledp.pipeline.tables import CERTAINTY, run_metadata, writing
from shuffledp.studies.individual import confidence_tables
from shuffledp.studies.samples import read_samples

with job(snakemake.log[0]):
    source = Path(snakemake.input.releases)
    samples = read_samples(Path(snakemake.input.samples))
    place = {"region": snakemake.wildcards.region, "grid": snakemake.wildcards.grid}
    metadata = run_metadata(source, snakemake.params.items(), snakemake.wildcards.items())
    with writing(CERTAINTY, Path(snakemake.output[0]), metadata) as add:
        for rows in read_calibrated(source, "matched", snakemake.params.target_delta):
            for table in confidence_tables(rows, samples, **place):
                add(table)
            del rows  # frees the memory before the next rows are read
