from importlib import import_module

# The figures that each module of shuffledp.studies.reproduction draws.
PAPER_FIGURES = {
    "paper_b": [f"figure-{number}" for number in range(2, 6)],
    "paper_c": [f"figure-{number}" for number in range(1, 11)],
    "paper_d": ["figure-4"],
    "literature": ["all-bounds"],
}


def reproduced_figures():
    stems = [
        f"{name}.{figure}"
        for name, figures in PAPER_FIGURES.items()
        for figure in figures
    ]
    return [
        f"results/figures/{stem}.{kind}"
        for stem in stems
        for kind in ("png", "pdf", "svg")
    ]


def figure_caption(wildcards):
    study = import_module(f"shuffledp.studies.reproduction.{wildcards.study}")
    return study.FIGURES[wildcards.figure].caption


rule compute_curves:
    input:
        library=lambda wildcards: library(
            f"shuffledp.studies.reproduction.{wildcards.study}", "shuffledp.tables"
        ),
    output:
        "results/reproduction/curves/{study}.{figure}.parquet",
    log:
        "results/logs/compute_curves.{study}.{figure}.log",
    wildcard_constraints:
        study="|".join(PAPER_FIGURES),
    conda:
        "../../environment.yml"
    resources:
        mem_mb=1000,
    script:
        "../scripts/compute_curves.py"


rule draw_curves:
    input:
        curves="results/reproduction/curves/{study}.{figure}.parquet",
        library=lambda wildcards: library(
            f"shuffledp.studies.reproduction.{wildcards.study}",
            "shuffledp.figures.curves",
        ),
    output:
        **drawing("{study}.{figure}", "paper_curves", "The papers' figures, recomputed"),
    log:
        "results/logs/draw_curves.{study}.{figure}.log",
    wildcard_constraints:
        study="|".join(PAPER_FIGURES),
    conda:
        "../../environment.yml"
    params:
        caption=lambda wildcards: figure_caption(wildcards),
    script:
        "../scripts/draw_curves.py"


rule reproduce:
    input:
        reproduced_figures(),
    localrule: True
