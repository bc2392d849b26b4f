from pathlib import Path

import pandas as pd

from shuffledp.mechanisms.catalogue import UNBIASED
from shuffledp.mechanisms.recommendation import recommended
from shuffledp.pipeline.jobs import job
from shuffledp.pipeline.selection import read_target, usual_target
from shuffledp.pipeline.tables import read_tables, write_csv
from shuffledp.studies.changes import change_table

with job(snakemake.log[0]):
    files = {name: Path(path) for name, path in snakemake.input.items()}
    rows = usual_target(pd.read_csv(files["summary"]), UNBIASED)
    release = read_target(rows, files, [recommended(rows)], UNBIASED).sort_values("cell")
    n = int(rows["n"].iloc[0])
    samples = read_tables([files["samples"]], n=n).sort_values("cell")
    table = change_table(
        read_tables([files["cells"]], ["window", "id", "name"]),
        samples["count"].to_numpy(),
        n * release["estimate"].to_numpy(),
        n * release["standard_error"].to_numpy(),
    )
    write_csv(table, Path(snakemake.output[0]))
