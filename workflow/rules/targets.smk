# One job for each mechanism: of slow ones several run at once, and a new one leaves the others be.
rule release_to_targets:
    input:
        samples=result("samples/{region}.{grid}.parquet"),
    output:
        utility=result("utility/{region}.{grid}.targets.{mechanism}.parquet"),
        estimates=result("releases/{region}.{grid}.targets.{mechanism}.parquet"),
    log:
        log_of("release_to_targets.{region}.{grid}.{mechanism}"),
    benchmark:
        benchmark_of("release_to_targets.{region}.{grid}.{mechanism}")
    conda:
        "../../environment.yml"
    resources:
        **cost(2000, 60),
    params:
        library=library("release_to_targets"),
        eps=of_targets("eps"),
        delta=of_targets("delta"),
        colluding=of_targets("colluding"),
        response_rate=of_targets("response_rate"),
        repetitions=of_region("repetitions"),
        seed=config["seed"],
    script:
        "../scripts/release_to_targets.py"


rule summarise_targets:
    input:
        utility=per_mechanism("utility/{region}.{grid}.targets.{mechanism}.parquet"),
    output:
        utility=result("utility/{region}.{grid}.targets.parquet"),
        summary=result("utility/{region}.{grid}.targets.csv"),
    log:
        log_of("summarise_targets.{region}.{grid}"),
    benchmark:
        benchmark_of("summarise_targets.{region}.{grid}")
    conda:
        "../../environment.yml"
    resources:
        **cost(1000, 5),
    params:
        library=library("summarise_targets"),
        title=lambda wildcards: plain_title(wildcards.region),
        unit=region_unit,
    script:
        "../scripts/summarise_targets.py"
