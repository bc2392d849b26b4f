from importlib import import_module
from pathlib import Path

from shuffledp.figures.style import EXTENSIONS, save
from shuffledp.pipeline.jobs import job
from shuffledp.pipeline.tables import contents_of

FOR_THE_RULE = {"code", "function", "calibrations", "replaced", "caption"}

with job(snakemake.log[0]):
    # An input that this region does not have is an empty list.
    files = {name: Path(path) for name, path in snakemake.input.items() if path}
    arguments = {n: value for n, value in snakemake.params.items() if n not in FOR_THE_RULE}
    module, _, name = snakemake.params.function.rpartition(".")
    draw = getattr(import_module(f"shuffledp.{module}"), name)
    # Each figure has a file for each extension.
    stems = [Path(path).with_suffix("") for path in snakemake.output[:: len(EXTENSIONS)]]
    for number, stem in enumerate(stems):
        if "calibrations" in dict(snakemake.params.items()):
            arguments["calibration"] = snakemake.params.calibrations[number]
        save(draw(**files, **arguments), stem, contents_of(files.values()))
