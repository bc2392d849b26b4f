for name, spec in FIGURES.items():
    job = f"draw_{name.replace('-', '_').replace('.', '_')}"

    rule:
        name:
            job
        input:
            **spec.inputs,
        output:
            **drawing(name, spec),
        log:
            log_of(f"{job}{spec.stem}"),
        benchmark:
            benchmark_of(f"{job}{spec.stem}")
        conda:
            "../../environment.yml"
        resources:
            **cost(1500, 5),
        params:
            library=library("draw_figure", f"shuffledp.figures.{spec.by.split('.')[0]}"),
            by=spec.by,
            arguments=spec.arguments,
            caption=spec.words,
        script:
            "../scripts/draw_figure.py"


# A target for each region, by its name.
for region in REGIONS:
    if region in {rule.name for rule in workflow.rules} | {"all", "page", "reproduce"}:
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
