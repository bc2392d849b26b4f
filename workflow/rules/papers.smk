from importlib import import_module

# The figures that each module of shuffledp.studies.reproduction draws.
PAPER_FIGURES = {
    "paper_b": [f"figure-{number}" for number in range(2, 6)],
    "paper_c": [f"figure-{number}" for number in range(1, 11)],
    "paper_d": ["figure-4"],
    "literature": ["all-bounds"],
}

CITIES = ["san_francisco", "paris"]


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


def figure_map():
    """Stems of the files for every recomputed figure, by paper and figure."""
    found = paper_a_figures()
    for study, figures in PAPER_FIGURES.items():
        paper = study.removeprefix("paper_").replace("_", " ")
        name = paper.upper() if len(paper) == 1 else paper
        for figure in figures:
            found[f"{name}, {figure.replace('-', ' ')}"] = [f"{study}.{figure}"]
    return found


def reproduced_figures():
    return [
        f"results/figures/{stem}.{kind}"
        for stems in figure_map().values()
        for stem in stems
        for kind in ("png", "pdf", "svg")
    ]


def figure_caption(wildcards):
    study = import_module(f"shuffledp.studies.reproduction.{wildcards.study}")
    return study.FIGURES[wildcards.figure].caption
