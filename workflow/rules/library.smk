import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from zipfile import ZipFile

from snakemake.sourcecache import HostingProviderFile, LocalSourceFile


def workflow_root(rules):
    """Return the folder of this workflow's own files, given where Snakemake reads its rules from.

    In a clone it is the clone. From a git host, Snakemake reads single files only, but the library
    and the cell counts are folders. The commit is therefore copied to a folder named after it, so
    that another commit is another input of every job.
    """
    if isinstance(rules, LocalSourceFile):
        return Path(rules).parents[1]
    if not isinstance(rules, HostingProviderFile):
        raise WorkflowError(
            "snakefile of the module must be the path of a clone's Snakefile, github(...) or "
            f"gitlab(...), got {rules}"
        )
    repository = rules.hosted_repo.repo
    commit = repository.commit(rules.ref).hexsha
    root = Path(".snakemake", "shuffledp", commit).absolute()
    if not root.exists():
        root.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=root.parent) as draft, TemporaryFile() as archive:
            repository.archive(archive, commit, format="zip")
            with ZipFile(archive) as files:
                files.extractall(Path(draft, "root"))
            Path(draft, "root").rename(root)
    return root


# Not `workflow.basedir`: in a module that is the folder of the Snakefile that uses it.
ROOT = workflow_root(workflow.current_basedir)
LIBRARY = ROOT / "workflow" / "lib"

# A clone works without being installed; jobs inherit the path through the environment.
sys.path.insert(0, str(LIBRARY))
os.environ.update(
    PYTHONPATH=os.pathsep.join(
        filter(None, [str(LIBRARY), os.environ.get("PYTHONPATH")])
    )
)

import shuffledp

if not LIBRARY.samefile(Path(shuffledp.__file__).parents[1]):
    raise WorkflowError(
        f"two versions of shuffledp in one workflow: {shuffledp.__file__} is loaded already, "
        f"{LIBRARY} would be ignored; use one version, or run them one by one"
    )

from shuffledp.errors import InputError
from shuffledp.pipeline.schema import check_unique_keys

# Snakemake reads this file next; its own error names neither file nor line of invalid YAML.
DEFAULT_CONFIGURATION = Path("config", "config.yaml")
if workflow.is_main_process and DEFAULT_CONFIGURATION.is_file():
    try:
        check_unique_keys(DEFAULT_CONFIGURATION)
    except InputError as error:
        raise WorkflowError(f"config: {error}") from None
