from snakemake.utils import min_version

min_version("9.0")


include: "workflow/rules/library.smk"


configfile: "config/config.yaml"


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"


if workflow.is_main_process and any(
    config["sources"][spec["source"]]["kind"] == "embedded" for spec in REGIONS.values()
):
    logger.info(
        "Counts of cells are those of Gowalla's check-ins; the coordinates inside cells are drawn "
        "(config/gowalla.yaml fetches the real ones)."
    )


include: "workflow/rules/inputs.smk"
include: "workflow/rules/drawing.smk"
include: "workflow/rules/outputs.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/privacy.smk"
include: "workflow/rules/release.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/personalised.smk"
include: "workflow/rules/papers.smk"
include: "workflow/rules/regions.smk"


# All jobs run in the environment of snakemake itself; snakemake --lint asks each rule for its own.
for each in workflow.rules:
    if not each.norun and each.basedir == RULES:
        each.conda_env = "../../environment.yml"


rule all:
    default_target: True
    input:
        everything(),
    localrule: True


onsuccess:
    print_run_summary()
