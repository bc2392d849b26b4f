from pathlib import Path

from shuffledp.figures.paper_a import delta_surfaces
from shuffledp.figures.style import save
from shuffledp.jobs import job
from shuffledp.studies.reproduction.paper_a import SURFACE_COUNT
from shuffledp.tables import read_tables

with job(snakemake.log[0]):
    figure = delta_surfaces(read_tables([Path(snakemake.input.surface)]), SURFACE_COUNT)
    save(figure, Path(snakemake.output.png).with_suffix(""), "Paper A, figure 1")
