rule grid_checkins:
    input:
        checkins=unit_checkins,
        outline=outline_file,
        library=library("shuffledp.geography.grid"),
    output:
        "results/grids/{region}.{grid}.parquet",
    log:
        "results/logs/grid_checkins.{region}.{grid}.log",
    benchmark:
        "results/benchmarks/grid_checkins.{region}.{grid}.tsv"
    conda:
        "../../environment.yml"
    resources:
        mem_mb=escalating(1000),
        runtime=escalating(10),
    params:
        region=region_place,
        grid=lambda wildcards: region_spec(wildcards)["grids"][wildcards.grid],
    script:
        "../scripts/grid_checkins.py"
