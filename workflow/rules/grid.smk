rule grid_checkins:
    input:
        checkins=unit_checkins,
        outline=outline_file,
    output:
        result("grids/{region}.{grid}.parquet"),
    log:
        log_of("grid_checkins.{region}.{grid}"),
    benchmark:
        benchmark_of("grid_checkins.{region}.{grid}")
    conda:
        "../../environment.yml"
    resources:
        **cost(1000, 10),
    params:
        library=library("grid_checkins"),
        region=region_place,
        grid=lambda wildcards: REGIONS[wildcards.region]["grids"][wildcards.grid],
    script:
        "../scripts/grid_checkins.py"


rule grid_budgets:
    input:
        checkins=unit_checkins,
        outline=outline_file,
    output:
        result("grids/{region}.{grid}.budgets.parquet"),
    log:
        log_of("grid_budgets.{region}.{grid}"),
    benchmark:
        benchmark_of("grid_budgets.{region}.{grid}")
    conda:
        "../../environment.yml"
    resources:
        **cost(1000, 10),
    params:
        library=library("grid_budgets"),
        region=region_place,
        grid=lambda wildcards: REGIONS[wildcards.region]["grids"][wildcards.grid],
    script:
        "../scripts/grid_budgets.py"


rule draw_samples:
    input:
        counts=result("grids/{region}.{grid}.parquet"),
    output:
        result("samples/{region}.{grid}.parquet"),
    log:
        log_of("draw_samples.{region}.{grid}"),
    benchmark:
        benchmark_of("draw_samples.{region}.{grid}")
    conda:
        "../../environment.yml"
    resources:
        **cost(1000, 10),
    params:
        library=library("draw_samples"),
        sizes=of_region("n"),
        seed=config["seed"],
        unit=of_region("unit"),
    script:
        "../scripts/draw_samples.py"
