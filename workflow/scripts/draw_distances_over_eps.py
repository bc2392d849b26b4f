from pathlib import Path

from shuffledp.figures.distances import distance_over_eps
from shuffledp.figures.style import save
from shuffledp.jobs import job
from shuffledp.tables import read_tables

with job(snakemake.log[0]):
    figure = distance_over_eps(read_tables([Path(snakemake.input.utility)]), snakemake.params.title)
    save(figure, Path(snakemake.output.png).with_suffix(""), snakemake.params.title)
