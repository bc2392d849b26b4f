rule account_privacy:
    input:
        samples=result("samples/{region}.{grid}.parquet"),
    output:
        result("privacy/{region}.{grid}.eps0-{eps0}.parquet"),
    log:
        log_of("account_privacy.{region}.{grid}.eps0-{eps0}"),
    resources:
        **cost(1000, 60),
    params:
        code=COMPUTING,
        eps=of_region("eps"),
        bounds=of_region("bounds"),
    script:
        "../scripts/account_privacy.py"


rule collect_privacy:
    input:
        tables=lambda wildcards: [
            result(f"privacy/{wildcards.region}.{wildcards.grid}.eps0-{eps0}.parquet")
            for eps0 in map(budget, REGIONS[wildcards.region]["eps0"])
        ],
    output:
        result("privacy/{region}.{grid}.parquet"),
    log:
        log_of("collect_privacy.{region}.{grid}"),
    localrule: True
    params:
        code=COMPUTING,
    script:
        "../scripts/collect_privacy.py"


rule trace_privacy:
    input:
        samples=result("samples/{region}.{grid}.parquet"),
    output:
        result("privacy/{region}.{grid}.curves.parquet"),
    log:
        log_of("trace_privacy.{region}.{grid}"),
    resources:
        **cost(1000, 60),
    params:
        code=COMPUTING,
        eps0=of_region("eps0"),
        bounds=of_region("bounds"),
        target_delta=config["target_delta"],
    script:
        "../scripts/trace_privacy.py"
