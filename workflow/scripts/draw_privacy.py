from pathlib import Path

from shuffledp.figures.privacy import delta_curves
from shuffledp.figures.style import save
from shuffledp.jobs import job
from shuffledp.tables import read_tables

with job(snakemake.log[0]):
    privacy = read_tables([Path(snakemake.input.privacy)])
    figure = delta_curves(privacy, snakemake.params.title, int(privacy["n"].max()))
    save(figure, Path(snakemake.output.png).with_suffix(""), snakemake.params.title)
