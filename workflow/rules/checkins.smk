rule lay_checkins:
    input:
        counts=resource("cell_counts/{region}.csv"),
        library=library("shuffledp.geography.embedded"),
    output:
        "resources/automatic/{source}/{region}.txt.gz",
    log:
        "results/logs/lay_checkins.{source}.{region}.log",
    benchmark:
        "results/benchmarks/lay_checkins.{source}.{region}.tsv"
    wildcard_constraints:
        source=sources_of_kind("embedded"),
    conda:
        "../../environment.yml"
    resources:
        mem_mb=escalating(1000),
        runtime=escalating(10),
    params:
        seed=config["seed"],
    script:
        "../scripts/lay_checkins.py"


rule fetch_checkins:
    output:
        "resources/automatic/{source}/{name}",
    log:
        "results/logs/fetch_checkins.{source}.{name}.log",
    benchmark:
        "results/benchmarks/fetch_checkins.{source}.{name}.tsv"
    wildcard_constraints:
        source=sources_of_kind("download"),
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
        library=library("shuffledp.geography.checkins"),
    output:
        "results/checkins/{region}.parquet",
    log:
        "results/logs/crop_checkins.{region}.log",
    benchmark:
        "results/benchmarks/crop_checkins.{region}.tsv"
    conda:
        "../../environment.yml"
    resources:
        mem_mb=escalating(1500),
        runtime=escalating(30),
    params:
        region=region_place,
        layout=source_layout,
        checksum=lambda wildcards: source_spec(wildcards).get("checksum"),
        max_malformed_share=config["max_malformed_share"],
    script:
        "../scripts/crop_checkins.py"


rule sample_users:
    input:
        checkins="results/checkins/{region}.parquet",
        library=library("shuffledp.geography.users"),
    output:
        "results/users/{region}.parquet",
    log:
        "results/logs/sample_users.{region}.log",
    benchmark:
        "results/benchmarks/sample_users.{region}.tsv"
    conda:
        "../../environment.yml"
    resources:
        mem_mb=escalating(1500),
        runtime=escalating(10),
    params:
        seed=config["seed"],
    script:
        "../scripts/sample_users.py"
