from pathlib import Path

from shuffledp.pipeline.jobs import job
from shuffledp.pipeline.selection import calibrated
from shuffledp.pipeline.tables import CERTAINTY, read_tables, run_metadata, write_table
from shuffledp.studies.certainty import certainty_table
from shuffledp.studies.samples import read_samples

with job(snakemake.log[0]):
    source = Path(snakemake.input.releases)
    first = read_tables([source], repetition=0)
    table = certainty_table(
        calibrated(first, "matched", snakemake.params.target_delta),
        read_samples(Path(snakemake.input.samples)),
        region=snakemake.wildcards.region,
        grid=snakemake.wildcards.grid,
    )
    metadata = run_metadata(source, snakemake.params.items(), snakemake.wildcards.items())
    write_table(table, CERTAINTY, Path(snakemake.output[0]), metadata)
