import json
from pathlib import Path

from shuffledp.data.grid import grid_checkins
from shuffledp.data.regions import region_from_config
from shuffledp.data.windows import windows_from_config
from shuffledp.pipeline.jobs import job
from shuffledp.pipeline.tables import read_metadata

with job(snakemake.log[0]):
    bound = snakemake.params.bound
    checkins = Path(snakemake.input.checkins)
    grid_checkins(
        checkins,
        region_from_config(snakemake.wildcards.region, snakemake.params.region),
        snakemake.params.grid,
        Path(snakemake.output[0]),
        metadata={
            "source_sha256": read_metadata(checkins)["source_sha256"],
            "region": json.dumps(snakemake.params.region, sort_keys=True),
            "grid": json.dumps(snakemake.params.grid, sort_keys=True),
            **{key: json.dumps(value) for key, value in bound.items()},
        },
        windows=windows_from_config(snakemake.params.region),
        **bound,
    )
