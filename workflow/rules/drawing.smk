# Helpers of the rules that draw figures, and of Snakemake's report, which shows them.
# The categories of Snakemake's report in their order; others come after them.
CATEGORIES = [
    "The main result",
    "Which mechanism",
    "Estimates",
    "Distances",
    "Individual utility",
    "Privacy",
    "Data",
    "At unequal privacy",
]
UNEQUAL = CATEGORIES[-1]


def category(name):
    """Return a category's name with its number, since Snakemake's report sorts them by name."""
    known = name in CATEGORIES
    place = CATEGORIES.index(name) if known else len(CATEGORIES)
    return f"{place + 1}. {name}"


def report_labels(name, wildcards):
    """Return the labels by which Snakemake's report shows a file."""
    values = dict(wildcards.items())
    words = name.format(**values)
    for separator, replacement in [("-", " "), ("_", " "), (".", ", ")]:
        words = words.replace(separator, replacement)
    labels = {"result": words}
    if "region" in values:
        # Snakemake takes {x} in a label for a wildcard and knows no escape: an invisible word
        # joiner separates the brace from the name.
        labels["place"] = title_of(wildcards).replace("{", "{\u2060")
    if "grid" in values:
        labels["place"] += f", grid {values['grid']}"
    if "eps0" in values:
        labels["local budget eps0"] = values["eps0"]
    return labels


def figure_files(stem):
    return [result(f"figures/{stem}.{kind}") for kind in ("png", "pdf", "svg")]


def figure(stem, caption, category_name):
    """Return the three files of a figure, the PNG with its caption for Snakemake's report."""
    png, *others = figure_files(stem)
    shown = report(
        png,
        caption=f"../report/{caption}.rst",
        category=category(category_name),
        labels=lambda wildcards: report_labels(
            stem.partition(".{region}")[0], wildcards
        ),
    )
    return [shown, *others]


def table(path, caption, category_name, name):
    """Return the file of a table, with its caption for Snakemake's report."""
    return report(
        result(path),
        caption=f"../report/{caption}.rst",
        category=category(category_name),
        labels=lambda wildcards: report_labels(name, wildcards),
    )


# What the functions that draw figures of a region are given beside its files; `replaced` is for the
# caption.
OF_REGION = {
    "title": figure_title,
    "unit": unit_of,
    "replaced": replaced_of,
}
AT_TARGET = {**OF_REGION, "target_delta": config["target_delta"]}

# --- Figures of papers ----------------------------------------------------------------------

RECOMPUTED = "The papers' figures, recomputed"
CITIES = ("san_francisco", "paris")

# The figures of shuffledp.papers.paper_d.estimation.
ESTIMATED = {
    "figure-6": "Chen et al., figure 6: means by Algorithm 2, over the share of conservative users",
    "figure-7": "Chen et al., figure 7: means by Algorithm 2, over the conservative users' budget",
    "figure-8": "Chen et al., figure 8: frequencies by Algorithm 3, over the conservative users' share and budget",
}


def estimated(wildcards):
    return ESTIMATED[wildcards.figure]


def curve_caption(wildcards):
    from shuffledp.papers.reproduction import FIGURES

    return (
        f"{FIGURES[wildcards.study][wildcards.figure].caption} Where a guarantee is a staircase, each "
        "value holds along its step. A line ends where its theorem does not apply or delta is 0."
    )
