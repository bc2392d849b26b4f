# Paper D's mechanisms and experiments: shuffledp.papers.paper_d.


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


rule account_personalised:
    output:
        result("personalised/privacy.{figure}.csv"),
    log:
        log_of("account_personalised.{figure}"),
    benchmark:
        benchmark_of("account_personalised.{figure}")
    wildcard_constraints:
        figure="|".join(ESTIMATED),
    conda:
        "../../environment.yml"
    resources:
        **cost(1000, 10),
    params:
        library=library("account_personalised"),
    script:
        "../scripts/account_personalised.py"


rule estimate_places:
    input:
        counts=result("grids/{region}.{grid}.parquet"),
        chosen=chosen_budgets,
    output:
        table(
            "utility/{region}.{grid}.budgets.csv",
            of=lambda spec: "budgets" in spec,
            first=True,
        ),
    log:
        log_of("estimate_places.{region}.{grid}"),
    benchmark:
        benchmark_of("estimate_places.{region}.{grid}")
    conda:
        "../../environment.yml"
    resources:
        **cost(2000, 60),
    params:
        library=library("estimate_places"),
        budgets=own_budgets,
        delta=config["target_delta"],
        repetitions=of_region("repetitions"),
        seed=config["seed"],
    script:
        "../scripts/estimate_places.py"


# --- Training ---------------------------------------------------------------------------


rule fetch_images:
    output:
        "resources/automatic/mnist/{name}/{file}",
    log:
        log_of("fetch_images.{name}.{file}"),
    benchmark:
        benchmark_of("fetch_images.{name}.{file}")
    wildcard_constraints:
        name="|".join(name for name in MNIST if "url" in MNIST[name]) or "(?!)",
        file="[^/]+",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        url=lambda wildcards: Address(MNIST[wildcards.name]["url"]),
        checksum=lambda wildcards: MNIST[wildcards.name].get("checksum"),
        cache="resources/automatic/cache",
    script:
        "../scripts/fetch_checkins.py"


rule train_personalised:
    input:
        unpack(image_files),
    output:
        accuracies=result("personalised/training.csv"),
        noise=result("personalised/training-noise.csv"),
    log:
        log_of("train_personalised"),
    benchmark:
        benchmark_of("train_personalised")
    conda:
        "../../environment.yml"
    resources:
        **cost(2000, 30),
    params:
        library=library("train_personalised"),
        seed=config["seed"],
        checksums={name: spec.get("checksum") for name, spec in MNIST.items()},
    script:
        "../scripts/train_personalised.py"


rule personalised:
    input:
        [
            path
            for region in REGIONS
            if "budgets" in REGIONS[region]
            for path in figure_files(f"budgets.{region}.{first_grid(region)}")
        ],
        [
            path
            for stem in [
                *map("paper_d.{}".format, PAPER_CURVES["paper_d"]),
                *(stem for stems in personalised_figures().values() for stem in stems),
            ]
            for path in figure_files(stem)
        ],
    localrule: True
