from pathlib import Path

from shuffledp.pipeline.jobs import job
from shuffledp.pipeline.tables import UTILITY, read_metadata, read_tables, write_csv, write_table
from shuffledp.studies.utility import utility_summary

with job(snakemake.log[0]):
    sources = [Path(path) for path in snakemake.input.utility]
    table = read_tables(sources)
    shared = set.intersection(*(set(read_metadata(path).items()) for path in sources))
    write_table(table, UTILITY, Path(snakemake.output.utility), dict(shared))
    summary = utility_summary(table, snakemake.params.title, snakemake.params.unit)
    write_csv(summary, Path(snakemake.output.summary))
