from snakemake.utils import min_version

min_version("9.0")


configfile: "config/config.yaml"


report: "workflow/report/workflow.rst"


include: "workflow/rules/root.smk"
include: "workflow/rules/common.smk"
include: "workflow/rules/checkins.smk"
include: "workflow/rules/grid.smk"
include: "workflow/rules/privacy.smk"
include: "workflow/rules/release.smk"
include: "workflow/rules/targets.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/papers.smk"
include: "workflow/rules/personalised.smk"
include: "workflow/rules/draw.smk"
include: "workflow/rules/reproduction.smk"
include: "workflow/rules/page.smk"
include: "workflow/rules/summary.smk"


rule all:
    default_target: True
    input:
        everything,
    localrule: True


onsuccess:
    say_what_came_out()
