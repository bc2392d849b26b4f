from pathlib import Path

from shuffledp.pipeline.jobs import job
from shuffledp.pipeline.tables import RELEASES, UTILITY, run_metadata, writing
from shuffledp.studies.releases import NOTICE, BudgetSweep, TargetSweep, release_sweep
from shuffledp.studies.samples import read_contributions, read_samples

with job(snakemake.log[0]):
    source, sweep = Path(snakemake.input.samples), dict(snakemake.params.sweep)
    mechanisms = sweep.pop("mechanisms")
    sweep["contributions"] = read_contributions(source)
    parts = release_sweep(
        read_samples(source),
        BudgetSweep(**sweep) if "eps0" in sweep else TargetSweep(**sweep),
        snakemake.params.repetitions,
        mechanisms,
        seed=snakemake.params.seed,
        region=snakemake.wildcards.region,
        grid=snakemake.wildcards.grid,
        estimate=snakemake.params.estimate,
    )
    metadata = run_metadata(
        source,
        snakemake.params.sweep.items(),
        ((key, value) for key, value in snakemake.params.items() if key != "sweep"),
        snakemake.wildcards.items(),
    )
    noted = metadata | {"notice": NOTICE}
    with (
        writing(RELEASES, Path(snakemake.output.releases), noted) as add_releases,
        writing(UTILITY, Path(snakemake.output.utility), metadata) as add_utility,
    ):
        for releases, utility in parts:
            add_releases(releases)
            add_utility(utility)
