from pathlib import Path

from shuffledp.pipeline.jobs import job
from shuffledp.pipeline.tables import PRIVACY, read_metadata, read_tables, write_table

with job(snakemake.log[0]):
    sources = [Path(path) for path in snakemake.input.tables]
    metadata = read_metadata(sources[0]) | {"eps0": "see column"}
    write_table(read_tables(sources), PRIVACY, Path(snakemake.output[0]), metadata)
