from pathlib import Path

from shuffledp.accounting.incomplete import Crowd
from shuffledp.jobs import job
from shuffledp.studies.samples import read_samples
from shuffledp.studies.targets import target_utility
from shuffledp.tables import TARGETS, run_metadata, write_table

with job(snakemake.log[0]):
    source = Path(snakemake.input.samples)
    table = target_utility(
        read_samples(source),
        snakemake.params.eps,
        snakemake.params.delta,
        snakemake.params.repetitions,
        snakemake.wildcards.mechanism,
        Crowd(snakemake.params.colluding, snakemake.params.response_rate),
        seed=snakemake.params.seed,
        region=snakemake.wildcards.region,
        grid=snakemake.wildcards.grid,
    )
    metadata = run_metadata(source, snakemake.params.items(), snakemake.wildcards.items())
    write_table(table, TARGETS, Path(snakemake.output[0]), metadata)
