rule compute_curves:
    input:
        library=lambda wildcards: library(
            f"shuffledp.studies.reproduction.{wildcards.study}", "shuffledp.tables"
        ),
    output:
        "results/reproduction/curves/{study}.{figure}.parquet",
    log:
        "results/logs/compute_curves.{study}.{figure}.log",
    benchmark:
        "results/benchmarks/compute_curves.{study}.{figure}.tsv"
    wildcard_constraints:
        study="|".join(PAPER_FIGURES),
    conda:
        "../../environment.yml"
    resources:
        mem_mb=escalating(1000),
        runtime=escalating(60),
    script:
        "../scripts/compute_curves.py"


rule draw_curves:
    input:
        curves="results/reproduction/curves/{study}.{figure}.parquet",
        library=lambda wildcards: library(
            f"shuffledp.studies.reproduction.{wildcards.study}",
            "shuffledp.figures.curves",
            "shuffledp.figures.literature",
        ),
    output:
        **drawing("{study}.{figure}", "paper_curves", "The papers' figures, recomputed"),
    log:
        "results/logs/draw_curves.{study}.{figure}.log",
    benchmark:
        "results/benchmarks/draw_curves.{study}.{figure}.tsv"
    wildcard_constraints:
        study="|".join(PAPER_FIGURES),
    conda:
        "../../environment.yml"
    resources:
        mem_mb=escalating(1000),
        runtime=escalating(5),
    params:
        caption=lambda wildcards: figure_caption(wildcards),
    script:
        "../scripts/draw_curves.py"


rule reproduce_values:
    input:
        published=resource("published_values.csv"),
        san_francisco="results/grids/san_francisco.step.parquet",
        paris="results/grids/paris.step.parquet",
        library=library("shuffledp.studies.reproduction.values"),
    output:
        "results/reproduction/values.csv",
    log:
        "results/logs/reproduce_values.log",
    benchmark:
        "results/benchmarks/reproduce_values.tsv"
    conda:
        "../../environment.yml"
    resources:
        mem_mb=escalating(1000),
        runtime=escalating(10),
    params:
        seed=config["seed"],
    script:
        "../scripts/reproduce_values.py"


rule summarise_reproduction:
    input:
        values="results/reproduction/values.csv",
        library=library("shuffledp.studies.reproduction.summary"),
    output:
        "results/reproduction/summary.md",
    log:
        "results/logs/summarise_reproduction.log",
    benchmark:
        "results/benchmarks/summarise_reproduction.tsv"
    conda:
        "../../environment.yml"
    resources:
        mem_mb=escalating(500),
        runtime=escalating(5),
    params:
        figures=figure_map(),
    script:
        "../scripts/summarise_reproduction.py"


rule compute_surface:
    input:
        library=library("shuffledp.studies.reproduction.paper_a", "shuffledp.tables"),
    output:
        "results/reproduction/paper_a.figure-1.parquet",
    log:
        "results/logs/compute_surface.log",
    benchmark:
        "results/benchmarks/compute_surface.tsv"
    conda:
        "../../environment.yml"
    resources:
        mem_mb=escalating(1000),
        runtime=escalating(10),
    script:
        "../scripts/compute_surface.py"


rule draw_surface:
    input:
        surface="results/reproduction/paper_a.figure-1.parquet",
        library=library(
            "shuffledp.figures.paper_a", "shuffledp.studies.reproduction.paper_a"
        ),
    output:
        **drawing(
            "paper_a.figure-1", "paper_a_surface", "The papers' figures, recomputed"
        ),
    log:
        "results/logs/draw_surface.log",
    benchmark:
        "results/benchmarks/draw_surface.tsv"
    conda:
        "../../environment.yml"
    resources:
        mem_mb=escalating(1000),
        runtime=escalating(5),
    script:
        "../scripts/draw_surface.py"


rule compute_synthetic_distances:
    input:
        library=library("shuffledp.studies.reproduction.paper_a", "shuffledp.tables"),
    output:
        "results/reproduction/paper_a.figure-2.parquet",
    log:
        "results/logs/compute_synthetic_distances.log",
    benchmark:
        "results/benchmarks/compute_synthetic_distances.tsv"
    conda:
        "../../environment.yml"
    resources:
        mem_mb=escalating(1000),
        runtime=escalating(10),
    params:
        seed=config["seed"],
    script:
        "../scripts/compute_synthetic_distances.py"


rule draw_synthetic_distances:
    input:
        distances="results/reproduction/paper_a.figure-2.parquet",
        library=library("shuffledp.figures.paper_a"),
    output:
        **drawing(
            "paper_a.figure-2", "paper_a_distances", "The papers' figures, recomputed"
        ),
    log:
        "results/logs/draw_synthetic_distances.log",
    benchmark:
        "results/benchmarks/draw_synthetic_distances.tsv"
    conda:
        "../../environment.yml"
    resources:
        mem_mb=escalating(1000),
        runtime=escalating(5),
    script:
        "../scripts/draw_synthetic_distances.py"


rule reproduce:
    input:
        "results/reproduction/values.csv",
        "results/reproduction/summary.md",
        reproduced_figures(),
        privacy_tables(),
        utility_tables(),
        all_figures(),
    localrule: True
