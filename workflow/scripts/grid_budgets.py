from pathlib import Path

from shuffledp.data.grid import count_budgets
from shuffledp.data.regions import region_from_config
from shuffledp.data.windows import windows_from_config
from shuffledp.pipeline.jobs import job
from shuffledp.pipeline.tables import BUDGETS, run_metadata, write_table

with job(snakemake.log[0]):
    checkins = Path(snakemake.input.checkins)
    table = count_budgets(
        region_from_config(snakemake.wildcards.region, snakemake.params.region),
        snakemake.params.grid,
        checkins,
        windows_from_config(snakemake.params.region),
    )
    metadata = run_metadata(checkins, snakemake.params.items())
    write_table(table, BUDGETS, Path(snakemake.output[0]), metadata)
