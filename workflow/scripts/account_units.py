from pathlib import Path

import numpy as np

from shuffledp.data.grid import checkins_per_user
from shuffledp.data.regions import region_from_config
from shuffledp.pipeline.jobs import job
from shuffledp.pipeline.tables import UNITS, read_counts, run_metadata, write_csv, write_table
from shuffledp.studies.units import units_table, users_table

with job(snakemake.log[0]):
    cells = Path(snakemake.input.cells)
    region = region_from_config(snakemake.wildcards.region, snakemake.params.region)
    total, per_user = checkins_per_user(
        Path(snakemake.input.checkins), region, snakemake.params.grid
    )
    if not snakemake.params.real_users:
        per_user = np.empty(0, np.int64)
    table = units_table(
        total,
        read_counts(cells).size,
        per_user,
        snakemake.params.eps0,
        snakemake.params.target_delta,
    )
    metadata = run_metadata(cells, snakemake.params.items(), snakemake.wildcards.items())
    write_table(table, UNITS, Path(snakemake.output.privacy), metadata)
    write_csv(users_table(per_user), Path(snakemake.output.users))
