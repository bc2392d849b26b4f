from pathlib import Path

from shuffledp.jobs import job
from shuffledp.studies.utility import utility_tables
from shuffledp.tables import (
    INDIVIDUAL,
    UTILITY,
    read_counts,
    read_metadata,
    read_tables,
    write_table,
)

with job(snakemake.log[0]):
    sources = [Path(path) for path in snakemake.input.releases]
    community, individual = utility_tables(
        read_tables(sources),
        read_counts(Path(snakemake.input.counts)),
        seed=snakemake.params.seed,
        region=snakemake.wildcards.region,
        grid=snakemake.wildcards.grid,
    )
    metadata = read_metadata(sources[0]) | {"eps0": "see column"}
    write_table(community, UTILITY, Path(snakemake.output.community), metadata)
    write_table(individual, INDIVIDUAL, Path(snakemake.output.individual), metadata)
