from pathlib import Path

from shuffledp.accounting.incomplete import Crowd
from shuffledp.jobs import job
from shuffledp.studies.releases import NOTICE
from shuffledp.studies.samples import read_samples
from shuffledp.studies.targets import target_utility
from shuffledp.tables import TARGET_ESTIMATES, TARGETS, run_metadata, write_table

with job(snakemake.log[0]):
    source = Path(snakemake.input.samples)
    utility, estimates = target_utility(
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
    noted = metadata | {"notice": NOTICE}
    write_table(estimates, TARGET_ESTIMATES, Path(snakemake.output.estimates), noted)
    write_table(utility, TARGETS, Path(snakemake.output.utility), metadata)
