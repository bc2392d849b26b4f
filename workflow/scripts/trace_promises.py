from pathlib import Path

import pandas as pd
from shuffledp.pipeline.jobs import job
from shuffledp.pipeline.tables import PROMISES, read_counts, run_metadata, write_table
from shuffledp.studies.samples import read_contributions
from shuffledp.studies.sweeps import promises_table

with job(snakemake.log[0]):
    cells = Path(snakemake.input.cells)
    table = promises_table(
        pd.read_csv(snakemake.input.summary), read_counts(cells).size, read_contributions(cells)
    )
    metadata = run_metadata(cells, snakemake.params.items(), snakemake.wildcards.items())
    write_table(table, PROMISES, Path(snakemake.output[0]), metadata)
