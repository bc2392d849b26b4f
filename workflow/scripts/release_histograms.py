from pathlib import Path

from shuffledp.jobs import job
from shuffledp.studies.releases import NOTICE, release_parts
from shuffledp.studies.samples import read_samples
from shuffledp.tables import RELEASES, run_metadata, write_parts

with job(snakemake.log[0]):
    source = Path(snakemake.input.samples)
    parts = release_parts(
        read_samples(source),
        float(snakemake.wildcards.eps0),
        snakemake.params.eps,
        [snakemake.params.target_delta],
        snakemake.params.repetitions,
        snakemake.params.mechanisms,
        seed=snakemake.params.seed,
        region=snakemake.wildcards.region,
        grid=snakemake.wildcards.grid,
    )
    metadata = run_metadata(source, snakemake.params.items(), snakemake.wildcards.items())
    write_parts(parts, RELEASES, Path(snakemake.output[0]), metadata | {"notice": NOTICE})
