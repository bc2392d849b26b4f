from pathlib import Path

from shuffledp.files import replacing
from shuffledp.jobs import job
from shuffledp.studies.reproduction.published import read_published
from shuffledp.studies.reproduction.values import answers, read_histogram, values_table

with job(snakemake.log[0]):
    histograms = {
        region: read_histogram(Path(snakemake.input[region]))
        for region in ("san_francisco", "paris")
    }
    published = read_published(Path(snakemake.input.published))
    table = values_table(answers(published, histograms, seed=snakemake.params.seed))
    with replacing(Path(snakemake.output[0])) as temporary:
        table.to_csv(temporary, index=False)
