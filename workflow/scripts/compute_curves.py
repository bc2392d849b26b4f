from importlib import import_module
from pathlib import Path

from shuffledp.pipeline.jobs import job
from shuffledp.pipeline.tables import CURVES, write_table

with job(snakemake.log[0]):
    study = import_module(f"shuffledp.reproduction.{snakemake.wildcards.study}")
    spec = study.FIGURES[snakemake.wildcards.figure]
    write_table(spec.compute(), CURVES, Path(snakemake.output[0]), spec.metadata())
