from pathlib import Path

import pandas as pd
from shuffledp.collection.analyst import read_opened
from shuffledp.collection.campaign import read_campaign
from shuffledp.collection.estimate import estimate_cells, projected
from shuffledp.figures.collected import draw_collected
from shuffledp.figures.style import save
from shuffledp.pipeline.columns import PUBLIC, TRUE
from shuffledp.pipeline.jobs import job
from shuffledp.pipeline.tables import write_csv

with job(snakemake.log[0]):
    campaign, counts = Path(snakemake.input.campaign), Path(snakemake.input.counts)
    truth, basemap = snakemake.input.truth, snakemake.input.basemap
    known = read_campaign(campaign)
    opened = read_opened(counts, known)
    cells = estimate_cells(known, opened)
    table = pd.DataFrame({**vars(cells), "projected": projected(cells, opened.respondents)})
    write_csv(table.rename_axis("cell").reset_index(), Path(snakemake.output[0]))
    figure = draw_collected(
        campaign,
        counts,
        Path(snakemake.input.cells),
        Path(truth) if truth else None,
        Path(basemap) if basemap else None,
    )
    stem = Path(snakemake.output[1]).with_suffix("")
    save(figure, stem, TRUE if truth else PUBLIC)
