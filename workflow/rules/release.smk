rule release_histograms:
    input:
        counts="results/grids/{region}.{grid}.parquet",
        library=library("shuffledp.studies.releases", "shuffledp.tables"),
    output:
        "results/releases/{region}.{grid}.eps0-{eps0}.parquet",
    log:
        "results/logs/release_histograms.{region}.{grid}.eps0-{eps0}.log",
    params:
        sizes=lambda wildcards: region_spec(wildcards)["n"],
        eps=config["eps"],
        target_delta=config["target_delta"],
        repetitions=config["repetitions"],
        seed=config["seed"],
    resources:
        mem_mb=2000,
    conda:
        "../../environment.yml"
    script:
        "../scripts/release_histograms.py"


rule measure_utility:
    input:
        releases=per_eps0("results/releases/{region}.{grid}.eps0-{eps0}.parquet"),
        counts="results/grids/{region}.{grid}.parquet",
        library=library("shuffledp.studies.utility", "shuffledp.tables"),
    output:
        community="results/utility/{region}.{grid}.parquet",
        individual="results/utility/{region}.{grid}.individual.parquet",
    log:
        "results/logs/measure_utility.{region}.{grid}.log",
    params:
        seed=config["seed"],
    resources:
        mem_mb=2000,
    conda:
        "../../environment.yml"
    script:
        "../scripts/measure_utility.py"
