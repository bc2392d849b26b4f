from pathlib import Path

import pandas as pd

from shuffledp.figures.individual_table import individual_page, write_page
from shuffledp.pipeline.jobs import job

with job(snakemake.log[0]):
    summary = pd.read_csv(snakemake.input.summary)
    text = individual_page(summary, snakemake.params.title, snakemake.params.unit)
    write_page(text, Path(snakemake.output[0]))
