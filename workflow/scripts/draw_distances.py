from pathlib import Path

from shuffledp.figures.distances import distance_boxes
from shuffledp.figures.style import save
from shuffledp.jobs import job
from shuffledp.tables import read_tables

with job(snakemake.log[0]):
    utility = read_tables([Path(snakemake.input.utility)])
    figure = distance_boxes(
        utility,
        snakemake.params.title,
        calibration=snakemake.wildcards.calibration,
        sizes=snakemake.params.sizes or sorted(utility["n"].unique().tolist()),
        target_delta=snakemake.params.target_delta,
    )
    save(figure, Path(snakemake.output.png).with_suffix(""), snakemake.params.title)
