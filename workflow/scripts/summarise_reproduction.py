from pathlib import Path

import pandas as pd

from shuffledp.papers.reproduction import summary
from shuffledp.pipeline.files import replacing
from shuffledp.pipeline.jobs import job

with job(snakemake.log[0]):
    values = pd.read_csv(snakemake.input.values, dtype=str, keep_default_na=False)
    text = summary(values, snakemake.params.figures)
    with replacing(Path(snakemake.output[0])) as temporary:
        temporary.write_text(text, encoding="utf-8")
