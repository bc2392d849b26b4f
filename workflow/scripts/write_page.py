from pathlib import Path

from shuffledp.page.data import configuration_text, planner_data, provenance, region_data
from shuffledp.page.render import render
from shuffledp.papers.page_section import reproduction_data
from shuffledp.pipeline.files import replacing
from shuffledp.pipeline.jobs import job
from shuffledp.pipeline.tables import read_metadata

with job(snakemake.log[0]):
    paths = {name: Path(path) for name, path in snakemake.input.items() if isinstance(path, str)}
    regions, checksums = [], {}
    for region, words in snakemake.params.regions.items():
        start = f"{region}__"
        files = {name.removeprefix(start): p for name, p in paths.items() if name.startswith(start)}
        regions.append(region_data(files, target_delta=snakemake.params.target_delta, **words))
        checksums[words["title"]] = read_metadata(files["samples"])["source_sha256"]
    config = snakemake.params.config
    reproduction = (
        reproduction_data(paths["values"], paths["errata"]) if "values" in paths else None
    )
    page = render(
        {
            "title": snakemake.params.title,
            "regions": regions,
            "planner": planner_data(),
            "reproduction": reproduction,
            "provenance": provenance(Path(snakemake.params.root), config, checksums),
            "configuration": configuration_text(config),
        }
    )
    with replacing(Path(snakemake.output[0])) as temporary:
        temporary.write_text(page, encoding="utf-8")
