# Tables of releases are large; without them only the measured errors stay.
kept_or_temporary = temp if config["releases"] == "drop" else str


rule release_histograms:
    input:
        samples=result("samples/{region}.{grid}.parquet"),
    output:
        releases=kept_or_temporary(result("releases/{region}.{grid}.{part}.parquet")),
        utility=result("utility/{region}.{grid}.{part}.parquet"),
    log:
        log_of("release_histograms.{region}.{grid}.{part}"),
    resources:
        **cost(2000, 60, per_estimate=0.1, per_sample=0.1),
    params:
        code=COMPUTING,
        sweep=swept,
        repetitions=of_region("repetitions"),
        estimate=config["estimate"],
        seed=config["seed"],
    script:
        "../scripts/release_histograms.py"


rule summarise_utility:
    input:
        utility=lambda wildcards: [
            result(f"utility/{wildcards.region}.{wildcards.grid}.{part}.parquet")
            for part in parts_of(wildcards.region)
        ],
    output:
        utility=result("utility/{region}.{grid}.parquet"),
        summary=table(
            "utility/{region}.{grid}.csv",
            "mechanisms_table",
            "Which mechanism",
            "table of all mechanisms",
        ),
    log:
        log_of("summarise_utility.{region}.{grid}"),
    resources:
        **cost(1000, 2),
    params:
        code=COMPUTING,
        title=title_of,
        unit=unit_of,
    script:
        "../scripts/summarise_utility.py"


rule judge_cells:
    input:
        releases=result("releases/{region}.{grid}.eps0-{eps0}.parquet"),
        samples=result("samples/{region}.{grid}.parquet"),
    output:
        result("utility/{region}.{grid}.certainty.eps0-{eps0}.parquet"),
    log:
        log_of("judge_cells.{region}.{grid}.eps0-{eps0}"),
    resources:
        **cost(1000, 2, per_cell=2.5, per_sample=0.1),
    params:
        code=COMPUTING,
        target_delta=config["target_delta"],
    script:
        "../scripts/judge_cells.py"


rule write_maps:
    input:
        unpack(mapped_releases),
        summary=result("utility/{region}.{grid}.csv"),
        samples=result("samples/{region}.{grid}.parquet"),
        cells=result("grids/{region}.{grid}.parquet"),
    output:
        geojson=result("maps/{region}.{grid}.geojson"),
        parquet=result("maps/{region}.{grid}.parquet"),
    log:
        log_of("write_maps.{region}.{grid}"),
    resources:
        **cost(1000, 5, per_cell=6),
    params:
        code=COMPUTING,
    script:
        "../scripts/write_maps.py"


rule maps:
    input:
        [
            result(f"maps/{region}.{grid}.{suffix}")
            for region, spec in REGIONS.items()
            for grid in spec["grids"]
            for suffix in ("geojson", "parquet")
        ],
    localrule: True


rule compare_cell_sizes:
    input:
        lambda wildcards: expand(
            result("grids/{region}.{grid}.parquet"),
            region=wildcards.region,
            grid=REGIONS[wildcards.region]["grids"],
        ),
    output:
        result("utility/{region}.cell-sizes.csv"),
    log:
        log_of("compare_cell_sizes.{region}"),
    resources:
        **cost(cell_sizes_memory, 10),
    params:
        code=COMPUTING,
        grids=lambda wildcards: list(REGIONS[wildcards.region]["grids"]),
        delta=config["target_delta"],
        repetitions=of_region("repetitions"),
        seed=config["seed"],
    script:
        "../scripts/compare_cell_sizes.py"


rule summarise_individual:
    input:
        releases=result("releases/{region}.{grid}.eps0-{eps0}.parquet"),
        samples=result("samples/{region}.{grid}.parquet"),
    output:
        result("utility/{region}.{grid}.individual.eps0-{eps0}.csv"),
    log:
        log_of("summarise_individual.{region}.{grid}.eps0-{eps0}"),
    resources:
        **cost(individual_memory, 2),
    params:
        code=COMPUTING,
        every=of_region("individual_every"),
        target_delta=config["target_delta"],
        unit=unit_of,
    script:
        "../scripts/summarise_individual.py"


rule tabulate_individual:
    input:
        summary=result("utility/{region}.{grid}.individual.eps0-{eps0}.csv"),
    output:
        table(
            "tables/individual.{region}.{grid}.eps0-{eps0}.html",
            "individual_table",
            "Individual utility",
            "errors of single cells",
        ),
    log:
        log_of("tabulate_individual.{region}.{grid}.eps0-{eps0}"),
    resources:
        **cost(1000, 2),
    params:
        code=DRAWING,
        title=place_title,
        unit=unit_of,
    script:
        "../scripts/tabulate_individual.py"


rule compare_mechanisms:
    input:
        utility=[
            result(f"utility/{region}.{first_grid(region)}.parquet")
            for region in REGIONS
        ],
    output:
        table(
            "utility/comparison.csv",
            "comparison_table",
            "The main result",
            "table of the comparison",
        ),
    log:
        log_of("compare_mechanisms"),
    resources:
        **cost(1000, 2),
    params:
        code=COMPUTING,
        # A function, so that braces in a title are not taken for wildcards.
        titles=lambda wildcards: [
            title_with_grid(region, first_grid(region)) for region in REGIONS
        ],
        units=list(UNITS.values()),
        references=[spec["mechanisms"][0] for spec in REGIONS.values()],
        target_delta=config["target_delta"],
    script:
        "../scripts/compare_mechanisms.py"
