from importlib import import_module
from pathlib import Path

from shuffledp.figures.curves import curve_panels
from shuffledp.figures.literature import all_bounds
from shuffledp.figures.style import save
from shuffledp.jobs import job
from shuffledp.tables import read_tables

with job(snakemake.log[0]):
    study = import_module(f"shuffledp.studies.reproduction.{snakemake.wildcards.study}")
    spec = study.FIGURES[snakemake.wildcards.figure]
    draw = all_bounds if snakemake.wildcards.study == "literature" else curve_panels
    figure = draw(read_tables([Path(snakemake.input.curves)]), spec)
    save(figure, Path(snakemake.output.png).with_suffix(""), spec.title)
