rule lay_checkins:
    input:
        counts=resource("cell_counts/{region}.csv"),
        library=library("shuffledp.geography.embedded"),
    output:
        "resources/automatic/{source}/{region}.txt.gz",
    log:
        "results/logs/lay_checkins.{source}.{region}.log",
    wildcard_constraints:
        source=sources_of_kind("embedded"),
    conda:
        "../../environment.yml"
    params:
        seed=config["seed"],
    script:
        "../scripts/lay_checkins.py"


rule fetch_checkins:
    output:
        "resources/automatic/{source}/{name}",
    log:
        "results/logs/fetch_checkins.{source}.{name}.log",
    wildcard_constraints:
        source=sources_of_kind("download"),
        name="[^/]+",
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
        outline=outline_file,
        library=library("shuffledp.geography.checkins"),
    output:
        "results/checkins/{region}.parquet",
    log:
        "results/logs/crop_checkins.{region}.log",
    conda:
        "../../environment.yml"
    resources:
        mem_mb=500,
    params:
        region=region_place,
        layout=source_layout,
        checksum=lambda wildcards: source_spec(wildcards).get("checksum"),
        max_malformed_share=config["max_malformed_share"],
    script:
        "../scripts/crop_checkins.py"
