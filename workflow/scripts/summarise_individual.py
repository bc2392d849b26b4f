from pathlib import Path

import pandas as pd
from shuffledp.jobs import job
from shuffledp.studies.samples import read_samples
from shuffledp.studies.utility import individual_summary, own_delta_summary
from shuffledp.tables import read_tables, write_csv

with job(snakemake.log[0]):
    eps0 = float(snakemake.wildcards.eps0)
    summary = individual_summary(
        read_tables([Path(snakemake.input.individual)], eps0=eps0),
        snakemake.params.every,
        eps0,
        snakemake.params.target_delta,
    )
    samples = read_samples(Path(snakemake.input.samples))
    table = pd.concat([own_delta_summary(summary, samples[max(samples)]), summary])
    write_csv(table.assign(unit=snakemake.params.unit), Path(snakemake.output[0]))
