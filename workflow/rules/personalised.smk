# Paper D's mechanisms and experiments: shuffledp.papers.paper_d.


rule simulate_personalised:
    output:
        result("personalised/estimates.{figure}.csv"),
    log:
        log_of("simulate_personalised.{figure}"),
    wildcard_constraints:
        figure="|".join(ESTIMATED),
    resources:
        **cost(1000, 10),
    params:
        code=COMPUTING,
        seed=config["seed"],
    script:
        "../scripts/simulate_personalised.py"


rule train_personalised:
    input:
        images=image_file,
    output:
        result("personalised/training.csv"),
    log:
        log_of("train_personalised"),
    resources:
        **cost(2000, 30),
    params:
        code=COMPUTING,
        seed=config["seed"],
    script:
        "../scripts/train_personalised.py"


use rule draw as draw_training with:
    input:
        accuracies=result("personalised/training.csv"),
    output:
        figure("personalised.figure-5", "personalised_training", RECOMPUTED),
    log:
        log_of("draw_training"),
    params:
        function="papers.recomputed_figures.draw_training",


use rule draw as draw_personalised with:
    input:
        estimates=result("personalised/estimates.{figure}.csv"),
    output:
        figure("personalised.{figure}", "personalised_estimates", RECOMPUTED),
    log:
        log_of("draw_personalised.{figure}"),
    wildcard_constraints:
        figure="|".join(ESTIMATED),
    params:
        function="papers.recomputed_figures.draw_estimates",
        title=estimated,


rule personalised:
    input:
        [figure_files(f"paper_d.figure-{number}") for number in (2, 3, 4)],
        all_files(personalised_figures()),
    localrule: True
