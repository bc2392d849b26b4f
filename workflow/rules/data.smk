rule lay_checkins:
    input:
        counts=lambda wildcards: resource(f"cell_counts/{wildcards.region}.csv"),
    output:
        result("laid/embedded/{region}.txt.gz"),
    log:
        log_of("lay_checkins.{region}"),
    resources:
        **cost(1000, 2),
    params:
        code=COMPUTING,
        seed=config["seed"],
    script:
        "../scripts/lay_checkins.py"


rule fetch_file:
    output:
        "resources/automatic/{path}",
    log:
        log_of("fetch_file/{path}"),
    wildcard_constraints:
        path="|".join(map(re.escape, DOWNLOADS)) or "(?!)",
    retries: 2
    # The nodes of a cluster seldom reach the internet; the machine that runs Snakemake does.
    localrule: True
    params:
        url=lambda wildcards: DOWNLOADS[wildcards.path]["url"],
        checksum=lambda wildcards: DOWNLOADS[wildcards.path].get("checksum"),
        cache="resources/automatic/cache",
    script:
        "../scripts/fetch_file.py"


rule crop_checkins:
    input:
        source=source_file,
        parts=source_parts,
        place=place_files,
    output:
        result("checkins/{region}.parquet"),
    log:
        log_of("crop_checkins.{region}"),
    resources:
        **cost(reading_memory, 10),
    params:
        code=COMPUTING,
        region=region_place,
        layout=lambda wildcards: source_spec(wildcards).get("layout", "snap"),
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
    resources:
        **cost(1500, 2),
    params:
        code=COMPUTING,
        seed=config["seed"],
        records_per_user=of_region("records_per_user"),
    script:
        "../scripts/sample_users.py"


rule grid_checkins:
    input:
        checkins=unit_checkins,
        place=place_files,
    output:
        result("grids/{region}.{grid}.parquet"),
    log:
        log_of("grid_checkins.{region}.{grid}"),
    resources:
        **cost(1000, 2, per_cell=1.2),
    params:
        code=COMPUTING,
        region=region_place,
        grid=grid_of_region,
        bound=contribution_bound,
    script:
        "../scripts/grid_checkins.py"


rule draw_samples:
    input:
        counts=result("grids/{region}.{grid}.parquet"),
    output:
        result("samples/{region}.{grid}.parquet"),
    log:
        log_of("draw_samples.{region}.{grid}"),
    resources:
        **cost(1000, 2, per_sample=0.1),
    params:
        code=COMPUTING,
        sizes=of_region("n"),
        seed=config["seed"],
        unit=of_region("unit"),
    script:
        "../scripts/draw_samples.py"
