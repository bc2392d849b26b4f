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


rule account_personalised:
    output:
        result("personalised/privacy.csv"),
    log:
        log_of("account_personalised"),
    benchmark:
        benchmark_of("account_personalised")
    conda:
        "../../environment.yml"
    resources:
        **cost(1000, 10),
    params:
        library=library("account_personalised"),
    script:
        "../scripts/account_personalised.py"


# --- Training ---------------------------------------------------------------------------

MNIST = config.get("personalised", {}).get("mnist", {})


def image_file(name):
    """One of MNIST's files: local or downloaded."""
    spec = MNIST[name]
    if "url" in spec:
        return f"resources/automatic/mnist/{name}/{Path(spec['url']).name}"
    explain_missing(f"personalised.mnist.{name}.path", "training", spec["path"])
    return spec["path"]


def image_files(wildcards):
    return {name: image_file(name) for name in MNIST}


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
        url=lambda wildcards: MNIST[wildcards.name]["url"],
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


# --- Figures ----------------------------------------------------------------------------

FIGURES["personalised.figure-5"] = figure(
    by="personalised.draw_training",
    inputs={
        "accuracies": "personalised/training.csv",
        "noise": "personalised/training-noise.csv",
    },
    arguments={},
    caption="personalised_training",
    category=RECOMPUTED,
)
for one, title in ESTIMATED.items():
    private = {"privacy": "personalised/privacy.csv"} if one == "figure-8" else {}
    FIGURES[f"personalised.{one}"] = figure(
        by=f"personalised.draw_{'private_' if private else ''}estimates",
        inputs={"estimates": f"personalised/estimates.{one}.csv", **private},
        arguments={"title": title},
        caption="personalised_estimates",
        category=RECOMPUTED,
        words=title,
    )


def personalised_figures():
    """Stems of the files for each figure of paper D that its mechanisms draw."""
    found = {"D, figure 5": ["personalised.figure-5"]}
    found |= {
        f"D, {name.replace('-', ' ')}": [f"personalised.{name}"]
        for name in ESTIMATED
        if name.startswith("figure")
    }
    found["D, its estimators where records depend on budgets"] = [
        "personalised.dependence"
    ]
    return found


# With the paper's other figures, which `papers.smk` draws.
rule personalised:
    input:
        [
            path
            for name, stems in figure_map().items()
            for stem in stems
            if name.startswith("D, ")
            for path in figure_files(stem)
        ],
    localrule: True
