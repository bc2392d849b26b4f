from pathlib import Path

from shuffledp.figures.paper_a import synthetic_distances
from shuffledp.figures.style import save
from shuffledp.jobs import job
from shuffledp.tables import read_tables

with job(snakemake.log[0]):
    figure = synthetic_distances(read_tables([Path(snakemake.input.distances)]))
    save(figure, Path(snakemake.output.png).with_suffix(""), "Paper A, figure 2")
