from pathlib import Path

from shuffledp.papers.paper_d.training import noise_table, training_table
from shuffledp.pipeline.files import verified_sha256
from shuffledp.pipeline.jobs import job
from shuffledp.pipeline.tables import write_csv

with job(snakemake.log[0]):
    files = {name: Path(path) for name, path in snakemake.input.items()}
    for name, path in files.items():
        verified_sha256(path, snakemake.params.checksums[name])
    seed = snakemake.params.seed
    table = training_table(files, "personalised.mnist", seed)
    write_csv(table, Path(snakemake.output.accuracies))
    write_csv(noise_table(seed), Path(snakemake.output.noise))
