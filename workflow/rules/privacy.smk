rule account_privacy:
    input:
        samples=result("samples/{region}.{grid}.parquet"),
    output:
        result("privacy/{region}.{grid}.eps0-{eps0}.parquet"),
    log:
        log_of("account_privacy.{region}.{grid}.eps0-{eps0}"),
    benchmark:
        benchmark_of("account_privacy.{region}.{grid}.eps0-{eps0}")
    conda:
        "../../environment.yml"
    resources:
        **cost(1000, 60),
    params:
        library=library("account_privacy"),
        eps=of_region("eps"),
        bounds=of_region("bounds"),
    script:
        "../scripts/account_privacy.py"


rule collect_privacy:
    input:
        tables=per_eps0("privacy/{region}.{grid}.eps0-{eps0}.parquet"),
    output:
        result("privacy/{region}.{grid}.parquet"),
    log:
        log_of("collect_privacy.{region}.{grid}"),
    localrule: True
    conda:
        "../../environment.yml"
    params:
        library=library("collect_privacy"),
    script:
        "../scripts/collect_privacy.py"


rule trace_privacy:
    input:
        samples=result("samples/{region}.{grid}.parquet"),
    output:
        result("privacy/{region}.{grid}.curves.parquet"),
    log:
        log_of("trace_privacy.{region}.{grid}"),
    benchmark:
        benchmark_of("trace_privacy.{region}.{grid}")
    conda:
        "../../environment.yml"
    resources:
        **cost(1000, 60),
    params:
        library=library("trace_privacy"),
        eps0=of_region("eps0"),
        bounds=of_region("bounds"),
        target_delta=config["target_delta"],
    script:
        "../scripts/trace_privacy.py"


rule account_people:
    input:
        cells=result("grids/{region}.{grid}.parquet"),
    output:
        result("privacy/{region}.{grid}.people.parquet"),
    log:
        log_of("account_people.{region}.{grid}"),
    benchmark:
        benchmark_of("account_people.{region}.{grid}")
    conda:
        "../../environment.yml"
    resources:
        **cost(1500, 30),
    params:
        library=library("account_people"),
        eps0=of_region("eps0"),
        target_delta=config["target_delta"],
    script:
        "../scripts/account_people.py"


rule account_persons:
    input:
        checkins=result("checkins/{region}.parquet"),
        cells=result("grids/{region}.{grid}.parquet"),
        outline=outline_file,
    output:
        privacy=result("privacy/{region}.{grid}.persons.parquet"),
        users=result("privacy/{region}.{grid}.users.csv"),
    log:
        log_of("account_persons.{region}.{grid}"),
    benchmark:
        benchmark_of("account_persons.{region}.{grid}")
    conda:
        "../../environment.yml"
    resources:
        **cost(1500, 30),
    params:
        library=library("account_persons"),
        region=region_place,
        grid=lambda wildcards: REGIONS[wildcards.region]["grids"][wildcards.grid],
        real_users=real_rows,
        eps0=of_region("eps0"),
        target_delta=config["target_delta"],
    script:
        "../scripts/account_persons.py"
