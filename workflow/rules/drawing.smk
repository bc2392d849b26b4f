# Helpers of the rules that draw figures, and of Snakemake's report, which shows them.
from shuffledp.mechanisms.catalogue import DELTA_HAT, own_calibrations

# The categories of Snakemake's report in their order; others come after them.
CATEGORIES = [
    "The main result",
    "Which mechanism",
    "Estimates",
    "Distances",
    "Individual utility",
    "Privacy",
    "Data",
]


def category(name):
    """Return a category's name with its number, since Snakemake's report sorts them by name."""
    known = name in CATEGORIES
    place = CATEGORIES.index(name) if known else len(CATEGORIES)
    return f"{place + 1}. {name}"


def report_labels(name):
    """Return a params function: the labels by which Snakemake's report shows a file."""

    def labels(wildcards):
        values = dict(wildcards.items())
        words = name.format(**values)
        for separator, replacement in [("-", " "), ("_", " "), (".", ", ")]:
            words = words.replace(separator, replacement)
        found = {"result": words}
        if "region" in values:
            # Snakemake takes {x} in a label for a wildcard and knows no escape: an invisible word
            # joiner separates the brace from the name.
            title = title_of(wildcards).replace("{", "{\u2060")
            found["place"] = (
                f"{title}, grid {values['grid']}" if "grid" in values else title
            )
        if "eps0" in values:
            found["local budget eps0"] = values["eps0"]
        return found

    return labels


def figure_files(stem):
    return [result(f"figures/{stem}.{kind}") for kind in ("png", "pdf", "svg")]


def figure(stem, caption, category_name, calibration=None):
    """Return the three files of a figure, the PNG with its caption for Snakemake's report.

    A calibration is appended to the stem. If there is a caption for it, that replaces `caption`.
    """
    place, subcategory = stem.partition(".{region}")[0], None
    if calibration is not None:
        stem = f"{stem}.{calibration}"
        own = f"{caption}.{calibration}"
        if own in {"distances.delta-hat", "distances.matched"}:
            caption = own
        words = calibration.replace("-", " ")
        subcategory = f"2. {words}: not equal privacy"
        if calibration == "matched":
            subcategory = "1. equal privacy"
    png, *others = figure_files(stem)
    shown = report(
        png,
        caption=f"../report/{caption}.rst",
        category=category(category_name),
        subcategory=subcategory,
        labels=report_labels(place),
    )
    return [shown, *others]


def table(path, caption, category_name, name):
    """Return the file of a table, with its caption for Snakemake's report."""
    return report(
        result(path),
        caption=f"../report/{caption}.rst",
        category=category(category_name),
        labels=report_labels(name),
    )


def calls(*figures):
    """Return a params function: the functions that draw a job's figures, with their arguments.

    Each of `figures` is the dotted name of a function below shuffledp, and its arguments beside
    the input files: values, or functions of the wildcards. `replaced` is what neighbours differ in,
    for the caption: one report, if the figure belongs to no region.
    """

    def evaluated(wildcards):
        return [
            {
                "function": function,
                "arguments": {
                    name: value(wildcards) if callable(value) else value
                    for name, value in arguments.items()
                },
                "replaced": replaced(
                    UNITS.get(dict(wildcards.items()).get("region"), "")
                ),
            }
            for function, arguments in figures
        ]

    return evaluated


NAMED = {"title": figure_title, "unit": unit_of}
AT_TARGET = {**NAMED, "target_delta": config["target_delta"]}


def regions_by_calibrations():
    """Group regions by the calibrations of their mechanisms that are not at equal privacy.

    Yield a suffix for names of rules, the calibrations and the regions of each group. A group has
    rules of its own, because outputs cannot depend on a wildcard's value.
    """
    found = {}
    for region, spec in REGIONS.items():
        own = tuple(own_calibrations(spec["mechanisms"]))
        found.setdefault(own, []).append(region)
    for number, (own, regions) in enumerate(found.items(), 1):
        yield ("" if number == 1 else f"_{number}"), own, regions


# --- Figures of papers ----------------------------------------------------------------------

RECOMPUTED = "The papers' figures, recomputed"
CITIES = ("san_francisco", "paris")

# The figures of shuffledp.papers.paper_d.estimates.
ESTIMATED = {
    "figure-6": "Chen et al., figure 6: means by Algorithm 2, over the share of conservative users",
    "figure-7": "Chen et al., figure 7: means by Algorithm 2, over the conservative users' budget",
    "figure-8": "Chen et al., figure 8: frequencies by Algorithm 3, over the conservative users' share and budget",
    "dependence": "Records that depend on budgets: Chen et al.'s frequencies are biased, means are not",
}


def estimated(wildcards):
    return ESTIMATED[wildcards.figure]


def estimates_privacy(wildcards):
    """Return the table of the privacy of estimates, if a figure shows it."""
    if wildcards.figure == "dependence":
        return []
    return result(f"personalised/privacy.{wildcards.figure}.csv")


def curve_calls(wildcards):
    """Return the call that draws a figure of curves; that of all bounds has its own function."""
    name = "draw_all_bounds" if wildcards.study == "literature" else "draw_curves"
    return calls((f"papers.figures.{name}", {}))(wildcards)


def curve_caption(wildcards):
    from shuffledp.papers.reproduction import FIGURES

    return FIGURES[wildcards.study][wildcards.figure].caption
