def page_files(wildcards):
    """What a page shows of every region, by names that start with that of the region."""
    files = {}
    for region in REGIONS:
        place = f"{region}.{first_grid(region)}"
        found = {
            "cells": result(f"grids/{place}.parquet"),
            "samples": result(f"samples/{place}.parquet"),
            "curves": result(f"privacy/{place}.curves.parquet"),
            "privacy": result(f"privacy/{place}.parquet"),
            "people": result(f"privacy/{place}.people.parquet"),
            "utility": result(f"utility/{place}.parquet"),
        }
        for eps0 in map(budget, REGIONS[region]["eps0"]):
            found[f"certainty_{eps0}"] = result(
                f"utility/{place}.certainty.eps0-{eps0}.parquet"
            )
        if "targets" in config:
            found["targets"] = result(f"utility/{place}.targets.csv")
            for mechanism in REGIONS[region]["targets"]["mechanisms"]:
                found[f"estimates_{mechanism}"] = result(
                    f"releases/{place}.targets.{mechanism}.parquet"
                )
        around = SimpleNamespace(region=region)
        for name, source in SURROUNDINGS.items():
            if path := source(around):
                found[name] = path
        files |= {f"{region}__{name}": path for name, path in found.items()}
    return files


# Text and scripts of the page: a change in them makes the page again.
PAGE_PARTS = sorted(
    local(os.path.relpath(path))
    for kind in ("html", "css", "js")
    for path in (LIBRARY / "shuffledp" / "page").rglob(f"*.{kind}")
)


rule write_page:
    input:
        unpack(page_files),
        parts=PAGE_PARTS,
    output:
        result("report.html"),
    log:
        log_of("write_page"),
    benchmark:
        benchmark_of("write_page")
    conda:
        "../../environment.yml"
    resources:
        **cost(1500, 5),
    params:
        library=library("write_page"),
        title="Private location histograms",
        regions=lambda wildcards: {
            region: {"title": plain_title(region), "unit": unit_words(region)}
            for region in REGIONS
        },
        target_delta=config["target_delta"],
        config=lambda wildcards: config,
        root=str(ROOT),
    script:
        "../scripts/write_page.py"


use rule write_page as write_reproduction_page with:
    input:
        unpack(page_files),
        parts=PAGE_PARTS,
        values=result("reproduction/values.csv"),
        errata=local(os.path.relpath(ROOT / "docs" / "errata.md")),
    output:
        result("reproduction/report.html"),
    log:
        log_of("write_reproduction_page"),
    benchmark:
        benchmark_of("write_reproduction_page")


rule page:
    input:
        result("report.html"),
    localrule: True
