"""A short run, what it makes, and where it stops: by the workflow, whatever its stages are."""

import re

TARGET = "results/privacy/town.shape.parquet"
RUN = ["--cores", "2", TARGET]
# They tell of how a run went, not of what it found.
NOTES = ("results/logs/", "results/benchmarks/")


def tables(clone):
    """Bytes of every result by its path; files that a job left behind are among them."""
    made = clone.outputs(".")
    return {path: content for path, content in made.items() if not path.startswith(NOTES)}


def first_named(clone):
    """Pattern of the event with which the first job, its last act, gives its table its name."""
    source = clone.config["sources"]["tiny"]["path"]
    (first,) = [path for path, inputs in clone.plan(TARGET).items() if source in inputs]
    return f"job os.rename {re.escape(first)}$"
