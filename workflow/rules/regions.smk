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
