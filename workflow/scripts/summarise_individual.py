from pathlib import Path

from shuffledp.jobs import job
from shuffledp.studies.utility import individual_summary
from shuffledp.tables import read_tables, write_csv

with job(snakemake.log[0]):
    eps0 = float(snakemake.wildcards.eps0)
    summary = individual_summary(
        read_tables([Path(snakemake.input.individual)], eps0=eps0),
        snakemake.params.every,
        eps0,
        snakemake.params.target_delta,
    )
    write_csv(summary.assign(unit=snakemake.params.unit), Path(snakemake.output[0]))
