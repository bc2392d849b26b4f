# Paper D's mechanisms and experiments: shuffledp.studies.personalised.

ESTIMATED = {
    "figure-6": "Chen et al., figure 6: means by Algorithm 2, over the share of conservative users",
    "figure-7": "Chen et al., figure 7: means by Algorithm 2, over the conservative users' budget",
    "figure-8": "Chen et al., figure 8: frequencies by Algorithm 3, over both",
    "dependence": "Records that depend on budgets: Chen et al.'s frequencies are biased, means are not",
}


rule estimate_personalised:
    output:
        result("personalised/estimates.{figure}.csv"),
    log:
        log_of("estimate_personalised.{figure}"),
    benchmark:
        benchmark_of("estimate_personalised.{figure}")
    wildcard_constraints:
        figure="|".join(ESTIMATED),
    conda:
        "../../environment.yml"
    resources:
        **cost(1000, 10),
    params:
        library=library("estimate_personalised"),
        seed=config["seed"],
    script:
        "../scripts/estimate_personalised.py"


for one, title in ESTIMATED.items():
    FIGURES[f"personalised.{one}"] = figure(
        by="personalised.draw_estimates",
        inputs={"estimates": f"personalised/estimates.{one}.csv"},
        arguments={"title": title},
        caption="personalised_estimates",
        category=RECOMPUTED,
        words=title,
    )


def personalised_figures():
    """Stems of the files for each figure of paper D that its mechanisms draw."""
    found = {
        f"D, {name.replace('-', ' ')}": [f"personalised.{name}"]
        for name in ESTIMATED
        if name.startswith("figure")
    }
    found["D, its estimators where records depend on budgets"] = [
        "personalised.dependence"
    ]
    return found


rule personalised:
    input:
        [
            path
            for stems in personalised_figures().values()
            for stem in stems
            for path in figure_files(stem)
        ],
    localrule: True
