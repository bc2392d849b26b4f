rule grid_checkins:
    input:
        checkins="results/checkins/{region}.parquet",
        outline=outline_file,
        library=library("shuffledp.geography.grid"),
    output:
        "results/grids/{region}.{grid}.parquet",
    log:
        "results/logs/grid_checkins.{region}.{grid}.log",
    conda:
        "../../environment.yml"
    resources:
        mem_mb=500,
    params:
        region=region_place,
        grid=lambda wildcards: region_spec(wildcards)["grids"][wildcards.grid],
    script:
        "../scripts/grid_checkins.py"
