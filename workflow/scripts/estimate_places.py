from pathlib import Path

from shuffledp.papers.paper_d.places import places_table
from shuffledp.pipeline.jobs import job
from shuffledp.pipeline.tables import read_counts, read_tables, write_csv

with job(snakemake.log[0]):
    chosen = snakemake.input.chosen
    table = places_table(
        read_counts(Path(snakemake.input.counts)),
        read_tables([Path(chosen)]) if chosen else snakemake.params.budgets,
        snakemake.params.delta,
        snakemake.params.repetitions,
        seed=snakemake.params.seed,
        region=snakemake.wildcards.region,
        grid=snakemake.wildcards.grid,
    )
    write_csv(table, Path(snakemake.output[0]))
