from pathlib import Path

from shuffledp.jobs import job
from shuffledp.studies.samples import read_samples
from shuffledp.studies.utility import community_utility, individual_utility
from shuffledp.tables import (
    INDIVIDUAL,
    UTILITY,
    read_metadata,
    read_parts,
    write_parts,
    write_table,
)

with job(snakemake.log[0]):
    sources = [Path(path) for path in snakemake.input.releases]
    samples = read_samples(Path(snakemake.input.samples))
    k = samples[max(samples)].size
    metadata = read_metadata(sources[0]) | {"eps0": "see column"}
    community = community_utility(read_parts(sources, k), samples)
    write_table(community, UTILITY, Path(snakemake.output.community), metadata)
    individual = individual_utility(read_parts(sources, k), samples)
    write_parts(individual, INDIVIDUAL, Path(snakemake.output.individual), metadata)
