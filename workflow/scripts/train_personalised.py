from pathlib import Path

from shuffledp.papers.paper_d.training import noise_table, training_table
from shuffledp.pipeline.jobs import job
from shuffledp.pipeline.tables import write_csv

with job(snakemake.log[0]):
    images, seed = snakemake.input.images, snakemake.params.seed
    table = training_table(Path(images) if images else None, seed)
    write_csv(table, Path(snakemake.output.accuracies))
    write_csv(noise_table(seed), Path(snakemake.output.noise))
