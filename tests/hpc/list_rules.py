"""Print the rules of the workflow in the working directory as JSON."""

import json
import sys
from pathlib import Path

from snakemake.api import SnakemakeApi
from snakemake.settings.types import ResourceSettings


def main() -> None:
    with SnakemakeApi() as api:
        workflow = api.workflow(ResourceSettings(), snakefile=Path("Snakefile"))._workflow
        rules = {
            rule.name: {
                "script": bool(rule.script),
                "local": rule.name in workflow._localrules,
                "group": rule._group,
                "resources": {
                    name: rule.resources[name].evaluate({}, attempt=1).value
                    for name in ("mem_mb", "runtime")
                    if name in rule.resources
                },
                "output": str(rule.output[0]) if rule.output else "",
            }
            for rule in workflow.rules
        }
    json.dump(rules, sys.stdout)


if __name__ == "__main__":
    main()
