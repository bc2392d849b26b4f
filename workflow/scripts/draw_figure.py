from importlib import import_module
from pathlib import Path

from shuffledp.figures.style import save
from shuffledp.jobs import job

with job(snakemake.log[0]):
    # An input that this region does not have is an empty list.
    files = {name: Path(path) for name, path in snakemake.input.items() if path}
    home, _, name = snakemake.params.by.rpartition(".")
    draw = getattr(import_module(f"shuffledp.figures.{home}"), name)
    figure = draw(**files, **snakemake.params.arguments)
    save(figure, Path(snakemake.output.png).with_suffix(""))
