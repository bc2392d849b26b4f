rule account_privacy:
    input:
        samples=result("samples/{region}.{grid}.parquet"),
    output:
        table("privacy/{region}.{grid}.eps0-{eps0}.parquet"),
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
        table("privacy/{region}.{grid}.parquet"),
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


rule trace_promises:
    input:
        summary=result("utility/{region}.{grid}.csv"),
        cells=result("grids/{region}.{grid}.parquet"),
    output:
        result("privacy/{region}.{grid}.promises.parquet"),
    log:
        log_of("trace_promises.{region}.{grid}"),
    benchmark:
        benchmark_of("trace_promises.{region}.{grid}")
    conda:
        "../../environment.yml"
    resources:
        **cost(1000, 60),
    params:
        library=library("trace_promises"),
    script:
        "../scripts/trace_promises.py"


rule account_sizes:
    input:
        cells=result("grids/{region}.{grid}.parquet"),
    output:
        result("privacy/{region}.{grid}.sizes.parquet"),
    log:
        log_of("account_sizes.{region}.{grid}"),
    benchmark:
        benchmark_of("account_sizes.{region}.{grid}")
    conda:
        "../../environment.yml"
    resources:
        **cost(1500, 30),
    params:
        library=library("account_sizes"),
        eps0=of_region("eps0"),
        target_delta=config["target_delta"],
    script:
        "../scripts/account_sizes.py"


rule account_units:
    input:
        checkins=result("checkins/{region}.parquet"),
        cells=result("grids/{region}.{grid}.parquet"),
        outline=outline_file,
    output:
        privacy=result("privacy/{region}.{grid}.units.parquet"),
        users=result("privacy/{region}.{grid}.users.csv"),
    log:
        log_of("account_units.{region}.{grid}"),
    benchmark:
        benchmark_of("account_units.{region}.{grid}")
    conda:
        "../../environment.yml"
    resources:
        **cost(1500, 30),
    params:
        library=library("account_units"),
        region=region_place,
        grid=grid_of_region,
        real_users=real_users,
        eps0=of_region("eps0"),
        target_delta=config["target_delta"],
    script:
        "../scripts/account_units.py"


rule account_slots:
    input:
        samples=result("samples/{region}.{grid}.parquet"),
    output:
        table(
            "utility/{region}.{grid}.slots.csv",
            of=lambda spec: "slots" in spec.get("targets", {}),
            first=True,
        ),
    log:
        log_of("account_slots.{region}.{grid}"),
    benchmark:
        benchmark_of("account_slots.{region}.{grid}")
    conda:
        "../../environment.yml"
    resources:
        **cost(1000, 30),
    params:
        library=library("account_slots"),
        targets=of_region("targets"),
    script:
        "../scripts/account_slots.py"
