rule compute_curves:
    output:
        result("reproduction/curves/{study}.{figure}.parquet"),
    log:
        log_of("compute_curves.{study}.{figure}"),
    wildcard_constraints:
        study="paper_[bcd]",
    resources:
        **cost(1000, 60),
    params:
        code=COMPUTING,
    script:
        "../scripts/compute_curves.py"


rule compute_paper_a:
    output:
        result("reproduction/paper_a.{figure}.parquet"),
    log:
        log_of("compute_paper_a.{figure}"),
    wildcard_constraints:
        figure="figure-[12]",
    resources:
        **cost(1000, 10),
    params:
        code=COMPUTING,
        seed=config["seed"],
    script:
        "../scripts/compute_paper_a.py"


use rule draw as draw_curves with:
    input:
        curves=result("reproduction/curves/{study}.{figure}.parquet"),
    output:
        figure("{study}.{figure}", "words", RECOMPUTED),
    log:
        log_of("draw_curves.{study}.{figure}"),
    wildcard_constraints:
        study="paper_[bcd]",
    params:
        function="papers.recomputed_figures.draw_curves",
        caption=curve_caption,


use rule draw as draw_contours with:
    input:
        surface=result("reproduction/paper_a.figure-1.parquet"),
    output:
        figure("paper_a.figure-1", "paper_a_surface", RECOMPUTED),
    log:
        log_of("draw_contours"),
    params:
        function="papers.recomputed_figures.draw_contours",


use rule draw as draw_synthetic_distances with:
    input:
        distances=result("reproduction/paper_a.figure-2.parquet"),
    output:
        figure("paper_a.figure-2", "paper_a_distances", RECOMPUTED),
    log:
        log_of("draw_synthetic_distances"),
    params:
        function="papers.recomputed_figures.draw_synthetic_distances",


rule reproduce_values:
    input:
        published=resource("published_values.csv"),
        san_francisco=result("grids/san_francisco.step.parquet"),
        paris=result("grids/paris.step.parquet"),
    output:
        table(
            "reproduction/values.csv",
            "values_table",
            RECOMPUTED,
            "the papers' numbers",
        ),
    log:
        log_of("reproduce_values"),
    resources:
        **cost(1000, 10),
    params:
        code=COMPUTING,
        seed=config["seed"],
    script:
        "../scripts/reproduce_values.py"


rule summarise_reproduction:
    input:
        values=result("reproduction/values.csv"),
    output:
        table(
            "reproduction/summary.md",
            "summary_table",
            RECOMPUTED,
            "summary of the papers' numbers",
        ),
    log:
        log_of("summarise_reproduction"),
    resources:
        **cost(500, 5),
    params:
        code=COMPUTING,
        figures=reproduced_figures(),
    script:
        "../scripts/summarise_reproduction.py"


rule reproduce:
    input:
        result("reproduction/values.csv"),
        result("reproduction/summary.md"),
        all_files(reproduced_figures()),
        everything(),
    localrule: True
