for name, spec in FIGURES.items():

    rule:
        name:
            f"draw_{name.replace('-', '_').replace('.', '_')}"
        input:
            **spec.inputs,
            library=library("draw_figure", f"shuffledp.figures.{spec.by.split('.')[0]}"),
        output:
            **drawing(f"{name}{spec.stem}", spec.caption, spec.category),
        log:
            log_of(f"draw_{name}{spec.stem}"),
        benchmark:
            benchmark_of(f"draw_{name}{spec.stem}")
        conda:
            "../../environment.yml"
        resources:
            **cost(1500, 5),
        params:
            by=spec.by,
            arguments=spec.arguments,
            caption=spec.words,
        script:
            "../scripts/draw_figure.py"


def calibrations(region):
    """At equal privacy, and as some mechanism of the region was published."""
    from shuffledp.mechanisms.registry import own_calibrations

    return ["matched", *own_calibrations(REGIONS[region]["mechanisms"])]


def figures_of(region):
    """The figures of a region's first grid."""
    values = {
        "region": [region],
        "grid": [first_grid(region)],
        "eps0": list(map(budget, REGIONS[region]["eps0"])),
        "calibration": calibrations(region),
    }
    made = []
    for name, spec in FIGURES.items():
        if "{region}" in spec.stem:
            used = {k: v for k, v in values.items() if f"{{{k}}}" in spec.stem}
            for stem in expand(f"{name}{spec.stem}", **used):
                made += figure_files(stem)
    return made


def everything(wildcards):
    """All tables and figures of the run."""
    made = [result("utility/comparison.csv"), *figure_files("comparison")]
    for region in REGIONS:
        made += [*tables_of(region), *figures_of(region)]
    return made


# A target for each region, by its name.
for region in REGIONS:
    if region in {rule.name for rule in workflow.rules} | {"all", "reproduce"}:
        raise WorkflowError(
            f"config: regions.{region}: a step of the workflow has that name; take another"
        )

    rule:
        name:
            region
        input:
            tables_of(region),
            lambda wildcards, region=region: figures_of(region),
        localrule: True
