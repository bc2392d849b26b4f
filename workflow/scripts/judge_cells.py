from pathlib import Path

from shuffledp.jobs import job
from shuffledp.selection import calibrated
from shuffledp.studies.certainty import certainty_table
from shuffledp.studies.samples import read_samples
from shuffledp.tables import CERTAINTY, read_tables, run_metadata, write_table

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
