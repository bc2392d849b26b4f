import gc
from importlib import import_module
from pathlib import Path

from shuffledp.figures.style import EXTENSIONS, save
from shuffledp.pipeline.jobs import job
from shuffledp.pipeline.tables import contents_of

with job(snakemake.log[0]):
    # An input that this region does not have is an empty list.
    files = {name: Path(path) for name, path in snakemake.input.items() if path}
    contents = contents_of(files.values())
    # Each figure has a file for each extension.
    stems = [Path(path).with_suffix("") for path in snakemake.output[:: len(EXTENSIONS)]]
    for stem, figure in zip(stems, snakemake.params.figures, strict=True):
        module, _, name = figure["function"].rpartition(".")
        draw = getattr(import_module(f"shuffledp.{module}"), name)
        save(draw(**files, **figure["arguments"]), stem, contents)
        gc.collect()  # a figure refers to itself and would stay in memory beside the next one
