from pathlib import Path

from shuffledp.papers.reproduction import answers, read_histogram, values_table
from shuffledp.papers.verdicts import read_published
from shuffledp.pipeline.jobs import job
from shuffledp.pipeline.tables import write_csv

with job(snakemake.log[0]):
    histograms = {
        region: read_histogram(Path(snakemake.input[region]))
        for region in ("san_francisco", "paris")
    }
    published = read_published(Path(snakemake.input.published))
    table = values_table(answers(published, histograms, seed=snakemake.params.seed))
    write_csv(table, Path(snakemake.output[0]))
