from pathlib import Path

import geopandas as gpd
from shuffledp.figures.maps import checkins_map
from shuffledp.figures.style import save
from shuffledp.jobs import job
from shuffledp.tables import read_tables

with job(snakemake.log[0]):
    checkins = read_tables([Path(snakemake.input.checkins)], columns=["latitude", "longitude"])
    figure = checkins_map(checkins, gpd.read_parquet(snakemake.input.cells), snakemake.params.title)
    save(figure, Path(snakemake.output.png).with_suffix(""), snakemake.params.title)
