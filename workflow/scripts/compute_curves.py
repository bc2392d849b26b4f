from pathlib import Path

from shuffledp.papers.reproduction import FIGURES
from shuffledp.pipeline.jobs import job
from shuffledp.pipeline.tables import CURVES, write_table

with job(snakemake.log[0]):
    spec = FIGURES[snakemake.wildcards.study][snakemake.wildcards.figure]
    write_table(spec.compute(), CURVES, Path(snakemake.output[0]), spec.metadata())
