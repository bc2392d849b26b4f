from pathlib import Path

from shuffledp.jobs import job
from shuffledp.studies.targets import target_summary
from shuffledp.tables import TARGETS, read_metadata, read_tables, write_csv, write_table

with job(snakemake.log[0]):
    sources = [Path(path) for path in snakemake.input.utility]
    table = read_tables(sources)
    metadata = read_metadata(sources[0]) | {"mechanism": "see column"}
    write_table(table, TARGETS, Path(snakemake.output.utility), metadata)
    summary = target_summary(table, snakemake.params.title, snakemake.params.unit)
    write_csv(summary, Path(snakemake.output.summary))
