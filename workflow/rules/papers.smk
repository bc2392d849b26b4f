CITIES = ["san_francisco", "paris"]


rule compute_curves:
    output:
        result("reproduction/curves/{study}.{figure}.parquet"),
    log:
        log_of("compute_curves.{study}.{figure}"),
    benchmark:
        benchmark_of("compute_curves.{study}.{figure}")
    wildcard_constraints:
        study="|".join(PAPER_CURVES),
    conda:
        "../../environment.yml"
    resources:
        **cost(1000, 60),
    params:
        library=library("compute_curves"),
    script:
        "../scripts/compute_curves.py"


rule compute_surface:
    output:
        result("reproduction/paper_a.figure-1.parquet"),
    log:
        log_of("compute_surface"),
    benchmark:
        benchmark_of("compute_surface")
    conda:
        "../../environment.yml"
    resources:
        **cost(1000, 10),
    params:
        library=library("compute_surface"),
    script:
        "../scripts/compute_surface.py"


rule compute_synthetic_distances:
    output:
        result("reproduction/paper_a.figure-2.parquet"),
    log:
        log_of("compute_synthetic_distances"),
    benchmark:
        benchmark_of("compute_synthetic_distances")
    conda:
        "../../environment.yml"
    resources:
        **cost(1000, 10),
    params:
        library=library("compute_synthetic_distances"),
        seed=config["seed"],
    script:
        "../scripts/compute_synthetic_distances.py"


rule reproduce_values:
    input:
        published=resource("published_values.csv"),
        san_francisco=result("grids/san_francisco.step.parquet"),
        paris=result("grids/paris.step.parquet"),
    output:
        result("reproduction/values.csv"),
    log:
        log_of("reproduce_values"),
    benchmark:
        benchmark_of("reproduce_values")
    conda:
        "../../environment.yml"
    resources:
        **cost(1000, 10),
    params:
        library=library("reproduce_values"),
        seed=config["seed"],
    script:
        "../scripts/reproduce_values.py"


rule summarise_reproduction:
    input:
        values=result("reproduction/values.csv"),
    output:
        result("reproduction/summary.md"),
    log:
        log_of("summarise_reproduction"),
    benchmark:
        benchmark_of("summarise_reproduction")
    conda:
        "../../environment.yml"
    resources:
        **cost(500, 5),
    params:
        library=library("summarise_reproduction"),
        figures=figure_map(),
    script:
        "../scripts/summarise_reproduction.py"


rule reproduce:
    input:
        result("reproduction/values.csv"),
        result("reproduction/summary.md"),
        result("reproduction/report.html"),
        reproduced_figures(),
        everything,
    localrule: True
