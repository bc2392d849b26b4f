from pathlib import Path

import pandas as pd

from shuffledp.pipeline.jobs import job
from shuffledp.pipeline.tables import read_tables, write_csv
from shuffledp.studies.individual import individual_cells, individual_summary, own_delta_summary
from shuffledp.studies.samples import read_contributions, read_samples

with job(snakemake.log[0]):
    source = Path(snakemake.input.samples)
    samples = read_samples(source)
    n = max(samples)
    every = snakemake.params.every
    cells = individual_cells(samples[n].size, every)
    rows = read_tables([Path(snakemake.input.releases)], n=n, cell=cells)
    summary = individual_summary(rows, samples[n], every, snakemake.params.target_delta)
    own = own_delta_summary(summary, samples[n], read_contributions(source))
    table = pd.concat([own, summary])
    write_csv(table.assign(unit=snakemake.params.unit), Path(snakemake.output[0]))
