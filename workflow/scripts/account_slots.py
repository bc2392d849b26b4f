from pathlib import Path

from shuffledp.pipeline.jobs import job
from shuffledp.pipeline.tables import read_tables, write_csv
from shuffledp.studies.slots import slots_table

with job(snakemake.log[0]):
    samples = read_tables([Path(snakemake.input.samples)])
    targets = snakemake.params.targets
    # Figures compare these with errors of mechanisms at the targets, at the largest n.
    n, k = int(samples["n"].max()), samples["cell"].nunique()
    write_csv(slots_table(n, k, targets, targets["slots"]), Path(snakemake.output[0]))
