rule lay_checkins:
    input:
        counts=resource("cell_counts/{region}.csv"),
        library=library("shuffledp.geography.embedded"),
    output:
        "resources/automatic/{source}/{region}.txt.gz",
    log:
        "results/logs/lay_checkins.{source}.{region}.log",
    params:
        seed=config["seed"],
    wildcard_constraints:
        source=sources_of_kind("embedded"),
    conda:
        "../../environment.yml"
    script:
        "../scripts/lay_checkins.py"


rule fetch_checkins:
    output:
        "resources/automatic/{source}/{name}",
    log:
        "results/logs/fetch_checkins.{source}.{name}.log",
    params:
        url=lambda wildcards: config["sources"][wildcards.source]["url"],
        checksum=lambda wildcards: config["sources"][wildcards.source].get("checksum"),
        cache="resources/automatic/cache",
    wildcard_constraints:
        source=sources_of_kind("download"),
        name="[^/]+",
    retries: 1
    conda:
        "../../environment.yml"
    script:
        "../scripts/fetch_checkins.py"


rule crop_checkins:
    input:
        source=source_file,
        outline=outline_file,
        library=library("shuffledp.geography.checkins"),
    output:
        "results/checkins/{region}.parquet",
    log:
        "results/logs/crop_checkins.{region}.log",
    params:
        region=region_place,
        layout=source_layout,
        checksum=lambda wildcards: source_spec(wildcards).get("checksum"),
        max_malformed_share=config["max_malformed_share"],
    resources:
        mem_mb=500,
    conda:
        "../../environment.yml"
    script:
        "../scripts/crop_checkins.py"
