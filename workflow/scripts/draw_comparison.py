from pathlib import Path

from shuffledp.figures.comparison import comparison_summary, matched_comparison
from shuffledp.figures.style import save
from shuffledp.files import replacing
from shuffledp.jobs import job
from shuffledp.tables import read_tables

with job(snakemake.log[0]):
    utility = {
        title: read_tables([Path(path)])
        for title, path in zip(snakemake.params.titles, snakemake.input.utility, strict=True)
    }
    target_delta = snakemake.params.target_delta
    with replacing(Path(snakemake.output.csv)) as temporary:
        summary = comparison_summary(utility, target_delta).assign(unit=snakemake.params.unit)
        summary.to_csv(temporary, index=False)
    figure = matched_comparison(utility, target_delta, snakemake.params.unit)
    save(figure, Path(snakemake.output.png).with_suffix(""), "Shuffle model and central Gaussian")
