from pathlib import Path

from shuffledp.pipeline.jobs import job
from shuffledp.pipeline.tables import PRIVACY, run_metadata, write_table
from shuffledp.studies.privacy import privacy_table
from shuffledp.studies.samples import read_contributions, read_samples

with job(snakemake.log[0]):
    source = Path(snakemake.input.samples)
    table = privacy_table(
        read_samples(source),
        float(snakemake.wildcards.eps0),
        snakemake.params.eps,
        snakemake.params.bounds,
        read_contributions(source).records_per_user,
    )
    metadata = run_metadata(source, snakemake.params.items(), snakemake.wildcards.items())
    write_table(table, PRIVACY, Path(snakemake.output[0]), metadata)
