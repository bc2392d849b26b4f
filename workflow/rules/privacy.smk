rule account_privacy:
    input:
        counts="results/grids/{region}.{grid}.parquet",
        library=library("shuffledp.studies.privacy", "shuffledp.tables"),
    output:
        "results/privacy/{region}.{grid}.eps0-{eps0}.parquet",
    log:
        "results/logs/account_privacy.{region}.{grid}.eps0-{eps0}.log",
    benchmark:
        "results/benchmarks/account_privacy.{region}.{grid}.eps0-{eps0}.tsv"
    conda:
        "../../environment.yml"
    resources:
        mem_mb=escalating(1000),
        runtime=escalating(60),
    params:
        sizes=lambda wildcards: region_spec(wildcards)["n"],
        eps=config["eps"],
        seed=config["seed"],
        unit=config["unit"],
    script:
        "../scripts/account_privacy.py"


rule collect_privacy:
    input:
        tables=per_eps0("results/privacy/{region}.{grid}.eps0-{eps0}.parquet"),
        library=library("shuffledp.tables"),
    output:
        "results/privacy/{region}.{grid}.parquet",
    log:
        "results/logs/collect_privacy.{region}.{grid}.log",
    localrule: True
    conda:
        "../../environment.yml"
    script:
        "../scripts/collect_privacy.py"
