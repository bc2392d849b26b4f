# Texts and scripts of the page, which is made again after a change in them.
PAGE_PARTS = sorted(
    local(os.path.relpath(path))
    for kind in ("html", "css", "js")
    for path in (Path(find_version.__code__.co_filename).parent / "page").rglob(
        f"*.{kind}"
    )
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
        **cost(page_memory, 5),
    params:
        code=DRAWING,
        title="Private maps of where people are",
        regions=page_regions,
        target_delta=config["target_delta"],
        config=lambda wildcards: config,
        root=os.path.dirname(os.path.abspath(shipped("Snakefile"))),
    script:
        "../scripts/write_page.py"


use rule write_page as write_reproduction_page with:
    input:
        unpack(page_files),
        parts=PAGE_PARTS,
        values=result("reproduction/values.csv"),
        errata=local(shipped("docs/errata.md")),
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


# A target for each region, by its name.
for region in REGIONS:
    if region == "all" or region in {rule.name for rule in workflow.rules}:
        raise WorkflowError(
            f"config: regions.{region}: a step of the workflow has that name; take another"
        )

    rule:
        name:
            region
        input:
            tables_of(region),
            [figures_of(region, grid) for grid in REGIONS[region]["grids"]],
        localrule: True
