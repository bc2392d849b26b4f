rule lay_checkins:
    input:
        counts=resource("cell_counts/{region}.csv"),
    output:
        result("laid/{region}.txt.gz"),
    log:
        log_of("lay_checkins.{region}"),
    benchmark:
        benchmark_of("lay_checkins.{region}")
    conda:
        "../../environment.yml"
    resources:
        **cost(1000, 10),
    params:
        library=library("lay_checkins"),
        seed=config["seed"],
    script:
        "../scripts/lay_checkins.py"


rule fetch_checkins:
    output:
        "resources/automatic/{source}/{name}",
    log:
        log_of("fetch_checkins.{source}.{name}"),
    benchmark:
        benchmark_of("fetch_checkins.{source}.{name}")
    wildcard_constraints:
        source=downloads(),
        name="[^/]+",
    # Nodes of a cluster seldom reach the internet; the machine that runs Snakemake does.
    localrule: True
    conda:
        "../../environment.yml"
    params:
        url=lambda wildcards: config["sources"][wildcards.source]["url"],
        checksum=lambda wildcards: config["sources"][wildcards.source].get("checksum"),
        cache="resources/automatic/cache",
    script:
        "../scripts/fetch_checkins.py"


rule crop_checkins:
    input:
        source=source_file,
        parts=source_parts,
        outline=outline_file,
    output:
        result("checkins/{region}.parquet"),
    log:
        log_of("crop_checkins.{region}"),
    benchmark:
        benchmark_of("crop_checkins.{region}")
    conda:
        "../../environment.yml"
    resources:
        **cost(1500, 30),
    params:
        library=library("crop_checkins"),
        region=region_place,
        layout=lambda wildcards: source_spec(wildcards).get("layout", "snap"),
        budget_column=lambda wildcards: budget_column(REGIONS[wildcards.region]),
        checksum=lambda wildcards: source_spec(wildcards).get("checksum"),
        max_malformed_share=config["max_malformed_share"],
    script:
        "../scripts/crop_checkins.py"


rule sample_users:
    input:
        checkins=result("checkins/{region}.parquet"),
    output:
        result("users/{region}.parquet"),
    log:
        log_of("sample_users.{region}"),
    benchmark:
        benchmark_of("sample_users.{region}")
    conda:
        "../../environment.yml"
    resources:
        **cost(1500, 10),
    params:
        library=library("sample_users"),
        seed=config["seed"],
    script:
        "../scripts/sample_users.py"
