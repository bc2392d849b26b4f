rule release_histograms:
    input:
        counts="results/grids/{region}.{grid}.parquet",
        library=library("shuffledp.studies.releases", "shuffledp.tables"),
    output:
        "results/releases/{region}.{grid}.eps0-{eps0}.parquet",
    log:
        "results/logs/release_histograms.{region}.{grid}.eps0-{eps0}.log",
    benchmark:
        "results/benchmarks/release_histograms.{region}.{grid}.eps0-{eps0}.tsv"
    conda:
        "../../environment.yml"
    resources:
        mem_mb=escalating(2000),
        runtime=escalating(60),
    params:
        sizes=lambda wildcards: region_spec(wildcards)["n"],
        eps=config["eps"],
        target_delta=config["target_delta"],
        repetitions=config["repetitions"],
        seed=config["seed"],
        unit=config["unit"],
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
    benchmark:
        "results/benchmarks/measure_utility.{region}.{grid}.tsv"
    conda:
        "../../environment.yml"
    resources:
        mem_mb=escalating(2000),
        runtime=escalating(60),
    params:
        seed=config["seed"],
        unit=config["unit"],
    script:
        "../scripts/measure_utility.py"
