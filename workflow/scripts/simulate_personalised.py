from pathlib import Path

from shuffledp.papers.paper_d.estimation import estimate_table, privacy_table
from shuffledp.pipeline.jobs import job
from shuffledp.pipeline.tables import write_csv

with job(snakemake.log[0]):
    figure, output = snakemake.wildcards.figure, snakemake.output
    write_csv(estimate_table(figure, snakemake.params.seed), Path(output.estimates))
    write_csv(privacy_table(figure), Path(output.privacy))
