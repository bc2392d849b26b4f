rule draw_checkins:
    input:
        checkins=unit_checkins,
        cells="results/grids/{region}.{grid}.parquet",
        library=library("shuffledp.figures.maps"),
    output:
        **drawing("checkins.{region}.{grid}", "checkins_map", "Data"),
    log:
        "results/logs/draw_checkins.{region}.{grid}.log",
    benchmark:
        "results/benchmarks/draw_checkins.{region}.{grid}.tsv"
    conda:
        "../../environment.yml"
    resources:
        mem_mb=escalating(1000),
        runtime=escalating(5),
    params:
        title=lambda wildcards: dots_title(wildcards),
    script:
        "../scripts/draw_checkins.py"


rule draw_privacy:
    input:
        privacy="results/privacy/{region}.{grid}.parquet",
        library=library("shuffledp.figures.privacy"),
    output:
        **drawing("privacy.{region}.{grid}", "delta_curves", "Privacy"),
    log:
        "results/logs/draw_privacy.{region}.{grid}.log",
    benchmark:
        "results/benchmarks/draw_privacy.{region}.{grid}.tsv"
    conda:
        "../../environment.yml"
    resources:
        mem_mb=escalating(1000),
        runtime=escalating(5),
    params:
        title=region_title,
    script:
        "../scripts/draw_privacy.py"


rule draw_estimates:
    input:
        releases="results/releases/{region}.{grid}.eps0-{eps0}.parquet",
        cells="results/grids/{region}.{grid}.parquet",
        library=library("shuffledp.figures.maps", "shuffledp.studies.sampling"),
    output:
        **drawing(
            "estimates.{region}.{grid}.eps0-{eps0}.{calibration}",
            "estimate_maps",
            "Estimates",
        ),
    log:
        "results/logs/draw_estimates.{region}.{grid}.eps0-{eps0}.{calibration}.log",
    benchmark:
        "results/benchmarks/draw_estimates.{region}.{grid}.eps0-{eps0}.{calibration}.tsv"
    conda:
        "../../environment.yml"
    resources:
        mem_mb=escalating(1500),
        runtime=escalating(5),
    params:
        title=region_title,
        target_delta=config["target_delta"],
        seed=config["seed"],
    script:
        "../scripts/draw_estimates.py"


rule draw_distances:
    input:
        utility="results/utility/{region}.{grid}.parquet",
        library=library("shuffledp.figures.distances"),
    output:
        **drawing("distances.{region}.{grid}.{calibration}", "distances", "Distances"),
    log:
        "results/logs/draw_distances.{region}.{grid}.{calibration}.log",
    benchmark:
        "results/benchmarks/draw_distances.{region}.{grid}.{calibration}.tsv"
    conda:
        "../../environment.yml"
    resources:
        mem_mb=escalating(1000),
        runtime=escalating(5),
    params:
        title=region_title,
        sizes=fixed_sizes,
        target_delta=config["target_delta"],
    script:
        "../scripts/draw_distances.py"


rule draw_distances_over_eps:
    input:
        utility="results/utility/{region}.{grid}.parquet",
        library=library("shuffledp.figures.distances"),
    output:
        **drawing(
            "distances-over-eps.{region}.{grid}", "distance_over_eps", "Distances"
        ),
    log:
        "results/logs/draw_distances_over_eps.{region}.{grid}.log",
    benchmark:
        "results/benchmarks/draw_distances_over_eps.{region}.{grid}.tsv"
    conda:
        "../../environment.yml"
    resources:
        mem_mb=escalating(1000),
        runtime=escalating(5),
    params:
        title=region_title,
    script:
        "../scripts/draw_distances_over_eps.py"


rule draw_individual:
    input:
        individual="results/utility/{region}.{grid}.individual.parquet",
        library=library("shuffledp.figures.individual"),
    output:
        **drawing(
            "individual.{region}.{grid}.eps0-{eps0}",
            "individual_table",
            "Individual utility",
        ),
        csv="results/utility/{region}.{grid}.individual.eps0-{eps0}.csv",
    log:
        "results/logs/draw_individual.{region}.{grid}.eps0-{eps0}.log",
    benchmark:
        "results/benchmarks/draw_individual.{region}.{grid}.eps0-{eps0}.tsv"
    conda:
        "../../environment.yml"
    resources:
        mem_mb=escalating(1000),
        runtime=escalating(5),
    params:
        title=region_title,
        every=lambda wildcards: region_spec(wildcards).get("individual_every"),
        target_delta=config["target_delta"],
        unit=UNIT,
    script:
        "../scripts/draw_individual.py"


rule draw_comparison:
    input:
        utility=[
            f"results/utility/{region}.{grid}.parquet"
            for region, grid in first_grids()
        ],
        library=library("shuffledp.figures.comparison"),
    output:
        **drawing("comparison", "matched_comparison", "The main result"),
        csv="results/utility/comparison.csv",
    log:
        "results/logs/draw_comparison.log",
    benchmark:
        "results/benchmarks/draw_comparison.tsv"
    conda:
        "../../environment.yml"
    resources:
        mem_mb=escalating(1000),
        runtime=escalating(5),
    params:
        # A function, so that braces in a title are not taken for wildcards.
        titles=lambda wildcards: [
            config["regions"][region].get("title", region)
            for region, _ in first_grids()
        ],
        target_delta=config["target_delta"],
        unit=UNIT,
    script:
        "../scripts/draw_comparison.py"
