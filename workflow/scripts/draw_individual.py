from pathlib import Path

from shuffledp.figures.individual import individual_summary, individual_table
from shuffledp.figures.style import save
from shuffledp.files import replacing
from shuffledp.jobs import job
from shuffledp.tables import read_tables

with job(snakemake.log[0]):
    eps0 = float(snakemake.wildcards.eps0)
    individual = read_tables([Path(snakemake.input.individual)], eps0=eps0)
    choice = (snakemake.params.every, eps0, snakemake.params.target_delta)
    with replacing(Path(snakemake.output.csv)) as temporary:
        summary = individual_summary(individual, *choice).assign(unit=snakemake.params.unit)
        summary.to_csv(temporary, index=False)
    figure = individual_table(individual, snakemake.params.title, *choice)
    save(figure, Path(snakemake.output.png).with_suffix(""), snakemake.params.title)
