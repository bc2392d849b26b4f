#!/bin/bash
# snakemake 9.27.1: a run time or a memory without a unit counts in minutes or megabytes, but only
# as a whole number. With a decimal point the same number counts in seconds or bytes: 90.0 is a
# minute and a half, rounded, instead of an hour and a half, and a job is killed by the cluster.
# Seen: "runtime 90: 90 min; 90.0: 1 min; mem 2000: 2000 MB; 2000.0: 1 MB".
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv v && v/bin/pip -q install snakemake==9.27.1
cat > Snakefile <<'RULES'
rule ask:
    output:
        "asked",
    resources:
        runtime=5,
        mem="10MB",
    shell:
        "echo {resources.runtime} {resources.mem_mb} > {output}"
RULES

# Print what the job asks for, minutes and megabytes, if its resources are set on the command line.
ask() {
    rm -f asked
    v/bin/snakemake --cores 1 --quiet all --set-resources "ask:$1" > log 2>&1 || { cat log; exit 1; }
    cat asked
}

whole=$(ask runtime=90) decimal=$(ask runtime=90.0)
memory=$(ask mem=2000) bytes=$(ask mem=2000.0)
echo "runtime 90: ${whole% *} min; 90.0: ${decimal% *} min; mem 2000: ${memory#* } MB; 2000.0: ${bytes#* } MB"
[ "${whole% *} ${decimal% *} ${memory#* } ${bytes#* }" = "90 1 2000 1" ]
