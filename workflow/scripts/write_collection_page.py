from pathlib import Path

from shuffledp.page.collected import round_data
from shuffledp.page.render import render_round
from shuffledp.pipeline.files import replacing
from shuffledp.pipeline.jobs import job

with job(snakemake.log[0]):
    names = ("campaign", "counts", "cells", "basemap")
    given = {name: Path(path) for name in names if (path := snakemake.input[name])}
    with replacing(Path(snakemake.output[0])) as path:
        path.write_text(render_round(round_data(**given)), encoding="utf-8")
