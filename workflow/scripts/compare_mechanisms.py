from pathlib import Path

from shuffledp.pipeline.jobs import job
from shuffledp.pipeline.tables import read_tables, write_csv
from shuffledp.studies.utility import comparison_summary

with job(snakemake.log[0]):
    titles = snakemake.params.titles
    tables = [read_tables([Path(path)]) for path in snakemake.input.utility]
    summary = comparison_summary(
        dict(zip(titles, tables, strict=True)),
        dict(zip(titles, snakemake.params.units, strict=True)),
        snakemake.params.target_delta,
        dict(zip(titles, snakemake.params.references, strict=True)),
    )
    write_csv(summary, Path(snakemake.output[0]))
