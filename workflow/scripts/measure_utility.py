from pathlib import Path

from shuffledp.jobs import job
from shuffledp.studies.utility import community_utility, individual_utility
from shuffledp.tables import (
    INDIVIDUAL,
    UTILITY,
    read_counts,
    read_metadata,
    read_parts,
    write_parts,
    write_table,
)

with job(snakemake.log[0]):
    sources = [Path(path) for path in snakemake.input.releases]
    counts = read_counts(Path(snakemake.input.counts))
    names = {
        "seed": snakemake.params.seed,
        "region": snakemake.wildcards.region,
        "grid": snakemake.wildcards.grid,
    }
    metadata = read_metadata(sources[0]) | {"eps0": "see column"}
    community = community_utility(read_parts(sources, counts.size), counts, **names)
    write_table(community, UTILITY, Path(snakemake.output.community), metadata)
    largest = int(community["n"].max())
    individual = individual_utility(read_parts(sources, counts.size), counts, largest, **names)
    write_parts(individual, INDIVIDUAL, Path(snakemake.output.individual), metadata)
