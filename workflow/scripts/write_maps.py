from pathlib import Path

import pandas as pd

from shuffledp.data.grid import (
    cell_map,
    estimate_columns,
    read_cells,
    write_geojson,
    write_geoparquet,
)
from shuffledp.mechanisms.catalogue import UNBIASED
from shuffledp.pipeline.columns import CONTENTS, TRUE
from shuffledp.pipeline.jobs import job
from shuffledp.pipeline.selection import read_target, usual_target
from shuffledp.pipeline.tables import RELEASES, read_tables
from shuffledp.studies.releases import NOTICE

# Used if no mechanism meets the target.
NO_RELEASES = RELEASES.empty_table().to_pandas()

with job(snakemake.log[0]):
    files = {name: Path(path) for name, path in snakemake.input.items()}
    rows = usual_target(pd.read_csv(files["summary"]), UNBIASED)
    names = rows[rows["reason"].isna()]["mechanism"].tolist()
    n, eps, delta = int(rows["n"].iloc[0]), float(rows["eps"].iloc[0]), float(rows["delta"].iloc[0])
    counts = read_tables([files["samples"]], n=n).sort_values("cell")["count"].to_numpy()
    releases = read_target(rows, files, names, UNBIASED) if names else NO_RELEASES
    table = cell_map(read_cells(files["cells"]), counts, releases)
    # The true counts are beside the estimates, so the files are true data.
    members = {CONTENTS: TRUE, "notice": NOTICE, "n": n, "eps": eps, "delta": delta}
    metadata = {key: str(value) for key, value in members.items()}
    write_geoparquet(table, Path(snakemake.output.parquet), metadata, estimate_columns(names))
    write_geojson(table, Path(snakemake.output.geojson), members)
