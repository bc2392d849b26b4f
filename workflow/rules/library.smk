import os
from pathlib import Path
from tomllib import loads

from snakemake.sourcecache import LocalSourceFile

# Not `workflow.basedir`: in a module that is the folder of the Snakefile that uses it.
RULES = workflow.current_basedir


def shipped(name):
    """Return the path of a file of this workflow, which Snakemake copies here from a git host."""
    if isinstance(RULES, LocalSourceFile):
        return os.path.relpath(Path(RULES).parents[1] / name)
    return workflow.sourcecache.get_path(RULES.join(f"../../{name}"))


try:
    from shuffledp.version import find_version
except ModuleNotFoundError:
    raise WorkflowError(
        "the package shuffledp is not installed: run `make` in a clone, or "
        "`pip install 'shuffledp[pipeline]'` in the environment of snakemake"
    ) from None

NEEDED = loads(Path(shipped("pyproject.toml")).read_text())["project"]["version"]
if find_version() != NEEDED:
    raise WorkflowError(
        f"this workflow needs shuffledp {NEEDED}, {find_version()} is installed: "
        f"pip install 'shuffledp[pipeline]=={NEEDED}'"
    )

from shuffledp.errors import InputError
from shuffledp.pipeline.schema import check_unique_keys

# Snakemake reads this file next; its own error names no line of invalid YAML.
if workflow.is_main_process and Path("config", "config.yaml").is_file():
    try:
        check_unique_keys(Path("config", "config.yaml"))
    except InputError as error:
        raise WorkflowError(f"config: {error}") from None
