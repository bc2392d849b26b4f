from pathlib import Path

from shuffledp.jobs import job
from shuffledp.studies.personalised.privacy import privacy_table
from shuffledp.tables import write_csv

with job(snakemake.log[0]):
    write_csv(privacy_table(snakemake.wildcards.figure), Path(snakemake.output[0]))
