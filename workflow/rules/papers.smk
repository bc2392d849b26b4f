# The figures that each module of shuffledp.studies.reproduction computes as curves.
PAPER_CURVES = {
    "paper_b": [f"figure-{number}" for number in range(2, 6)],
    "paper_c": [f"figure-{number}" for number in range(1, 11)],
    "paper_d": [f"figure-{number}" for number in range(2, 5)],
    "literature": ["all-bounds"],
}

# What shuffledp.studies.personalised estimates, by figure.
ESTIMATED = {
    "figure-6": "Chen et al., figure 6: means by Algorithm 2, over the share of conservative users",
    "figure-7": "Chen et al., figure 7: means by Algorithm 2, over the conservative users' budget",
    "figure-8": "Chen et al., figure 8: frequencies by Algorithm 3, over the conservative users' share and budget",
    "dependence": "Records that depend on budgets: Chen et al.'s frequencies are biased, means are not",
}

CITIES = ["san_francisco", "paris"]
RECOMPUTED = "The papers' figures, recomputed"


def paper_a_figures():
    """Stems of the files for each figure of paper A, on the grid that it used (docs/data.md)."""

    def stems(kind, cities, *suffixes):
        return [f"{kind}.{city}.step{suffix}" for city in cities for suffix in suffixes]

    budgets = [f".eps0-{budget(eps0)}.as-published" for eps0 in config["eps0"]]
    return {
        "A, figure 1": ["paper_a.figure-1"],
        "A, figure 2": ["paper_a.figure-2"],
        "A, figure 3": stems("checkins", CITIES, ""),
        "A, figure 4": stems("estimates", CITIES[:1], *budgets),
        "A, figure 5": stems("estimates", CITIES[1:], *budgets),
        "A, figure 6": stems("distances", CITIES[:1], ".as-published", ".matched"),
        "A, figure 7": stems("distances", CITIES[1:], ".as-published", ".matched"),
    }


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


def figure_map():
    """Stems of the files for every recomputed figure, by paper and figure."""
    found = paper_a_figures()
    for study, figures in PAPER_CURVES.items():
        paper = study.removeprefix("paper_").replace("_", " ")
        name = paper.upper() if len(paper) == 1 else paper
        for one in figures:
            found[f"{name}, {one.replace('-', ' ')}"] = [f"{study}.{one}"]
        if study == "paper_d":
            found |= personalised_figures()
    return found


def reproduced_figures():
    return [
        path
        for stems in figure_map().values()
        for stem in stems
        for path in figure_files(stem)
    ]


def curve_caption(study):
    """Params function: what the study says of a figure, for the report."""

    def caption(wildcards):
        from importlib import import_module

        found = import_module(f"shuffledp.studies.reproduction.{study}")
        return found.FIGURES[wildcards.figure].caption

    return caption


for study in PAPER_CURVES:
    FIGURES[study] = figure(
        by=(
            "literature.draw_all_bounds"
            if study == "literature"
            else "curves.draw_curves"
        ),
        inputs={"curves": f"reproduction/curves/{study}.{{figure}}.parquet"},
        arguments={},
        stem=".{figure}",
        caption="paper_curves",
        category=RECOMPUTED,
        words=curve_caption(study),
    )

FIGURES["paper_a.figure-1"] = figure(
    by="paper_a.draw_contours",
    inputs={"surface": "reproduction/paper_a.figure-1.parquet"},
    arguments={},
    caption="paper_a_surface",
    category=RECOMPUTED,
)
FIGURES["paper_a.figure-2"] = figure(
    by="paper_a.draw_synthetic_distances",
    inputs={"distances": "reproduction/paper_a.figure-2.parquet"},
    arguments={},
    caption="paper_a_distances",
    category=RECOMPUTED,
)
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
    private = (
        {} if one == "dependence" else {"privacy": f"personalised/privacy.{one}.csv"}
    )
    FIGURES[f"personalised.{one}"] = figure(
        by=f"personalised.draw_{'private_' if private else ''}estimates",
        inputs={"estimates": f"personalised/estimates.{one}.csv", **private},
        arguments={"title": title},
        caption="personalised_estimates",
        category=RECOMPUTED,
        words=title,
    )
